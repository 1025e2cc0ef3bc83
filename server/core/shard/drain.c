/* Draining waits only for peers to close their connections. */
#include "server/core/shard/drain.h"

#include <inttypes.h>

#include "server/core/durability/drop_erase.h"
#include "server/core/shard_state.h"

void
drain_stop_if_idle(struct shard *s)
{
    if (!s->draining || s->stopped || s->connections_len > 0)
        return;
    s->stopped = true;
    actions_stopped(s);
}

/* Applied pushes are committed with this turn. Requests that wait are answered: send again after the restart. */
void
drain_begin(struct shard *s)
{
    const char *text = ps_strerror(PS_ERR_DRAINING);
    struct connection *c, *next;

    if (s->draining)
        return;
    s->draining = true;
    actions_draining(s);
    actions_log(s, SHARD_LOG_INFO, "draining connections=%" PRIu64, s->connections_len);
    actions_event(s, NULL, NULL, PSD__EVENT_KIND__EVENT_DRAINING, 0, text);
    rendezvous_service_end(s);
    HASH_ITER (hh, s->connections, c, next) {
        pull_end(s, c, 0, PS_ERR_DRAINING, text);
        declare_forget(s, c, 0, PS_ERR_DRAINING);
        assign_end(s, c, 0, PS_ERR_DRAINING);
        save_request_end(s, c, 0, PS_ERR_DRAINING);
        drop_erase_end(s, c, 0, PS_ERR_DRAINING);
        connection_close(s, c);
    }
    drain_stop_if_idle(s);
}
