/* Messages: every frame that a connection brings, handed to the module that it is for. */
#ifndef SERVER_CORE_SHARD_MESSAGE_H
#define SERVER_CORE_SHARD_MESSAGE_H

#include "server/core/shard/shard.h"

struct connection;
struct event_context;

/* A whole frame on an open connection. SHARD_TURN_FULL: nothing was done, it is to come again in the next turn. */
enum shard_result message_take(struct shard *s, struct connection *c, struct event_context *ctx);

/* Metadata of a connection's first message, the hello, at most. */
#define MESSAGE_META_NEW (16 * KIB)

/* shard_head(). */
enum ps_err message_head(const struct shard *s, uint64_t conn, const struct frame_head *head, enum role role,
                         struct ps_error *e) PS_MUST_USE;

#endif
