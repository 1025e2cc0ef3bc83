#include "server/core/workers/tally.h"

#include <string.h>

void
tally_take(struct tally *m, const Psd__Metrics *said)
{
    if (said == NULL)
        return;
    ps_assert(said->n_value <= WIRE_METRICS_MAX);
    *m = (struct tally){.len = (uint32_t)said->n_value};
    if (m->len == 0)
        return;
    memcpy(m->value, said->value, m->len * sizeof m->value[0]);
    m->at = cursor_of(said->at);
}

Psd__Metrics *
tally_message(const struct tally *m, struct tally_room *room)
{
    return m->len > 0 ? tally_whole_message(m, room) : NULL;
}

Psd__Metrics *
tally_whole_message(const struct tally *m, struct tally_room *room)
{
    psd__metrics__init(&room->message);
    room->message.n_value = m->len;
    room->message.value = (double *)m->value;
    room->message.at = cursor_message(m->at, &room->at);
    return &room->message;
}
