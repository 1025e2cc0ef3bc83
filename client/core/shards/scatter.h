/* Scatter and gather: which bytes of which user buffer belong to which block on one shard. Pure.
 *
 * A cursor walks the blocks that one shard holds of an operation's variables, in the order of the variables and of
 * their blocks. A request of an operation is a stretch of that walk, so it needs no list of its blocks: code that wants
 * them walks again from the request's start.
 *
 *     struct block_cursor at = start;
 *     while (n-- > 0 && block_cursor_next(&walk, &at, &block)) ...
 */
#ifndef CLIENT_CORE_SHARDS_SCATTER_H
#define CLIENT_CORE_SHARDS_SCATTER_H

#include "client/core/shards/variable.h"
#include "common/core/base/base.h"
#include "common/core/wire/frame.h"

/* Variables of an operation, on one shard. */
struct block_walk {
    struct core_var *const *vars; /* [n] */
    size_t n;
    uint32_t shard;
    bool awaiting; /* of these, those that await their first values there */
};

struct block_cursor {
    size_t var;   /* index into the walk's variables */
    uint64_t nth; /* of that variable's blocks on the shard: the next one */
};

struct walk_block {
    size_t var;
    uint64_t block; /* number within the variable */
    uint64_t first; /* its first element */
    uint32_t len;   /* elements */
};

static inline size_t
walk_block_bytes(const struct walk_block *b)
{
    return cut_bytes(b->len);
}

/* The next block; false at the end. */
bool block_cursor_next(const struct block_walk *w, struct block_cursor *at, struct walk_block *out);

/* A stretch for one frame: small blocks together up to REQUEST_BATCH_BYTES, a larger one alone. */
struct stretch {
    struct block_cursor from, to;
    uint32_t blocks;
    uint64_t bytes;
    bool end;  /* no block is left after it */
    bool seen; /* with by_seen: all its blocks' versions are known, or none of them */
};

/* Take the next stretch from `from`, which is not at the end. by_seen: blocks whose version is known and blocks whose
 * version is not do not share a stretch. */
void scatter_stretch(const struct block_walk *w, struct block_cursor from, bool by_seen, struct stretch *out);

/* Growing lists; adding a piece that continues the last one makes that longer. */
struct spans {
    struct span *item;
    size_t n, room;
};
enum ps_err spans_add(struct spans *s, const void *data, size_t len) PS_MUST_USE;
void spans_finish(struct spans *s);

struct payload_parts {
    struct frame_part *item;
    size_t n, room;
};
enum ps_err payload_parts_add(struct payload_parts *p, void *data, size_t len) PS_MUST_USE;
void payload_parts_finish(struct payload_parts *p);

/* Copy a payload to where its pieces belong. */
void payload_parts_fill(const struct payload_parts *p, const void *payload);

#endif
