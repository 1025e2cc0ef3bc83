/* The supervisor: a small process between psrun and each process it runs, so that nothing outlives psrun.
 *
 *     psrun ──► supervisor ──► program ──► whatever the program starts
 *
 * The supervisor is psrun's own executable, started as `psrun @keep ...`, in a session of its own, so that Ctrl-C
 * reaches psrun alone. It reports the program's pid and end through a pipe. It is a subreaper: a process that the
 * program started and orphaned becomes the supervisor's child, also when it made itself a daemon.
 *
 *     TERM                 the program's process group is asked to stop
 *     the program ended    what it left behind gets SUPERVISOR_LINGER_MS to end by itself, then KILL
 *     psrun died           (parent-death signal SUPERVISOR_KILL) all below get KILL
 *     the supervisor died  the program gets KILL (its own parent-death signal), unless it may be released
 *     all below are gone   the shard's directory is removed, the supervisor exits
 *     SUPERVISOR_RELEASE   the supervisor exits and leaves the program running (--keep-servers)
 *
 * A supervisor that holds does not remove the directory of a program that ended without being asked to: it reports so
 * and waits until it is released, which leaves the directory to the next one (--restart-shards), or asked to stop, or
 * psrun died. */
#ifndef CLIENT_TOOLS_PSRUN_SUPERVISOR_H
#define CLIENT_TOOLS_PSRUN_SUPERVISOR_H

#include <signal.h>

#include "common/core/base/base.h"

#define SUPERVISOR_ARG       "@keep" /* first argument of a psrun that is a supervisor */
#define SUPERVISOR_REPORT_FD 3       /* where it writes reports */
#define SUPERVISOR_READY_FD  4       /* handed to the program; where a shard reports that it is ready */
#define SUPERVISOR_KILL      SIGUSR2 /* kill all below, at once */
#define SUPERVISOR_RELEASE   SIGUSR1
#define SUPERVISOR_LINGER_MS 500

#define SUPERVISOR_MAY_RELEASE "r"
#define SUPERVISOR_HOLD        "h"

enum supervisor_report_kind {
    SUPERVISOR_STARTED,  /* value: nothing */
    SUPERVISOR_FAILED,   /* value: errno; the program could not be executed (an ENDED follows) */
    SUPERVISOR_ENDED,    /* value: status as waitpid() gives it */
    SUPERVISOR_HOLDS_DIR /* value: nothing; all below are gone, the directory is held */
};

/* One write, one read of a pipe: never torn. */
struct supervisor_report {
    int32_t kind, pid, value;
};

/* Runs the supervisor to its end; argv is "psrun @keep PSRUN_PID REMOVE_DIR HOW -- program args": REMOVE_DIR "" for
 * none; in HOW, SUPERVISOR_MAY_RELEASE for one that may be released while it runs, SUPERVISOR_HOLD for a supervisor
 * that holds. Returns the exit status. */
int supervisor_main(int argc, char **argv);

#endif
