/* The keeper: a small process between psrun and each process it runs, so that nothing outlives psrun.
 *
 *     psrun ──► keeper ──► program ──► whatever the program starts
 *
 * The keeper is psrun's own executable, started as `psrun @keep ...`, in a session of its own, so that Ctrl-C reaches
 * psrun alone. It reports the program's pid and end through a pipe. It is a subreaper: whatever the program started and
 * lost becomes the keeper's child, also when it made itself a daemon.
 *
 *     TERM                 the program's process group is asked to stop
 *     the program ended    what it left behind gets KEEP_LINGER_MS to end by itself, then KILL
 *     psrun died           (parent-death signal KEEP_NOW) all below get KILL
 *     the keeper died      the program gets KILL (its own parent-death signal), unless it may be released
 *     all below are gone   the shard's directory is removed, the keeper exits
 *     KEEP_RELEASE         the keeper exits and leaves the program running (--keep-servers)
 *
 * A keeper that holds does not remove the directory of a program that ended uncalled: it reports so and waits until it
 * is released, which leaves the directory to the next one (--restart-shards), or asked to stop, or psrun died.
 */
#ifndef CLIENT_TOOLS_KEEP_H
#define CLIENT_TOOLS_KEEP_H

#include <signal.h>

#include "common/core/base/base.h"

#define KEEP_WORD      "@keep" /* first argument of a psrun that is a keeper */
#define KEEP_REPORT_FD 3       /* where it writes reports */
#define KEEP_READY_FD  4       /* handed to the program; where a shard says that it is ready */
#define KEEP_NOW       SIGUSR2 /* kill all below, at once */
#define KEEP_RELEASE   SIGUSR1
#define KEEP_LINGER_MS 500

#define KEEP_MAY_RELEASE "r"
#define KEEP_HOLDS       "h"

enum keep_kind {
    KEEP_STARTED, /* value: nothing */
    KEEP_FAILED,  /* value: errno; the program could not be executed (an ENDED follows) */
    KEEP_ENDED,   /* value: status as waitpid() gives it */
    KEEP_HELD     /* value: nothing; all below are gone, the directory is held */
};

/* One write, one read of a pipe: never torn. */
struct keep_report {
    int32_t kind, pid, value;
};

/* The keeper's whole life; argv is "psrun @keep PSRUN_PID REMOVE_DIR HOW -- program args": REMOVE_DIR "" for none; in
 * HOW, KEEP_MAY_RELEASE for one that may be released while it runs, KEEP_HOLDS for a keeper that holds. Returns the
 * exit status. */
int keep_main(int argc, char **argv);

#endif
