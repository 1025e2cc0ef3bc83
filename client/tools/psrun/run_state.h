/* What run.c, run_dirs.c and run_processes.c share: the state of a run. */
#ifndef CLIENT_TOOLS_PSRUN_RUN_STATE_H
#define CLIENT_TOOLS_PSRUN_RUN_STATE_H

#include "client/tools/psrun/launch_plan.h"
#include "client/tools/psrun/process.h"
#include "client/tools/psrun/restart.h"
#include "client/tools/shared/screen.h"

#define STATUS_NOT_STARTED 1
#define STATUS_LATE        124 /* as timeout(1) */

enum run_state { RUN_STARTING, RUN_WORKING, RUN_ENDING, RUN_CLOSING, RUN_DONE };

/* A shard or a worker, over all its starts. */
struct run_process {
    struct process process;
    const struct assigned_task *task;
    struct restart restart;
    uint64_t due_ms; /* when it is started again */
    bool waiting;    /* for that */
    bool queued;     /* until others have been connected to */
    bool reached;    /* a worker has run, a shard has listened */
};

struct psrun_run {
    struct launch_plan *plan;
    const char *exe;
    uv_loop_t loop;
    uv_async_t wake; /* a signal came */
    uv_timer_t ready, grace, timeout, again;
    struct screen screen;
    struct screen_tag tag;
    enum run_state state;
    struct run_process *processes; /* shards, then workers */
    uint32_t shards, workers;      /* that this run starts: no shards when they run already */
    uint32_t queued;
    int *port_fds;    /* [workers] hold the ports of those without a host */
    bool interrupted; /* by a signal, the timeout or a closed output: nothing is kept */
    bool failed, releasing;
    int signals_seen, status;
    char *printed, *cause; /* the newest line of psrun's own; the one that was it at the first failure, or NULL */
    bool cause_buried;     /* others have printed since */
    char dir[64], remote_dir[160];
    char *buffer;
};

/* ---- run.c ---- */

void run_print(struct psrun_run *r, const char *format, ...) PS_PRINTF(2, 3);

/* The first failure decides the exit status; the run then goes towards its end. */
void run_fail(struct psrun_run *r, int status);

/* ---- run_dirs.c ---- */

/* Reserve ports, make the directory; and remove what the supervisors have not: what belonged to shards that were never
 * started, or not again. */
enum ps_err run_prepare(struct psrun_run *r, struct ps_error *e) PS_MUST_USE;
void run_remove_dirs(struct psrun_run *r);

/* --keep-servers: leave the shards running; say how to go on with them and how to end them. */
void run_release(struct psrun_run *r);

/* ---- run_processes.c ---- */

struct run_process *run_process_of(struct process *p);
bool run_process_is_shard(const struct run_process *m);
uint32_t run_process_index(const struct psrun_run *r, const struct run_process *m); /* among shards or workers */

void run_processes_init(struct psrun_run *r, const struct process_events *events);

/* Start it, or queue it: sshd refuses many that come at once. Failures reach run_fail(). */
void run_process_start(struct psrun_run *r, struct run_process *m);
void run_processes_start_queued(struct psrun_run *r);

/* Neither gone, nor to be started again. */
bool run_process_busy(const struct run_process *m);

/* It ended with this status: have it started again after a while, and print so; false: it is not to be. */
bool run_process_restart(struct psrun_run *r, struct run_process *m, int status);

/* Forget those that are queued or to be started again. */
void run_processes_forget(struct psrun_run *r, uint32_t from, uint32_t to);

/* Print which process died and why, or that its machine was lost; the status to exit with. */
int run_process_report_lost(struct psrun_run *r, const struct run_process *m);
int run_process_report_end(struct psrun_run *r, const struct run_process *m);

#endif
