/* Barriers. An arrival is a pending message of its session, linked here as well. */
#include "barrier.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard_state.h"

static struct barrier *
barrier_new(struct shard *s, struct job *job, const char *name)
{
    struct barrier *b = calloc(1, sizeof *b);

    if (b != NULL && (b->name = shard_strdup(name)) != NULL)
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

/* Those that lapsed or finished have left it, so all that arrived are active. */
static void
open_if_full(struct shard *s, struct barrier *b)
{
    struct pending *p, *next;

    if (b->arrived_len + PLANTED(BARRIER_EARLY) < job_active(b->job))
        return;
    DL_FOREACH_SAFE2 (b->arrived, p, next, arrived_next)
        pending_resolve(s, p, PS_OK, NULL);
    barrier_free(s, b);
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

static void
refuse(struct shard *s, struct session *session, const Psd__Barrier *m, enum ps_err code, const char *why)
{
    sequence_take(s, session, code);
    actions_ack(s, session->connection, m->seq, code, NULL, 0, why);
}

void
barrier_arrive(struct shard *s, struct session *session, uint64_t request, const Psd__Barrier *m)
{
    bool awaited = sequence_awaits(session);
    struct barrier *b;
    struct pending *p;
    struct ps_error e;

    HASH_FIND(hh, session->job->barriers, m->name, strlen(m->name), b);
    if (b != NULL && arrival_of(b, session) != NULL) {
        refuse(s, session, m, PS_ERR_INVALID, "this worker waits at the barrier of that name already");
        return;
    }
    if (b == NULL && limit_reached(s, LIMIT_BARRIERS)) {
        limit_refuse(s, LIMIT_BARRIERS, &e, "no room for barrier '%.64s'", m->name);
        refuse(s, session, m, e.code, e.text);
        return;
    }
    if ((b == NULL && (b = barrier_new(s, session->job, m->name)) == NULL) ||
        (p = sequence_take_pending(s, session, 0)) == NULL)
        return;
    p->request = request;
    p->barrier = b;
    DL_APPEND2(b->arrived, p, arrived_prev, arrived_next);
    b->arrived_len++;
    open_if_full(s, b);
    sequence_caught_up(s, session, awaited);
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

    for (uint32_t task = 0; task < job->options->workers; task++) {
        const struct session *x = job_joined(job, task);

        if (x != NULL && (x->state != SESSION_LIVE || arrival_of(b, x) != NULL))
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
