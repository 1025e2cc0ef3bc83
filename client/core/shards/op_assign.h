/* Assigns: values that a worker gives for variables, in all of their blocks or in none (PROTOCOL.md, section 15), and
 * first values along with declarations. Pure.
 *
 * An operation goes through phases. Each asks some shards, and the next begins when all have answered:
 *
 *     QUEUED ─► BEGIN ─► OPEN ─► STAGE ─► PREPARE ─► DECIDE ─► TELL ─► done
 *        │        ▲
 *        │        └─ some shard does not know the attempt any more: begin again ─┐
 *        │                     (any phase up to DECIDE)                          │
 *        └─► DECLARE ─► BEGIN ─► LOOK ─► OPEN ... TELL ─► DECLARE ─► WAIT ─► done
 *               │                  └─ all have values already: they are taken ─► WAIT
 *               └──────── the same ──────────────────────────────────────────────┘
 *
 * The lower line is that of first values: what awaits them is found out by declaring, and once more when no other
 * worker can give them any more; WAIT declares the variables for which this worker has none.
 *
 * A client has one attempt under way; others are QUEUED behind it. An attempt that is given up is abandoned at the
 * shards by requests of the core's own, which outlive lost connections. */
#ifndef CLIENT_CORE_SHARDS_OP_ASSIGN_H
#define CLIENT_CORE_SHARDS_OP_ASSIGN_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"

struct core;
struct core_op;
struct shard_link;
struct lane;
struct request;

enum assign_phase {
    ASSIGN_QUEUED,
    ASSIGN_DECLARE,
    ASSIGN_BEGIN,
    ASSIGN_OPEN,
    ASSIGN_LOOK, /* first values: a shard may have learned with OPEN that another worker's are done */
    ASSIGN_STAGE,
    ASSIGN_PREPARE,
    ASSIGN_DECIDE,
    ASSIGN_TELL,
    ASSIGN_WAIT
};

/* An operation's. */
struct op_assign {
    enum assign_phase phase;
    bool first; /* values of variables that await them */
    bool reset_slots, next_step, nonfinite;
    bool lost;    /* a shard lost data since the attempt began */
    bool again;   /* a shard does not know the attempt any more */
    bool decided; /* shard 0 has answered that it is done */
    uint64_t attempt;
    uint64_t number, committed; /* what shard 0 answered to BEGIN */
    uint64_t clock;             /* the highest that shards answered to BEGIN and OPEN; from PREPARE on: the assign's */
    int *given;                 /* [n], of the caller's: 1 where the values are this operation's; NULL: not wanted */
    struct core_op *next;       /* QUEUED behind this one */
};

/* The core's. */
struct assigns_known {
    uint64_t attempt;        /* of this client's: the last that began */
    uint64_t done, given_up; /* the highest number known to be done; the last one known to be given up */
    uint64_t newest;         /* a number that some shard has come to */
    uint64_t pushed;         /* clock after that of this worker's newest push */
    struct core_op *running; /* not QUEUED; those behind it: assign.next */
};

/* An operation begins, or is QUEUED. */
void op_assign_start(struct core *c, struct core_op *op);

/* It has come to its end: the next may begin. */
void op_assign_over(struct core *c, struct core_op *op);

/* One of them is, error NULL: well. */
void op_assign_note_answer(struct core_op *op, const struct ps_error *error);

/* All requests of its phase are answered: it goes on, or ends with op->result. */
void op_assign_next(struct core *c, struct core_op *op);

/* Whether an error ends it; one that says of a step that it is not on disk does not. And whether one that does not is
 * its result at the end. */
bool op_assign_ends(const struct core_op *op, const struct ps_error *error);
bool op_assign_counts(const struct core_op *op, const struct ps_error *error);

/* It is given up. asked: its phase's request may have reached shard 0. Whether it may be done; and take it back at the
 * shards. */
bool op_assign_unknown(const struct core_op *op, bool asked);
void op_assign_abandon(struct core *c, const struct core_op *op, bool asked);

/* A shard has lost data; and has welcomed this worker again. */
void op_assign_lost(struct core *c);
void op_assign_resume(struct core *c);

/* All operations end, and none begins. */
void op_assign_drop(struct core *c);

/* An answer to a request of an operation, or to one of the core's own. *error is set when it is none of the good ones.
 */
void op_assign_answered(struct core *c, struct shard_link *l, struct request *p, const Psd__Assigned *m,
                        struct ps_error *error);

/* The message of a request, without blocks. */
void op_assign_message(const struct core *c, const struct shard_link *l, const struct request *p, Psd__Assign *m);

/* An assign of this number is known to be done. */
void op_assign_known(struct core *c, uint64_t number);

#endif
