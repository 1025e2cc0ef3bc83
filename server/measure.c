/* The shard's figures, copied: a few microseconds for each hundred series. */
#include <string.h>

#include "metrics.h"
#include "shard_state.h"

static void
copy_name(char out[WIRE_NAME_MAX + 1], const char *name)
{
    size_t len = MIN(strlen(name), (size_t)WIRE_NAME_MAX);

    memcpy(out, name, len);
    out[len] = '\0';
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
    w->task = x->task;
    w->connected = x->connection != NULL;
    w->live = x->state == SESSION_LIVE;
    w->clock = x->clock;
    w->silent_ms = now_ms - MIN(x->heard_ms, now_ms);
    w->unanswered = x->pending_len;
    w->pushes = x->pushes;
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
measure_job(const struct job *job, uint64_t now_ms, struct metrics *m)
{
    uint64_t arrived = barriers_arrived(job), fastest = 0, pending = 0;
    const struct session *x;
    struct metrics_job *j;

    SESSION_EACH (job, x) {
        fastest = MAX(fastest, x->clock);
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
    j->workers = job->options->workers;
    j->live = job->live;
    j->lapsed = job->lapsed;
    j->finished = job->finished;
    j->slowest = job->slowest;
    j->fastest = fastest;
}

/* ---- Variables ---- */

static void
measure_variables(const struct shard *s, struct metrics *m)
{
    m->variables_len = s->variables_len;
    for (uint32_t id = 1; id <= s->variables_len && m->variables_shown < METRICS_VARIABLES_MAX; id++) {
        const struct variable *v = s->variables[id];
        struct metrics_variable *to = &m->variables[m->variables_shown++];

        copy_name(to->job, v->job->name);
        copy_name(to->name, v->name);
        to->blocks = v->count;
        to->bytes = v->bytes;
        to->stats = v->stats;
    }
}

/* ---- The rest ---- */

static void
measure_connections(const struct shard *s, struct metrics *m)
{
    const struct connection *c;

    m->connections = s->connections_len;
    for (c = s->connections; c != NULL; c = c->hh.next) {
        m->waiting[WAIT_BLOCKS] += c->declares_len;
        m->waiting[WAIT_DISK] += c->held_len;
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
    for (uint32_t id = 1; id <= s->jobs_len; id++)
        if (s->jobs_by_id[id] != NULL)
            measure_job(s->jobs_by_id[id], event->now_ms, m);
    measure_variables(s, m);
    measure_connections(s, m);
    measure_saves(s, m);
}
