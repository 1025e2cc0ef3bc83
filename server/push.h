/* Pushes: everything about a frame is checked before anything is touched; then it is applied block by block, or joins
 * the gathers of its step. */
#ifndef SERVER_PUSH_H
#define SERVER_PUSH_H

#include "common/base.h"
#include "common/ps_err.h"
#include "common/wire.h"
#include "shard.h"

struct shard;
struct block_ref;
struct connection;
struct session;

/* Updates that the block took since gradient i of the push was computed. */
uint64_t push_age(const struct block_ref *ref, const Psd__Push *m, size_t i);

/* What gradient i of the push is multiplied by, for its age and its norm; negative: too old, it is left out. A push
 * that passed push_take()'s checks has a norm when the variable wants one. */
float push_scale(const struct block_ref *ref, const Psd__Push *m, size_t i);

enum shard_result push_take(struct shard *s, struct connection *c, const struct wire_msg *msg, const float *payload);

#endif
