/* Assigns: values that a worker gives for some of its job's variables, in all of their blocks on all shards or in none.
 *
 * The worker's client asks the shards step by step (PROTOCOL.md, section 15). Shard 0 decides, and gives the numbers,
 * so that a job has one undecided assign at a time:
 *
 *     shard 0       BEGIN: number 7        STAGE: values           COMMIT: done, if all values are there
 *     shards 1 ...            OPEN 7       STAGE: values  PREPARE              COMMIT: take them
 *                                                          └─ from here on the shard cannot give it up by itself
 *
 * A value that came lies in the store beside its block (model/staged.h), so it outlives the process. A shard that has
 * prepared learns the end from whatever client comes by: what a worker knows to be done, or given up, is in its ticks
 * and pulls, and an OPEN says what became of all assigns before it. A shard that has not prepared lets an assign end
 * with its worker. Numbers are of one attempt alone (assign_number()), so nothing that was known before shard 0 lost
 * data is mistaken for what it has given the number to since.
 *
 * Done means that the number is in the job's row. The blocks take their values after that (assign_settle.c): before the
 * next gradient, and before anybody reads them; those that nobody asks for, in the background. In sync with all workers
 * a block takes them when it comes to the assign's clock. A worker's pull of several shards finds by the numbers in the
 * answers whether it has some blocks from before an assign and some from after it, and asks the former again.
 *
 * In memory: job->assigns (workers/assign_slots.h). In the store: the job's row and the values. In the redo log, of a
 * durable assign: both. A save has the row; values that wait at its instant are logged again behind it
 * (durability/save_staged.c). */
#ifndef SERVER_CORE_TRAINING_ASSIGN_H
#define SERVER_CORE_TRAINING_ASSIGN_H

#include "common/core/base/base.h"
#include "common/core/wire/wire.h"
#include "common/include/psclient/ps_err.h"
#include "server/core/turn/shard_types.h"
#include "server/core/workers/assign_slots.h"

struct shard;
struct job;
struct session;
struct connection;
struct block;
struct block_ref;
struct event_context;

/* ---- assign.c: the worker's steps ---- */

enum shard_result assign_take(struct shard *s, struct connection *c, const struct wire_msg *msg,
                              struct event_context *ctx);

/* ---- assign_stage.c ---- */

/* Put the values of a STAGE into the store. *until: the piece that its answer waits for (durable_acks.h). */
enum shard_result assign_stage(struct shard *s, struct assign_slot *slot, struct connection *c,
                               const struct wire_msg *msg, struct event_context *ctx);

/* ---- assign_decide.c: what becomes of it ---- */

/* It is done, of this clock. */
void assign_commit(struct shard *s, struct job *job, struct assign_slot *slot, uint64_t clock);

/* At shard 0: it is done, of this clock, as soon as that is on disk. */
void assign_decide(struct shard *s, struct job *job, struct assign_slot *slot, uint64_t clock);

/* The record that is being made ends before this piece; pieces before this one are on disk, or durable pushes are
 * answered without the disk from now on (UINT64_MAX); a store was loaded, and no record is being made. */
void assign_recorded(struct shard *s, uint64_t until);
void assign_on_disk(struct shard *s, uint64_t until);
void assign_loaded(struct shard *s);

/* It is not done, and never will be. */
void assign_give_up(struct shard *s, struct job *job, struct assign_slot *slot);

/* A client knows that the assign of this number is done, and that the other was given up. */
void assign_resolve(struct shard *s, struct job *job, uint64_t assigned, uint64_t given_up);

/* The worker is gone: what it gives is given up, unless that is not this shard's to say. */
void assign_worker_left(struct shard *s, const struct session *session);

/* The worker was here before the shard lost data, and what it gave then may be long over for it: it begins anew, should
 * it still give it. */
void assign_rolled_back(struct shard *s, const struct session *session);

/* Its row has changed: it goes into the log where the assign is durable. */
void assign_changed(struct shard *s, struct job *job, const struct assign_slot *slot);

/* ---- assign_wait.c: BEGINs and OPENs that wait for the assign before them, or for a slot ---- */

struct assign_waiter {
    struct connection *connection;
    uint64_t request, since_ms;
    Psd__Assign asked; /* without blocks */
    struct assign_waiter *prev, *next;
};

/* It waits from now on; or it is refused, when too many of its connection do. */
void assign_wait(struct shard *s, struct connection *c, uint64_t request, const Psd__Assign *asked);

/* Try those that wait again. */
void assign_wake(struct shard *s, struct job *job);

/* Forget those of a connection. With an error they are answered; request 0: all. True when there was one. */
bool assign_end(struct shard *s, struct connection *c, uint64_t request, enum ps_err answer);
void assign_free_waiters(struct job *job);

/* Begin, or wait. assign.c's. */
void assign_begin(struct shard *s, struct connection *c, uint64_t request, const Psd__Assign *asked);

/* ---- assign_settle.c: blocks take their values ---- */

/* Blocks that a push names take what they are to take before its gradients. False: not in this turn; or *err: the store
 * has no room. */
bool assign_settle_pushed(struct shard *s, struct job *job, const Psd__Push *m, enum ps_err *err) PS_MUST_USE;

/* The same of one block, for whose new value there is room; its clock is that of the step that it takes gradients for.
 */
enum ps_err assign_settle_block(struct shard *s, struct block_ref *ref, uint64_t clock) PS_MUST_USE;

/* Room beside that of its new value: values that a block takes while a save logs those that wait are logged first,
 * since what follows in the log builds on them. */
uint64_t assign_log_room(const struct shard *s, const struct block_ref *ref);

/* A slot comes to its end while a redo log is replayed: if its assign is done, all of its blocks take their values,
 * whatever their clock; and these are erased. False: not in this turn. */
bool assign_end_slot(struct shard *s, struct job *job, struct assign_slot *slot, enum ps_err *err) PS_MUST_USE;

/* Whether a pull may have this block: it has all that it is to take, and for a pull that asks for more than that, this
 * as well. */
bool assign_lets_pull(const struct shard *s, const struct job *job, const struct block_ref *ref, uint64_t with_assign);

/* A worker at an older clock than an assign's wants it all the same, and cannot wait for that clock: here the assign is
 * of any clock from now on. */
void assign_hurry(struct shard *s, struct job *job, uint64_t clock, uint64_t with_assign);

/* The job has another number of workers: where steps do not need all of them any more, values wait for no clock. */
void assign_resized(struct shard *s, struct job *job);

/* Of a block's committed value: all assigns up to this number that concern it are in it. */
uint64_t assign_in_value(const struct shard *s, const struct job *job, const struct block_ref *ref,
                         uint64_t newest_assign);

/* Clocks of the job have moved. */
void assign_clock_moved(struct shard *s, struct job *job);

/* A block's sync step has ended: it may have kept the block from its clock. */
void assign_step_gone(struct shard *s, struct job *job, const struct block *b);

/* Some of its blocks are to take values that they are late for: a checkpoint waits for that. */
bool assign_settling(const struct shard *s, const struct job *job);

/* Background work: blocks take values, values that are over are erased. False of the second: no room in this turn. */
bool assign_busy(const struct shard *s);
bool assign_work(struct shard *s);

/* The turn was committed: what had no room may have some now. */
void assign_turn_over(struct shard *s);

#endif
