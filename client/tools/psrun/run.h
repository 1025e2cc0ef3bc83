/* Run a plan: start the shards, wait until they listen, start the workers, print what they print, restart those that
 * may be restarted, and make sure that everything ends. Glue over libuv.
 *
 *     RUN_STARTING ──all shards listen──► RUN_WORKING ──all workers ended──► RUN_CLOSING ──shards gone──► RUN_DONE
 *          │                                   │                                 ▲       or released
 *          └─── failure, signal, timeout ──────┴──► RUN_ENDING ──workers gone────┘
 *
 * RUN_ENDING asks the workers to stop, RUN_CLOSING the shards: with TERM, and after the grace with KILL. A second
 * signal kills everything at once. Each process runs under a supervisor (supervisor.h), which ends it when psrun dies;
 * on another machine the supervisor is an agent's (agent.h).
 *
 * In RUN_WORKING a worker that failed, or a shard that ended, may be started again (restart.h): it is waiting until
 * then, which counts as busy. A shard waits held (supervisor.h), so that its data stays. */
#ifndef CLIENT_TOOLS_PSRUN_RUN_H
#define CLIENT_TOOLS_PSRUN_RUN_H

#include "client/tools/psrun/launch_plan.h"

#define RUN_READY_MS 60000 /* every shard must listen by then; on other machines --connect-timeout later */

/* Run to the end; the plan's directories and addresses are filled in here. exe: psrun's own path. Returns the exit
 * status. */
int run_plan(struct launch_plan *plan, const char *exe);

#endif
