/* What is under way on one link: parts (one frame each), the window of sequence numbers, and the request ids by which
 * answers find their part. Pure.
 *
 * A part:
 *
 *     made ──► PART_HELD ──CORE_SEND──► PART_HANDED ──core_sent──► PART_SENT ──answer──► gone
 *                  ▲                        │                          │
 *                  └──── connection lost ───┴──────────────────────────┘   (all but given up ones)
 *
 * A part whose operation gave up has op == NULL. An unsequenced one waits for its answer only so that its request id is
 * not used again; a sequenced one is a PART_SKIP from then on: when it must be sent (again), a SKIP goes out.
 *
 * Sequenced and pulling parts of a link stay in one list in the order in which they were made: the order in which they
 * are sent again after a reconnect. */
#ifndef CLIENT_PENDING_H
#define CLIENT_PENDING_H

#include "client/core/shards/core.h"
#include "client/core/shards/gather.h"
#include "common/core/base/buffer_pool.h"

struct core_op;
struct lane;
struct part;

enum part_kind {
    PART_PULL,
    PART_PUSH,
    PART_TICK,
    PART_BARRIER,
    PART_SKIP,
    PART_DECLARE,
    PART_QUERY,
    PART_PING,
    PART_SET,
    PART_DRAIN,
    PART_ATTACH,
    PART_ASK,     /* any other message that one answers, as it is */
    PART_RESTORE, /* the core's own DECLARE (an observer's: ATTACH) after a shard lost data */
    PART_WHY,     /* the core's own QUERY: who holds op back */
    PART_GATE,    /* the core's own PULL of nothing: the blocks of the gated push `seq` have come to its clock */
    PART_ALIVE    /* the core's own PING */
};

enum part_state { PART_HELD, PART_HANDED, PART_SENT };

/* Memory for what a compressed push sends. Large ones are lent by a pool: what malloc() gets anew from the system costs
 * more for its first touch than the encoding does. */
struct encoding {
    uint8_t *data; /* NULL: there is none */
    size_t lent;   /* as the pool says; 0: it is of the heap */
};

/* A frame that was handed out; kept apart from its part because the part may end, or be sent anew, before it is told
 * back. */
struct send {
    struct core_send out; /* first: what the driver sees */
    struct send *all;     /* every one that exists, for core_free() */
    struct send *free;
    struct part *part; /* NULL: ended meanwhile, or has none */
    uint32_t shard;
    uint64_t epoch; /* of the link's connection */
    uint8_t *head;
    size_t head_room;
    struct spans spans;
    struct encoding encoding; /* of a part that ended before this was told back */
    bool out_there;           /* handed out and not told back */
};

/* Versions that a part's message carries, one per block: from_version of a push, newer_than of a pull. Kept because
 * what was seen may change before the part is answered or sent again. Mostly they are all the same. */
struct part_versions {
    bool any; /* false: the message carries none */
    uint64_t same;
    uint64_t *each; /* [blocks] when use_each */
    size_t room;
    bool use_each;
};

struct part {
    struct part *prev, *next;
    struct core_op *op; /* NULL: given up, or the core's own */
    struct lane *lane;  /* of op; NULL for PART_WHY */
    struct send *send;  /* while PART_HANDED */
    enum part_kind kind;
    enum part_state state;
    bool given_up;
    bool was_sent;    /* handed out on some connection: the shard may know it */
    bool counts;      /* the shard counts it as a push, once it has it */
    bool was_counted; /* a skip in place of a push that was acknowledged: the shard is to count it again */
    bool gated;       /* a push that must not come before its blocks are at its clock */
    uint64_t request; /* 0: none now */
    uint64_t seq;     /* sequenced ones; 0: none yet */
    uint64_t clock;
    struct cursor from; /* pull, push: its stretch */
    uint32_t blocks;
    uint64_t bytes;           /* of payload */
    uint64_t gradient_bytes;  /* push: as float32 */
    struct encoding encoding; /* [bytes] of a compressed push, made once; none: the gradients go as they are */
    struct part_versions versions;
    struct core_var *var; /* PART_DECLARE, PART_RESTORE, PART_ATTACH but the first */
};

static inline bool
part_sequenced(const struct part *p)
{
    return p->kind == PART_PUSH || p->kind == PART_TICK || p->kind == PART_BARRIER || p->kind == PART_SKIP;
}

static inline uint64_t
part_version(const struct part *p, uint32_t i)
{
    return p->versions.use_each ? p->versions.each[i] : p->versions.same;
}

/* versions->each for n blocks. */
enum ps_err part_versions_room(struct part_versions *v, size_t n) PS_MUST_USE;

/* The version of block i of so many, after those of all blocks before it: one number as long as all are the same, and a
 * list from the first that is another. */
enum ps_err part_versions_put(struct part_versions *v, uint32_t blocks, uint32_t i, uint64_t version) PS_MUST_USE;

/* Free lists, shared by all links. */
struct pools {
    struct part *parts;
    struct send *sends, *all_sends;
    struct buffer_pool encodings;
};
struct part *pool_part(struct pools *p); /* zeroed; NULL when out of memory */
void pool_part_put(struct pools *p, struct part *part);
struct send *pool_send(struct pools *p); /* head and spans keep their room */
void pool_send_put(struct pools *p, struct send *send);
enum ps_err send_head_room(struct send *s, size_t size) PS_MUST_USE;
enum ps_err pool_encoding(struct pools *p, size_t size, struct encoding *e) PS_MUST_USE;
void pool_encoding_put(struct pools *p, struct encoding *e); /* there may be none; then there is none */
void pools_finish(struct pools *p);                          /* parts that are in use are not known to it */

/* A list of parts in order. */
struct parts {
    struct part *first, *last;
};
void parts_append(struct parts *l, struct part *p);
void parts_insert_before(struct parts *l, struct part *at, struct part *p); /* at NULL: appends */
void parts_remove(struct parts *l, struct part *p);

/* Sequence numbers given and not acknowledged: (acked_through, next). */
struct window {
    struct part **ring; /* by seq mod room; NULL: acknowledged out of order */
    uint64_t room;      /* a power of two */
    uint64_t acked_through;
    uint64_t next; /* the next number to give */
};
void window_init(struct window *w);
void window_finish(struct window *w);
bool window_full(const struct window *w);
bool window_empty(const struct window *w);
/* Room for so many numbers more than are given. */
enum ps_err window_reserve(struct window *w, uint64_t more) PS_MUST_USE;
/* Give the next number. PS_ERR_NOMEM gives none. */
enum ps_err window_give(struct window *w, struct part *p) PS_MUST_USE;
/* NULL: acknowledged before, or never given. */
struct part *window_find(const struct window *w, uint64_t seq);
/* The number is acknowledged; acked_through moves as far as it can. */
void window_ack(struct window *w, uint64_t seq);
/* The same of a push, which window_push_acked() knows of until acked_through is past it. */
void window_ack_push(struct window *w, uint64_t seq);
bool window_push_acked(const struct window *w, uint64_t seq);
/* Put a part (a skip) where an acknowledged number is: it will be sent again. */
void window_fill(struct window *w, uint64_t seq, struct part *p);
/* Numbers after `last` (below next) were never given; when some up to it are acknowledged, they stay so. */
void window_cut(struct window *w, uint64_t last);
/* Start over after `last`: no numbers are given. */
void window_reset(struct window *w, uint64_t last);

/* Request ids to parts. */
struct requests {
    struct part **slot;
    uint32_t *next_free; /* by slot */
    uint32_t room, used, free;
    uint32_t turn; /* makes ids differ from one use of a slot to the next */
};
#define REQUEST_HELLO      1 /* ids below REQUEST_FIRST belong to no part */
#define REQUEST_UNANSWERED 2 /* CANCEL, GOODBYE */
#define REQUEST_FIRST      16
void requests_init(struct requests *r);
void requests_finish(struct requests *r);
enum ps_err requests_add(struct requests *r, struct part *p) PS_MUST_USE; /* sets p->request */
struct part *requests_find(const struct requests *r, uint64_t request);
void requests_remove(struct requests *r, struct part *p);
void requests_clear(struct requests *r); /* and every part's request */

#endif
