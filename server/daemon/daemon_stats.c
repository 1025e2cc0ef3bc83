#include "server/daemon/daemon_stats.h"

#include <string.h>

#include "server/access/access_policy.h"
#include "server/daemon/peer.h"
#include "server/http/http.h"
#include "server/process/descriptors.h"

/* Figures that are cheap to measure. */
static void
read_glue(const struct daemon *d, struct shard_figures *out)
{
    const struct peer *p, *next;

    *out = (struct shard_figures){.in_flight_max = d->in_flight.max,
                                  .in_flight_connection_max = d->in_flight.part_max,
                                  .in_flight_waits = d->in_flight.waits,
                                  .in_flight_connection_waits = d->in_flight.part_waits,
                                  .descriptors_refused = d->refused[REFUSAL_DESCRIPTORS]};
    memcpy(out->denied, d->policy->denied, sizeof out->denied);
    HASH_ITER (hh, d->peers, p, next)
        out->in_flight_connection = MAX(out->in_flight_connection, p->part.incoming + p->part.outgoing);
}

void
daemon_stats_read(const struct daemon *d, struct shard_figures *out)
{
    read_glue(d, out);
    out->descriptors = descriptors_open();
    out->descriptors_max = descriptors_max();
}

static_assert((int)LOG_LEVELS == (int)METRICS_LOG_LEVELS, "counts are handed over as they are");

void
daemon_stats_measure(void *arg, struct metrics *m)
{
    const struct daemon *d = arg;
    struct shard_figures glue;
    struct shard_event event = {
        .now_ms = uv_now(&d->loop), .in_flight_bytes = in_flight_bytes(&d->in_flight), .figures = &glue};

    read_glue(d, &glue);
    shard_measure(d->shard, &event, m);
    if (d->state != DAEMON_SERVING && m->state != METRICS_BROKEN)
        m->state = METRICS_STOPPING;
    log_counts(m->log_lines);
    memcpy(m->denied, glue.denied, sizeof m->denied);
    memcpy(m->handshakes_failed, d->tls.failed, sizeof m->handshakes_failed);
    m->certificate_ends[METRICS_CERTIFICATE_TCP] = d->tls.certificate.ends;
    m->certificate_ends[METRICS_CERTIFICATE_HTTP] = http_certificate(d->http)->ends;
    memcpy(m->refused, d->refused, sizeof m->refused);
    m->refused[REFUSAL_CONNECTIONS] = m->limit_refused[LIMIT_CONNECTIONS];
    m->accepted = d->next_id;
    m->received_bytes = d->pool.received;
    m->sent_bytes = d->pool.sent;
    m->saved_seconds = d->save_schedule.newest;
    m->redo_saved = d->save_schedule.newest_redo;
}
