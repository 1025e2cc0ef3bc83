/* A hello: what is refused, how a worker that is known resumes, how a new incarnation takes its place, the welcome. */
#include "server/core/shard/hello.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/core/shard/drop_unused.h"
#include "server/core/shard/permissions.h"
#include "server/core/shard/resize.h"
#include "server/core/shard/worker_exit.h"
#include "server/core/shard_state.h"
#include "server/core/training/assign.h"

static enum ps_err
hello_is_taken(const struct session *session, struct ps_error *e)
{
    return ps_fail(e, PS_ERR_TASK_TAKEN, "worker index %u of job '%.64s' is held by %.128s at %.96s", session->task,
                   session->job->name, session->agent[0] != '\0' ? session->agent : "a live process",
                   session->connection->peer);
}

/* Whether it may act for the session: incarnations are secrets, but a token's name is proven. */
static bool
hello_owns(const struct session *session, const char *token)
{
    return session->holder == NULL || strcmp(session->holder->name, token) == 0;
}

static enum ps_err
hello_is_anothers(const struct session *session, enum ps_err code, struct ps_error *e)
{
    return ps_fail(e, code,
                   "worker %u of job '%.64s' is of token '%s', and this connection has not proven that: another may "
                   "take its place when its session has lapsed",
                   session->task, session->job->name, session->holder->name);
}

static enum ps_err
hello_fenced(const struct session *session, struct ps_error *e)
{
    return ps_fail(e, PS_ERR_FENCED, "worker %u of job '%.64s' was taken over by %.128s", session->task,
                   session->job->name, session->agent[0] != '\0' ? session->agent : "another process");
}

static enum ps_err
hello_lapsed(const struct session *session, struct ps_error *e)
{
    return ps_fail(e, PS_ERR_LEASE_LAPSED, "the lease of worker %u of job '%.64s' lapsed at clock %" PRIu64,
                   session->task, session->job->name, session->clock);
}

static enum ps_err
hello_evicted(const struct session *session, struct ps_error *e)
{
    return ps_fail(e, PS_ERR_FENCED, "worker %u of job '%.64s' was evicted at clock %" PRIu64, session->task,
                   session->job->name, session->clock);
}

static enum ps_err
hello_dropped(const Psd__Hello *hello, struct ps_error *e)
{
    return ps_fail(
        e, PS_ERR_DROPPED,
        "job '%.64s', or variables of it, were dropped while worker %u was in it: start the program again to "
        "train anew",
        hello->job->name, hello->task);
}

/* A worker that comes again after its goodbye begins the next round, unless another worker has begun it already. */
static bool
begins_round(const struct session *session)
{
    return session->state == SESSION_FINISHED && session->round == session->job->round;
}

/* ---- Names of its metrics ---- */

static size_t
names_differ(const struct job *job, const Psd__Hello *hello)
{
    return metric_names_differ(&job->metric_names, hello->n_metric_names, hello->metric_names);
}

/* Names that differ are refused while another worker is live: what both add up would be a sum of neither. When none is,
 * they replace the old ones, as those of a new round do: a program that was changed may begin. */
static enum ps_err
check_names(const struct job *job, const struct session *session, const Psd__Hello *hello, struct ps_error *e)
{
    uint32_t others = job->live - (session != NULL && session->state == SESSION_LIVE);
    size_t at = names_differ(job, hello);

    if (at == SIZE_MAX || others == 0 || (session != NULL && begins_round(session)))
        return PS_OK;
    return ps_fail(e, PS_ERR_MISMATCH,
                   "metric %zu of job '%.64s' is '%s' to its live workers, not '%s': all must run the same program; to "
                   "begin anew: psctl drop --job %.64s --force",
                   at, job->name, job->metric_names.name[at], hello->metric_names[at], job->name);
}

static void
take_names(struct shard *s, struct job *job, const Psd__Hello *hello)
{
    struct metric_names *names = &job->metric_names;

    if (names_differ(job, hello) != SIZE_MAX)
        metric_names_clear(names);
    if (hello->n_metric_names <= names->len)
        return;
    if (!metric_names_extend(names, hello->n_metric_names, hello->metric_names))
        turn_fail(s, PS_ERR_NOMEM);
    turn_mark_job(s, job);
    job_to_redo(s, job);
}

/* The worker has sent its names before: a later round may have other names since, and these stay. */
static void
take_names_again(struct shard *s, const struct session *session, const Psd__Hello *hello)
{
    if (session->round == session->job->round && names_differ(session->job, hello) == SIZE_MAX)
        take_names(s, session->job, hello);
}

/* ---- Admission ---- */

static bool
set_agent(struct session *session, const Psd__Hello *hello)
{
    char *agent = strdup(hello->agent);

    if (agent == NULL)
        return false;
    free(session->agent);
    session->agent = agent;
    session->lease_ms = hello->lease_ms != 0 ? hello->lease_ms : WIRE_LEASE_MS;
    return true;
}

static enum ps_err
hello_resume(struct shard *s, struct session *session, struct connection *c, const Psd__Hello *hello, const char *token,
             struct ps_error *e)
{
    if (session->incarnation != hello->incarnation)
        return hello_fenced(session, e);
    if (!hello_owns(session, token))
        return hello_is_anothers(session, PS_ERR_DENIED, e);
    if (session->state == SESSION_LAPSED && session->dropped)
        return hello_dropped(hello, e);
    if (session->state == SESSION_LAPSED)
        return session->evicted ? hello_evicted(session, e) : hello_lapsed(session, e);
    if (session->state == SESSION_FINISHED)
        return ps_fail(e, PS_ERR_FENCED, "worker %u of job '%.64s' said goodbye", session->task, session->job->name);
    if (!set_agent(session, hello))
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a session");
    session_attach(s, session, c);
    if (hello->boot != 0 && hello->boot != s->boot)
        assign_rolled_back(s, session);
    sequence_acked(s, session, hello->acked_through);
    take_names_again(s, session, hello);
    turn_mark_session(s, session);
    return PS_OK;
}

/* A new incarnation begins from nothing, where the slowest worker stands. */
static void
hello_install(struct shard *s, struct session *session, struct connection *c, const Psd__Hello *hello, bool rejoins)
{
    struct job *job = session->job;
    bool again = rejoins && session->known_round == job->round && !begins_round(session);

    if (begins_round(session)) {
        metric_names_clear(&job->metric_names);
        job_begin_round(s, job, job->round + 1);
    }
    if (session->known_round != job->round) {
        data_steps_reset(s, session);
        session->metrics = (struct worker_metrics){0};
    }
    session->round = session->known_round = job->round;
    session->late = job->finished > 0;
    session->evicted = session->defined = session->dropped = false;
    session->incarnation = hello->incarnation;
    session->state = SESSION_LIVE;
    sequence_begin(session);
    session->redo = 0;
    session->pushes = 0;
    session->assigned = 0;
    session->boot = s->boot;
    session_attach(s, session, c);
    session->clock = job->slowest;
    session->joined_past = clock_newest(job);
    clock_join(s, session);
    if (!again || MUTATION(BEGINS_ANEW))
        data_begin_joined(session);
    sync_step_review(s, job); /* the old incarnation may have held a step up */
    take_names(s, job, hello);
    turn_mark_session(s, session);
    session_row_to_redo(s, session);
}

/* The old incarnation loses its place: what it waited for is forgotten, and so is its clock. */
static void
hello_replace(struct shard *s, struct session *session)
{
    worker_exit_forget(s, session);
    if (session->state == SESSION_LIVE) {
        session->state = SESSION_LAPSED;
        clock_count_gone(session, 1);
        clock_leave(s, session);
    }
    clock_count_gone(session, -1);
}

/* The session is the token's from now on, where it was not. */
static enum ps_err
hello_check_quota(struct shard *s, const struct job *job, const struct session *session, const Psd__Hello *hello,
                  const char *token, struct ps_error *e)
{
    struct quota_holder *holder;
    enum ps_err err = PS_OK;

    if (session != NULL && strcmp(quota_name(session->holder), token) == 0)
        return PS_OK;
    if (!quota_hold(s, token, &holder))
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a session");
    if (quota_exceeds(s, holder, QUOTA_SESSIONS, 1))
        err =
            quota_refuse(s, holder, QUOTA_SESSIONS, e, "no room for worker %u of job '%.64s'", hello->task, job->name);
    quota_release(holder);
    return err;
}

static enum ps_err
hello_newcomer(struct shard *s, struct job *job, struct connection *c, const Psd__Hello *hello, const char *token,
               struct session **out, struct ps_error *e)
{
    struct session *session = job->sessions[hello->task];
    bool rejoins = session != NULL;
    char text[PS_ERROR_TEXT_MAX];
    enum ps_err err;

    if (rejoins && session->state == SESSION_LIVE && session->connection != NULL)
        return hello_is_taken(session, e);
    if (rejoins && session->state == SESSION_LIVE && !hello_owns(session, token))
        return hello_is_anothers(session, PS_ERR_TASK_TAKEN, e);
    if ((err = check_names(job, session, hello, e)) != PS_OK)
        return err;
    if (!rejoins && limit_reached(s, LIMIT_SESSIONS))
        return limit_refuse(s, LIMIT_SESSIONS, e, "no room for worker %u of job '%.64s'", hello->task, job->name);
    if ((err = hello_check_quota(s, job, session, hello, token, e)) != PS_OK)
        return err;
    if (!rejoins && (session = session_new(s, job, hello->task)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a session");
    if (!set_agent(session, hello) || !session_set_token(s, session, token)) {
        turn_fail(s, PS_ERR_NOMEM);
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a session");
    }
    if (rejoins)
        hello_replace(s, session);
    hello_install(s, session, c, hello, rejoins);
    actions_log(s, SHARD_LOG_INFO, "worker %s job=%s task=%u agent=\"%s\" peer=%s clock=%" PRIu64,
                rejoins ? "rejoined" : "joined", job->name, session->task, session->agent, c->peer, session->clock);
    if (rejoins) {
        snprintf(text, sizeof text, "worker %u of job '%.64s' is back as %.128s", session->task, job->name,
                 session->agent);
        actions_event(s, job, c, PSD__EVENT_KIND__EVENT_REJOINED, session->task, text);
    }
    *out = session;
    return PS_OK;
}

static enum ps_err
hello_admit(struct shard *s, struct job *job, struct connection *c, const Psd__Hello *hello, const char *token,
            struct session **out, struct ps_error *e)
{
    struct session *session = job->sessions[hello->task];

    *out = session;
    if (session == NULL && hello->resume)
        return ps_fail(e, PS_ERR_NOT_FOUND, "shard %u knows no session of worker %u of job '%.64s'", s->config.shard,
                       hello->task, job->name);
    /* The same incarnation with a new hello did not get its welcome. */
    if (hello->resume || (session != NULL && session->incarnation == hello->incarnation))
        return hello_resume(s, session, c, hello, token, e);
    return hello_newcomer(s, job, c, hello, token, out, e);
}

/* ---- The answer ---- */

static bool
hello_is_for_shard(const struct shard *s, const Psd__Hello *m)
{
    if (m->role == PSD__ROLE__OBSERVER && m->cluster[0] == '\0')
        return true;
    return strcmp(m->cluster, s->cluster) == 0 && m->shard == s->config.shard && m->shards == s->config.shards;
}

struct hello_odd {
    uint64_t seq[SHARD_OUTCOMES_MAX];
    uint32_t code[SHARD_OUTCOMES_MAX];
};

/* The worker's survivors past last_seq, and their outcomes. */
static void
hello_add_survivors(const struct session *session, Psd__Welcome *m, struct hello_odd *odd)
{
    const struct session_outcome *first;
    uint32_t n = sequence_survivors_outcomes(session, &first);

    static_assert(SHARD_OUTCOMES_MAX <= WIRE_ODD_MAX, "fits a welcome");
    for (uint32_t i = 0; i < n; i++) {
        odd->seq[i] = first[i].seq;
        odd->code[i] = (uint32_t)first[i].code;
    }
    m->survived_from = session->resolved_ahead.from;
    m->survived = (ProtobufCBinaryData){session->resolved_ahead.len, session->resolved_ahead.bits};
    m->survived_boot = session->boot;
    m->n_odd_seq = m->n_odd_code = n;
    m->odd_seq = odd->seq;
    m->odd_code = odd->code;
    m->odd_lost = session->outcomes_lost_to;
}

/* What is known of the job's assigns. */
static void
hello_add_assigns(const struct shard *s, const struct job *job, Psd__Welcome *m)
{
    m->assigned = job->assigns.assigned;
    if (s->config.shard == 0)
        m->given_up = job->assigns.given_up;
}

static void
hello_welcome(struct shard *s, struct connection *c, uint64_t request)
{
    const struct session *session = c->session;
    Psd__Welcome m = PSD__WELCOME__INIT;
    struct hello_odd odd;
    struct worker_metrics_parts metrics;
    struct data_begin_message begin;
    Psd__Cursor cursor;

    m.cluster = s->cluster;
    m.shard = s->config.shard;
    m.shards = s->config.shards;
    m.boot = s->boot;
    m.grace_ms = s->config.grace_ms;
    m.in_flight_bytes_max = s->config.in_flight_bytes_max;
    m.assigns = true;
    if (session != NULL) {
        m.job = session->job->options;
        m.last_seq = session->last_seq;
        m.clock = session->clock;
        m.slowest_clock = session->job->slowest;
        m.round = session->known_round;
        m.restored = session->job->restored != NULL ? session->job->restored : m.restored;
        m.restored_boot = session->job->restored_boot;
        m.pushes = session->pushes;
        m.cursor = data_cursor_message(session->steps.at, &cursor);
        m.defines = s->config.shard == 0;
        m.begins = data_begin_message(&session->begin, &begin);
        m.metrics = worker_metrics_message(&session->metrics, &metrics);
        hello_add_assigns(s, session->job, &m);
        if (!MUTATION(SURVIVORS_NOT_TOLD) && session->boot != s->boot)
            hello_add_survivors(session, &m, &odd);
    }
    actions_send(s, c, MSG_WELCOME, request, &m.base);
}

/* Within one life of the data a session that a worker was welcomed in goes only with its job. */
static bool
hello_is_of_dropped(const struct shard *s, const Psd__Hello *m)
{
    const struct job *job;

    if (!m->resume || m->boot != s->boot)
        return false;
    HASH_FIND(hh, s->jobs, m->job->name, strlen(m->job->name), job);
    return job == NULL || session_find(s, job->id, m->task) == NULL;
}

/* A worker that is refused here gets the error, and its connection ends. */
static enum shard_result
hello_take_worker(struct shard *s, struct connection *c, uint64_t request, const Psd__Hello *m, const char *token)
{
    struct session *session;
    struct ps_error e;
    struct job *job;
    enum ps_err err;

    if (hello_is_of_dropped(s, m)) {
        (void)hello_dropped(m, &e);
        connection_refuse(s, c, e.code, "%s", e.text);
        return SHARD_TAKEN;
    }
    if (drop_unused(s, m) == SHARD_TURN_FULL)
        return SHARD_TURN_FULL;
    if ((err = job_open(s, m->job, token, &job, &e)) != PS_OK || (err = resize_by_hello(s, job, m, &e)) != PS_OK ||
        (err = hello_admit(s, job, c, m, token, &session, &e)) != PS_OK) {
        connection_refuse(s, c, err, "%s", e.text);
        return SHARD_TAKEN;
    }
    connection_greeted(s, c, CONN_WORKER);
    c->session = session;
    c->job_id = job->id;
    c->task = session->task;
    c->incarnation = session->incarnation;
    hello_welcome(s, c, request);
    return SHARD_TAKEN;
}

enum shard_result
hello_take(struct shard *s, struct connection *c, uint64_t request, const Psd__Hello *m, enum role role,
           const char *token)
{
    char denied[PS_ERROR_TEXT_MAX];
    struct ps_error e;

    c->codes = m->codes;
    if (m->role != PSD__ROLE__OBSERVER && role < PERMISSIONS_WORKER) {
        s->stats.denied++;
        permissions_refusal(MSG_HELLO, role, PERMISSIONS_WORKER, denied, sizeof denied);
        connection_refuse(s, c, PS_ERR_DENIED, "%s", denied);
    } else if (!hello_is_for_shard(s, m)) {
        connection_refuse(s, c, PS_ERR_CLUSTER,
                          "this is shard %u of %u of cluster '%.128s', the client wants shard %u of %u of '%.128s'",
                          s->config.shard, s->config.shards, s->cluster, m->shard, m->shards, m->cluster);
    } else if (m->cluster[0] != '\0' &&
               restore_says_no(s, &e)) { /* but a hello to any cluster, as psctl's, reads no data */
        connection_refuse(s, c, e.code, "%s", e.text);
    } else if (m->role == PSD__ROLE__OBSERVER) {
        connection_greeted(s, c, CONN_OBSERVER);
        c->agent = strdup(m->agent);
        hello_welcome(s, c, request);
    } else {
        return hello_take_worker(s, c, request, m, token != NULL ? token : "");
    }
    return SHARD_TAKEN;
}
