/* The messages between ranks of a group, to bytes and back. Pure. PROTOCOL.md, section 11, has the meaning.
 *
 * These frames carry no protobuf: their metadata is a few numbers, little-endian, at fixed places, because a message of
 * 4 KiB takes less time than unpacking one. Decoders check lengths and ranges; what they let pass makes sense by
 * itself, but need not fit what the receiver is doing. */
#ifndef CLIENT_CORE_GROUP_GROUP_WIRE_H
#define CLIENT_CORE_GROUP_GROUP_WIRE_H

#include "client/core/group/group_tag.h"
#include "client/include/psclient/ps_group.h"
#include "common/core/base/base.h"
#include "common/core/wire/frame.h"

#define GROUP_HELLO_NAME_MAX 255 /* bytes of a cluster's or group's name */
#define GROUP_HELLO_FIXED    64  /* bytes before the names */
#define GROUP_HELLO_MAX      (GROUP_HELLO_FIXED + 2 * (GROUP_HELLO_NAME_MAX + 1))
#define GROUP_RULES          1 /* schedules, and what GROUP_WORK holds: ranks with other ones form no group */
#define GROUP_ABORT_TEXT_MAX 480
#define GROUP_ABORT_MAX      (16 + GROUP_ABORT_TEXT_MAX)
#define GROUP_ABORT_NOBODY   UINT32_MAX       /* as the guilty rank: no group has failed, this connection is refused */
#define GROUP_ABORT_SEVERAL  (UINT32_MAX - 1) /* ... it has, and no single rank is guilty: the sentence names them */
#define GROUP_WORK_SIZE      48
#define GROUP_READY_SIZE     8
#define GROUP_PONG_SIZE      8
#define GROUP_HEAD_MAX       (FRAME_HEAD_SIZE + GROUP_WORK_SIZE)

/* Which operation a frame belongs to: the request field. Operations of the group are numbered from 0 in the order in
 * which they were started; sends and receives of a pair each by themselves. */
enum group_lane {
    GROUP_LANE_ALL = 0,    /* an operation of the whole group */
    GROUP_LANE_SEND = 1,   /* of the frame's sender: its k-th send to the receiver */
    GROUP_LANE_RECEIVE = 2 /* ... its k-th receive from the receiver */
};
#define GROUP_LANE_SHIFT 62
#define GROUP_NUMBER_MAX ((UINT64_C(1) << GROUP_LANE_SHIFT) - 1)

static inline uint64_t
group_id(enum group_lane lane, uint64_t number)
{
    return (uint64_t)lane << GROUP_LANE_SHIFT | number;
}

static inline enum group_lane
group_id_lane(uint64_t id)
{
    return (enum group_lane)(id >> GROUP_LANE_SHIFT);
}

/* The same operation as its peer names it: my send is your receive. */
static inline uint64_t
group_id_mirror(uint64_t id)
{
    return group_id_lane(id) == GROUP_LANE_ALL ? id : id ^ (UINT64_C(3) << GROUP_LANE_SHIFT);
}

/* What an operation is: the same on all ranks, or it is a MISMATCH. */
struct group_signature {
    uint64_t count; /* elements */
    uint64_t segment_bytes;
    uint64_t elements; /* of the gradient of a merge; else 0 */
    uint64_t tag;      /* group_tag.h */
    uint32_t root;
    uint8_t op; /* enum plan_op, or one of those below */
    uint8_t dtype, reduce, algorithm;
    uint8_t encoding; /* of a merge: enum ps_compress_kind; else 0 */
};
#define GROUP_OP_MERGE 13 /* parts that are merged where they belong */
#define GROUP_OP_PAIR  15 /* a send and its receive */

bool group_signature_equal(const struct group_signature *a, const struct group_signature *b);

/* "all_reduce of 5 float32, sum" */
void group_signature_text(const struct group_signature *s, char *out, size_t size);

/* How it is cut into messages: "ring in segments of 65536 B"; "" of a pair's. */
void group_signature_cut_text(const struct group_signature *s, char *out, size_t size);

/* GROUP_WORK: the sender has started this operation, and can take its first `ready` messages. */
void group_work_encode(uint64_t id, const struct group_signature *s, uint32_t ready, uint64_t payload_len,
                       uint8_t *out);
enum ps_err group_work_decode(const struct frame_head *head, const void *meta, struct group_signature *s,
                              uint32_t *ready, struct ps_error *e) PS_MUST_USE;

/* GROUP_VOTE has the same metadata; ready means nothing. */
void group_vote_encode(uint64_t id, const struct group_signature *s, uint8_t *out);

/* GROUP_DATA: FRAME_HEAD_SIZE bytes, payload alone. */
void group_data_encode(uint64_t id, uint64_t payload_len, uint8_t *out);

/* GROUP_READY: the first `ready` messages of an operation can be taken. */
void group_ready_encode(uint64_t id, uint32_t ready, uint8_t *out);
enum ps_err group_ready_decode(const struct frame_head *head, const void *meta, uint32_t *ready,
                               struct ps_error *e) PS_MUST_USE;

/* GROUP_PING: the request is its number; GROUP_PONG repeats it, with how many operations of the group were started. */
void group_ping_encode(uint64_t number, uint8_t *out);
void group_pong_encode(uint64_t number, uint64_t started, uint8_t *out);
enum ps_err group_pong_decode(const struct frame_head *head, const void *meta, uint64_t *started,
                              struct ps_error *e) PS_MUST_USE;

/* GROUP_ABORT: why the sender's group failed. Text is cut off at GROUP_ABORT_TEXT_MAX, and decoded clean of control
 * characters. out: FRAME_HEAD_SIZE + GROUP_ABORT_MAX bytes. Returns how many. */
size_t group_abort_encode(enum ps_err code, uint32_t rank, const char *text, uint8_t *out);
enum ps_err group_abort_decode(const struct frame_head *head, const void *meta, enum ps_err *code, uint32_t *rank,
                               char text[GROUP_ABORT_TEXT_MAX + 1], struct ps_error *e) PS_MUST_USE;

/* GROUP_BYE: nothing more comes, and nothing is wrong. */
void group_bye_encode(uint8_t *out);

/* GROUP_HELLO and GROUP_WELCOME. */
struct group_hello {
    uint64_t group, epoch, incarnation;
    uint32_t rank, ranks, to; /* to: the rank that is spoken to */
    uint16_t rules;           /* GROUP_RULES */
    bool shares;              /* it would share memory with ranks of its host */
    /* Memory to be shared: in GROUP_HELLO the offer of a descriptor of that process; in GROUP_WELCOME the same token
     * when it was taken. Token 0: none. */
    uint64_t share_token;
    uint32_t share_pid, share_fd;
    char cluster[GROUP_HELLO_NAME_MAX + 1], name[GROUP_HELLO_NAME_MAX + 1];
};
size_t group_hello_encode(enum msg_type type, const struct group_hello *h, uint8_t *out); /* GROUP_HELLO_MAX + head */
enum ps_err group_hello_decode(const struct frame_head *head, const void *meta, struct group_hello *h,
                               struct ps_error *e) PS_MUST_USE;

#endif
