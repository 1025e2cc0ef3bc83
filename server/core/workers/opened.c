#include "server/core/workers/opened.h"

#include <string.h>

struct place
place_of(const Psd__Place *m)
{
    return m != NULL ? (struct place){cursor_of(m->at), m->again} : (struct place){0};
}

bool
place_before(const struct place *a, const struct place *b)
{
    if (cursor_before(a->at, b->at) || cursor_before(b->at, a->at))
        return cursor_before(a->at, b->at);
    return a->again < b->again;
}

bool
opened_take(struct opened *o, const Psd__Opened *said)
{
    *o = (struct opened){.any = said != NULL};
    if (said == NULL)
        return true;
    if (said->n_sum > WIRE_METRICS_MAX)
        return false;
    o->place = place_of(said->place);
    o->len = (uint32_t)said->n_sum;
    if (o->len > 0)
        memcpy(o->sum, said->sum, o->len * sizeof o->sum[0]);
    return true;
}

Psd__Opened *
opened_message(const struct opened *o, struct opened_room *room)
{
    if (!o->any)
        return NULL;
    psd__opened__init(&room->message);
    psd__place__init(&room->place);
    room->message.place = &room->place;
    room->message.n_sum = o->len;
    room->message.sum = (double *)o->sum;
    room->place.at = cursor_message(o->place.at, &room->at);
    room->place.again = o->place.again;
    return &room->message;
}
