/* The shard's figures, copied: a few microseconds for each hundred series. */
#include <stdio.h>
#include <string.h>

#include "server/core/metrics/metrics.h"
#include "server/core/shard_state.h"

static void
copy_text(char *out, const char *text, size_t most)
{
    size_t len = MIN(strlen(text), most);

    memcpy(out, text, len);
    out[len] = '\0';
}

static void
copy_name(char out[WIRE_NAME_MAX + 1], const char *name)
{
    copy_text(out, name, WIRE_NAME_MAX);
}

/* ---- Jobs and their workers ---- */

static void
measure_worker(const struct session *x, uint64_t now_ms, struct metrics *m)
{
    struct metrics_worker *w;

    m->sessions[x->state]++;
    m->workers_len++;
    if (m->workers_shown == METRICS_WORKERS_MAX)
        return;
    w = &m->workers[m->workers_shown++];
    copy_name(w->job, x->job->name);
    w->job_id = x->job->id;
    w->task = x->task;
    w->connected = x->connection != NULL;
    w->live = x->state == SESSION_LIVE;
    w->finished = x->state == SESSION_FINISHED;
    w->clock = x->clock;
    w->silent_ms = now_ms - MIN(x->heard_ms, now_ms);
    w->unanswered = x->pending_len;
    w->pushes = x->pushes;
    w->lapses = x->lapses;
    w->stats = x->stats;
    memcpy(w->waited_ms, x->waited_ms, sizeof w->waited_ms);
    w->sums_len = x->round == x->job->round ? MIN(x->metrics.len, (uint32_t)METRICS_SUMS_MAX) : 0;
    memcpy(w->sums, x->metrics.value, w->sums_len * sizeof w->sums[0]);
}

static uint64_t
barriers_arrived(const struct job *job)
{
    const struct barrier *b;
    uint64_t n = 0;

    for (b = job->barriers; b != NULL; b = b->hh.next)
        n += b->arrived_len;
    return n;
}

static void
measure_sums(const struct job *job, struct metrics_job *j)
{
    double sums[WIRE_METRICS_MAX];

    j->sums_len = MIN(job_metrics_sum(job, sums), (uint32_t)METRICS_SUMS_MAX);
    memcpy(j->sums, sums, j->sums_len * sizeof sums[0]);
    j->names.len = MIN((uint32_t)job->metric_names.len, j->sums_len);
    for (uint32_t i = 0; i < j->names.len; i++)
        copy_text(j->names.name[i], job->metric_names.name[i], WIRE_METRIC_NAME_MAX);
}

static void
measure_job(const struct job *job, uint64_t now_ms, struct metrics *m)
{
    uint64_t arrived = barriers_arrived(job), pending = 0;
    const struct session *x;
    struct metrics_job *j;

    SESSION_EACH (job, x) {
        pending += x->pending_len;
        measure_worker(x, now_ms, m);
    }
    m->waiting[WAIT_BARRIER] += arrived;
    m->waiting[WAIT_GRADIENTS] += pending - MIN(arrived, pending);
    m->jobs_len++;
    if (m->jobs_shown == METRICS_JOBS_MAX)
        return;
    j = &m->jobs[m->jobs_shown++];
    copy_name(j->name, job->name);
    job_options_text(job, j->options, sizeof j->options);
    j->id = job->id;
    measure_sums(job, j);
    j->workers = job->workers;
    j->live = job->live;
    j->lapsed = job->lapsed;
    j->finished = job->finished;
    j->slowest = job->slowest;
    j->fastest = clock_fastest(job);
}

/* ---- Variables ---- */

/* Of the update that the variable's first block here takes next. */
static double
measure_rate(const struct variable *v)
{
    uint64_t version = v->count > 0 ? v->blocks[0].version : 0;
    struct optimizer_when when = {.version = version + 1, .clock = v->job->slowest};

    return optimizer_rate(&v->def->optimizer, &when);
}

static void
measure_variables(const struct job *job, struct metrics *m)
{
    const struct variable *v;

    for (v = job->variables; v != NULL && m->variables_shown < METRICS_VARIABLES_MAX; v = v->hh.next) {
        struct metrics_variable *to = &m->variables[m->variables_shown++];

        copy_name(to->job, v->job->name);
        copy_name(to->name, v->name);
        to->blocks = v->count;
        to->bytes = v->bytes;
        to->optimizer = v->def->optimizer;
        to->learning_rate = measure_rate(v);
        to->stats = v->stats;
        memcpy(to->waited_ms, v->waited_ms, sizeof to->waited_ms);
    }
}

/* The jobs with live workers, or those without. */
static void
measure_jobs(const struct shard *s, bool live, uint64_t now_ms, struct metrics *m)
{
    for (uint32_t id = 1; id <= s->jobs_len; id++) {
        const struct job *job = s->jobs_by_id[id];

        if (job == NULL || job->dropped || (job->live > 0) != live)
            continue;
        measure_job(job, now_ms, m);
        measure_variables(job, m);
    }
}

/* ---- Waits ---- */

static bool
measure_wait(void *arg, const struct waiting *w)
{
    struct metrics *m = arg;
    struct metrics_wait *to;

    if (m->waits_shown == METRICS_WAITS_MAX) {
        m->waits_more = true;
        return false;
    }
    to = &m->waits[m->waits_shown++];
    copy_name(to->job, w->job);
    copy_name(to->variable, w->variable);
    snprintf(to->who, sizeof to->who, "%s", w->who);
    snprintf(to->what, sizeof to->what, "%s", w->what);
    snprintf(to->on, sizeof to->on, "%s", w->on);
    to->task = w->task;
    to->clock = w->clock;
    to->on_clock = w->on_clock;
    to->waited_ms = w->waited_ms;
    to->on_len = w->on_len;
    memcpy(to->on_task, w->on_task, MIN(w->on_len, (uint32_t)METRICS_ON_MAX) * sizeof to->on_task[0]);
    return true;
}

/* ---- The rest ---- */

static void
measure_connections(const struct shard *s, struct metrics *m)
{
    const struct connection *c;

    m->connections = s->connections_len;
    for (c = s->connections; c != NULL; c = c->hh.next) {
        m->waiting[WAIT_BLOCKS] += c->declares_len;
        m->waiting[WAIT_DISK] += c->durable_acks_len;
        if (c->session != NULL)
            m->waiting[job_is_sync(c->session->job) ? WAIT_STEP : WAIT_BOUND] += c->parked_len;
    }
}

static void
measure_saves(const struct shard *s, struct metrics *m)
{
    const struct save *save = &s->save;
    const struct save_request *r;

    DL_FOREACH (save->waiting, r)
        m->waiting[r->job_id != 0 ? WAIT_CHECKPOINT : WAIT_SAVE] += r->connection != NULL;
    DL_FOREACH (save->answering, r)
        m->waiting[r->job_id != 0 ? WAIT_CHECKPOINT : WAIT_SAVE] += r->connection != NULL;
    m->save = save->stats;
    m->durable = s->config.durable;
    if (!m->durable)
        return;
    m->save_running = save->state != SAVE_IDLE && save->answering->job_id == 0;
    m->save_blocks = m->save_running ? save->len : 0;
    m->save_blocks_done = m->save_running ? save->passed_len : 0;
    m->save_number = save->complete;
    m->unsaved = shard_save_due(s);
    m->durable_failed = redo_failed(s);
    m->redo_committed = s->redo.committed;
    m->redo_waiting = s->redo.committed - MIN(s->redo.committed, s->redo.durable);
    m->redo_waiting_bytes = s->redo.bytes;
    m->redo_log_bytes = s->redo.log_bytes;
}

static enum metrics_state
state_of(const struct shard *s)
{
    if (s->broken)
        return METRICS_BROKEN;
    if (s->draining)
        return METRICS_STOPPING;
    return shard_is_restoring(s, NULL) ? METRICS_RESTORING : METRICS_SERVING;
}

void
shard_measure(const struct shard *s, const struct shard_event *event, struct metrics *m)
{
    memset(m, 0, sizeof *m);
    m->measured = true;
    m->state = state_of(s);
    copy_name(m->cluster, s->cluster);
    m->shard = s->config.shard;
    m->shards = s->config.shards;
    m->boot = s->boot;
    m->stats = s->stats;
    for (enum limit i = 0; i < LIMITS; i++) {
        m->limit_now[i] = limit_now(s, i, event);
        m->limit_max[i] = limit_max(s, i, event);
        m->limit_refused[i] = limit_refused(s, i, event);
    }
    s->store->ops->usage(s->store, &m->live);
    m->data_bytes = s->data_bytes;
    m->gather_bytes = s->gather_bytes;
    m->in_flight_bytes = event->in_flight_bytes;
    if (s->broken) /* jobs and what belongs to them are not all there */
        return;
    m->blocks = s->blocks;
    m->variables_len = s->variables_len;
    measure_jobs(s, true, event->now_ms, m);
    measure_jobs(s, false, event->now_ms, m);
    wait_report_each(s, event->now_ms, "", measure_wait, m);
    measure_connections(s, m);
    measure_saves(s, m);
}
