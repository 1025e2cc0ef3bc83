/* What this worker trains, as it says to shard 0, which compares it with what the others say. Pure.
 *
 *     core_define() ──► DEFINE ──► DEFINED: agreed, and kept, to be said again
 *                          └─────► ERROR(MISMATCH): the operation's result
 *
 * A new session is told again (core_rejoin(), a shard that lost its data): then a refusal is final. Where DEFINED names
 * a later round than the welcome did, this worker has begun one, and its data begins with it.
 *
 * A shard of an older version is not told. */
#ifndef CLIENT_CORE_SHARDS_DEFINITION_H
#define CLIENT_CORE_SHARDS_DEFINITION_H

#include "common/core/base/base.h"
#include "common/core/wire/wire.h"
#include "common/include/psclient/ps_err.h"

struct core;
struct shard_link;

/* A value as it travels: one that is longer than WIRE_FIELD_VALUE_MAX is its beginning and a hash of all of it. */
void definition_shorten(const char *value, char out[WIRE_FIELD_VALUE_MAX + 1]);

/* The shard has made a new session for this incarnation, or lost what it knew: tell it again, before anything else. */
enum ps_err definition_again(struct core *c, struct shard_link *l) PS_MUST_USE;

/* DEFINED is in l->msg. */
void definition_taken(struct core *c, struct shard_link *l);

#endif
