/* The log's lines about administrators: who asked for what, before it is done. */
#ifndef SERVER_CORE_SHARD_AUDIT_H
#define SERVER_CORE_SHARD_AUDIT_H

#include "common/core/wire/wire.h"

struct shard;
struct connection;

/* For each message that takes role admin a line: "audit set token=alice peer=10.0.0.7:41522 job="digits" workers=4",
 * with all texts and numbers that the message has; other messages have none. token: the name of the one that the
 * connection proved; NULL or "": none ("-"). What the peer chose itself comes last. */
void audit_asked(struct shard *s, const struct connection *c, const struct wire_msg *msg, const char *token);

#endif
