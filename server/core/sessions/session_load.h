/* Sessions made from their rows (session_row.h). */
#ifndef SERVER_CORE_SESSIONS_SESSION_LOAD_H
#define SERVER_CORE_SESSIONS_SESSION_LOAD_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

struct shard;

/* All sessions of all jobs, which are there already; their leases begin again. */
enum ps_err session_load_all(struct shard *s, struct ps_error *e) PS_MUST_USE;

/* This life of the data is another than that in which messages of sessions got their numbers, and all connections are
 * gone. */
void session_load_reboot(struct shard *s);

#endif
