/* Waits, and what each is for: pulls, pushes and barriers for other workers; declares, attaches, durable pushes, saves
 * and checkpoints for work of the shard itself; groups that form for their members. For reports and figures: nothing is
 * changed, no memory is taken. */
#ifndef SERVER_CORE_SHARD_WAIT_REPORT_H
#define SERVER_CORE_SHARD_WAIT_REPORT_H

#include "common/core/base/base.h"
#include "common/core/wire/wire.h"
#include "common/include/psclient/ps_err.h"

#define WAIT_REPORT_ON_MAX   64 /* workers that one wait names */
#define WAIT_REPORT_WHO_MAX  256
#define WAIT_REPORT_WHAT_MAX (WIRE_NAME_MAX + 17)

struct shard;

struct waiting {
    const char *job; /* "": none */
    const char *who; /* ""; a peer that is no worker, or has no number: its name */
    uint32_t task;
    char what[WAIT_REPORT_WHAT_MAX]; /* "pull", "push", "barrier x" ... */
    const char *variable;            /* ""; borrowed until the visit is over, as are job and who */
    uint64_t clock, on_clock, waited_ms;
    uint32_t on_task[WAIT_REPORT_ON_MAX], on_len; /* in rising order */
    uint64_t on_at[WAIT_REPORT_ON_MAX];           /* one more than the clock of each; 0: it has not joined */
    char on[128];                                 /* "": for workers, else for what */
};

/* All that wait, of one job or (job "") of all, until visit() says false. False: it did. */
typedef bool (*wait_report_visit)(void *arg, const struct waiting *w);
bool wait_report_each(const struct shard *s, uint64_t now_ms, const char *job, wait_report_visit visit, void *arg);

#endif
