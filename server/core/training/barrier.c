/* Barriers. An arrival is a pending message of its session, linked here as well. */
#include "server/core/training/barrier.h"

#include <stdlib.h>
#include <string.h>

#include "server/core/shard_state.h"

static struct barrier *
barrier_new(struct shard *s, struct job *job, const char *name)
{
    struct barrier *b = calloc(1, sizeof *b);

    if (b != NULL && (b->name = strdup(name)) != NULL)
        HASH_ADD_KEYPTR(hh, job->barriers, b->name, strlen(b->name), b);
    if (b == NULL || !HASH_TOOK(b)) {
        if (b != NULL)
            free(b->name);
        free(b);
        turn_fail(s, PS_ERR_NOMEM);
        return NULL;
    }
    b->job = job;
    s->barriers_len++;
    return b;
}

static void
barrier_free(struct shard *s, struct barrier *b)
{
    HASH_DEL(b->job->barriers, b);
    s->barriers_len--;
    free(b->name);
    free(b);
}

static struct pending *
arrival_of(const struct barrier *b, const struct session *session)
{
    struct pending *p;

    DL_FOREACH2 (b->arrived, p, arrived_next)
        if (p->session == session)
            return p;
    return NULL;
}

/* ---- Places ---- */

/* The worker has done data past the barrier's place, or waits at a later one: it will not come there any more. */
static bool
is_beyond(const struct session *session, const struct barrier *b)
{
    const struct pending *p;

    if (session->round == b->job->round && data_cursor_before(b->place.at, session->metrics.at))
        return true;
    DL_FOREACH (session->pending, p)
        if (p->barrier != NULL && p->barrier->placed && barrier_position_before(&b->place, &p->barrier->place))
            return true;
    return false;
}

/* Of the active workers that have not arrived, those that are not waited for. */
static uint32_t
beyond_len(const struct barrier *b)
{
    const struct session *x;
    uint32_t n = 0;

    if (!b->placed)
        return 0;
    SESSION_EACH (b->job, x)
        n += x->state == SESSION_LIVE && is_beyond(x, b) && arrival_of(b, x) == NULL;
    return n;
}

static bool
has_opened(const struct job *job, const struct barrier_position *place)
{
    return job->barrier_opened.any && !barrier_position_before(&job->barrier_opened.place, place);
}

static void
note_place(struct shard *s, struct job *job, const struct barrier_position *place)
{
    if (has_opened(job, place))
        return;
    job->barrier_opened.any = true;
    job->barrier_opened.place = *place;
    job->barrier_opened.len = job_metrics_sum(job, job->barrier_opened.sum);
    turn_mark_job(s, job);
}

/* ---- Opening ---- */

/* Those that lapsed or finished have left it, so all that arrived are active. */
static void
open_if_full(struct shard *s, struct barrier *b)
{
    uint32_t active = job_active(b->job), there = b->arrived_len + MUTATION(BARRIER_EARLY);
    struct pending *p, *next;

    if (there < active && there + beyond_len(b) < active)
        return;
    if (b->placed)
        note_place(s, b->job, &b->place);
    DL_FOREACH_SAFE2 (b->arrived, p, next, arrived_next)
        pending_resolve(s, p, PS_OK, NULL);
    barrier_free(s, b);
}

/* ---- Arriving ---- */

static void
barrier_refuse(struct shard *s, struct session *session, const Psd__Barrier *m, enum ps_err code, const char *why)
{
    pending_resolve_next(s, session, code);
    actions_ack(s, session->connection, m->seq, code, NULL, 0, why);
}

/* True: it was dealt with. */
static bool
arrive_late(struct shard *s, struct session *session, const Psd__Barrier *m, const struct barrier_position *place)
{
    if (m->place == NULL || !has_opened(session->job, place))
        return false;
    pending_resolve_next(s, session, PS_OK);
    actions_ack(s, session->connection, m->seq, PS_OK, NULL, 0, NULL);
    return true;
}

/* NULL: it fits. */
static const char *
barrier_misfit(const struct shard *s, const struct barrier *b, const struct session *session, const Psd__Barrier *m,
               const struct barrier_position *place)
{
    if (m->place != NULL && s->config.shard != 0)
        return "barriers with a place are kept by shard 0";
    if (b == NULL)
        return NULL;
    if (arrival_of(b, session) != NULL)
        return "this worker waits at the barrier of that name already";
    if (b->placed != (m->place != NULL) || barrier_position_before(&b->place, place) ||
        barrier_position_before(place, &b->place))
        return "others wait at the barrier of that name with another place";
    return NULL;
}

void
barrier_arrive(struct shard *s, struct session *session, uint64_t request, const Psd__Barrier *m)
{
    bool awaited = sequence_awaits(session);
    struct barrier_position place = barrier_position_of(m->place);
    const char *why;
    struct barrier *b;
    struct pending *p;
    struct ps_error e;

    HASH_FIND(hh, session->job->barriers, m->name, strlen(m->name), b);
    if ((why = barrier_misfit(s, b, session, m, &place)) != NULL) {
        barrier_refuse(s, session, m, PS_ERR_INVALID, why);
        return;
    }
    if (arrive_late(s, session, m, &place))
        return;
    if (b == NULL && limit_reached(s, LIMIT_BARRIERS)) {
        limit_refuse(s, LIMIT_BARRIERS, &e, "no room for barrier '%.64s'", m->name);
        barrier_refuse(s, session, m, e.code, e.text);
        return;
    }
    if ((b == NULL && (b = barrier_new(s, session->job, m->name)) == NULL) ||
        (p = sequence_take_pending(s, session, 0)) == NULL)
        return;
    p->request = request;
    p->barrier = b;
    b->placed = m->place != NULL;
    b->place = place;
    DL_APPEND2(b->arrived, p, arrived_prev, arrived_next);
    b->arrived_len++;
    if (b->placed)
        barrier_review(s, session->job); /* earlier ones may have waited for this worker alone */
    else
        open_if_full(s, b);
    pending_caught_up(s, session, awaited);
}

void
barrier_review(struct shard *s, struct job *job)
{
    struct barrier *b, *next;

    HASH_ITER (hh, job->barriers, b, next)
        open_if_full(s, b);
}

void
barrier_leave(struct shard *s, struct pending *p)
{
    struct barrier *b = p->barrier;

    DL_DELETE2(b->arrived, p, arrived_prev, arrived_next);
    b->arrived_len--;
    p->barrier = NULL;
    if (b->arrived_len == 0)
        barrier_free(s, b);
}

uint32_t
barrier_missing(const struct barrier *b, uint32_t *tasks, uint32_t max)
{
    const struct job *job = b->job;
    uint32_t n = 0;

    for (uint32_t task = 0; task < job->workers; task++) {
        const struct session *x = job_joined(job, task);

        if (x != NULL && (x->state != SESSION_LIVE || arrival_of(b, x) != NULL || (b->placed && is_beyond(x, b))))
            continue;
        if (n < max)
            tasks[n] = task;
        n++;
    }
    return n;
}

void
barrier_free_all(struct shard *s, struct job *job)
{
    struct barrier *b, *next;

    HASH_ITER (hh, job->barriers, b, next)
        barrier_free(s, b);
}
