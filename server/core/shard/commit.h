/* The end of a turn: shard_commit() of shard.h, and what follows when it fails.
 *
 *     shard_commit() ──► pulls that became ready, acks ──► the redo log's records, marked rows ──► the store commits
 *                                                                                                       │
 *     actions go out ◄── the next save begins, if one may ◄── redo log and restore are notified ◄───────┤
 *                                                                                                       │ it fails
 *     actions go out ◄── connections that took part are closed ◄── all is read again ◄── actions dropped ◄┘
 *
 * It calls all modules that have something to write, which is why it lies above them. */
#ifndef SERVER_CORE_SHARD_COMMIT_H
#define SERVER_CORE_SHARD_COMMIT_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

struct shard;

/* Read all that is kept in memory from the store again. False: it cannot be read, and the shard stays broken. */
bool shard_reload(struct shard *s, struct ps_error *e);

#endif
