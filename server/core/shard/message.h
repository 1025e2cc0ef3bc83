/* Messages: every frame that a connection brings, handed to the room that it is for. */
#ifndef SERVER_MESSAGE_H
#define SERVER_MESSAGE_H

#include "server/core/shard/shard.h"

struct connection;

/* A whole frame on an open connection. SHARD_TURN_FULL: nothing was done, it is to come again in the next turn. */
enum shard_result message_take(struct shard *s, struct connection *c, const struct shard_event *event);

#endif
