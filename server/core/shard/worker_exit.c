/* The clock goes on without the worker first; then steps and barriers that waited for it alone are reviewed. */
#include "server/core/shard/worker_exit.h"

#include <inttypes.h>
#include <stdio.h>

#include "server/core/shard_state.h"

/* In one event: what they write, and the redo log's record of it, stay far from what a turn and a replay may hold. */
#define WORKER_EXIT_LAPSES_MAX 1024

/* ---- Leaving ---- */

void
worker_exit_forget(struct shard *s, struct session *session)
{
    struct pending *p;

    DL_FOREACH (session->pending, p) {
        if (p->barrier != NULL)
            barrier_leave(s, p);
        else
            sync_step_forget(s, p);
    }
    assign_worker_left(s, session);
    sequence_forget(s, session);
    data_steps_forget(session);
}

/* One worker fewer to wait for. */
static void
worker_exit_leave(struct shard *s, struct session *session, enum session_state state)
{
    struct job *job = session->job;

    ps_assert(session->state == SESSION_LIVE);
    worker_exit_forget(s, session);
    session->state = state;
    clock_count_gone(session, 1);
    clock_leave(s, session);
    turn_mark_session(s, session);
    turn_mark_job(s, job);
    job_to_redo(s, job);
    session_row_to_redo(s, session);
    barrier_review(s, job);
}

void
worker_exit_finish(struct shard *s, struct session *session)
{
    actions_log(s, SHARD_LOG_INFO, "worker finished job=%s task=%u clock=%" PRIu64, session->job->name, session->task,
                session->clock);
    worker_exit_leave(s, session, SESSION_FINISHED);
    sync_step_review(s, session->job);
}

/* ---- Leases ---- */

/* No worker waits for it from here on. text: sent to the others; its own connection gets it with this code. */
static void
worker_exit_lapse(struct shard *s, struct session *session, enum ps_err code, const char *text)
{
    struct job *job = session->job;
    struct connection *c = session->connection;

    worker_exit_leave(s, session, SESSION_LAPSED);
    if (job->options->lapse == PSD__LAPSE__FAIL) {
        sync_step_end_job(s, job, PS_ERR_STEP_FAILED, text);
        pull_end_waiting(s, job, PS_ERR_STEP_FAILED, text);
    } else if (job_active(job) == 0) {
        sync_step_end_job(s, job, PS_OK, NULL); /* only the lost workers knew of them */
    } else {
        sync_step_review(s, job);
    }
    actions_event(s, job, c, PSD__EVENT_KIND__EVENT_LEASE_LAPSED, session->task, text);
    if (c != NULL && !(MUTATION(EVICTED_IS_HEARD) && session->evicted))
        connection_refuse(s, c, code, "%s", text);
}

static void
worker_exit_run_out(struct shard *s, struct session *session)
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
    worker_exit_lapse(s, session, PS_ERR_LEASE_LAPSED, text);
}

void
worker_exit_evict(struct shard *s, struct session *session, const char *by)
{
    char text[PS_ERROR_TEXT_MAX];

    snprintf(text, sizeof text, "worker %u of job '%.64s' (%.128s) was evicted at clock %" PRIu64 " by %.128s",
             session->task, session->job->name, session->agent, session->clock, by[0] != '\0' ? by : "an observer");
    actions_log(s, SHARD_LOG_WARNING, "worker evicted job=%s task=%u agent=\"%s\" clock=%" PRIu64 " by=\"%s\"",
                session->job->name, session->task, session->agent, session->clock, by);
    s->stats.evictions++;
    session->evicted = true;
    worker_exit_lapse(s, session, PS_ERR_FENCED, text);
}

void
worker_exit_drop(struct shard *s, struct session *session, const char *text)
{
    struct connection *c = session->connection;

    session->dropped = true;
    worker_exit_leave(s, session, SESSION_LAPSED);
    if (c != NULL)
        connection_refuse(s, c, PS_ERR_DROPPED, "%s", text);
}

void
worker_exit_beyond(struct shard *s, struct job *job, uint32_t workers, const char *text)
{
    struct session *x;

    for (x = session_from(job, workers); x != NULL; x = session_from(job, x->task + 1))
        if (x->state == SESSION_LIVE)
            worker_exit_lapse(s, x, PS_ERR_MISMATCH, text);
}

void
worker_exit_time(struct shard *s)
{
    uint32_t lapses = 0;

    if (s->now_ms < s->lapse_at || s->draining) /* no worker can come back: leases count from the next start */
        return;
    s->lapse_at = UINT64_MAX;
    for (uint32_t id = 1; id <= s->jobs_len; id++) {
        struct session *session;

        if (s->jobs_by_id[id] == NULL)
            continue;
        SESSION_EACH (s->jobs_by_id[id], session) {
            if (session->state != SESSION_LIVE)
                continue;
            if (s->now_ms < session_deadline(s, session) || lapses == WORKER_EXIT_LAPSES_MAX) {
                session_watch(s, session);
            } else {
                lapses++;
                worker_exit_run_out(s, session);
            }
        }
    }
}
