/* Barriers of a job's workers at a place in the data: after the same steps, each with its metrics settled (barriers
 * with a place: PROTOCOL.md). Shard 0 keeps them.
 *
 *     step_barrier_start(client, "trained", &at, 0, &op, e)  this worker has come; the operation ends when all have
 *     step_barrier_clocks()                                  while it waits: whether another worker is ahead
 *     step_barrier_sums()                                    then: what the metrics came to at that moment
 *
 * A process in the place of one that was lost may come again to a barrier that the others have passed: it passes at
 * once, and gets the same sums. */
#ifndef CLIENT_API_STEP_BARRIER_H
#define CLIENT_API_STEP_BARRIER_H

#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"

/* again: how many barriers this worker was at there before. */
enum ps_err step_barrier_start(ps_client *c, const char *name, const struct ps_cursor *at, uint32_t again, ps_op **op,
                               struct ps_error *e) PS_MUST_USE;

/* The sums of the furthest barrier that has opened. No worker leaves this one for a further one before this worker
 * comes there too, or is lost. sums: [n], 0 where no worker has set so many. known: shard 0 has this barrier, or one
 * behind it. It has not where it has lost its power since: an opened barrier is in no redo log, because all that it
 * sums up is not there either. So a worker that has not asked yet comes again, and the workers' metrics are sent again,
 * too.
 *
 * Known gap: where some had asked before the power was lost, and have done further steps, the sums now contain those as
 * well (server/core/workers/barrier_opened.h). Values of variables do not depend on sums, and those of the next barrier
 * are the same for all again. */
enum ps_err step_barrier_sums(ps_client *c, const struct ps_cursor *at, uint32_t again, size_t n, double *sums,
                              bool *known, struct ps_error *e) PS_MUST_USE;

/* Of the live workers, as shard 0 has them. */
struct step_barrier_clocks {
    uint64_t slowest, fastest;
};
enum ps_err step_barrier_clocks(ps_client *c, struct step_barrier_clocks *out, struct ps_error *e) PS_MUST_USE;

#endif
