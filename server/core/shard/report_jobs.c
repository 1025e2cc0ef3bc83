/* Jobs and their workers. */
#include <stdlib.h>
#include <string.h>

#include "common/core/wire/wire.h"
#include "server/core/shard/report_builder.h"
#include "server/core/shard_state.h"

/* ---- Jobs ---- */

/* A job's options as a SET left them. */
static Psd__Job *
report_jobs_now(struct shard *s, const struct job *job)
{
    Psd__Job *now = report_zeroed(s, sizeof *now);
    Psd__AgePolicy *age = report_zeroed(s, sizeof *age);

    if (now == NULL || age == NULL)
        return NULL;
    *now = job_now(job, age);
    return now;
}

static char *
job_options(struct shard *s, const struct job *job)
{
    char text[256];

    job_options_text(job, text, sizeof text);
    return report_text(s, text);
}

/* NULL where they are what they are now; an absent text is empty. */
static char *
report_jobs_declared(struct shard *s, const struct job *job)
{
    char now[256], declared[sizeof now];

    job_options_text(job, now, sizeof now);
    wire_job_options(job->options, declared, sizeof declared);
    return strcmp(now, declared) != 0 ? report_text(s, declared) : NULL;
}

static uint64_t
report_jobs_leader(struct shard *s, const struct job *job)
{
    const struct session *x;
    uint64_t fastest = 0;

    SESSION_EACH (job, x) {
        s->looks++;
        if (x->state == SESSION_LIVE)
            fastest = MAX(fastest, x->clock);
    }
    return fastest;
}

static Psd__JobReport *
job_report(struct shard *s, const struct job *job)
{
    Psd__JobReport *m = report_zeroed(s, sizeof *m);
    struct barrier_opened_parts *opened = report_zeroed(s, sizeof *opened);

    if (m == NULL || opened == NULL)
        return NULL;
    s->looks++;
    psd__job_report__init(m);
    m->name = (char *)job->name;
    m->options = job_options(s, job);
    m->declared = report_jobs_declared(s, job);
    m->workers = job->workers;
    m->live = job->live;
    m->lapsed = job->lapsed;
    m->finished = job->finished;
    m->slowest_clock = job->slowest;
    m->fastest_clock = clock_fastest(job);
    m->leader = report_jobs_leader(s, job);
    m->opened = barrier_opened_message(&job->barrier_opened, opened);
    m->variables = HASH_COUNT(job->variables);
    m->first = job->firsts;
    m->pulls_parked = job->pulls_len;
    if ((m->metrics = report_zeroed(s, WIRE_METRICS_MAX * sizeof *m->metrics)) != NULL)
        m->n_metrics = job_metrics_sum(job, m->metrics);
    m->n_metric_names = job->metric_names.len;
    m->metric_names = (char **)job->metric_names.name;
    return m;
}

/* In order of id, which is that of their first hellos; a name that is not known has none after it. */
static uint32_t
first_job(const struct report_builder *b)
{
    const struct job *job;

    if (b->from > 0)
        return (uint32_t)MIN(b->from, (uint64_t)UINT32_MAX);
    if (b->after[0] == '\0')
        return 1;
    HASH_FIND(hh, b->s->jobs, b->after, strlen(b->after), job);
    return job != NULL ? job->id + 1 : UINT32_MAX;
}

void
report_jobs(struct report_builder *b)
{
    struct shard *s = b->s;
    Psd__Report *r = b->report;

    if ((r->job = report_zeroed(s, REPORT_ENTRIES_MAX * sizeof(Psd__JobReport *))) == NULL)
        return;
    for (uint32_t id = first_job(b); id <= s->jobs_len; id++) {
        Psd__JobReport *m;

        if (!report_wants_job(b, s->jobs_by_id[id]))
            continue;
        if (report_is_long(b, r->n_job)) {
            report_goes_on(b, id);
            return;
        }
        if ((m = job_report(s, s->jobs_by_id[id])) == NULL)
            return;
        if (!report_fits(b, &m->base)) {
            report_goes_on(b, id);
            return;
        }
        r->job[r->n_job++] = m;
    }
}

/* ---- Workers ---- */

static Psd__WorkerReport *
report_jobs_worker(struct shard *s, const struct session *x)
{
    Psd__WorkerReport *m = report_zeroed(s, sizeof *m);

    if (m == NULL)
        return NULL;
    s->looks++;
    psd__worker_report__init(m);
    m->job = (char *)x->job->name;
    m->task = x->task;
    m->connected = x->connection != NULL;
    m->lapsed = x->state == SESSION_LAPSED;
    m->evicted = x->evicted;
    m->finished = x->state == SESSION_FINISHED;
    m->clock = x->clock;
    m->last_seq = x->last_seq;
    m->silent_ms = s->now_ms - x->heard_ms;
    m->lease_ms = x->lease_ms;
    m->agent = x->agent;
    m->unresolved = x->pending_len;
    m->n_metrics = x->round == x->job->round ? x->metrics.len : 0;
    m->metrics = (double *)x->metrics.value;
    return m;
}

/* Jobs come in order of id, and their workers in order of task. A place, `next` of a page, is both in one number. */
static uint64_t
worker_place(uint32_t job_id, uint32_t task)
{
    return (uint64_t)job_id << 32 | task;
}

/* "job/task" names where the last report ended, and a job's name may have a '/', too. */
static uint64_t
first_worker(const struct report_builder *b)
{
    const char *task = strrchr(b->after, '/');
    const struct job *job = NULL;

    if (b->from > 0)
        return b->from;
    if (b->after[0] == '\0')
        return worker_place(1, 0);
    if (task != NULL)
        HASH_FIND(hh, b->s->jobs, b->after, (size_t)(task - b->after), job);
    return job != NULL ? worker_place(job->id, (uint32_t)strtoul(task + 1, NULL, 10) + 1) : UINT64_MAX;
}

/* The job's workers from this task on. False: the page is full. */
static bool
report_workers_of(struct report_builder *b, const struct job *job, uint32_t task)
{
    Psd__Report *r = b->report;
    const struct session *x;

    for (x = session_from(job, task); x != NULL; x = session_from(job, x->task + 1)) {
        Psd__WorkerReport *m;

        if (report_is_long(b, r->n_worker)) {
            report_goes_on(b, worker_place(job->id, x->task));
            return false;
        }
        if ((m = report_jobs_worker(b->s, x)) == NULL)
            return false;
        if (!report_fits(b, &m->base)) {
            report_goes_on(b, worker_place(job->id, x->task));
            return false;
        }
        r->worker[r->n_worker++] = m;
    }
    return true;
}

void
report_workers(struct report_builder *b)
{
    struct shard *s = b->s;
    uint64_t from = first_worker(b);
    uint32_t task = (uint32_t)from;

    if ((b->report->worker = report_zeroed(s, REPORT_ENTRIES_MAX * sizeof(Psd__WorkerReport *))) == NULL)
        return;
    for (uint64_t id = from >> 32; id <= s->jobs_len; id++, task = 0)
        if (report_wants_job(b, s->jobs_by_id[id]) && !report_workers_of(b, s->jobs_by_id[id], task))
            return;
}

/* ---- Definition ---- */

Psd__JobDefinition *
report_job_definition(struct shard *s, const struct job *job)
{
    Psd__JobDefinition *m = report_zeroed(s, sizeof *m);
    if (m == NULL)
        return NULL;
    psd__job_definition__init(m);
    m->declared = job->options;
    m->now = report_jobs_now(s, job);
    m->live = job->live;
    m->slowest_clock = job->slowest;
    m->fastest_clock = clock_fastest(job);
    return m;
}
