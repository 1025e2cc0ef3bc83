/* Clocks: where each worker stands, and which is slowest.
 *
 * A worker's clock counts its ticks. In async and ssp that is where it stands. In sync a tick does not wait for the
 * pushes before it, so a worker stands at its oldest push that waits for its step: there it is *held*. Else the step
 * would be over for all before the gradients of this worker are in.
 *
 *     steps  ──┬────────┬────────┬────────┬────────┬────────►
 *              3        4        5        6        7
 *              │        │                 └ clock: it has ticked to here
 *              │        └ held: its push at 4 waits for the others (no push waits: the same as clock)
 *              └ joined_past: when it joined, some block had done all steps before this one without it
 *
 * A crash loses the pushes that wait, and with them what holds, but not the ticks that overtook them. So held is in the
 * session's row, and a worker that came back *awaits* those messages: it stands where the row has it, and is past no
 * step, until the last of them has come again. Then it has *caught up*.
 *
 *     before the crash:   last_seq │ push at 4, pending │ tick to 5, resolved: last_tick
 *     after it:           last_seq │ next_seq ...............last_tick │
 *                                    awaits: held is the row's, until    caught up: recomputed, sync steps are reviewed
 *                                    next_seq has passed last_tick
 *
 * A push that comes again for a step that is done: it was taken before the restart, since in sync(n of n) no step is
 * done without all; but only from joined_past on, for before that the step may have been done without it.
 *
 * A job's slowest clock is the least place of its live workers and never goes back: a worker that lapsed rejoins there,
 * and when none is left the next one begins where the last one stood. In ssp and sync(n of n) a worker that has not
 * joined yet stands there too, and holds the others back.
 *
 * A job may run again: *rounds*. A worker that comes again after its goodbye(finished) begins the next round, if none
 * of the others has; then all that are gone, finished or lapsed, have not joined yet.
 *
 *     worker 0  ── round 0 ── goodbye   hello ── round 1 ──
 *     worker 1  ── round 0 ─────────────────── goodbye     │  not joined yet  │ hello ── round 1 ──
 *
 * A goodbye is of the round that its worker joined in, so it does not matter whether worker 0's hello comes before it
 * or after. A shard that missed goodbyes (a cut connection: there the worker lapses) is notified: a client takes the
 * highest round of all welcomes and sends it with its ticks, the first of them before anything else. A worker that
 * comes back from a lapse after another's goodbye is *late*: it finishes the round alone. Should the other come again
 * meanwhile, both are about to do the same, and the late one is taken along. */
#ifndef SERVER_CORE_SESSIONS_CLOCK_H
#define SERVER_CORE_SESSIONS_CLOCK_H

#include "common/core/base/base.h"

struct shard;
struct job;
struct session;
struct block;

/* A session becomes live; its clock is set. Counts it. */
void clock_join(struct shard *s, struct session *session);

/* A live session lapses or finishes; its state is already the new one. */
void clock_leave(struct shard *s, struct session *session);

void clock_tick(struct shard *s, struct session *session, uint64_t clock);

/* Its pushes came or were resolved: find out again where it is held. */
void clock_moved(struct shard *s, struct session *session);

/* Count it (by 1) or no more (by -1) among those that lapsed or finished in this round, if it is one of them. */
void clock_count_gone(const struct session *session, int by);

/* After loading all sessions of a job. */
void clock_load(struct shard *s, struct job *job);

/* Sync: the clock that a block is at. Its value holds all steps before that; its sync step is of that step. A block
 * that got no push moves on with the slowest worker, without being written. Between the two views lies a sync step that
 * is due: a pull waits for its update, a push may already be for the step after it. */
enum clock_view { CLOCK_FOR_PULL, CLOCK_FOR_PUSH };
uint64_t clock_of_block(const struct job *job, const struct block *b, enum clock_view view);

/* Sync: the highest step that some block is at; all before it are done there. */
uint64_t clock_newest(const struct job *job);

/* The furthest clock of the job's workers, lapsed and finished ones too. One whose workers are gone, because it was
 * restored, stands where its next ones begin: at the slowest clock. */
uint64_t clock_fastest(const struct job *job);

#endif
