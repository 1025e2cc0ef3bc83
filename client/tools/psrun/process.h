/* One process that psrun runs: its supervisor, its pipes, its end. Glue over libuv.
 *
 *     process_start() ──► output() ... listening() ... [held()] ──► gone()     (after which it may be started again)
 *
 * gone() comes once, after the program, everything it had started, and its supervisor have ended and its output was
 * read to the end. held() comes before it for a process that was started with hold and ended without being asked to:
 * its directory waits for process_release() or process_stop().
 *
 * A process on another machine looks the same: here the supervisor runs ssh, there an agent (agent.h) runs a supervisor
 * with the program, and their messages (remote.h) become the same events. */
#ifndef CLIENT_TOOLS_PSRUN_PROCESS_H
#define CLIENT_TOOLS_PSRUN_PROCESS_H

#include <uv.h>

#include "client/tools/psrun/ssh_link.h"
#include "client/tools/psrun/supervisor.h"
#include "client/tools/shared/lines.h"
#include "client/tools/shared/screen.h"
#include "common/core/cluster/address.h"
#include "common/include/psclient/ps_err.h"

#define PROCESS_READ_SIZE (64 * KIB)
#define PROCESS_DRAIN_MS  1000 /* after the supervisor's end: the longest wait for others that hold the pipes */

struct process;

struct process_events {
    void (*output)(struct process *p, enum screen_stream stream, enum lines_kind kind, const char *text, size_t len);
    void (*drained)(struct process *p);   /* everything that could be read was given to output() */
    void (*listening)(struct process *p); /* p->ready: the line that it wrote to its ready descriptor */
    void (*dir_held)(struct process *p);
    void (*gone)(struct process *p);
};

struct process_start {
    const char *exe; /* psrun's own path: the supervisor */
    char *const *argv;
    char *const *env;
    const char *remove_dir; /* removed when all has ended; "" for none */
    const char *log;        /* file for its output instead of output(); NULL: none */
    bool ready;             /* it gets SUPERVISOR_READY_FD */
    bool releasable;        /* process_release() may be used while it runs */
    bool hold;              /* its directory outlives its end */
    const char *dir;        /* its working directory; NULL: ours */
    const struct remote_order
        *order; /* NULL: it runs here. Else argv is ssh's, and hold and the rest are the order's */
};

enum process_pipe { PIPE_OUT, PIPE_ERR, PIPE_REPORT, PIPE_READY, PIPES };

struct process {
    /* set by the owner before the first start */
    uv_loop_t *loop;
    const struct process_events *events;
    char *buffer; /* PROCESS_READ_SIZE, shared by all of a loop */
    struct screen_tag tag;

    /* how it is */
    bool alive;                        /* started and not gone */
    bool ended;                        /* the program has; status tells how */
    bool dir_held;                     /* held() was called */
    bool remote;                       /* on another machine; then: */
    bool began;                        /*   its agent answered */
    int link_status;                   /*   how ssh ended, as waitpid() gives it */
    char last_line[SSH_LINK_TEXT_MAX]; /*   the last line of ssh, or why the agent cannot run it */
    bool refused;                      /*   by the agent */
    bool listens;                      /* listening() was called */
    pid_t pid;                         /* of the program; 0 when it was never started */
    int status;                        /* as waitpid() gives it */
    int failure;                       /* errno of its exec; 0: it was executed */
    uint64_t started_ms;
    char ready[ADDRESS_MAX * 2];

    /* private */
    struct process_stream {
        struct process *process;
        uv_pipe_t pipe;
        bool open;
        struct line_reader lines;
    } streams[PIPES];
    struct ssh_link link; /* of a remote one */
    bool paused;
    uv_process_t supervisor;
    uv_timer_t drain;
    bool spawned; /* the supervisor's handle is in use */
    int handles;  /* not yet closed */
    struct supervisor_report report;
    size_t report_len, ready_len;
};

/* Start it (again). PS_ERR_IO with the system's reason; gone() comes in any case. */
enum ps_err process_start(struct process *p, const struct process_start *how, struct ps_error *e) PS_MUST_USE;

/* Ask it to stop (TERM); kill it and all that it started, at once. Nothing happens to one that is not alive. */
void process_stop(struct process *p);
void process_kill(struct process *p);

/* Leave it running without us: gone() comes, with ended false. Or leave the directory of one that is held. */
void process_release(struct process *p);

/* Send a beat to its agent: for a caller that keeps the loop waiting. */
void process_beat(struct process *p);

/* Do not read what it prints for a while, so that it waits. */
void process_pause(struct process *p, bool pause);

#endif
