/* Reports. Entries are made in the event's arena and counted in bytes as they would travel, so that a report always
 * fits one frame. */
#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report_builder.h"
#include "shard_state.h"

/* ---- Building ---- */

bool
report_wants_job(const struct report_builder *b, const struct job *job)
{
    return job != NULL && (b->job[0] == '\0' || strcmp(b->job, job->name) == 0);
}

/* Whether one more entry fits; if not, the report says that there is more. */
bool
report_fits(struct report_builder *b, size_t entries, const ProtobufCMessage *m)
{
    size_t size = protobuf_c_message_get_packed_size(m) + 8;

    if (entries < REPORT_ENTRIES_MAX && b->bytes + size <= REPORT_BYTES_MAX) {
        b->bytes += size;
        return true;
    }
    b->report->more = true;
    return false;
}

void *
report_zeroed(struct shard *s, size_t size)
{
    void *place = arena_alloc(&s->arena, size);

    if (place == NULL)
        turn_fail(s, PS_ERR_NOMEM);
    else
        memset(place, 0, size);
    return place;
}

char *
report_text(struct shard *s, const char *text)
{
    char *copy = report_zeroed(s, strlen(text) + 1);

    return copy != NULL ? strcpy(copy, text) : (char *)protobuf_c_empty_string;
}

/* ---- Status and stats ---- */

static void
status(struct shard *s, Psd__StatusReport *m, Psd__SaveReport *save, uint64_t in_flight_bytes)
{
    struct store_usage usage;

    s->store->ops->usage(s->store, &usage);
    m->cluster = s->cluster;
    m->shard = s->config.shard;
    m->shards = s->config.shards;
    m->boot = s->boot;
    m->uptime_ms = s->now_ms - s->start_ms;
    m->pid = s->config.pid;
    m->connections = s->connections_len;
    m->data_bytes = s->data_bytes;
    m->store_bytes = usage.used_bytes;
    m->store_bytes_max = usage.max_bytes;
    m->in_flight_bytes = in_flight_bytes;
    m->in_flight_bytes_max = s->config.in_flight_bytes_max;
    m->variables = s->variables_len;
    m->blocks = s->blocks;
    for (uint32_t id = 1; id <= s->jobs_len; id++)
        m->workers += s->jobs_by_id[id] != NULL ? s->jobs_by_id[id]->live : 0;
    m->draining = s->draining;
    m->version = s->version;
    m->live_dir = s->live_dir;
    if (!s->config.durable)
        return;
    save_report(s, save);
    m->save = save;
}

/* What the core refused, and what the glue did before the core heard of it. */
static uint64_t
refused(const struct shard *s, enum limit limit, const struct shard_figures *glue)
{
    uint64_t n = s->stats.limited[limit];

    if (glue == NULL)
        return n;
    switch (limit) {
    case LIMIT_CONNECTIONS:
        return n + glue->connections_refused;
    case LIMIT_DESCRIPTORS:
        return n + glue->descriptors_refused;
    case LIMIT_IN_FLIGHT:
        return n + glue->in_flight_waits;
    case LIMIT_IN_FLIGHT_CONNECTION:
        return n + glue->in_flight_connection_waits;
    default:
        return n;
    }
}

static void
limits(struct shard *s, Psd__StatsReport *m, const struct shard_event *event)
{
    Psd__LimitReport *rows = report_zeroed(s, LIMITS * sizeof *rows);

    m->limit = report_zeroed(s, LIMITS * sizeof(Psd__LimitReport *));
    if (rows == NULL || m->limit == NULL)
        return;
    for (enum limit i = 0; i < LIMITS; i++) {
        psd__limit_report__init(&rows[i]);
        rows[i].name = (char *)(uintptr_t)limit_texts[i].name;
        if (limit_texts[i].option != NULL)
            rows[i].option = (char *)(uintptr_t)limit_texts[i].option;
        rows[i].bytes = limit_texts[i].bytes;
        rows[i].now = limit_now(s, i, event);
        rows[i].max = limit_max(s, i, event);
        rows[i].refused = refused(s, i, event->figures);
        m->limit[m->n_limit++] = &rows[i];
    }
}

static void
stats(struct shard *s, Psd__StatsReport *m, Psd__Histogram *age, const struct shard_event *event)
{
    const struct shard_stats *x = &s->stats;

    limits(s, m, event);

    m->turns = x->turns;
    m->commits = x->commits;
    m->pushes_applied = x->pushes_applied;
    m->pushes_repeated = x->pushes_repeated;
    m->refused_nonfinite = x->refused_nonfinite;
    m->refused_shape = x->refused_shape;
    m->refused_other = x->refused_other;
    m->dropped_stale = x->dropped_stale;
    m->dropped_late = x->dropped_late;
    m->pulls = x->pulls;
    m->pulls_parked = x->pulls_parked;
    m->pushed_bytes = x->pushed_bytes;
    m->pulled_bytes = x->pulled_bytes;
    m->lease_lapses = x->lease_lapses;
    m->bad_peers = x->bad_peers;
    m->hello_timeouts = x->hello_timeouts;
    age->n_count = AGE_BUCKETS;
    age->count = (uint64_t *)x->age.count;
    m->age = age;
}

/* ---- Variables ---- */

/* The first of the wanted variables past `after` in order of path, found in one pass over all. */
static size_t
first_variables(const struct report_builder *b, struct variable **first, size_t max)
{
    size_t n = 0;

    for (uint32_t id = 1; id <= b->s->variables_len; id++) {
        struct variable *v = b->s->variables[id];
        size_t at;

        if (!report_wants_job(b, v->job) || strcmp(v->path, b->after) <= 0)
            continue;
        if (n == max && strcmp(v->path, first[n - 1]->path) >= 0)
            continue;
        for (at = MIN(n, max - 1); at > 0 && strcmp(v->path, first[at - 1]->path) < 0; at--)
            first[at] = first[at - 1];
        first[at] = v;
        n = MIN(n + 1, max);
    }
    return n;
}

static void
versions(const struct variable *v, Psd__VariableReport *m)
{
    m->version_min = v->ready > 0 ? UINT64_MAX : 0;
    for (uint64_t i = 0; i < v->ready; i++) {
        m->version_min = MIN(m->version_min, v->blocks[i].version);
        m->version_max = MAX(m->version_max, v->blocks[i].version);
    }
}

/* Of the update that the newest block takes next. */
static double
learning_rate(const struct variable *v, uint64_t version)
{
    struct optimizer_when when = {.version = version + 1, .clock = v->job->slowest};

    return optimizer_rate(&v->optimizer, &when);
}

static Psd__VariableReport *
variable(struct shard *s, const struct variable *v)
{
    Psd__VariableReport *m = report_zeroed(s, sizeof *m);
    char text[PS_OPTIMIZER_TEXT_MAX];

    if (m == NULL)
        return NULL;
    psd__variable_report__init(m);
    ps_optimizer_describe(&v->optimizer, text, sizeof text);
    m->job = (char *)v->job->name;
    m->name = (char *)v->name;
    m->n_dims = v->declare->n_dims;
    m->dims = v->declare->dims;
    m->blocks = v->count;
    m->bytes = v->bytes;
    versions(v, m);
    m->pushes = v->stats.pushes;
    m->pushed_bytes = v->stats.pushed_bytes;
    m->pulls = v->stats.pulls;
    m->pulled_bytes = v->stats.pulled_bytes;
    m->refused = v->stats.refused;
    m->dropped = v->stats.dropped;
    m->optimizer = report_text(s, text);
    m->learning_rate = learning_rate(v, m->version_max);
    m->initializer = (char *)initializer_name((int)v->initializer.kind);
    return m;
}

static void
variables(struct report_builder *b)
{
    struct variable *first[REPORT_ENTRIES_MAX / 4];
    size_t n = first_variables(b, first, ARRAY_LEN(first));
    Psd__Report *r = b->report;

    if ((r->variable = report_zeroed(b->s, MAX(n, 1) * sizeof(Psd__VariableReport *))) == NULL)
        return;
    r->more = n == ARRAY_LEN(first);
    for (size_t i = 0; i < n; i++) {
        Psd__VariableReport *m = variable(b->s, first[i]);

        if (m == NULL || !report_fits(b, r->n_variable, &m->base))
            return;
        r->variable[r->n_variable++] = m;
    }
}

/* ---- Workers ---- */

static Psd__WorkerReport *
worker(struct shard *s, const struct session *x)
{
    Psd__WorkerReport *m = report_zeroed(s, sizeof *m);

    if (m == NULL)
        return NULL;
    psd__worker_report__init(m);
    m->job = (char *)x->job->name;
    m->task = x->task;
    m->incarnation = x->incarnation;
    m->connected = x->connection != NULL;
    m->lapsed = x->state == SESSION_LAPSED;
    m->finished = x->state == SESSION_FINISHED;
    m->clock = x->clock;
    m->last_seq = x->last_seq;
    m->silent_ms = s->now_ms - x->heard_ms;
    m->lease_ms = x->lease_ms;
    m->agent = x->agent;
    m->unresolved = x->pending_len;
    return m;
}

/* Jobs come in order of id; "job/task" names where the last report ended. */
static uint32_t
first_task(const struct report_builder *b, const struct job *job, bool *past)
{
    size_t len = strlen(job->name);

    if (*past)
        return 0;
    if (strncmp(b->after, job->name, len) != 0 || b->after[len] != '/')
        return UINT32_MAX;
    *past = true;
    return (uint32_t)strtoul(b->after + len + 1, NULL, 10) + 1;
}

static void
workers(struct report_builder *b)
{
    struct shard *s = b->s;
    Psd__Report *r = b->report;
    bool past = b->after[0] == '\0';

    if ((r->worker = report_zeroed(s, REPORT_ENTRIES_MAX * sizeof(Psd__WorkerReport *))) == NULL)
        return;
    for (uint32_t id = 1; id <= s->jobs_len; id++) {
        const struct job *job = s->jobs_by_id[id];

        if (!report_wants_job(b, job))
            continue;
        for (uint32_t task = first_task(b, job, &past); task < job->options->workers; task++) {
            Psd__WorkerReport *m = job->sessions[task] != NULL ? worker(s, job->sessions[task]) : NULL;

            if (m == NULL)
                continue;
            if (!report_fits(b, r->n_worker, &m->base))
                return;
            r->worker[r->n_worker++] = m;
        }
    }
}

/* ---- Jobs ---- */

/* A job's options as a SET left them. */
static Psd__Job *
job_now(struct shard *s, const struct job *job)
{
    Psd__Job *now = report_zeroed(s, sizeof *now);
    Psd__AgePolicy *age = report_zeroed(s, sizeof *age);

    if (now == NULL || age == NULL)
        return NULL;
    psd__age_policy__init(age);
    age->kind = (Psd__AgeKind)job->age.kind;
    age->parameter = job->age.parameter;
    *now = *job->options;
    now->age = age;
    now->bound = job->bound;
    return now;
}

/* "ssp(bound 4), 3 workers, lapse shrink, age none", as a SET left it. */
static char *
job_options(struct shard *s, const struct job *job)
{
    const Psd__Job *now = job_now(s, job);
    char text[256] = "";

    if (now != NULL)
        wire_job_options(now, text, sizeof text);
    return report_text(s, text);
}

static uint64_t
fastest_clock(const struct job *job)
{
    uint64_t fastest = 0;

    for (uint32_t task = 0; task < job->options->workers; task++)
        if (job->sessions[task] != NULL)
            fastest = MAX(fastest, job->sessions[task]->clock);
    return fastest;
}

static Psd__JobReport *
job_report(struct shard *s, const struct job *job)
{
    Psd__JobReport *m = report_zeroed(s, sizeof *m);
    const struct pull *p;

    if (m == NULL)
        return NULL;
    psd__job_report__init(m);
    m->name = (char *)job->name;
    m->options = job_options(s, job);
    m->workers = job->options->workers;
    m->live = job->live;
    m->lapsed = job->lapsed;
    m->finished = job->finished;
    m->slowest_clock = job->slowest;
    m->fastest_clock = fastest_clock(job);
    m->variables = HASH_COUNT(job->variables);
    DL_FOREACH (job->pulls, p)
        m->pulls_parked++;
    return m;
}

/* In order of id, which is that of their first hellos; a name that is not known has none after it. */
static uint32_t
first_job(const struct report_builder *b)
{
    const struct job *job;

    if (b->after[0] == '\0')
        return 1;
    HASH_FIND(hh, b->s->jobs, b->after, strlen(b->after), job);
    return job != NULL ? job->id + 1 : UINT32_MAX;
}

static void
jobs(struct report_builder *b)
{
    struct shard *s = b->s;
    Psd__Report *r = b->report;

    if ((r->job = report_zeroed(s, REPORT_ENTRIES_MAX * sizeof(Psd__JobReport *))) == NULL)
        return;
    for (uint32_t id = first_job(b); id <= s->jobs_len; id++) {
        Psd__JobReport *m;

        if (!report_wants_job(b, s->jobs_by_id[id]))
            continue;
        if ((m = job_report(s, s->jobs_by_id[id])) == NULL || !report_fits(b, r->n_job, &m->base))
            return;
        r->job[r->n_job++] = m;
    }
}

/* ---- Definitions ---- */

static Psd__JobDefinition *
job_definition(struct shard *s, const struct job *job)
{
    Psd__JobDefinition *m = report_zeroed(s, sizeof *m);

    if (m == NULL)
        return NULL;
    psd__job_definition__init(m);
    m->declared = job->options;
    m->now = job_now(s, job);
    m->live = job->live;
    m->slowest_clock = job->slowest;
    m->fastest_clock = fastest_clock(job);
    return m;
}

/* A variable's declaration, with the optimizer as a SET left it beside it. */
static Psd__VariableDefinition *
definition(struct shard *s, const struct variable *v)
{
    Psd__VariableDefinition *m = report_zeroed(s, sizeof *m);
    struct wire_optimizer *room = report_zeroed(s, sizeof *room);
    Psd__Declare *now = report_zeroed(s, sizeof *now);

    if (m == NULL || room == NULL || now == NULL)
        return NULL;
    psd__variable_definition__init(m);
    *now = *v->declare;
    now->optimizer = wire_optimizer_message(&v->optimizer, room);
    m->declared = v->declare;
    m->now = now;
    return m;
}

static void
definitions(struct report_builder *b)
{
    struct variable *first[REPORT_ENTRIES_MAX / 4];
    Psd__Report *r = b->report;
    struct job *job;
    size_t n;

    HASH_FIND(hh, b->s->jobs, b->job, strlen(b->job), job);
    if (job == NULL)
        return;
    n = first_variables(b, first, ARRAY_LEN(first));
    r->job_definition = job_definition(b->s, job);
    if ((r->definition = report_zeroed(b->s, MAX(n, 1) * sizeof(Psd__VariableDefinition *))) == NULL)
        return;
    r->more = n == ARRAY_LEN(first);
    for (size_t i = 0; i < n; i++) {
        Psd__VariableDefinition *m = definition(b->s, first[i]);

        if (m == NULL || !report_fits(b, r->n_definition, &m->base))
            return;
        r->definition[r->n_definition++] = m;
    }
}

/* ---- The answer ---- */

void
report_answer(struct shard *s, struct connection *c, uint64_t request, const Psd__Query *query,
              const struct shard_event *event)
{
    Psd__Report m = PSD__REPORT__INIT;
    Psd__StatusReport status_report = PSD__STATUS_REPORT__INIT;
    Psd__SaveReport save_status = PSD__SAVE_REPORT__INIT;
    Psd__StatsReport stats_report = PSD__STATS_REPORT__INIT;
    Psd__Histogram age = PSD__HISTOGRAM__INIT;
    struct report_builder b = {.s = s, .report = &m, .job = query->job, .after = query->after};

    m.kind = query->kind;
    switch (query->kind) {
    case PSD__QUERY_KIND__STATUS:
        status(s, &status_report, &save_status, event->in_flight_bytes);
        m.status = &status_report;
        break;
    case PSD__QUERY_KIND__STATS:
        stats(s, &stats_report, &age, event);
        m.stats = &stats_report;
        break;
    case PSD__QUERY_KIND__VARIABLES:
        variables(&b);
        break;
    case PSD__QUERY_KIND__WORKERS:
        workers(&b);
        break;
    case PSD__QUERY_KIND__BLOCKED:
        report_blocked(&b);
        break;
    case PSD__QUERY_KIND__JOBS:
        jobs(&b);
        break;
    case PSD__QUERY_KIND__DEFINITIONS:
        definitions(&b);
        break;
    default:
        ps_assert(false);
    }
    actions_send(s, c, MSG_REPORT, request, &m.base);
}
