/* Operations: what a caller starts and waits for. Pure.
 *
 * An operation has a lane on each shard that it concerns. A lane of a pull, push, tick or barrier queues at its link
 * until all its requests are made; declares, queries, pings, sets and drains make their one request at once. An attach
 * asks the shard of block 0 what the variable is, and then the other shards that hold blocks of it.
 *
 *     start ──► under way ──last request answered──► done ──core_op_free()──► recycled
 *                   │                              ▲
 *                   └──cancel, or final error──────┘   (a cancelled tick goes on without its caller)
 */
#ifndef CLIENT_CORE_SHARDS_OP_H
#define CLIENT_CORE_SHARDS_OP_H

#include "client/core/shards/core.h"
#include "client/core/shards/op_assign.h"
#include "client/core/shards/request_pool.h"
#include "client/core/shards/scatter.h"
#include "proto/psd.pb-c.h"

enum op_kind {
    OP_PULL,
    OP_PUSH,
    OP_TICK,
    OP_BARRIER,
    OP_DECLARE,
    OP_QUERY,
    OP_PING,
    OP_SET,
    OP_DRAIN,
    OP_ATTACH,
    OP_OTHER,
    OP_ASSIGN
};

#define OP_DELAY_TEXT_MAX 256

/* An operation's share on one shard. */
struct lane {
    struct lane *prev, *next; /* in the link's queue */
    struct core_op *op;
    uint32_t shard;
    struct block_cursor at; /* what is not made into requests yet */
    uint64_t parts;         /* made and not answered */
    bool queued;            /* some are not made */
    bool changed;           /* a set did something there */
    uint64_t assigned;      /* of values that came from there: all assigns up to this number are in them */
};

struct core_op {
    struct core_op *prev, *next; /* all that are in use; next alone on the free list */
    enum op_kind kind;
    bool done;
    bool owned;             /* the caller has it */
    uint64_t left;          /* queued lanes and unanswered requests */
    uint32_t delay_queries; /* REQUEST_DELAY_QUERY under way for it */
    struct ps_error result;

    size_t n, room; /* variables; room of the three arrays */
    struct core_var **vars;
    const float **grads;            /* of an assign: values */
    float **out;                    /* pull, push and pull */
    bool answered;                  /* some of its requests are */
    struct ps_compress compress;    /* how a push's gradients travel */
    struct core_encoded encoded;    /* a push of what the caller has encoded; zeroed: of gradients */
    bool want;                      /* a push that wants values */
    bool durable;                   /* a push that is done when it is on disk */
    float *copy;                    /* PS_PUSH_COPY */
    uint64_t copy_bytes, copy_size; /* of the gradients; of the memory */
    struct ps_pull_options pull;
    uint64_t newest_assign; /* the newest that is in some value that has come */
    uint64_t with_assign;   /* a pull, or a push's values: no value without the assigns up to this one; */
    bool rereads;           /* some shards are asked for values once more */
    struct op_assign assign;
    bool with_norm; /* a push that gives one */
    double norm;
    bool with_cursor; /* a push or tick that says where its step's data begins and ends */
    struct ps_cursor begins, ends;
    bool at_cursor;        /* a barrier that lies at `ends` of the data, */
    uint32_t again;        /* with so many there before it */
    Psd__Set *set;         /* what a set asks of every shard */
    uint64_t variables;    /* that it changed */
    ProtobufCMessage *ask; /* what an OP_OTHER says to its shard */
    enum msg_type ask_type;
    uint64_t clock;
    uint64_t blocks_transferred;
    uint64_t held_us; /* the longest that a shard kept an answer to a request of it for other workers */

    struct lane *lanes; /* [lanes_n] */
    uint32_t lanes_n, lanes_room;

    enum ps_query query;
    char name[PS_NAME_MAX + 1]; /* of the barrier, the variable to attach to, or the query's job */
    struct core_report_place place;
    uint8_t *answer;
    size_t answer_len;
    char delay_text[OP_DELAY_TEXT_MAX]; /* which workers hold it back, as last reported */
};

/* ---- Starting ---- */

/* Whether operations may start; *e says why not. */
enum ps_err op_may_start(const struct core *c, struct ps_error *e) PS_MUST_USE;

/* The same for those that need variables, and for those that only a worker may start. */
enum ps_err op_may_read(const struct core *c, struct ps_error *e) PS_MUST_USE;
enum ps_err op_may_train(const struct core *c, struct ps_error *e) PS_MUST_USE;

/* A fresh one, in use and held; its lists keep their room. NULL: out of memory. */
struct core_op *op_new(struct core *c, enum op_kind kind);

/* PS_ERR_INVALID: not n variables that are declared, each with a buffer. */
enum ps_err op_check_vars(const char *what, size_t n, struct core_var *const vars[], const void *const buffers[],
                          struct ps_error *e) PS_MUST_USE;

/* Room for n variables and so many lanes. */
enum ps_err op_reserve(struct core_op *op, size_t n, uint32_t lanes) PS_MUST_USE;

/* The next of them, on this shard: nothing is queued or made yet. */
struct lane *op_add_lane(struct core_op *op, uint32_t shard);

/* A start that failed for lack of memory: nothing of it is under way. */
enum ps_err op_undo(struct core *c, struct core_op *op, struct ps_error *e, const char *what);

/* One request on one shard that passes all windows. */
enum ps_err op_start_control(struct core *c, struct core_op *op, uint32_t shard, enum request_kind kind,
                             struct core_var *var) PS_MUST_USE;

/* The same on a lane that it has, without a pump. */
enum ps_err op_ask_on_lane(struct core *c, struct core_op *op, struct lane *lane, enum request_kind kind,
                           struct core_var *var) PS_MUST_USE;

/* Its variables on a shard, as its requests walk them. */
struct block_walk op_walk(const struct core_op *op, uint32_t shard);

/* Let what its lanes have queued or made go, on each shard. */
void op_pump(struct core *c, struct core_op *op);

/* The first answer to an attach says that it is this variable: ask the others of its shards. */
enum ps_err op_attach_others(struct core *c, struct core_op *op, struct core_var *v, uint32_t answered) PS_MUST_USE;

/* ---- Ending ---- */

/* One of its requests was answered. error NULL: well. Ends the operation with its last request, a pull with its first
 * error.
 */
void op_answered(struct core *c, struct core_op *op, struct lane *lane, const struct ps_error *error);

/* What it will end with: the first error, but a drop only when there is no other. PS_OK changes nothing. */
void op_note(struct core_op *op, const struct ps_error *error);

/* STALE, LATE. */
bool op_is_drop(enum ps_err code);

/* End it now with this result; its requests are given up. With PS_ERR_CANCELLED, the code becomes UNKNOWN_OUTCOME when
 * a push of it may have reached its shard. */
void op_give_up(struct core *c, struct core_op *op, const struct ps_error *result);

/* Its requests are given up, and it goes on. True: one of them may be known to its shard. */
bool op_take_back(struct core *c, struct core_op *op);

/* Done with this result. Requests and lanes are the caller's business. */
void op_end(struct core *c, struct core_op *op, const struct ps_error *result);

/* Nobody has it and nothing of it is under way: to the free list. */
void op_recycle_if_over(struct core *c, struct core_op *op);

/* Free what is on the list, and the free list. */
void ops_finish(struct core *c);

#endif
