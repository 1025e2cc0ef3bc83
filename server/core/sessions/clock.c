/* The live workers lie in a heap (clock_heap.h) by where they are held: its root decides how far the others may go. */
#include "server/core/sessions/clock.h"

#include "server/core/shard_state.h"

/* The clock that the live workers and those still to come allow. */
static uint64_t
clock_allowed(const struct job *job)
{
    if (job->live == 0 || (job_begins_together(job) && !job_all_joined(job)))
        return job->slowest;
    return clock_heap_least(&job->holding);
}

/* Where this worker holds its place. */
static uint64_t
clock_hold_point(const struct session *session)
{
    const struct pending *p;

    if (!job_is_sync(session->job))
        return session->clock;
    if (sequence_awaits(session))
        return session->held_clock; /* as it was before the restart */
    DL_FOREACH (session->pending, p)
        if (p->barrier == NULL)
            return MAX(MIN(p->clock, session->clock), session->job->slowest);
    return session->clock;
}

/* Whether the others wait for its clock. */
static bool
holds_up(const struct session *session)
{
    bool mutated_too = MUTATION(LAPSED_HOLDS_UP) || (MUTATION(EVICTED_HOLDS_UP) && session->evicted);

    return session->state == SESSION_LIVE || (mutated_too && session->state == SESSION_LAPSED);
}

static void
clock_refresh(struct shard *s, struct job *job)
{
    uint64_t slowest = clock_allowed(job);

    ps_assert(slowest >= job->slowest);
    if (slowest == job->slowest)
        return;
    job->slowest = slowest;
    turn_wake_pulls(s, job);
}

void
clock_join(struct shard *s, struct session *session)
{
    ps_assert(session->state == SESSION_LIVE && session->clock >= session->job->slowest);
    session->held_clock = session->clock;
    session->job->live++;
    clock_heap_put(&session->job->holding, session);
    clock_refresh(s, session->job);
}

void
clock_leave(struct shard *s, struct session *session)
{
    ps_assert(session->state != SESSION_LIVE && session->job->live > 0);
    session->job->live--;
    if (!holds_up(session))
        clock_heap_remove(&session->job->holding, session);
    clock_refresh(s, session->job);
}

void
clock_tick(struct shard *s, struct session *session, uint64_t clock)
{
    ps_assert(clock > session->clock && session->state == SESSION_LIVE);
    session->clock = clock;
    clock_moved(s, session);
}

void
clock_moved(struct shard *s, struct session *session)
{
    struct job *job = session->job;
    uint64_t now = clock_hold_point(session);

    if (now == session->held_clock || session->state != SESSION_LIVE)
        return;
    session->held_clock = now;
    clock_heap_put(&job->holding, session);
    turn_mark_session(s, session);
    clock_refresh(s, job);
}

void
clock_count_gone(const struct session *session, int by)
{
    struct job *job = session->job;

    if (session->state == SESSION_LIVE || session->round != job->round)
        return;
    if (session->state == SESSION_LAPSED)
        job->lapsed += (uint32_t)by;
    else
        job->finished += (uint32_t)by;
}

void
clock_load(struct shard *s, struct job *job)
{
    struct session *x;

    (void)s;
    SESSION_EACH (job, x) {
        x->held_clock = MAX(clock_hold_point(x), job->slowest);
        job->live += x->state == SESSION_LIVE;
        clock_count_gone(x, 1);
        if (holds_up(x))
            clock_heap_put(&job->holding, x);
    }
    job->slowest = MAX(job->slowest, clock_allowed(job));
}

uint64_t
clock_of_block(const struct job *job, const struct block *b, enum clock_view view)
{
    const struct sync_step *g = b->sync_step;

    if (g == NULL)
        return MAX(b->clock, job->slowest);
    return g->due && view == CLOCK_FOR_PUSH ? MAX(g->clock + 1, job->slowest) : g->clock;
}

uint64_t
clock_newest(const struct job *job)
{
    uint64_t newest = job->slowest;

    if (!job_is_full_sync(job))
        return newest;
    for (const struct variable *v = job->variables; v != NULL; v = v->hh.next)
        for (uint64_t i = 0; i < v->count; i++)
            newest = MAX(newest, clock_of_block(job, &v->blocks[i], CLOCK_FOR_PUSH));
    return newest;
}

uint64_t
clock_fastest(const struct job *job)
{
    uint64_t fastest = job->slowest;
    const struct session *x;

    SESSION_EACH (job, x)
        fastest = MAX(fastest, x->clock);
    return fastest;
}
