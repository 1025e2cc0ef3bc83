/* One epoch of a group, as one of its ranks sees it: operations are started, frames come in, frames go out. Pure: no
 * sockets, no threads; time is an argument.
 *
 *     group_core_new(&config, &core, &e);
 *     group_core_start(core, &ask, now, &work, &e);         // an operation of the caller's
 *     group_core_payload_dest(), group_core_frame()         // what another rank sent
 *     group_core_sent(core, send, result)                   // a frame of ours was taken by the link
 *     group_core_ended(core, rank, &why, now)               // another rank's link has ended
 *     group_core_time(core, now)                            // now and then, at group_core_next_time() at the latest
 *     while (group_core_next_action(core, &action)) ...     // after each of these, until it says that there is none
 *
 * An operation is carried out by its schedule: the steps of this rank, each of which waits for some before it. To every
 * rank that it exchanges messages with, the first frame of an operation is GROUP_WORK: what is being done, and how many
 * of the operation's messages can be taken at once. Then GROUP_DATA: messages, in the order of the plan; no numbers are
 * needed, since both sides have the same list of them.
 *
 *           all steps done, all peers have announced it         and all that the peers lack of it was asked for
 *     RUNNING ──────────────────────────► DONE (the caller is told) ───────────────────────────► gone
 *        │ the group fails                    ▲
 *        └────────────────────────────────────┘ with the group's error
 *
 * An operation that ended well on one rank was started alike by all. A message of a peer is taken only behind its
 * GROUP_WORK, which says that it does the same by the same plan, so that its own messages came from ranks that do; and
 * by plan.h no plan ends before all ranks have begun theirs: each has exchanged messages with ranks that have exchanged
 * messages with all others. So ranks that differ in an operation get MISMATCH from that operation, all of them,
 * whatever its size and its root. A send ends well when the other rank has started the receive.
 *
 * When a rank may send. A message that is larger than GROUP_EAGER_MAX goes only once the receiver has said, in
 * GROUP_WORK or later in GROUP_READY, that its step can run: it knows its plan, and says so ahead of time. So a large
 * message finds its place in the caller's memory, or is reduced out of the buffer that it was read into, the moment it
 * arrives: it is never kept. Small ones may go before, up to GROUP_AHEAD_BYTES that were not asked for and
 * GROUP_AHEAD_WORKS operations that the receiver has not started; the receiver keeps copies, and what is past these
 * limits breaks the protocol. So
 *
 * - a connection is always read: there is no message that must wait in it, before others that could go on. Two
 *   operations that need each other's connections can therefore not hold each other up, whatever their order;
 * - memory is bounded: GROUP_AHEAD_BYTES for each other rank, whatever it sends;
 * - an operation ends if its plan ends when every SEND waits for the step that takes it
 *   (tests/unit/client/core/plan/test_plan_run.c shows that for all plans) and all ranks have started it.
 *
 * Failure is of the whole group. The first rank that has evidence (an end without goodbye, bytes that make no sense,
 * another operation under the same number, a deadline) drops what is queued and sends GROUP_ABORT with the guilty rank
 * to all; a rank that receives it passes it on once. What has been decided stays: an end that is seen after it changes
 * nothing.
 *
 * - MISMATCH: two ranks cannot know which of them is wrong, so all vote (GROUP_VOTE: what I started under this number);
 *   a rank that differs from what more than half of all ranks started is guilty. Without such a majority, and of a
 *   send and its receive, no rank is (GROUP_ABORT_SEVERAL, and no peer in the error). The sentence says what each
 *   started.
 * - TIMEOUT: at 1/2 and 3/4 of a time-out all ranks are asked whether they live (GROUP_PING). At its end the guilty one
 *   is the rank that has not answered for the longest time; else one that has not started the operation; else one that
 *   is waited for.
 *
 * Ownership: buffers of an operation are borrowed until it is done, and to the core's knowledge nobody reads or writes
 * them after that: group_core_sent() has come for all that it handed out, or GROUP_CUT was carried out. */
#ifndef CLIENT_CORE_GROUP_GROUP_CORE_H
#define CLIENT_CORE_GROUP_GROUP_CORE_H

#include "client/core/group/group_request.h"
#include "client/core/group/group_wire.h"
#include "client/include/psclient/ps_group.h"
#include "common/core/base/base.h"
#include "common/core/wire/frame.h"

/* Bytes of a message that goes without being asked for ("eager"). */
#define GROUP_EAGER_MAX (16 * KIB)

/* Bytes of eager messages from one rank to another that the other has not asked for. Each counts with its own bytes,
 * rounded up to 4, and GROUP_MESSAGE_COST more. */
#define GROUP_AHEAD_BYTES  (256 * KIB)
#define GROUP_MESSAGE_COST 32

/* Operations that one rank announces to another before that one has started them. */
#define GROUP_AHEAD_WORKS 256

/* Bytes that a link has at once: no more, so that an earlier operation can go first. */
#define GROUP_QUEUED_MAX (4 * MIB)

/* How long the votes of a MISMATCH are waited for. */
#define GROUP_VOTE_MS 2000

struct group_core;
struct group_work;

struct group_core_config {
    uint32_t ranks, rank;
    const uint32_t *host;     /* [ranks], copied: equal numbers are one machine */
    const char *const *names; /* [ranks], copied: "rank 2 at 127.0.0.1:4000" */
    uint32_t timeout_ms;      /* of an operation */
    enum ps_algorithm algorithm;
    size_t segment_bytes;
    bool shared_memory;
    size_t send_room; /* bytes for the glue behind each struct group_send */
};

/* PS_ERR_NOMEM, PS_ERR_INVALID (ranks). */
enum ps_err group_core_new(const struct group_core_config *config, struct group_core **out,
                           struct ps_error *e) PS_MUST_USE;

/* The ranks do not share memory after all: before the first operation. */
void group_core_without_memory(struct group_core *c);

/* No link has anything of it any more. Works that were not freed are. Accepts NULL. */
void group_core_free(struct group_core *c);

/* ---- Operations ---- */

/* Errors: INVALID (an argument), LIMIT, NOMEM; or why the group has failed. Nothing was started then. */
enum ps_err group_core_start(struct group_core *c, const struct group_request *ask, uint64_t now_ms,
                             struct group_work **out, struct ps_error *e) PS_MUST_USE;

bool group_work_done(const struct group_work *w);

/* Of one that is done. */
enum ps_err group_work_result(const struct group_core *c, const struct group_work *w, struct ps_error *e) PS_MUST_USE;

/* It is done, and its owner needs it no more. */
void group_work_free(struct group_core *c, struct group_work *w);

/* ---- What happens ---- */

/* A frame with a payload has begun: where its payload goes. *n parts, valid until the frame is whole; 0: it is lent. */
void group_core_payload_dest(struct group_core *c, uint32_t from, const struct frame_head *head,
                             const struct frame_part **parts, size_t *n);

/* A whole frame; payload is NULL when there is none or it was placed. */
void group_core_frame(struct group_core *c, uint32_t from, const struct frame_head *head, const void *meta,
                      const void *payload, uint64_t now_ms);

void group_core_ended(struct group_core *c, uint32_t from, const struct ps_error *why, uint64_t now_ms);

void group_core_time(struct group_core *c, uint64_t now_ms);
uint64_t group_core_next_time(const struct group_core *c); /* UINT64_MAX: none */

/* The group fails for a reason of the caller's: this rank cannot go on, or another one did not come. guilty: a rank, or
 * GROUP_ABORT_SEVERAL. */
void group_core_blame(struct group_core *c, uint32_t guilty, const struct ps_error *why);

/* Nothing more is started: tell the others. Works that are not done end with CANCELLED, and so does the group for the
 * others then. */
void group_core_goodbye(struct group_core *c);

/* PS_OK, or why the group has failed. e may be NULL. */
enum ps_err group_core_state(const struct group_core *c, struct ps_error *e);
uint32_t group_core_guilty(const struct group_core *c); /* of one that has failed: a rank, or GROUP_ABORT_SEVERAL */

/* Whether something from this rank would let an operation that was started go on. A poller looks there first; all else
 * that comes is early. */
bool group_core_awaits(const struct group_core *c, uint32_t rank);

/* Counts works that are done and failures: a waiter looks again when it has changed. */
uint64_t group_core_changes(const struct group_core *c);

/* ---- What is to be done ---- */

/* A frame to be sent; given back with group_core_sent(). */
struct group_send {
    uint32_t to;
    const uint8_t *head;
    size_t head_len;
    struct span parts[2];
    size_t parts_len;

    /* private */
    struct group_work *work; /* NULL: belongs to none */
    uint32_t step;
    uint64_t bytes;
    struct group_send *next;
    bool own; /* of a peer, not of the list of free ones */
    uint8_t room[GROUP_HEAD_MAX];
};

/* send_room bytes, aligned to 16. */
static inline void *
group_send_user_data(struct group_send *s)
{
    return (uint8_t *)s + round_up(sizeof *s, 16);
}

enum group_action_kind {
    GROUP_SEND, /* hand it to the link of send->to */
    GROUP_CUT   /* cut() every link */
};

struct group_action {
    enum group_action_kind kind;
    struct group_send *send;
};

bool group_core_next_action(struct group_core *c, struct group_action *out);
void group_core_sent(struct group_core *c, struct group_send *s, enum ps_err result);

/* How an all-reduce would be carried out; heap, NULL when out of memory. */
char *group_core_explain(struct group_core *c, size_t count, enum ps_dtype dtype);

#endif
