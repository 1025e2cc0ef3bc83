/* Who waits, and for whom or what: pulls, pushes and barriers for other workers; declares, attaches, durable pushes,
 * saves and checkpoints for what the shard itself is about; groups that form for their members. For reports and
 * figures: nothing is changed, no memory is taken. */
#ifndef SERVER_WAITS_H
#define SERVER_WAITS_H

#include "common/core/base/base.h"
#include "common/core/wire/wire.h"
#include "common/include/psclient/ps_err.h"

#define WAITS_ON_MAX   64 /* workers that one wait names */
#define WAITS_WHO_MAX  256
#define WAITS_WHAT_MAX (WIRE_NAME_MAX + 17)

struct shard;

struct waiting {
    const char *job; /* "": none */
    const char *who; /* ""; not a worker, or one without a number: who it is */
    uint32_t task;
    char what[WAITS_WHAT_MAX]; /* "pull", "push", "barrier x" ... */
    const char *variable;      /* ""; borrowed until the visit is over, as are job and who */
    uint64_t clock, on_clock, waited_ms;
    uint32_t on_task[WAITS_ON_MAX], on_len; /* in rising order */
    char on[128];                           /* "": for workers, else for what */
};

/* All that wait, of one job or (job "") of all, until visit() says false. False: it did. */
typedef bool (*waits_visit)(void *arg, const struct waiting *w);
bool waits_each(const struct shard *s, uint64_t now_ms, const char *job, waits_visit visit, void *arg);

#endif
