/* The worker of a job that stands last: a binary heap of its live workers by where they are held, so that a worker that
 * joins, moves or leaves costs the logarithm of how many there are. (Tens of thousands join within a second when a
 * large cluster starts: looking at all of them each time took half a minute.)
 *
 * session->held_clock orders it; session->rank says where a session is. */
#ifndef SERVER_CORE_SESSIONS_CLOCK_HEAP_H
#define SERVER_CORE_SESSIONS_CLOCK_HEAP_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

struct session;

struct clock_heap {
    struct session **heap; /* [room], borrowed; heap[0] is held at the least clock */
    uint32_t len;
};

/* For at most `room` sessions, which are no fewer than before; it may be zeroed. False: no memory, and it is as it was.
 */
bool clock_heap_grow(struct clock_heap *s, uint32_t room) PS_MUST_USE;
void clock_heap_finish(struct clock_heap *s); /* accepts a zeroed one */

/* Add the session; or, if it is one of them, move it to its new held_clock. */
void clock_heap_put(struct clock_heap *s, struct session *session);

/* Remove the session; nothing happens to one that is not among them. */
void clock_heap_remove(struct clock_heap *s, struct session *session);

/* Sessions held before this clock: the tasks of up to max of them, in no order; those that are held at the least come
 * before others. Costs what is found. */
uint32_t clock_heap_before(const struct clock_heap *s, uint64_t clock, uint32_t *tasks, uint32_t max);

/* All of them. */
void clock_heap_clear(struct clock_heap *s);

/* The least held; UINT64_MAX of none. */
uint64_t clock_heap_least(const struct clock_heap *s);

#endif
