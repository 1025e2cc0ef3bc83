/* ps_timeline.h: where a training step's time goes. Every thread that trains keeps the newest of its waits and steps in
 * memory: what it waited for (values, acknowledgements, slower workers, a collective, a barrier), and from when to
 * when; what is not waited for is computed. Nobody asks for that; it costs some ten nanoseconds for each wait.
 *
 *     PSD_TRACE_FILE=w0.json ./my_worker      # written when the last client, group or strategy has closed
 *     psctl trace --output all.json w0.json w1.json # with the shards' own, for Chrome's about:tracing and for Perfetto
 *
 * or, in the program, ps_timeline_spent() for sums and ps_timeline_write() for the file. A step ends with a client's
 * tick, or as a strategy has them; a loop without either calls ps_timeline_step().
 *
 * A thread writes to a timeline of its own. PS_TIMELINE_THREADS have one at most, for as long as the process lives;
 * later ones take over those of threads that have ended, and where none has, keep nothing.
 *
 * Threads: any. */
#ifndef PS_TIMELINE_H
#define PS_TIMELINE_H

#include <stdint.h>

#include "ps_err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most threads that keep a timeline, and the waits and steps that each keeps: the newest; 384 KiB.
 * Since: 0.1 */
#define PS_TIMELINE_THREADS 32
#define PS_TIMELINE_SPANS   8192

/* Where time goes.
 * Since: 0.1 */
enum ps_time {
    PS_TIME_COMPUTE,    /* the program's own: not in one of the following */
    PS_TIME_PULL,       /* until values were there */
    PS_TIME_PUSH,       /* until pushes and ticks were acknowledged */
    PS_TIME_ALL_REDUCE, /* collectives, of groups and reducers */
    PS_TIME_BOUND,      /* the part of pulls and pushes in which the shards waited for other workers: ssp, sync */
    PS_TIME_BARRIER,
    PS_TIME_OTHER, /* declaring, asking, saving */
    PS_TIMES
};

/* The name of a kind of time.
 *
 * Parameters:
 *   kind  below PS_TIMES
 * Returns: "compute", "pull", ... Static.
 * Since: 0.1 */
PS_API const char *ps_time_name(enum ps_time kind);

/* Where a thread's time went.
 * Since: 0.1 */
struct ps_time_spent {
    uint64_t steps;        /* that have ended */
    uint64_t ns[PS_TIMES]; /* in them */
};

/* Where the calling thread's time went since it began.
 *
 * Parameters:
 *   out  filled; zeros when the thread keeps no timeline
 * Since: 0.1 */
PS_API void ps_timeline_spent(struct ps_time_spent *out);

/* The calling thread's step ends here, for loops without a client's tick or a strategy.
 *
 * The first call begins the first step and ends none.
 *
 * Parameters:
 *   step  its number, for the trace
 * Since: 0.1 */
PS_API void ps_timeline_step(uint64_t step);

/* Whether waits and steps are kept, of all threads, from now on.
 *
 * Parameters:
 *   keep  nonzero: they are, as at first, unless PSD_TIMELINE=off is in the environment; 0: they are not
 * Since: 0.1 */
PS_API void ps_timeline_keep(int keep);

/* Write what all threads have kept to a file, in Chrome's trace format (JSON). It appears whole or not at all.
 *
 * May be called while others train.
 *
 * Parameters:
 *   path   of the file
 *   error  filled when the call fails; may be NULL
 * Returns: PS_OK, or the code that *error has, too.
 * Errors:
 *   PS_ERR_IO       the file cannot be written
 *   PS_ERR_INVALID  the path is too long
 *   PS_ERR_NOMEM    no memory
 * Since: 0.1 */
PS_API enum ps_err ps_timeline_write(const char *path, struct ps_error *error) PS_MUST_USE;

#ifdef __cplusplus
}
#endif

#endif
