/* Meetings of a job's workers at a place in the data: after the same steps, each with its metrics settled (barriers
 * with a place: PROTOCOL.md). They are kept by shard 0.
 *
 *     step_barrier_start(client, "trained", &at, 0, &op, e) this worker has come; the operation ends when all have
 *     step_barrier_clocks()                                while it waits: whether somebody is ahead
 *     step_barrier_sums()                                  then: what the metrics came to at that moment
 *
 * A process in the place of one that was lost may come again to where the others have met: it passes at once, and is
 * told the same. */
#ifndef CLIENT_STEP_BARRIER_H
#define CLIENT_STEP_BARRIER_H

#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"

/* again: how many meetings this worker was at there before. */
enum ps_err step_barrier_start(ps_client *c, const char *name, const struct ps_cursor *at, uint32_t again, ps_op **op,
                               struct ps_error *e) PS_MUST_USE;

/* Of the furthest meeting that was. Nobody leaves this one for a further one before this worker comes there too, or is
 * lost. sums: [n], 0 where nobody has set so many. known: shard 0 has this meeting, or one behind it. It has not where
 * it has lost its power since: what has opened is in no redo log, because all that it sums up is not there either. So
 * who has not asked yet comes again, and the workers' metrics are told again, too.
 *
 * Not mended: where some had asked before the power was lost, and have done further steps, what is told now has those
 * in it as well (server/core/sessions/opened.h). Values of variables do not depend on sums, and those of the next
 * meeting are the same for all again. */
enum ps_err step_barrier_sums(ps_client *c, const struct ps_cursor *at, uint32_t again, size_t n, double *sums,
                              bool *known, struct ps_error *e) PS_MUST_USE;

/* Of the live workers, as shard 0 has them. */
struct step_barrier_clocks {
    uint64_t slowest, fastest;
};
enum ps_err step_barrier_clocks(ps_client *c, struct step_barrier_clocks *out, struct ps_error *e) PS_MUST_USE;

#endif
