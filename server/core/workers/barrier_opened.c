#include "server/core/workers/barrier_opened.h"

#include <string.h>

struct barrier_position
barrier_position_of(const Psd__Place *m)
{
    return m != NULL ? (struct barrier_position){data_cursor_of(m->at), m->again} : (struct barrier_position){0};
}

bool
barrier_position_before(const struct barrier_position *a, const struct barrier_position *b)
{
    if (data_cursor_before(a->at, b->at) || data_cursor_before(b->at, a->at))
        return data_cursor_before(a->at, b->at);
    return a->again < b->again;
}

bool
barrier_opened_take(struct barrier_opened *o, const Psd__Opened *said)
{
    *o = (struct barrier_opened){.any = said != NULL};
    if (said == NULL)
        return true;
    if (said->n_sum > WIRE_METRICS_MAX)
        return false;
    o->place = barrier_position_of(said->place);
    o->len = (uint32_t)said->n_sum;
    if (o->len > 0)
        memcpy(o->sum, said->sum, o->len * sizeof o->sum[0]);
    return true;
}

Psd__Opened *
barrier_opened_message(const struct barrier_opened *o, struct barrier_opened_parts *room)
{
    if (!o->any)
        return NULL;
    psd__opened__init(&room->message);
    psd__place__init(&room->place);
    room->message.place = &room->place;
    room->message.n_sum = o->len;
    room->message.sum = (double *)o->sum;
    room->place.at = data_cursor_message(o->place.at, &room->at);
    room->place.again = o->place.again;
    return &room->message;
}
