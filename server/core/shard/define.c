#include "server/core/shard/define.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/core/shard_state.h"

/* ---- Other workers ---- */

/* A worker that trains by the job's definition, or has done so in the round that this one is in. */
static bool
define_holds(const struct session *x, const struct session *session)
{
    bool ended = x->state == SESSION_FINISHED && x->round == session->round;

    return x != session && x->defined && (x->state == SESSION_LIVE || ended);
}

/* The one that gave this field, or else the first. NULL: there is none. */
static const struct session *
define_holder(const struct session *session, const Psd__DefinitionField *field)
{
    const struct job *job = session->job;
    const struct session *x = field != NULL && field->task < job->room ? job->sessions[field->task] : NULL;

    if (x != NULL && define_holds(x, session))
        return x;
    SESSION_EACH (job, x)
        if (define_holds(x, session))
            return x;
    return NULL;
}

/* ---- Refusing ---- */

/* ", batch and seed differ, too"; of many the first. */
static void
define_list_others(const struct definition_fields *d, const Psd__Define *m, size_t at, char *out, size_t size)
{
    size_t used = 0, n = 0;

    out[0] = '\0';
    while (++at < m->n_field) {
        if (definition_fields_differs(d, 1, &m->field[at]) == SIZE_MAX)
            continue;
        n++;
        if (used < size)
            used += (size_t)snprintf(out + used, size - used, "%s %.63s", n > 1 ? "," : "; other values, too, of",
                                     m->field[at]->name);
    }
}

/* What it is doing: "host:17", "host:17, which has finished", "host:17, cut off 40 ms ago". */
static void
define_describe(const struct shard *s, const struct session *x, char *out, size_t size)
{
    const char *agent = x->agent[0] != '\0' ? x->agent : "a worker";

    if (x->state == SESSION_FINISHED)
        snprintf(out, size, "%.64s, which has finished", agent);
    else if (x->connection == NULL)
        snprintf(out, size, "%.64s, cut off %" PRIu64 " ms ago, its place is kept for %u ms", agent,
                 s->now_ms - x->heard_ms, s->config.grace_ms);
    else
        snprintf(out, size, "%.64s", agent);
}

static enum ps_err
define_refuse(const struct shard *s, const struct session *session, const struct session *holder, const Psd__Define *m,
              size_t at, struct ps_error *e)
{
    const struct definition_fields *d = &session->job->definition;
    const Psd__DefinitionField *mine = m->field[at], *theirs = definition_fields_find(d, mine->name);
    char who[160], others[96];

    define_describe(s, holder, who, sizeof who);
    define_list_others(d, m, at, others, sizeof others);
    return ps_fail(e, PS_ERR_MISMATCH,
                   "worker %u was started with %s '%s', worker %u (%s) with %s '%s'%s: all workers of job '%.40s' must "
                   "be started with the same",
                   session->task, mine->name, mine->value, holder->task, who, mine->name, theirs->value, others,
                   session->job->name);
}

/* ---- Taking ---- */

/* Nobody trains by the old definition any more. */
static void
define_replace(struct shard *s, struct session *session, bool new_round)
{
    struct job *job = session->job;

    actions_log(s, SHARD_LOG_INFO, "definition replaced job=%s task=%u", job->name, session->task);
    definition_fields_clear(&job->definition);
    if (!new_round)
        return;
    job_enter_round(s, session, job->round + 1);
    data_begin_joined(session);
}

static enum ps_err
define_merge(struct shard *s, struct session *session, const Psd__Define *m, struct ps_error *e)
{
    struct job *job = session->job;
    struct definition_fields *d = &job->definition;
    size_t at = definition_fields_differs(d, m->n_field, m->field);
    bool same = d->round == session->round, changed;
    const struct session *holder;

    if (at != SIZE_MAX || !same) {
        holder = define_holder(session, at != SIZE_MAX ? definition_fields_find(d, m->field[at]->name) : NULL);
        if (holder != NULL && at != SIZE_MAX)
            return define_refuse(s, session, holder, m, at, e);
        if (holder == NULL)
            define_replace(s, session, at != SIZE_MAX && same && !m->again && session->pushes == 0);
    }
    if (definition_fields_excess(d, m->n_field, m->field) > 0)
        return ps_fail(e, PS_ERR_LIMIT, "the definition of job '%.64s' would have more than %d fields", job->name,
                       WIRE_FIELDS_MAX);
    if (!definition_fields_extend(d, session->task, m->n_field, m->field, &changed)) {
        turn_fail(s, PS_ERR_NOMEM);
        return ps_fail(e, PS_ERR_NOMEM, "no memory for the definition of job '%.64s'", job->name);
    }
    if (!changed && d->round >= session->round)
        return PS_OK;
    d->round = MAX(d->round, session->round);
    turn_mark_job(s, job);
    job_to_redo(s, job);
    return PS_OK;
}

void
define_take(struct shard *s, struct connection *c, uint64_t request, const Psd__Define *m)
{
    Psd__Defined answer = PSD__DEFINED__INIT;
    struct session *session = c->session;
    struct data_begin_message begin;
    struct data_begin begins;
    struct ps_error e;
    enum ps_err err;
    bool anew; /* it was taken along, and its data can begin with that round's */

    if (s->config.shard != 0)
        err = ps_fail(&e, PS_ERR_INVALID, "the definition of a job is kept by shard 0");
    else
        err = define_merge(s, session, m, &e);
    if (err != PS_OK) {
        actions_error(s, c, request, err, e.text);
        return;
    }
    if (!session->defined) {
        session->defined = true;
        turn_mark_session(s, session);
        session_row_to_redo(s, session);
    }
    anew = session->known_round != session->round && session->pushes == 0 && !m->again;
    begins = anew ? data_begin_now(session) : session->begin;
    answer.round = anew ? session->round : session->known_round;
    answer.begins = data_begin_message(&begins, &begin);
    actions_send(s, c, MSG_DEFINED, request, &answer.base);
}
