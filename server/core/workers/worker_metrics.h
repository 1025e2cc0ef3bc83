/* The metrics of a worker: its sums since its task began (losses, rows, ...), as its ticks brought them, and the sum
 * over all workers of a job. Only shard 0 receives them.
 *
 *     TICK(metrics) ──► the session, and its row in the tick's transaction ──► WELCOME, reports
 *
 * A tick brings the whole sums, not what was added: one that comes again, or that had been rolled back, makes them what
 * they are and counts nothing twice. With them is kept up to where the task's data is in them, so that a worker that
 * takes the task over and does a step again knows whether it is counted. A new incarnation of the worker keeps both, a
 * new round (clock.h) begins from nothing. */
#ifndef SERVER_CORE_WORKERS_WORKER_METRICS_H
#define SERVER_CORE_WORKERS_WORKER_METRICS_H

#include "common/core/base/base.h"
#include "common/core/wire/wire.h"
#include "proto/psd.pb-c.h"
#include "server/core/workers/data_cursor.h"

struct worker_metrics {
    double value[WIRE_METRICS_MAX]; /* [len] */
    uint32_t len;                   /* 0: none */
    struct data_cursor at;          /* the data up to here is in them */
    bool logged;                    /* the redo log has them */
};

/* Take over those of a tick or a row: no values are none any more, NULL changes nothing. Checked: at most
 * WIRE_METRICS_MAX. */
void worker_metrics_take(struct worker_metrics *m, const Psd__Metrics *said);

/* As a message, which borrows from m; NULL when there are none. */
struct worker_metrics_parts {
    Psd__Metrics message;
    Psd__Cursor at;
};
Psd__Metrics *worker_metrics_message(const struct worker_metrics *m, struct worker_metrics_parts *room);
Psd__Metrics *worker_metrics_whole_message(const struct worker_metrics *m,
                                           struct worker_metrics_parts *room); /* of no values where there are none */

#endif
