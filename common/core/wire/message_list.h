/* Every message with protobuf metadata, one row each. The tables by message type are made from it: the numbers and the
 * names (here and in wire.c), unpacking and checking (wire.c), its sender and the required role (message.c and
 * permissions.c of server/core/shard), and its answer (client/core/shards/inbox_ask.c). PROTOCOL.md has the same in
 * sections 4 and 14.
 *
 *     X(id, number, name, type, text, payload, request, check, sender, invalid, role, answer)
 *
 *     id       MSG_HELLO
 *     number   on the wire, for good
 *     name     in C: member of struct wire_msg, psd__hello__descriptor, wire_check_hello(), the shard's
 *              message_on_hello()
 *     type     of psd.proto: Psd__Hello
 *     text     in sentences
 *     payload  PAYLOAD: it may have one; BARE
 *     request  REQUEST: its request id is never 0, since it is answered or answers; ANY
 *     check    CHECK: wire_check.c says what is valid; FREE: whatever can be unpacked is
 *     sender   enum message_sender
 *     invalid  what a shard does when the message is not valid or not permitted. ANSWER: it sends an ERROR about the
 *              request and the connection goes on; CLOSE
 *     role     the least that may send it to a shard, one of enum role: READ, TRAIN, ADMIN; NONE: no shard takes it
 *     answer   id of the message that answers it; NONE
 *
 * A row that contradicts itself, a number that is used twice or left out, and a message that no handler or check
 * exists for are errors of the compiler. */
#ifndef COMMON_CORE_WIRE_MESSAGE_LIST_H
#define COMMON_CORE_WIRE_MESSAGE_LIST_H

#include <assert.h>
#include <stdint.h>

/* clang-format off */
#define MESSAGE_LIST(X)                                                                                                                           \
    X(HELLO,            1, hello,           Hello,          "hello",           BARE,    REQUEST, CHECK, NEWCOMER, CLOSE,  READ,  WELCOME)         \
    X(WELCOME,          2, welcome,         Welcome,        "welcome",         BARE,    REQUEST, CHECK, SHARD,    CLOSE,  NONE,  NONE)            \
    X(DECLARE,          3, declare,         Declare,        "declare",         BARE,    REQUEST, CHECK, WORKER,   ANSWER, TRAIN, DECLARED)        \
    X(DECLARED,         4, declared,        Declared,       "declared",        BARE,    REQUEST, CHECK, SHARD,    CLOSE,  NONE,  NONE)            \
    X(PULL,             5, pull,            Pull,           "pull",            BARE,    REQUEST, CHECK, CLIENT,   ANSWER, READ,  DATA)            \
    X(DATA,             6, data,            Data,           "data",            PAYLOAD, REQUEST, CHECK, SHARD,    CLOSE,  NONE,  NONE)            \
    X(PUSH,             7, push,            Push,           "push",            PAYLOAD, REQUEST, CHECK, WORKER,   CLOSE,  TRAIN, ACK)             \
    X(ACK,              8, ack,             Ack,            "ack",             BARE,    ANY,     CHECK, SHARD,    CLOSE,  NONE,  NONE)            \
    X(TICK,             9, tick,            Tick,           "tick",            BARE,    REQUEST, CHECK, WORKER,   CLOSE,  TRAIN, ACK)             \
    X(BARRIER,         10, barrier,         Barrier,        "barrier",         BARE,    REQUEST, CHECK, WORKER,   CLOSE,  TRAIN, ACK)             \
    X(SKIP,            11, skip,            Skip,           "skip",            BARE,    REQUEST, CHECK, WORKER,   CLOSE,  TRAIN, ACK)             \
    X(CANCEL,          12, cancel,          Cancel,         "cancel",          BARE,    ANY,     CHECK, CLIENT,   CLOSE,  READ,  NONE)            \
    X(QUERY,           13, query,           Query,          "query",           BARE,    REQUEST, CHECK, CLIENT,   ANSWER, READ,  REPORT)          \
    X(REPORT,          14, report,          Report,         "report",          BARE,    REQUEST, CHECK, SHARD,    CLOSE,  NONE,  NONE)            \
    X(PING,            15, ping,            Ping,           "ping",            BARE,    REQUEST, FREE,  CLIENT,   ANSWER, READ,  PONG)            \
    X(PONG,            16, pong,            Ping,           "pong",            BARE,    REQUEST, FREE,  SHARD,    CLOSE,  NONE,  NONE)            \
    X(ERROR,           17, error,           Error,          "error",           BARE,    ANY,     CHECK, SHARD,    CLOSE,  NONE,  NONE)            \
    X(EVENT,           18, event,           Event,          "event",           BARE,    ANY,     CHECK, SHARD,    CLOSE,  NONE,  NONE)            \
    X(GOODBYE,         19, goodbye,         Goodbye,        "goodbye",         BARE,    ANY,     FREE,  CLIENT,   CLOSE,  READ,  NONE)            \
    X(SET,             20, set,             Set,            "set",             BARE,    REQUEST, CHECK, CLIENT,   ANSWER, ADMIN, SET_DONE)        \
    X(SET_DONE,        21, set_done,        SetDone,        "set done",        BARE,    REQUEST, FREE,  SHARD,    CLOSE,  NONE,  NONE)            \
    X(DRAIN,           22, drain,           Drain,          "drain",           BARE,    ANY,     FREE,  CLIENT,   CLOSE,  ADMIN, NONE)            \
    X(ATTACH,          23, attach,          Attach,         "attach",          BARE,    REQUEST, CHECK, CLIENT,   ANSWER, READ,  DECLARED)        \
    /* training loops ask for their saves and checkpoints; --checkpoint-root says where */                                                        \
    X(SAVE,            24, save,            Save,           "save",            BARE,    REQUEST, FREE,  CLIENT,   ANSWER, TRAIN, SAVE_DONE)       \
    X(SAVE_DONE,       25, save_done,       SaveDone,       "save done",       BARE,    REQUEST, FREE,  SHARD,    CLOSE,  NONE,  NONE)            \
    X(CHECKPOINT,      26, checkpoint,      Checkpoint,     "checkpoint",      BARE,    REQUEST, CHECK, CLIENT,   ANSWER, TRAIN, CHECKPOINT_DONE) \
    X(CHECKPOINT_DONE, 27, checkpoint_done, CheckpointDone, "checkpoint done", BARE,    REQUEST, CHECK, SHARD,    CLOSE,  NONE,  NONE)            \
    X(RESTORE,         28, restore,         Restore,        "restore",         BARE,    REQUEST, CHECK, OBSERVER, ANSWER, ADMIN, RESTORE_DONE)    \
    X(RESTORE_DONE,    29, restore_done,    RestoreDone,    "restore done",    BARE,    REQUEST, FREE,  SHARD,    CLOSE,  NONE,  NONE)            \
    X(MEET,            30, meet,            Meet,           "meet",            BARE,    REQUEST, CHECK, OBSERVER, ANSWER, TRAIN, MET)             \
    X(MEETING,         31, meeting,         Meeting,        "meeting",         BARE,    REQUEST, FREE,  MEMBER,   CLOSE,  NONE,  NONE)            \
    X(MET,             32, met,             Met,            "met",             BARE,    REQUEST, CHECK, SHARD,    CLOSE,  NONE,  NONE)            \
    X(EVICT,           33, evict,           Evict,          "evict",           BARE,    REQUEST, CHECK, OBSERVER, ANSWER, ADMIN, EVICTED)         \
    X(EVICTED,         34, evicted,         Evicted,        "evicted",         BARE,    REQUEST, CHECK, SHARD,    CLOSE,  NONE,  NONE)            \
    X(DEFINE,          35, define,          Define,         "define",          BARE,    REQUEST, CHECK, WORKER,   ANSWER, TRAIN, DEFINED)         \
    X(DEFINED,         36, defined,         Defined,        "defined",         BARE,    REQUEST, FREE,  SHARD,    CLOSE,  NONE,  NONE)            \
    X(DROP,            37, drop,            Drop,           "drop",            BARE,    REQUEST, CHECK, OBSERVER, ANSWER, ADMIN, DROPPED)         \
    X(DROPPED,         38, dropped,         Dropped,        "dropped",         BARE,    REQUEST, FREE,  SHARD,    CLOSE,  NONE,  NONE)            \
    X(ASSIGN,          39, assign,          Assign,         "assign",          PAYLOAD, REQUEST, CHECK, WORKER,   ANSWER, TRAIN, ASSIGNED)        \
    X(ASSIGNED,        40, assigned,        Assigned,       "assigned",        BARE,    REQUEST, FREE,  SHARD,    CLOSE,  NONE,  NONE)
/* clang-format on */

enum msg_type {
    MSG_NONE = 0,
#define X(id, number, ...) MSG_##id = (number),
    MESSAGE_LIST(X)
#undef X
        MSG_TYPE_MAX, /* of those whose metadata is protobuf */
    /* between the ranks of a group: client/core/group/group_wire.h */
    MSG_GROUP_HELLO = 64,
    MSG_GROUP_WELCOME = 65,
    MSG_GROUP_WORK = 66,
    MSG_GROUP_DATA = 67,
    MSG_GROUP_READY = 68,
    MSG_GROUP_VOTE = 69,
    MSG_GROUP_PING = 70,
    MSG_GROUP_PONG = 71,
    MSG_GROUP_ABORT = 72,
    MSG_GROUP_BYE = 73,
    MSG_GROUP_BELL = 74,
    MSG_GROUP_END,
    /* between connections, before all else: common/core/wire/shm_offer.h */
    MSG_SHARE = 80,
    MSG_SHARED = 81,
    /* the proof of a token, before these: common/core/auth/token_handshake.h */
    MSG_KNOCK = 82,
    MSG_CHALLENGE = 83,
    MSG_PROVE = 84,
    MSG_PROVEN = 85,
    MSG_END
};

/* ---- Values of the columns ---- */

enum message_payload { MESSAGE_BARE, MESSAGE_PAYLOAD };
enum message_request { MESSAGE_ANY, MESSAGE_REQUEST };
enum message_invalid { MESSAGE_CLOSE, MESSAGE_ANSWER };

enum message_sender {
    MESSAGE_NEWCOMER, /* to a shard, before all else */
    MESSAGE_WORKER,   /* to a shard, after its hello */
    MESSAGE_OBSERVER, /* the same */
    MESSAGE_CLIENT,   /* worker or observer */
    MESSAGE_SHARD,    /* to a client */
    MESSAGE_MEMBER    /* a worker of a group to another */
};

/* ---- Checks of the rows ---- */

/* A set of messages, one bit each: a table that is not made from the list compares its own with that of the list. */
#define MESSAGE_BIT(id) (UINT64_C(1) << MSG_##id)

#define MESSAGE_BIT_OF_ANY(id, ...) | MESSAGE_BIT(id)
#define MESSAGES_ALL                (UINT64_C(0) MESSAGE_LIST(MESSAGE_BIT_OF_ANY))

#define MESSAGE_BIT_OF_SHARD(id, number, name, type, text, payload, request, check, sender, ...)                       \
    | (MESSAGE_##sender == MESSAGE_SHARD ? MESSAGE_BIT(id) : 0)
#define MESSAGES_FROM_SHARD (UINT64_C(0) MESSAGE_LIST(MESSAGE_BIT_OF_SHARD))

#define MESSAGE_ONE(...) +1
enum { MESSAGES = 0 MESSAGE_LIST(MESSAGE_ONE) };

static_assert(MSG_TYPE_MAX < 64, "a set of messages has a bit for each");
static_assert(MESSAGES == MSG_TYPE_MAX - 1, "no number is used twice, and the last row has the greatest");
static_assert(MESSAGES_ALL == (UINT64_C(1) << MSG_TYPE_MAX) - 2, "no number is left out");
static_assert(MSG_TYPE_MAX <= MSG_GROUP_HELLO, "messages with protobuf have other numbers than those without");

#endif
