/* The persisted row of a session, proto/store.proto's SessionRow: written in the transaction of what it tells of, so
 * that after a crash a message that comes again is known for what it was. */
#ifndef SERVER_SESSION_ROW_H
#define SERVER_SESSION_ROW_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "server/core/turn/row.h"

struct shard;
struct session;

enum ps_err session_row_put(struct shard *s, const struct session *session, row_sink sink) PS_MUST_USE;

/* Into the redo log, when there is one: it began or ended. */
void session_row_to_redo(struct shard *s, const struct session *session);

/* All sessions of all jobs, which are there already; their leases begin anew. */
enum ps_err session_row_load(struct shard *s, struct ps_error *e) PS_MUST_USE;

/* This life of the data is another than that in which messages of sessions got their numbers, and all connections are
 * gone. */
void session_row_reboot(struct shard *s);

#endif
