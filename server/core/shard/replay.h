/* Replaying the redo log over the save before it: shard_replay_piece() and shard_replay_end() of shard.h.
 *
 *     pieces ──► a whole record ──► rows ──► updates, with the scale and the clock that they had ──► pushes: their
 *     sessions' counts, clocks and survivors (resolved_set.h)
 *
 * It writes through turns as events do, and commits when one is full. Rows go to the store as they are, and before the
 * next update all is loaded again from there. Any damage of the log is an error with a sentence; then the store holds a
 * part of it and is to be thrown away. */
#ifndef SERVER_CORE_SHARD_REPLAY_H
#define SERVER_CORE_SHARD_REPLAY_H

#include "common/core/base/base.h"

/* A record is made in one turn, and so are its blocks. */
#define REPLAY_RECORD_MAX (64 * MIB)

struct replay;

void replay_free(struct replay *r); /* accepts NULL */

#endif
