/* Jobs in heap memory, and their rows. */
#include "server/core/sessions/job.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/wire/wire.h"
#include "common/core/wire/wire_text.h"
#include "proto/store.pb-c.h"
#include "server/core/shard_state.h"
#include "server/core/turn/mismatch.h"

static void
job_free_sessions(struct job *job)
{
    free(job->sessions);
    roster_finish(&job->there);
    clock_heap_finish(&job->holding);
}

void
job_free(struct job *job)
{
    if (job == NULL)
        return;
    job_free_sessions(job);
    metric_names_clear(&job->metric_names);
    definition_fields_clear(&job->definition);
    assigns_finish(&job->assigns);
    free(job->restored);
    quota_release(job->holder);
    psd__job__free_unpacked(job->options, NULL);
    free(job);
}

/* ---- How many workers ---- */

bool
job_make_room(struct job *job, uint32_t workers)
{
    struct session **bigger;

    if (workers <= job->room)
        return true;
    if ((bigger = realloc(job->sessions, workers * sizeof(struct session *))) == NULL)
        return false;
    job->sessions = bigger;
    if (!roster_grow(&job->there, workers) || !clock_heap_grow(&job->holding, workers))
        return false;
    memset(bigger + job->room, 0, (workers - job->room) * sizeof(struct session *));
    job->room = workers;
    return true;
}

uint32_t
job_quorum_of(const struct job *job, uint32_t workers)
{
    return job->options->quorum == job->options->workers ? workers : job->options->quorum;
}

bool
job_set_workers(struct job *job, uint32_t workers)
{
    if (!job_make_room(job, workers))
        return false;
    job->workers = workers;
    job->quorum = job_quorum_of(job, workers);
    return true;
}

static struct job *
job_new(const Psd__Job *options, uint32_t id)
{
    struct job *job = calloc(1, sizeof *job);

    if (job == NULL)
        return NULL;
    job->id = id;
    if ((job->options = wire_copy(&options->base)) == NULL)
        goto fail;
    job->name = job->options->name;
    job->age = wire_age(job->options->age);
    job->bound = job->options->bound;
    if (!job_set_workers(job, job->options->workers))
        goto fail;
    return job;
fail:
    job_free_sessions(job);
    if (job->options != NULL)
        psd__job__free_unpacked(job->options, NULL);
    free(job);
    return NULL;
}

/* False: no memory, and it is freed. */
static bool
job_add(struct shard *s, struct job *job)
{
    if (job->dropped)
        DL_APPEND2(s->drops.jobs, job, dropped_prev, dropped_next);
    else
        HASH_ADD_KEYPTR(hh, s->jobs, job->name, strlen(job->name), job);
    if (!job->dropped && !HASH_TOOK(job)) {
        job_free(job);
        return false;
    }
    if (!job->dropped)
        quota_add(job->holder, QUOTA_JOBS, 1);
    s->jobs_by_id[job->id] = job;
    s->jobs_len = MAX(s->jobs_len, job->id);
    s->jobs_next = job->id + 1;
    return true;
}

/* In turn, so that one that was dropped does not come again soon: curves of the page go by them. */
uint32_t
job_next_id(const struct shard *s)
{
    for (uint32_t i = 0; i < SHARD_JOBS_MAX; i++) {
        uint32_t id = (MAX(s->jobs_next, 1u) - 1 + i) % SHARD_JOBS_MAX + 1;

        if (s->jobs_by_id[id] == NULL)
            return id;
    }
    return 0;
}

void
job_drop(struct shard *s, struct job *job)
{
    ps_assert(job->variables == NULL && job->pulls == NULL && job->sync_steps == NULL && job->barriers == NULL &&
              job->assign_waiters == NULL);
    HASH_DEL(s->jobs, job);
    quota_subtract(job->holder, QUOTA_JOBS, 1);
    assigns_finish(&job->assigns);
    job->dropped = true;
    DL_APPEND2(s->drops.jobs, job, dropped_prev, dropped_next);
}

void
job_remove(struct shard *s, struct job *job)
{
    ps_assert(job->dropped && !job->marked);
    DL_DELETE2(s->drops.jobs, job, dropped_prev, dropped_next);
    s->jobs_by_id[job->id] = NULL;
    job_free(job);
}

Psd__Job
job_now(const struct job *job, Psd__AgePolicy *age)
{
    Psd__Job now = *job->options;

    psd__age_policy__init(age);
    age->kind = (Psd__AgeKind)job->age.kind;
    age->parameter = job->age.parameter;
    now.age = age;
    now.bound = job->bound;
    now.workers = job->workers;
    now.quorum = job->quorum;
    return now;
}

/* A program may have been written before a SET, or after it. */
static bool
job_fits(const struct job *job, const Psd__Job *options)
{
    Psd__AgePolicy age;
    Psd__Job now = job_now(job, &age), is = *options;

    if (options->mode != PSD__MODE__SYNC || options->quorum == job_quorum_of(job, options->workers)) {
        is.workers = now.workers; /* whether it may have another number is resize.h's to say */
        is.quorum = now.quorum;
    }
    return wire_job_fits(job->options, &now, &is);
}

static enum ps_err
job_mismatch(const struct job *job, const Psd__Job *options, struct ps_error *e)
{
    char text[PS_ERROR_TEXT_MAX];
    Psd__AgePolicy age;
    Psd__Job now = job_now(job, &age);

    wire_job_misfits(job->options, &now, options, text, sizeof text);
    return mismatch_refuse(e, job->name, NULL, "was opened with", text);
}

static enum ps_err
job_no_memory(const struct shard *s, const Psd__Job *options, struct ps_error *e)
{
    return ps_fail(e, PS_ERR_NOMEM, "shard %u has no memory for job '%.64s'", s->config.shard, options->name);
}

/* Takes one use of holder, also when it fails. */
static enum ps_err
job_create(struct shard *s, const Psd__Job *options, struct quota_holder *holder, struct job **out, struct ps_error *e)
{
    enum ps_err err = PS_OK;
    uint32_t id = 0;
    struct job *job = NULL;

    if (limit_reached(s, LIMIT_JOBS) || (id = job_next_id(s)) == 0)
        err = limit_refuse(s, LIMIT_JOBS, e, "no room for job '%.64s'", options->name);
    else if (quota_exceeds(s, holder, QUOTA_JOBS, 1))
        err = quota_refuse(s, holder, QUOTA_JOBS, e, "no room for job '%.64s'", options->name);
    else if ((job = job_new(options, id)) == NULL)
        err = job_no_memory(s, options, e);
    if (err != PS_OK) {
        quota_release(holder);
        return err;
    }
    job->holder = holder;
    if (!job_add(s, job))
        return job_no_memory(s, options, e);
    turn_mark_job(s, job);
    job_to_redo(s, job);
    actions_log(s, SHARD_LOG_INFO, "job created job=%s id=%u workers=%u", job->name, job->id, options->workers);
    *out = job;
    return PS_OK;
}

enum ps_err
job_open(struct shard *s, const Psd__Job *options, const char *token, struct job **out, struct ps_error *e)
{
    struct quota_holder *holder;
    struct job *job;

    HASH_FIND(hh, s->jobs, options->name, strlen(options->name), job);
    if (job != NULL) {
        *out = job;
        return job_fits(job, options) ? PS_OK : job_mismatch(job, options, e);
    }
    if (!quota_hold(s, token, &holder))
        return job_no_memory(s, options, e);
    return job_create(s, options, holder, out, e);
}

void
job_options_text(const struct job *job, char *out, size_t size)
{
    Psd__AgePolicy age;
    Psd__Job now = job_now(job, &age);

    wire_job_options(&now, out, size);
}

/* ---- Sums of its workers' metrics ---- */

uint32_t
job_metrics_sum(const struct job *job, double *sums)
{
    const struct session *session;
    uint32_t len = 0;

    memset(sums, 0, WIRE_METRICS_MAX * sizeof *sums);
    SESSION_EACH (job, session) {
        if (session->round != job->round)
            continue;
        len = MAX(len, session->metrics.len);
        for (uint32_t i = 0; i < session->metrics.len; i++)
            sums[i] += session->metrics.value[i];
    }
    return len;
}

/* ---- Rounds ---- */

const struct session *
job_joined(const struct job *job, uint32_t task)
{
    const struct session *session = job->sessions[task];

    return session != NULL && session_counts(session) ? session : NULL;
}

/* A live worker is at the end of the old round, and its goodbye will be of that. But a worker that joined after
 * another's goodbye is about to do the same as that other one, which comes again. Its data stays that of the old round
 * until it knows. */
static void
take_along(struct shard *s, struct session *session, uint64_t round)
{
    if (session->state != SESSION_LIVE || !session->late)
        return;
    session->round = round;
    session->late = false;
    turn_mark_session(s, session);
}

void
job_begin_round(struct shard *s, struct job *job, uint64_t round)
{
    struct session *session;

    if (round <= job->round)
        return;
    job->round = round;
    job->lapsed = job->finished = 0;
    job->barrier_opened = (struct barrier_opened){0};
    SESSION_EACH (job, session)
        take_along(s, session, round);
    turn_mark_job(s, job);
    job_to_redo(s, job);
    actions_log(s, SHARD_LOG_INFO, "round begins job=%s round=%" PRIu64 " slowest=%" PRIu64, job->name, round,
                job->slowest);
}

void
job_enter_round(struct shard *s, struct session *session, uint64_t round)
{
    bool was_along = round == session->round;

    job_begin_round(s, session->job, round);
    session->round = session->known_round = round;
    data_steps_reset(s, session);
    session->begin = (struct data_begin){0}; /* the shard that began the round says where */
    if (was_along)
        data_begin_joined(session);
    session->metrics = (struct worker_metrics){0};
    turn_mark_session(s, session);
}

/* ---- Rows ---- */

enum ps_err
job_put(struct shard *s, const struct job *job, row_sink sink)
{
    Psd__JobRow row = PSD__JOB_ROW__INIT;
    Psd__AgePolicy age = PSD__AGE_POLICY__INIT;
    Psd__Bound bound = PSD__BOUND__INIT;
    struct barrier_opened_parts opened;
    struct assigns_parts assigns;

    row.id = job->id;
    row.options = job->options;
    row.slowest = job->slowest;
    row.round = job->round;
    row.restored = job->restored != NULL ? job->restored : row.restored;
    row.restored_boot = job->restored_boot;
    row.restored_by = job->restored_by;
    age.kind = (Psd__AgeKind)job->age.kind;
    age.parameter = job->age.parameter;
    row.age = &age;
    bound.clocks = job->bound;
    row.bound = &bound;
    row.workers = MUTATION(NUMBER_NOT_KEPT) ? 0 : job->workers;
    row.opened = barrier_opened_message(&job->barrier_opened, &opened);
    row.n_metric_names = job->metric_names.len;
    row.metric_names = (char **)job->metric_names.name;
    row.n_definition = MUTATION(DEFINITION_NOT_KEPT) ? 0 : job->definition.len;
    row.definition = (Psd__DefinitionField **)job->definition.field;
    row.definition_round = job->definition.round;
    row.dropped = job->dropped;
    row.token = (char *)(uintptr_t)quota_name(job->holder);
    row.assigns = MUTATION(ASSIGN_NOT_KEPT) ? NULL : assigns_message(&job->assigns, &assigns);
    return row_put(s, STORE_JOBS, job->id, &row.base, sink);
}

void
job_to_redo(struct shard *s, const struct job *job)
{
    if (s->redo.on && job_put(s, job, redo_row) != PS_OK)
        ps_assert(false);
}

/* The checks of a hello's options, made again. */
static bool
age_ok(const Psd__AgePolicy *a)
{
    struct age_policy policy;
    struct ps_error e;

    if (a == NULL)
        return false;
    policy = wire_age(a);
    return age_check(&policy, &e) == PS_OK;
}

static bool
row_ok(const struct shard *s, const Psd__JobRow *row, uint32_t id)
{
    struct ps_error e;

    return row != NULL && row->id == id && id >= 1 && id <= SHARD_JOBS_MAX && row->options != NULL &&
           age_ok(row->options->age) && (row->age == NULL || age_ok(row->age)) && row->options->workers >= 1 &&
           row->options->workers <= WIRE_WORKERS_MAX && row->workers <= WIRE_WORKERS_MAX && s->jobs_by_id[id] == NULL &&
           wire_metric_names_check(row->n_metric_names, (const char *const *)row->metric_names, &e) == PS_OK &&
           wire_fields_check(row->n_definition, row->definition, &e) == PS_OK;
}

/* PS_ERR_IO: its contents are impossible. */
static enum ps_err
from_row(struct shard *s, struct job *job, const Psd__JobRow *row)
{
    job->slowest = row->slowest;
    job->used = row->slowest > 0;
    job->round = row->round;
    if (row->age != NULL)
        job->age = wire_age(row->age);
    if (row->bound != NULL)
        job->bound = row->bound->clocks;
    job->restored_boot = row->restored_boot;
    job->dropped = row->dropped;
    job->restored_by = row->restored_by;
    job->restored = strdup(row->restored);
    if (!quota_hold(s, row->token, &job->holder))
        return PS_ERR_NOMEM;
    if (!barrier_opened_take(&job->barrier_opened, row->opened) || !assigns_take(&job->assigns, row->assigns))
        return PS_ERR_IO;
    if (row->workers != 0 && !job_set_workers(job, row->workers))
        return PS_ERR_NOMEM;
    return job->restored != NULL && metric_names_extend(&job->metric_names, row->n_metric_names, row->metric_names) &&
                   definition_fields_take(&job->definition, row->n_definition, row->definition, row->definition_round)
               ? PS_OK
               : PS_ERR_NOMEM;
}

bool
job_load(void *arg, struct span key, struct span value)
{
    struct row_load *l = arg;
    uint32_t id = row_id(key);
    Psd__JobRow *row = psd__job_row__unpack(NULL, value.len, value.data);
    enum ps_err err = PS_ERR_IO;
    struct job *job = NULL;

    if (row_ok(l->s, row, id))
        err = (job = job_new(row->options, id)) != NULL ? from_row(l->s, job, row) : PS_ERR_NOMEM;
    if (err == PS_OK && !job_add(l->s, job)) { /* and has freed it */
        job = NULL;
        err = PS_ERR_NOMEM;
    }
    if (err != PS_OK)
        job_free(job);
    if (row != NULL)
        psd__job_row__free_unpacked(row, NULL);
    return err == PS_OK || row_load_stop(l, err, "job", id);
}
