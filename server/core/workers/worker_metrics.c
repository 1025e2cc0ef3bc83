#include "server/core/workers/worker_metrics.h"

#include <string.h>

void
worker_metrics_take(struct worker_metrics *m, const Psd__Metrics *said)
{
    if (said == NULL)
        return;
    ps_assert(said->n_value <= WIRE_METRICS_MAX);
    *m = (struct worker_metrics){.len = (uint32_t)said->n_value};
    if (m->len == 0)
        return;
    memcpy(m->value, said->value, m->len * sizeof m->value[0]);
    m->at = data_cursor_of(said->at);
}

Psd__Metrics *
worker_metrics_message(const struct worker_metrics *m, struct worker_metrics_parts *room)
{
    return m->len > 0 ? worker_metrics_whole_message(m, room) : NULL;
}

Psd__Metrics *
worker_metrics_whole_message(const struct worker_metrics *m, struct worker_metrics_parts *room)
{
    psd__metrics__init(&room->message);
    room->message.n_value = m->len;
    room->message.value = (double *)m->value;
    room->message.at = data_cursor_message(m->at, &room->at);
    return &room->message;
}
