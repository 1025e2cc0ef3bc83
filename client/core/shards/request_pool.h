/* What is under way on one link: requests (one frame each), the window of sequence numbers, and the ids by which
 * answers find their request. Pure.
 *
 * A request (its states are REQUEST_WAITING and so on):
 *
 *     made ──► WAITING ──CORE_SEND──► HANDED_OUT ──core_sent──► SENT ──answer──► gone
 *                 ▲                       │                      │
 *                 └─── connection lost ───┴──────────────────────┘   (all but given up ones)
 *
 * A request whose operation gave up has op == NULL. An unsequenced one waits for its answer only so that its id is
 * not used again; a sequenced one is a REQUEST_SKIP from then on: when it must be sent (again), a SKIP goes out.
 *
 * Sequenced and pulling requests of a link stay in one list in the order in which they were made: the order in which
 * they are sent again after a reconnect. */
#ifndef CLIENT_CORE_SHARDS_REQUEST_POOL_H
#define CLIENT_CORE_SHARDS_REQUEST_POOL_H

#include "client/core/shards/core.h"
#include "client/core/shards/scatter.h"
#include "common/core/base/buffer_pool.h"

struct core_op;
struct lane;
struct request;

enum request_kind {
    REQUEST_PULL,
    REQUEST_PUSH,
    REQUEST_TICK,
    REQUEST_BARRIER,
    REQUEST_SKIP,
    REQUEST_DECLARE,
    REQUEST_QUERY,
    REQUEST_PING,
    REQUEST_SET,
    REQUEST_DRAIN,
    REQUEST_ATTACH,
    REQUEST_OTHER,       /* any other message that one answers, as it is */
    REQUEST_RESTORE,     /* the core's own DECLARE (an observer's: ATTACH) after a shard lost data */
    REQUEST_DEFINE,      /* the core's own DEFINE to a new session */
    REQUEST_DELAY_QUERY, /* the core's own QUERY: which workers hold op back */
    REQUEST_GATE,        /* the core's own PULL of nothing: the blocks of the gated push `seq` have come to its clock */
    REQUEST_ALIVE,       /* the core's own PING */
    REQUEST_STAGE,       /* values of an assign */
    REQUEST_ASSIGN,      /* another step of one */
    REQUEST_ABANDON      /* the core's own: an assign is given up */
};

enum request_state { REQUEST_WAITING, REQUEST_HANDED_OUT, REQUEST_SENT };

/* Memory for what a compressed push sends. Large ones are lent by a pool: what malloc() gets fresh from the system
 * costs more for its first touch than the encoding does. */
struct encoding {
    uint8_t *data; /* NULL: there is none */
    size_t lent;   /* as the pool says; 0: it is of the heap */
};

/* A frame that was handed out; kept apart from its request because the request may end, or be sent again, before
 * core_sent() gives it back. */
struct send {
    struct core_send out; /* first: what the driver sees */
    struct send *all;     /* every one that exists, for core_free() */
    struct send *free;
    struct request *part; /* NULL: ended meanwhile, or has none */
    uint32_t shard;
    uint64_t epoch; /* of the link's connection */
    uint8_t *head;
    size_t head_room;
    struct spans spans;
    struct encoding encoding; /* of a request that ended before this was given back */
    bool out_there;           /* handed out and not given back */
};

/* Versions that a request's message carries, one per block: from_version of a push, newer_than of a pull. Kept because
 * what was seen may change before the request is answered or sent again. Mostly they are all the same. */
struct request_versions {
    bool any; /* false: the message carries none */
    uint64_t same;
    uint64_t *each; /* [blocks] when use_each */
    size_t room;
    bool use_each;
};

struct request {
    struct request *prev, *next;
    struct core_op *op; /* NULL: given up, or the core's own */
    struct lane *lane;  /* of op; NULL for REQUEST_DELAY_QUERY */
    struct send *send;  /* while REQUEST_HANDED_OUT */
    enum request_kind kind;
    enum request_state state;
    bool given_up;
    bool was_sent;    /* handed out on some connection: the shard may know it */
    bool counts;      /* the shard counts it as a push, once it has it */
    bool was_counted; /* a skip in place of a push that was acknowledged: the shard is to count it again */
    bool gated;       /* a push that must not come before its blocks are at its clock */
    uint64_t request; /* 0: none now */
    uint64_t seq;     /* sequenced ones; 0: none yet */
    uint64_t clock;
    struct block_cursor from; /* pull, push: its stretch */
    uint32_t blocks;
    uint64_t bytes;           /* of payload */
    uint64_t gradient_bytes;  /* push: as float32 */
    struct encoding encoding; /* [bytes] of a compressed push, made once; none: the gradients go as they are */
    struct request_versions versions;
    uint64_t attempt;     /* REQUEST_ABANDON: of the assign */
    struct core_var *var; /* REQUEST_DECLARE, REQUEST_RESTORE, REQUEST_ATTACH but the first */
};

static inline bool
request_sequenced(const struct request *p)
{
    return p->kind == REQUEST_PUSH || p->kind == REQUEST_TICK || p->kind == REQUEST_BARRIER || p->kind == REQUEST_SKIP;
}

/* A pull, or sequenced: in the list of those that are made from lanes. */
static inline bool
request_is_part(const struct request *p)
{
    return request_sequenced(p) || p->kind == REQUEST_PULL;
}

/* Its frame's payload is in user buffers. */
static inline bool
request_sends_blocks(const struct request *p)
{
    return p->kind == REQUEST_PUSH || p->kind == REQUEST_STAGE;
}

static inline uint64_t
request_version(const struct request *p, uint32_t i)
{
    return p->versions.use_each ? p->versions.each[i] : p->versions.same;
}

/* versions->each for n blocks. */
enum ps_err request_versions_reserve(struct request_versions *v, size_t n) PS_MUST_USE;

/* The version of block i of so many, after those of all blocks before it: one number as long as all are the same, and a
 * list from the first that is another. */
enum ps_err part_versions_put(struct request_versions *v, uint32_t blocks, uint32_t i, uint64_t version) PS_MUST_USE;

/* Free lists, shared by all links. */
struct request_pools {
    struct request *parts;
    struct send *sends, *all_sends;
    struct buffer_pool encodings;
};
struct request *request_pool_get(struct request_pools *p); /* zeroed; NULL when out of memory */
void request_pool_put(struct request_pools *p, struct request *part);
struct send *request_pool_send(struct request_pools *p); /* head and spans keep their room */
void request_pool_send_put(struct request_pools *p, struct send *send);
enum ps_err request_pool_send_reserve(struct send *s, size_t size) PS_MUST_USE;
enum ps_err request_pool_encoding(struct request_pools *p, size_t size, struct encoding *e) PS_MUST_USE;
void request_pool_encoding_put(struct request_pools *p, struct encoding *e); /* there may be none; then there is none */
void request_pools_finish(struct request_pools *p); /* requests that are in use are not known to it */

/* A list of requests in order. */
struct request_list {
    struct request *first, *last;
};
void request_list_append(struct request_list *l, struct request *p);
void request_list_insert_before(struct request_list *l, struct request *at, struct request *p); /* at NULL: appends */
void request_list_remove(struct request_list *l, struct request *p);

/* Sequence numbers given and not acknowledged: (acked_through, next). */
struct send_window {
    struct request **ring; /* by seq mod room; NULL: acknowledged out of order */
    uint64_t room;         /* a power of two */
    uint64_t acked_through;
    uint64_t next; /* the next number to give */
};
void send_window_init(struct send_window *w);
void send_window_finish(struct send_window *w);
bool send_window_full(const struct send_window *w);
bool send_window_empty(const struct send_window *w);
/* Room for so many numbers more than are given. */
enum ps_err send_window_reserve(struct send_window *w, uint64_t more) PS_MUST_USE;
/* Give the next number. PS_ERR_NOMEM gives none. */
enum ps_err send_window_give(struct send_window *w, struct request *p) PS_MUST_USE;
/* NULL: acknowledged before, or never given. */
struct request *send_window_find(const struct send_window *w, uint64_t seq);
/* The number is acknowledged; acked_through moves as far as it can. */
void send_window_ack(struct send_window *w, uint64_t seq);
/* The same of a push, which send_window_push_acked() knows of until acked_through is past it. */
void send_window_ack_push(struct send_window *w, uint64_t seq);
bool send_window_push_acked(const struct send_window *w, uint64_t seq);
/* Put a request (a skip) where an acknowledged number is: it will be sent again. */
void send_window_fill(struct send_window *w, uint64_t seq, struct request *p);
/* Numbers after `last` (below next) were never given; when some up to it are acknowledged, they stay so. */
void send_window_cut(struct send_window *w, uint64_t last);
/* Start over after `last`: no numbers are given. */
void send_window_reset(struct send_window *w, uint64_t last);

/* Ids to requests. */
struct request_ids {
    struct request **slot;
    uint32_t *next_free; /* by slot */
    uint32_t room, used, free;
    uint32_t turn; /* makes ids differ from one use of a slot to the next */
};
#define REQUEST_ID_HELLO      1 /* ids below REQUEST_ID_FIRST belong to no request */
#define REQUEST_ID_UNANSWERED 2 /* CANCEL, GOODBYE */
#define REQUEST_ID_FIRST      16
void request_ids_init(struct request_ids *r);
void request_ids_finish(struct request_ids *r);
enum ps_err request_ids_add(struct request_ids *r, struct request *p) PS_MUST_USE; /* sets p->request */
struct request *request_ids_find(const struct request_ids *r, uint64_t request);
void request_ids_remove(struct request_ids *r, struct request *p);
void request_ids_clear(struct request_ids *r); /* and every request's id */

#endif
