/* Pushes: everything about a frame is checked before anything is touched; then it is applied block by block, or joins
 * the gathers of its step. */
#ifndef SERVER_PUSH_H
#define SERVER_PUSH_H

#include "common/base.h"
#include "common/ps_err.h"
#include "common/wire.h"
#include "shard.h"

struct shard;
struct connection;
struct session;

enum shard_result push_take(struct shard *s, struct connection *c, const struct wire_msg *msg, const float *payload);

#endif
