/* The parent of the place i is (i - 1) / 2. rank is a place counted from 1: 0 says that a session is not in the heap.
 */
#include "server/core/sessions/clock_heap.h"

#include <stdlib.h>

#include "server/core/sessions/session.h"

bool
clock_heap_grow(struct clock_heap *s, uint32_t room)
{
    struct session **bigger = realloc(s->heap, room * sizeof(struct session *));

    if (bigger == NULL)
        return false;
    s->heap = bigger;
    return true;
}

void
clock_heap_finish(struct clock_heap *s)
{
    free(s->heap);
    *s = (struct clock_heap){.heap = NULL};
}

static void
clock_heap_set(struct clock_heap *s, uint32_t i, struct session *session)
{
    s->heap[i] = session;
    session->rank = i + 1;
}

/* Where it belongs, at i or nearer to the root. */
static void
clock_heap_rise(struct clock_heap *s, uint32_t i, struct session *session)
{
    for (; i > 0 && s->heap[(i - 1) / 2]->held_clock > session->held_clock; i = (i - 1) / 2)
        clock_heap_set(s, i, s->heap[(i - 1) / 2]);
    clock_heap_set(s, i, session);
}

/* At i or further from the root. */
static void
clock_heap_sink(struct clock_heap *s, uint32_t i, struct session *session)
{
    uint32_t child;

    for (; (child = 2 * i + 1) < s->len; i = child) {
        if (child + 1 < s->len && s->heap[child + 1]->held_clock < s->heap[child]->held_clock)
            child++;
        if (s->heap[child]->held_clock >= session->held_clock)
            break;
        clock_heap_set(s, i, s->heap[child]);
    }
    clock_heap_set(s, i, session);
}

/* The session at place i may belong on either side. */
static void
clock_heap_fix(struct clock_heap *s, uint32_t i, struct session *session)
{
    clock_heap_rise(s, i, session);
    clock_heap_sink(s, session->rank - 1, session);
}

void
clock_heap_put(struct clock_heap *s, struct session *session)
{
    uint32_t i = session->rank != 0 ? session->rank - 1 : s->len++;

    clock_heap_fix(s, i, session);
}

void
clock_heap_remove(struct clock_heap *s, struct session *session)
{
    uint32_t i = session->rank - 1;
    struct session *last;

    if (session->rank == 0)
        return;
    session->rank = 0;
    last = s->heap[--s->len];
    if (last != session)
        clock_heap_fix(s, i, last);
}

void
clock_heap_clear(struct clock_heap *s)
{
    s->len = 0;
}

uint64_t
clock_heap_least(const struct clock_heap *s)
{
    return s->len > 0 ? s->heap[0]->held_clock : UINT64_MAX;
}

/* tasks holds places until all are found: the children of each in the heap are looked at next. */
uint32_t
clock_heap_before(const struct clock_heap *s, uint64_t clock, uint32_t *tasks, uint32_t max)
{
    uint32_t n = 0;

    if (s->len > 0 && max > 0 && s->heap[0]->held_clock < clock)
        tasks[n++] = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t child = 2 * tasks[i] + 1; child <= 2 * tasks[i] + 2 && child < s->len && n < max; child++)
            if (s->heap[child]->held_clock < clock)
                tasks[n++] = child;
    for (uint32_t i = 0; i < n; i++)
        tasks[i] = s->heap[tasks[i]]->task;
    return n;
}
