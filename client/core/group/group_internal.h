/* What the modules of a group's core share.
 *
 *     group_core.c        its life; starting an operation; frames handed on
 *     group_send.c        frames out, until the links have taken them
 *     group_work_table.c  operations: their memory, by number, until nobody needs them
 *     group_work_run.c    carrying out steps: what is ready, what came in
 *     group_mean.c        means of integers
 *     group_out.c         what goes out of it, and when
 *     group_fail.c        which rank is guilty, and notifying the others: ends, aborts, deadlines
 *     group_vote.c        which rank started something else
 *     group_vote_text.c   what each rank started, as a sentence */
#ifndef CLIENT_CORE_GROUP_GROUP_INTERNAL_H
#define CLIENT_CORE_GROUP_GROUP_INTERNAL_H

#include "client/core/group/group_core.h"
#include "client/core/group/group_early_messages.h"
#include "client/core/plan/plan_schedule.h"

#define GROUP_HASH    1024 /* buckets of works by id */
#define GROUP_HISTORY 512  /* operations whose signature is remembered; more than GROUP_AHEAD_WORKS */
#define GROUP_READY_LOW                                                                                                \
    4 /* GROUP_READY goes out when the peer has no more than this many messages left that it may send */

/* One work's traffic with one peer. */
struct group_side {
    uint32_t sent;          /* messages handed out */
    uint32_t asked;         /* messages that the peer can take, as it said */
    uint32_t received;      /* messages that were taken */
    uint32_t ready;         /* messages that can be taken, in order */
    uint32_t ready_sent;    /* ... as the peer knows */
    bool announced;         /* GROUP_WORK went out, */
    bool peer_announced;    /* came in */
    bool marked;            /* is in marks[] */
    struct group_kept kept; /* came before its step was ready */
};

struct group_work {
    struct group_core *core;
    uint64_t id;
    struct group_signature signature;
    struct plan_schedule *schedule;
    uint8_t *buffer[3]; /* by enum plan_buffer */
    enum ps_dtype dtype;
    enum ps_reduce reduce;
    uint32_t size;                           /* bytes of an element of the plan */
    uint32_t lanes;                          /* of the type, in one of those: 2 for the parts of a mean, else 1 */
    uint32_t (*merge)(void *arg, size_t at); /* group_request */
    void *merge_arg;
    uint64_t start_ms, deadline_ms;
    uint32_t pings;
    uint32_t left;    /* steps that are not done */
    uint32_t outs;    /* frames with the caller's memory that links have */
    uint32_t lacking; /* peers that have not yet asked for all that is sent to them */
    uint32_t unheard; /* peers that have not announced it */
    uint32_t stack_len, marks_len;
    bool done, freed, disputed;
    enum ps_err result;
    struct {
        void *parts; /* NULL: it has none. mean_parts.h, of all elements: the plan's buffers */
        void *out;   /* the caller's: [len] elements, from `at` on of the whole */
        size_t at, len;
    } mean;
    struct group_work *hash_next;
    struct group_work *prev, *next; /* core->running or ->ended, in the order of starting */

    struct group_side *sides; /* [schedule->peers_len] */
    uint8_t *needs;           /* [steps] */
    uint32_t *stack;          /* [steps]: local steps that are ready */
    uint16_t *marks;          /* [peers_len]: sides to look at */
};

struct group_peer {
    uint32_t rank;
    bool bye;                      /* it has closed, and nothing was wrong */
    bool stalled;                  /* some work may not send to it for now */
    uint32_t unmatched;            /* works announced to it that it has not announced itself */
    uint64_t ahead;                /* bytes sent that it has not asked for */
    uint64_t queued;               /* bytes that its link has */
    uint64_t kept;                 /* bytes kept of it */
    struct group_early_list early; /* operations that it started and we have not, in their order */
    uint64_t sends, receives;      /* of the pair's own operations, started here */
    uint32_t ponged;               /* the last ping that it answered */
    uint64_t started;              /* operations of the group that it had started then */
    struct frame_part place[2];
    uint8_t sink[4];                /* where the bytes go that make a payload a multiple of 4 */
    struct group_send *final_frame; /* ABORT or BYE: there in any case */
};

/* What a rank started under the number that is in dispute. */
struct group_vote {
    bool known;
    struct group_signature signature;
};

struct group_dispute {
    bool active;
    bool voted; /* all others know our own */
    uint64_t id, due_ms;
    struct group_vote *votes; /* [ranks], made when first needed */
};

struct group_core {
    struct group_core_config config; /* host and names are copies */
    struct plan_cache schedules;
    struct group_peer *peers; /* [ranks]; that of this rank is not used */
    uint64_t started;         /* operations of the group: the next one's number */
    struct group_signature history[GROUP_HISTORY];
    uint32_t works; /* that their owners have not freed */
    struct group_work *running, *running_last, *ended;
    struct group_work *hash[GROUP_HASH];
    struct group_dispute dispute;
    uint32_t byes;
    uint32_t ping_round;
    uint64_t changes;
    uint64_t now_ms;

    bool failed, cut, leaving;
    struct ps_error error;
    uint32_t guilty;
    uint8_t final_frame[FRAME_HEAD_SIZE + GROUP_ABORT_MAX];
    size_t final_frame_len;

    struct group_send *queue, **queue_end; /* to be handed out */
    struct group_send *free_sends;
};

static inline uint8_t *
group_buffer_at(const struct group_work *w, enum plan_buffer buffer, size_t offset)
{
    return offset == 0 ? w->buffer[buffer] : w->buffer[buffer] + offset * w->size; /* one of no bytes may be NULL */
}

static inline uint64_t
group_step_bytes(const struct group_work *w, uint32_t step)
{
    return (uint64_t)w->schedule->plan.step[step].len * w->size;
}

/* What a message counts in GROUP_AHEAD_BYTES: it takes a little room even when it is empty. */
static inline uint64_t
group_message_cost(uint64_t bytes)
{
    return round_up(bytes, 4) + GROUP_MESSAGE_COST;
}

/* ---- group_send.c ---- */

/* An own one, or NULL when out of memory: then the group has failed. */
struct group_send *group_send_new(struct group_core *c, uint32_t to);
void group_send_queue(struct group_core *c, struct group_send *s);

void group_sends_drop(struct group_core *c); /* that no link has yet */
void group_sends_free(struct group_core *c); /* all of them: no link has any */

/* ---- group_work_table.c ---- */

/* Memory for one by this schedule, zeroed where it must be, with its scratch. NULL: out of memory. */
struct group_work *group_work_new(struct group_core *c, struct plan_schedule *a);

/* Give its memory back, and its reference to the schedule: nobody finds it, or ever has. */
void group_work_drop(struct group_core *c, struct group_work *w);

/* It has its number: it is found by it, and runs. */
void group_work_link(struct group_core *c, struct group_work *w);

/* The work of this number; of a pair's lane: with this rank. NULL: it is not there (yet, or any more). */
struct group_work *group_find(const struct group_core *c, uint64_t id, uint32_t rank);

/* Ends with this result, if it has none. */
void group_work_end(struct group_core *c, struct group_work *w, enum ps_err result);

/* Give back what nobody needs any more. */
void group_work_settle(struct group_core *c, struct group_work *w);
void group_works_free(struct group_core *c); /* all of them, in any case */

/* ---- group_mean.c ---- */

/* Whether what is asked for is a mean of integers, which is carried out as the sum of their parts. */
bool group_mean_has_parts(const struct group_core *c, const struct group_request *ask);

/* Makes the parts of the caller's elements: the plan's buffers. False: no memory. */
bool group_mean_begin(struct group_work *w, const struct group_request *ask) PS_MUST_USE;

/* All parts are added up: the caller gets the means. */
void group_mean_end(struct group_work *w);

/* ---- group_work_run.c ---- */

/* It has been linked and hashed: tell the peers, take what came early, and do what can be done. */
void group_work_begin(struct group_core *c, struct group_work *w);

/* Message of a started work; payload NULL when it was placed or is empty. */
void group_work_message(struct group_core *c, struct group_work *w, struct group_peer *p, uint64_t payload_len,
                        const void *payload);

/* A small message that nothing can take yet is kept; one that may not come now fails the group. */
void group_keep_message(struct group_core *c, struct group_peer *p, struct group_kept *held, uint64_t bytes,
                        const void *payload);
void group_work_announced(struct group_core *c, struct group_work *w, struct group_peer *p,
                          const struct group_signature *s, uint32_t ready);
void group_work_wake(struct group_core *c, struct group_work *w, struct group_peer *p); /* after what it said */
void group_work_ready_received(struct group_core *c, struct group_work *w, struct group_peer *p, uint32_t ready);
void group_work_sent(struct group_core *c, struct group_work *w, const struct group_send *s);

/* Works that could not send to this peer go on. */
void group_peer_unstall(struct group_core *c, struct group_peer *p);

/* ---- group_out.c ---- */

/* Send all that can be sent to side k now; p is that peer. */
void group_work_flush_peer(struct group_core *c, struct group_work *w, uint32_t k, struct group_peer *p);

/* ---- group_fail.c ---- */

/* The group fails, if it has not yet: *e with a code and a sentence. */
void group_fail(struct group_core *c, uint32_t guilty, const struct ps_error *e);
#define group_fail_with(c, guilty, code, ...)                                                                          \
    do {                                                                                                               \
        struct ps_error fail_error;                                                                                    \
        ps_error_set(&fail_error, (code), __VA_ARGS__);                                                                \
        group_fail((c), (guilty), &fail_error);                                                                        \
    } while (0)

void group_abort_received(struct group_core *c, struct group_peer *p, const struct frame_head *head, const void *meta);
void group_check_byes(struct group_core *c, const struct group_work *w); /* does it need a rank that has closed? */
void group_bye_received(struct group_core *c, struct group_peer *p);
void group_pong_received(struct group_core *c, struct group_peer *p, const struct frame_head *head, const void *meta);

/* ---- group_vote.c ---- */

/* p has started something else under this number than this rank (own). */
void group_vote_mismatch(struct group_core *c, struct group_peer *p, uint64_t id, const struct group_signature *theirs);
void group_vote_received(struct group_core *c, struct group_peer *p, uint64_t id, const struct group_signature *theirs);
void group_vote_started(struct group_core *c, uint64_t id); /* this rank starts it now */
void group_vote_time(struct group_core *c);

/* What this rank started under a number of the whole group's; NULL: nothing, or too long ago. */
const struct group_signature *group_own_signature(const struct group_core *c, uint64_t id);

/* ---- group_vote_text.c ---- */

/* "operation 4: ranks 0 and 2 started broadcast of 4 float32 from rank 0, rank 1 started broadcast of 4 float32 from
 * rank 1". */
void group_vote_text(const struct group_vote *votes, uint32_t ranks, uint64_t id, char *out, size_t size);

/* The same of a message between two: "message 0 from rank 0 to rank 1: 10 int32 are sent, 11 int32 received". */
void group_vote_pair_text(uint32_t from, const struct group_signature *sent, uint32_t to,
                          const struct group_signature *received, uint64_t id, char *out, size_t size);

#endif
