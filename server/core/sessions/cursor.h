/* Cursors: how far a worker index has come in its training data, and which blocks know it, so that a process that
 * takes the index over goes on where the last one stood, and what that one had half done counts once in every block.
 *
 *     data   ──────────┬─────────────────────┬──────────────►
 *                      at                    step
 *     blocks   all have counted what       some have counted what lies between: a bit for each
 *              lies before it
 *
 * A push says where its step's data ends (Push.cursor) and begins (cursor_from). Blocks that have counted the step skip
 * it; at the tick that names it, step becomes at. Who takes over begins at `at` and must cut its data as the last one
 * did: a step that ends between the two, or goes past `step` from before it, is INVALID.
 *
 * In sync gradients wait, and ticks do not wait for them: a block has counted a step when its update is done, and `at`
 * moves on when no older push of the worker waits.
 *
 * Bits are kept in chunks of CURSOR_CHUNK blocks, in the order of block_ordinal(); a chunk is one row, written once per
 * turn in the transaction of the updates that it tells of. Each says which step it is of: one of another step has
 * no bits. A new incarnation of the worker keeps all this, a new round (clock.h) begins from nothing. */
#ifndef SERVER_CURSOR_H
#define SERVER_CURSOR_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"

#define CURSOR_CHUNK 8192 /* blocks; a row of 1 KiB */

struct shard;
struct session;
struct block_ref;

/* {0, 0}: none. */
struct cursor {
    uint64_t epoch, position;
};

struct cursor_chunk {
    struct cursor step;
    bool dirty; /* to be written with the session's row */
    uint8_t bits[CURSOR_CHUNK / 8];
};

struct cursors {
    struct cursor at, step;
    struct cursor_chunk **chunks; /* [chunks_len], NULL: no bits */
    uint32_t chunks_len, dirty;
};

/* A step of a worker's data: what Push.cursor_from and Push.cursor say. end {0, 0}: the push gives none. */
struct cursor_span {
    struct cursor from, end;
    bool begins; /* the push says where */
};

static inline bool
cursor_none(struct cursor c)
{
    return c.epoch == 0 && c.position == 0;
}

static inline bool
cursor_before(struct cursor a, struct cursor b)
{
    return a.epoch < b.epoch || (a.epoch == b.epoch && a.position < b.position);
}

bool cursor_span_equal(const struct cursor_span *a, const struct cursor_span *b);
struct cursor cursor_of(const Psd__Cursor *m); /* NULL: none */
Psd__Cursor *cursor_message(struct cursor c, Psd__Cursor *room);
struct cursor_span cursor_span(const Psd__Push *m);

/* PS_ERR_INVALID when the step does not fit those that were counted. */
enum ps_err cursor_check(const struct session *session, const struct cursor_span *span, struct ps_error *e) PS_MUST_USE;

/* The block has counted this step already. */
bool cursor_counted(const struct session *session, struct cursor end, const struct block_ref *ref);

/* It counts it with this turn. Out of memory fails the turn. */
void cursor_count(struct shard *s, struct session *session, const struct cursor_span *span,
                  const struct block_ref *ref);

/* The worker ticked. end: of the step that this ends, as the tick says; none: it ends none, such as the tick that takes
 * a new incarnation to the clock of another shard. */
void cursor_tick(struct session *session, struct cursor end);

/* A new round. */
void cursor_reset(struct shard *s, struct session *session);

/* Rows: with the session's, and after all sessions are loaded. */
enum ps_err cursor_put(struct shard *s, struct session *session) PS_MUST_USE;
enum ps_err cursor_load(struct shard *s, struct ps_error *e) PS_MUST_USE;

void cursor_finish(struct session *session);

#endif
