/* Steps of training data: how far a worker index has come, and which blocks have counted it, so that a process that
 * takes the index over goes on where the last one stood, and a step that the last one left half done counts once in
 * every block.
 *
 *     data   ──────────┬─────────────────────┬──────────────►
 *                      at                    step
 *     blocks   all have counted what       some have counted what lies between: a bit for each
 *              lies before it
 *
 * A push says where its step's data ends (Push.cursor) and begins (cursor_from). Blocks that have counted the step skip
 * it; at the tick that names it, step becomes at. A process that takes over begins at `at` and must cut its data as the
 * last one did: a step that ends between the two, or goes past `step` from before it, is INVALID.
 *
 * In sync gradients wait, and ticks do not wait for them: a block has counted a step when its update is done, and `at`
 * moves on to the step that was ticked when no push of it or of an older one waits.
 *
 * Bits are kept in chunks of DATA_CURSOR_CHUNK blocks, in the order of data_steps_ordinal(); a chunk is one row,
 * written once per turn in the transaction of the updates that it records. Each names its step: the chunk of another
 * step has no bits. A new incarnation of the worker keeps all this, a new round (clock.h) begins from nothing. */
#ifndef SERVER_CORE_SESSIONS_DATA_STEPS_H
#define SERVER_CORE_SESSIONS_DATA_STEPS_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "server/core/workers/data_cursor.h"

struct shard;
struct session;
struct block_ref;

struct data_steps_chunk {
    struct data_cursor step;
    bool dirty; /* to be written with the session's row */
    uint8_t bits[DATA_CURSOR_CHUNK / 8];
};

/* Key of a chunk's row. */
struct data_steps_key {
    uint32_t job, task, chunk; /* big-endian */
};

struct data_steps {
    struct data_cursor at, step;
    struct data_cursor ticked; /* where the newest step ends that was ticked while a push waited; none: none was */
    struct data_steps_chunk **chunks; /* [chunks_len], NULL: no bits */
    uint32_t chunks_len, dirty;
};

/* PS_ERR_INVALID when the step does not fit those that were counted. */
enum ps_err data_steps_check(const struct session *session, const struct data_cursor_span *span,
                             struct ps_error *e) PS_MUST_USE;

/* The block has counted this step already. */
bool data_steps_counted(const struct session *session, struct data_cursor end, const struct block_ref *ref);

/* It counts it with this turn. Out of memory fails the turn. */
void data_steps_count(struct shard *s, struct session *session, const struct data_cursor_span *span,
                      const struct block_ref *ref);

/* The worker ticked. end: of the step that this ends, as the tick says; none: it ends none, such as the tick that takes
 * a new incarnation to the clock of another shard. */
void data_steps_tick(struct session *session, struct data_cursor end);

/* A push of the worker waits no more. */
void data_steps_settle(struct shard *s, struct session *session);

/* The worker's pushes that wait are forgotten: what it ticked while they did is not counted. */
void data_steps_forget(struct session *session);

/* A new round. */
void data_steps_reset(struct shard *s, struct session *session);

/* Blocks of these ordinals were dropped: no bits of theirs are left. */
void data_steps_forget_blocks(struct shard *s, struct session *session, uint64_t first, uint64_t n);

/* Rows: with the session's, and after all sessions are loaded. */
enum ps_err data_steps_put(struct shard *s, struct session *session) PS_MUST_USE;
enum ps_err data_steps_load(struct shard *s, struct ps_error *e) PS_MUST_USE;

/* The row of one chunk of a dropped job's worker, within the turn's transaction. PS_ERR_NOT_FOUND. */
enum ps_err data_steps_erase(struct shard *s, uint32_t job_id, uint32_t task, uint32_t chunk) PS_MUST_USE;

void data_steps_finish(struct session *session);

#endif
