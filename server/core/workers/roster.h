/* Which of a job's workers have ever joined, so that a walk over them costs as much as these, not as the tens of
 * thousands that the job may have. Two levels of bits: one for each worker, and one for each word of these that is not
 * empty.
 *
 *     for (uint32_t task = roster_next(r, 0); task != ROSTER_END; task = roster_next(r, task + 1))
 *
 * visits them in order. */
#ifndef SERVER_CORE_WORKERS_ROSTER_H
#define SERVER_CORE_WORKERS_ROSTER_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

#define ROSTER_END UINT32_MAX

struct roster {
    uint64_t *words, *summary; /* one allocation */
    uint32_t room;
};

/* For workers below room. False: no memory. */
bool roster_init(struct roster *r, uint32_t room) PS_MUST_USE;
/* For workers below this, which is no less than before; it may be zeroed. False: no memory, and it is as it was. */
bool roster_grow(struct roster *r, uint32_t room) PS_MUST_USE;
void roster_finish(struct roster *r); /* accepts a zeroed one */

void roster_add(struct roster *r, uint32_t task);
void roster_remove(struct roster *r, uint32_t task);

/* The first that is in, at `task` or past it; ROSTER_END: none. */
uint32_t roster_next(const struct roster *r, uint32_t task);

/* The same; words looked at are added to *looks. */
uint32_t roster_seek(const struct roster *r, uint32_t task, uint64_t *looks);

#endif
