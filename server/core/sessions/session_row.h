/* The persisted row of a session, proto/store.proto's SessionRow: written in the transaction of the events that it
 * records, so that after a crash a message that comes again is known for what it was. Loaded by session_load.c. */
#ifndef SERVER_CORE_SESSIONS_SESSION_ROW_H
#define SERVER_CORE_SESSIONS_SESSION_ROW_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "server/core/turn/row.h"

struct shard;
struct session;

struct session_key {
    uint32_t job, task; /* big-endian */
};

enum ps_err session_row_put(struct shard *s, const struct session *session, row_sink sink) PS_MUST_USE;

/* That of a dropped job's worker, within the turn's transaction. PS_ERR_NOT_FOUND. */
enum ps_err session_row_erase(struct shard *s, uint32_t job_id, uint32_t task) PS_MUST_USE;

/* Into the redo log, when there is one: it began or ended. */
void session_row_to_redo(struct shard *s, const struct session *session);

#endif
