/* Outgoing actions. They gather during a turn and are handed out after its commit; a turn that failed drops its own.
 * Acks are batched: one frame per connection and turn. */
#ifndef SERVER_CORE_TURN_ACTIONS_H
#define SERVER_CORE_TURN_ACTIONS_H

#include "common/core/base/base.h"
#include "common/core/wire/frame.h"
#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"
#include "server/core/turn/shard_types.h"

struct connection;
struct job;

/* Sequences in one ACK frame: at ten bytes each they take less than half of FRAME_META_MAX; texts and codes per block
 * share the rest. */
#define ACTIONS_ACK_MAX       8192
#define ACTIONS_ACK_EXTRA_MAX (96 * KIB)

struct ack {
    uint64_t seq;
    uint32_t code;
    uint32_t next;      /* of the same connection, as index + 1, or 0 */
    uint32_t codes_len; /* per block, when they differ */
    uint32_t *codes;
    char *text; /* or NULL */
};

struct ack_frame;

struct actions {
    struct shard_action *queue;
    size_t first, ready, len, size; /* [first, ready) may be handed out, [ready, len) are this turn's */
    uint64_t bytes;                 /* of this turn's answers */
    struct ack *acks;
    size_t acks_len, acks_size;
    struct connection *acking;
    struct ack_frame *frame; /* to make ACK frames in */
};

void actions_send(struct shard *s, struct connection *c, enum msg_type type, uint64_t request,
                  const ProtobufCMessage *message);

/* The same of a frame that is made already; bytes are the action's then. */
void actions_frame(struct shard *s, struct connection *c, uint8_t *bytes, size_t len);
void actions_error(struct shard *s, struct connection *c, uint64_t request, enum ps_err code, const char *text);

/* data is the action's then. */
void actions_data(struct shard *s, struct connection *c, struct shard_data *data);
void actions_close(struct shard *s, uint64_t conn);
void actions_log(struct shard *s, enum shard_log_level level, const char *format, ...) PS_PRINTF(3, 4);
void actions_draining(struct shard *s);
void actions_stopped(struct shard *s);
void actions_redo(struct shard *s, uint64_t number);
void actions_restore(struct shard *s, const struct connection *c, uint64_t request, const Psd__Restore *m);

/* False: out of memory, and nothing will come out. save is the action's then, in any case. */
bool actions_save(struct shard *s, enum shard_action_kind kind, struct shard_save *save) PS_MUST_USE;

/* An event to all connected workers of a job but one; job NULL: to all connections. */
void actions_event(struct shard *s, struct job *job, const struct connection *but, Psd__EventKind kind, uint32_t task,
                   const char *text);

/* The outcome of a sequenced message. codes: [n], copied, or NULL; text: copied, or NULL. */
void actions_ack(struct shard *s, struct connection *c, uint64_t seq, enum ps_err code, const uint32_t *codes,
                 uint32_t n, const char *text);

/* Make a connection's acks a frame now; its next one begins a new frame. */
void actions_flush_acks(struct shard *s, struct connection *c);

/* The turn ends: make all acks frames. */
void actions_flush(struct shard *s);

/* The turn is committed: its actions may be handed out. */
void actions_hand_out(struct shard *s);

/* The turn failed: its actions are gone. */
void actions_drop(struct shard *s);

/* Make room for the CLOSE of so many connections and a few more actions, which a turn that fails for want of memory
 * must be able to hand out. */
bool actions_room(struct shard *s, uint64_t connections) PS_MUST_USE;

bool actions_next(struct shard *s, struct shard_action *out);
void actions_finish(struct shard *s);

#endif
