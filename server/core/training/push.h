/* Pushes: everything about a frame is checked before anything is touched; then it is applied block by block, or joins
 * the sync steps of its step. */
#ifndef SERVER_CORE_TRAINING_PUSH_H
#define SERVER_CORE_TRAINING_PUSH_H

#include "common/core/base/base.h"
#include "common/core/wire/wire.h"
#include "common/include/psclient/ps_err.h"
#include "server/core/turn/shard_types.h"

struct shard;
struct block_ref;
struct connection;
struct event_context;
struct session;

/* ---- Scale: push_scale.c ---- */

/* Updates that the block took since gradient i of the push was computed. */
uint64_t push_age(const struct block_ref *ref, const Psd__Push *m, size_t i);

/* What gradient i of the push is multiplied by, for its age and its norm; negative: too old, it is left out. A push
 * that passed push_take()'s checks has a norm when the variable wants one. */
float push_scale(const struct block_ref *ref, const Psd__Push *m, size_t i);

/* ---- push_check.c ---- */

/* Whether it may be applied. Leaves its blocks and its gradients in the context; these are decoded if they were
 * encoded. *room: what was there, and bytes of values that may have to be written. A single block of async or ssp may
 * be left for the kernel to look for values that are no numbers. */
enum ps_err push_check(struct shard *s, struct event_context *ctx, const struct session *session,
                       const struct wire_msg *msg, uint64_t *room, struct ps_error *e) PS_MUST_USE;

/* Whether the redo log takes it, when it is durable; and room for its record, or that of a step that it may close. */
enum ps_err push_check_durable(struct shard *s, const struct event_context *ctx, const struct session *session,
                               const struct wire_msg *msg, uint64_t *room, struct ps_error *e) PS_MUST_USE;

/* ---- push_decode.c ---- */

/* The payload as gradients in the context, whose blocks are found. bytes: theirs as float32. in_passing: float16 need
 * not be decoded before its update, and may be left as it came. PS_ERR_SHAPE: the payload has another length;
 * UNSUPPORTED: an encoding that is not known; INVALID: not what an encoder makes; LIMIT: float32 would not fit into one
 * frame, so few bytes cannot make the shard work for long; NOMEM. */
enum ps_err push_decode(const struct shard *s, struct event_context *ctx, const struct wire_msg *msg,
                        const void *payload, uint64_t bytes, bool in_passing, struct ps_error *e) PS_MUST_USE;

/* ---- push.c ---- */

enum shard_result push_take(struct shard *s, struct connection *c, const struct wire_msg *msg,
                            struct event_context *ctx);

#endif
