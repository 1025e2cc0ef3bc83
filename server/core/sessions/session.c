/* Sessions: their life from the first hello on, and their leases. */
#include "server/core/sessions/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/core/shard/shard_state.h"

/* In one event: what they write, and the redo log's record of it, stay far from what a turn and a replay may hold. */
#define LAPSES_MAX 1024

struct session *
session_find(const struct shard *s, uint32_t job_id, uint32_t task)
{
    const struct job *job = job_id <= s->jobs_len ? s->jobs_by_id[job_id] : NULL;

    return job != NULL && task < job->options->workers ? job->sessions[task] : NULL;
}

struct session *
session_new(struct shard *s, struct job *job, uint32_t task)
{
    struct session *session = calloc(1, sizeof *session);

    if (session == NULL)
        return NULL;
    session->job = job;
    session->task = task;
    session->next_seq = 1;
    job->sessions[task] = session;
    roster_add(&job->there, task);
    s->sessions_len++;
    return session;
}

void
session_free(struct shard *s, struct session *session)
{
    if (session == NULL)
        return;
    sequence_finish(s, session);
    cursor_finish(session);
    free(session->agent);
    free(session);
}

/* ---- Lease ---- */

static uint64_t
lapse_deadline(const struct shard *s, const struct session *session)
{
    return session->heard_ms + (session->connection != NULL ? session->lease_ms : s->config.grace_ms);
}

void
session_watch(struct shard *s, const struct session *session)
{
    if (session->state == SESSION_LIVE)
        s->lapse_at = MIN(s->lapse_at, lapse_deadline(s, session));
}

void
session_attach(struct shard *s, struct session *session, struct connection *c)
{
    if (session->connection != NULL)
        connection_close(s, session->connection); /* and detaches it, once the pulls that wait there are forgotten */
    session->connection = c;
    session->heard_ms = s->now_ms;
    session_watch(s, session);
}

void
session_detach(struct shard *s, struct session *session)
{
    session->connection = NULL;
    session->heard_ms = s->now_ms;
    session_watch(s, session);
}

/* ---- Leaving ---- */

void
session_count(const struct session *session, int by)
{
    struct job *job = session->job;

    if (session->state == SESSION_LIVE || session->round != job->round)
        return;
    if (session->state == SESSION_LAPSED)
        job->lapsed += (uint32_t)by;
    else
        job->finished += (uint32_t)by;
}

/* One worker fewer to wait for. */
static void
leave(struct shard *s, struct session *session, enum session_state state)
{
    struct job *job = session->job;

    ps_assert(session->state == SESSION_LIVE);
    sequence_forget(s, session);
    session->state = state;
    session_count(session, 1);
    clock_leave(s, session);
    turn_mark_session(s, session);
    turn_mark_job(s, job);
    job_to_redo(s, job);
    session_row_to_redo(s, session);
    barrier_review(s, job);
}

void
session_finish_work(struct shard *s, struct session *session)
{
    actions_log(s, SHARD_LOG_INFO, "worker finished job=%s task=%u clock=%" PRIu64, session->job->name, session->task,
                session->clock);
    leave(s, session, SESSION_FINISHED);
    gather_review(s, session->job);
}

/* Nobody waits for it from here on. text: what the others are told; its own connection hears it with this code. */
static void
lapse(struct shard *s, struct session *session, enum ps_err code, const char *text)
{
    struct job *job = session->job;
    struct connection *c = session->connection;

    leave(s, session, SESSION_LAPSED);
    if (job->options->lapse == PSD__LAPSE__FAIL) {
        gather_end_job(s, job, PS_ERR_STEP_FAILED, text);
        pull_end_job(s, job, PS_ERR_STEP_FAILED, text);
    } else if (job_active(job) == 0) {
        gather_end_job(s, job, PS_OK, NULL); /* none but the lost ever knew of them */
    } else {
        gather_review(s, job);
    }
    actions_event(s, job, c, PSD__EVENT_KIND__EVENT_LEASE_LAPSED, session->task, text);
    if (c != NULL && !(PLANTED(EVICTED_IS_HEARD) && session->evicted))
        connection_refuse(s, c, code, "%s", text);
}

static void
run_out(struct shard *s, struct session *session)
{
    uint64_t silent_ms = s->now_ms - session->heard_ms;
    char text[PS_ERROR_TEXT_MAX];

    snprintf(text, sizeof text, "worker %u of job '%.64s' (%.128s) lapsed at clock %" PRIu64 " after %" PRIu64 " ms %s",
             session->task, session->job->name, session->agent, session->clock, silent_ms,
             session->connection != NULL ? "of silence" : "without a connection");
    actions_log(s, SHARD_LOG_WARNING, "worker lapsed job=%s task=%u clock=%" PRIu64 " silent_ms=%" PRIu64,
                session->job->name, session->task, session->clock, silent_ms);
    s->stats.lease_lapses++;
    session->lapses++;
    lapse(s, session, PS_ERR_LEASE_LAPSED, text);
}

void
session_evict(struct shard *s, struct session *session, const char *by)
{
    char text[PS_ERROR_TEXT_MAX];

    snprintf(text, sizeof text, "worker %u of job '%.64s' (%.128s) was evicted at clock %" PRIu64 " by %.128s",
             session->task, session->job->name, session->agent, session->clock, by[0] != '\0' ? by : "an observer");
    actions_log(s, SHARD_LOG_WARNING, "worker evicted job=%s task=%u agent=\"%s\" clock=%" PRIu64 " by=\"%s\"",
                session->job->name, session->task, session->agent, session->clock, by);
    s->stats.evictions++;
    session->evicted = true;
    lapse(s, session, PS_ERR_FENCED, text);
}

void
session_time(struct shard *s)
{
    uint32_t lapses = 0;

    if (s->now_ms < s->lapse_at || s->draining) /* nobody can come back: that counts from the next start */
        return;
    s->lapse_at = UINT64_MAX;
    for (uint32_t id = 1; id <= s->jobs_len; id++) {
        struct session *session;

        if (s->jobs_by_id[id] == NULL)
            continue;
        SESSION_EACH (s->jobs_by_id[id], session) {
            if (session->state != SESSION_LIVE)
                continue;
            if (s->now_ms < lapse_deadline(s, session) || lapses == LAPSES_MAX) {
                session_watch(s, session);
            } else {
                lapses++;
                run_out(s, session);
            }
        }
    }
}
