/* The parent of the place i is (i - 1) / 2. rank is a place counted from 1: 0 says that a session is not in the heap.
 */
#include "server/core/sessions/slowest.h"

#include <stdlib.h>

#include "server/core/sessions/session.h"

bool
slowest_init(struct slowest *s, uint32_t room)
{
    *s = (struct slowest){.heap = calloc(room, sizeof(struct session *))};
    return s->heap != NULL;
}

void
slowest_finish(struct slowest *s)
{
    free(s->heap);
    *s = (struct slowest){.heap = NULL};
}

static void
place(struct slowest *s, uint32_t i, struct session *session)
{
    s->heap[i] = session;
    session->rank = i + 1;
}

/* Where it belongs, at i or nearer to the root. */
static void
rise(struct slowest *s, uint32_t i, struct session *session)
{
    for (; i > 0 && s->heap[(i - 1) / 2]->held > session->held; i = (i - 1) / 2)
        place(s, i, s->heap[(i - 1) / 2]);
    place(s, i, session);
}

/* At i or further from the root. */
static void
sink(struct slowest *s, uint32_t i, struct session *session)
{
    uint32_t child;

    for (; (child = 2 * i + 1) < s->len; i = child) {
        if (child + 1 < s->len && s->heap[child + 1]->held < s->heap[child]->held)
            child++;
        if (s->heap[child]->held >= session->held)
            break;
        place(s, i, s->heap[child]);
    }
    place(s, i, session);
}

/* What has i as its place may belong to either side. */
static void
settle(struct slowest *s, uint32_t i, struct session *session)
{
    rise(s, i, session);
    sink(s, session->rank - 1, session);
}

void
slowest_put(struct slowest *s, struct session *session)
{
    uint32_t i = session->rank != 0 ? session->rank - 1 : s->len++;

    settle(s, i, session);
}

void
slowest_remove(struct slowest *s, struct session *session)
{
    uint32_t i = session->rank - 1;
    struct session *last;

    if (session->rank == 0)
        return;
    session->rank = 0;
    last = s->heap[--s->len];
    if (last != session)
        settle(s, i, last);
}

uint64_t
slowest_held(const struct slowest *s)
{
    return s->len > 0 ? s->heap[0]->held : UINT64_MAX;
}

/* tasks holds places until all are found: who stands below one of them in the heap is looked at next. */
uint32_t
slowest_before(const struct slowest *s, uint64_t clock, uint32_t *tasks, uint32_t max)
{
    uint32_t n = 0;

    if (s->len > 0 && max > 0 && s->heap[0]->held < clock)
        tasks[n++] = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t child = 2 * tasks[i] + 1; child <= 2 * tasks[i] + 2 && child < s->len && n < max; child++)
            if (s->heap[child]->held < clock)
                tasks[n++] = child;
    for (uint32_t i = 0; i < n; i++)
        tasks[i] = s->heap[tasks[i]]->task;
    return n;
}
