/* The furthest barrier of a job that has opened, of those that have a place (Barrier.place): where in the data its
 * workers met, and the sums of their metrics at that moment. It is kept with the job, in the transaction in which the
 * barrier opens, so that a worker that comes there later, in the place of one that was lost, passes and gets the same
 * sums; a new round (clock.h) begins without.
 *
 * It is in saves, and not in the redo log. That holds durable pushes, and the metrics of the steps before them; those
 * of the last step before the barrier are not among them. So after a power loss the job's data and metrics are of
 * before the barrier, and with it a worker that does the missing steps again would pass without the others. They meet
 * again instead; a worker that had passed, and finds here that nothing has opened, comes again as well
 * (client/api/step_barrier.h). One case is left: where the others have received the sums before the power was lost, and
 * done further steps, those steps are in the sums that the worker that comes again receives. */
#ifndef SERVER_CORE_WORKERS_BARRIER_OPENED_H
#define SERVER_CORE_WORKERS_BARRIER_OPENED_H

#include "common/core/base/base.h"
#include "common/core/wire/wire.h"
#include "proto/psd.pb-c.h"
#include "server/core/workers/data_cursor.h"

struct barrier_position {
    struct data_cursor at;
    uint32_t again; /* barriers there before it */
};

struct barrier_opened {
    bool any;
    struct barrier_position place;
    double sum[WIRE_METRICS_MAX]; /* [len] */
    uint32_t len;
};

struct barrier_position barrier_position_of(const Psd__Place *m);
bool barrier_position_before(const struct barrier_position *a, const struct barrier_position *b);

/* From a row's message; NULL: none. False: its contents are impossible. */
bool barrier_opened_take(struct barrier_opened *o, const Psd__Opened *said);

/* As a message, which borrows from o; NULL when there is none. */
struct barrier_opened_parts {
    Psd__Opened message;
    Psd__Place place;
    Psd__Cursor at;
};
Psd__Opened *barrier_opened_message(const struct barrier_opened *o, struct barrier_opened_parts *room);

#endif
