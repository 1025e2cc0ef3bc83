#include "server/core/metrics/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const metrics_state_names[METRICS_STATES] = {
#define X(id, name, text) [METRICS_##id] = name,
    METRICS_STATE_LIST(X)
#undef X
};

const char *const metrics_state_texts[METRICS_STATES] = {
#define X(id, name, text) [METRICS_##id] = text,
    METRICS_STATE_LIST(X)
#undef X
};

enum family {
#define X(id, ...) FAMILY_##id,
    METRICS_LIST(X)
#undef X
        FAMILIES
};

static const struct {
    const char *name, *help;
    enum exposition_kind kind;
} families[FAMILIES] = {
#define X(id, name, kind, help) [FAMILY_##id] = {name, help, EXPOSITION_##kind},
    METRICS_LIST(X)
#undef X
};

static void
metrics_begin(struct exposition *x, enum family f)
{
    exposition_family(x, families[f].name, families[f].kind, families[f].help);
}

/* A family of one sample. */
static void
metrics_count(struct exposition *x, enum family f, uint64_t value)
{
    metrics_begin(x, f);
    exposition_count(x, value, NULL);
}

static void
metrics_number(struct exposition *x, enum family f, double value)
{
    metrics_begin(x, f);
    exposition_real(x, value, NULL);
}

static double
metrics_seconds(uint64_t ms)
{
    return (double)ms / 1000;
}

static void
metrics_durations(struct exposition *x, const struct durations *d, const char *label, const char *value)
{
    double bounds[DURATION_BUCKETS - 1];
    struct exposition_histogram h = {
        .bounds = bounds, .counts = d->count, .buckets = DURATION_BUCKETS, .sum = metrics_seconds(d->sum_ms)};

    for (size_t i = 0; i < ARRAY_LEN(bounds); i++)
        bounds[i] = metrics_seconds(duration_bounds_ms[i]);
    exposition_histogram(x, &h, label, value, NULL);
}

/* A family by reason. */
static void
metrics_reasons(struct exposition *x, enum family f, const char *const *names, const uint64_t *values, size_t n)
{
    metrics_begin(x, f);
    for (size_t i = 0; i < n; i++)
        exposition_count(x, values[i], "reason", names[i], NULL);
}

/* ---- Counters ---- */

/* In the order in which they are written. */
struct metrics_stat {
    enum family family;
    size_t offset;      /* in struct shard_stats */
    const char *reason; /* NULL: the family has it alone */
};

#define METRICS_ID_FIRST(id, ...) FAMILY_##id
#define METRICS_ID_ALSO(id)       FAMILY_##id
#define METRICS_STAT(member, page, kind, name, about, family, reason)                                                  \
    {METRICS_ID_##family, offsetof(struct shard_stats, member), reason},

/* clang-format off */
static const struct metrics_stat metrics_pushes[] = {
    STATS_PUSHES(METRICS_STAT) STATS_LOST(METRICS_STAT) STATS_DURABLE(METRICS_STAT)
};
static const struct metrics_stat metrics_pulls[] = {STATS_PULLS(METRICS_STAT)};
static const struct metrics_stat metrics_peers[] = {STATS_PEERS(METRICS_STAT)};
static const struct metrics_stat metrics_workers[] = {STATS_WORKERS(METRICS_STAT)};
/* clang-format on */
static_assert(ARRAY_LEN(metrics_pushes) + ARRAY_LEN(metrics_pulls) + ARRAY_LEN(metrics_peers) +
                      ARRAY_LEN(metrics_workers) + 1 ==
                  STATS_LEN,
              "each counter is written once: denied is, with the glue's, in write_peers()");

static void
metrics_write_stats(const struct shard_stats *stats, const struct metrics_stat *rows, size_t n, struct exposition *x)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t value = *(const uint64_t *)(const void *)((const char *)stats + rows[i].offset);

        if (i == 0 || rows[i].family != rows[i - 1].family)
            metrics_begin(x, rows[i].family);
        exposition_count(x, value, rows[i].reason != NULL ? "reason" : NULL, rows[i].reason, NULL);
    }
}
#define METRICS_WRITE_STATS(m, rows, x) metrics_write_stats(&(m)->stats, rows, ARRAY_LEN(rows), x)

/* ---- The process ---- */

static void
write_logged(const struct metrics *m, struct exposition *x)
{
    static const char *const levels[METRICS_LOG_LEVELS] = {"error", "warning", "info", "debug"};

    metrics_begin(x, FAMILY_LOG);
    for (size_t i = 0; i < ARRAY_LEN(levels); i++)
        exposition_count(x, m->log_lines[i], "level", levels[i], NULL);
}

static void
write_http(const struct metrics *m, struct exposition *x)
{
    static const char *const denials[HTTP_DENIALS] = {[HTTP_DENIAL_MISSING] = "missing", [HTTP_DENIAL_WRONG] = "wrong"};
    static const char *const classes[] = {"1xx", "2xx", "3xx", "4xx", "5xx"};

    metrics_begin(x, FAMILY_HTTP);
    for (size_t i = 1; i < ARRAY_LEN(classes); i++)
        exposition_count(x, m->http.answers[i + 1], "code", classes[i], NULL);
    metrics_count(x, FAMILY_HTTP_OVERDUE, m->http.overdue);
    metrics_count(x, FAMILY_HTTP_UNASKED, m->http.unasked);
    metrics_reasons(x, FAMILY_HTTP_DENIED, denials, m->http.denied, HTTP_DENIALS);
}

static void
write_process(const struct metrics *m, const char *version, struct exposition *x)
{
    metrics_begin(x, FAMILY_BUILD);
    exposition_count(x, 1, "version", version, NULL);
    metrics_begin(x, FAMILY_STATE);
    for (enum metrics_state i = 0; i < METRICS_STATES; i++)
        exposition_count(x, i == m->state, "state", metrics_state_names[i], NULL);
    write_logged(m, x);
    write_http(m, x);
    metrics_number(x, FAMILY_CPU, m->process.cpu_seconds);
    metrics_number(x, FAMILY_START, m->process.start_seconds);
    metrics_count(x, FAMILY_RESIDENT, m->process.resident_bytes);
    metrics_count(x, FAMILY_VIRTUAL, m->process.virtual_bytes);
    if (m->process.descriptors != 0)
        metrics_count(x, FAMILY_FDS, m->process.descriptors);
    if (m->process.descriptors_max != 0)
        metrics_count(x, FAMILY_FDS_MAX, m->process.descriptors_max);
}

/* ---- Pushes and pulls ---- */

static void
write_ages(const struct age_histogram *age, struct exposition *x)
{
    double bounds[METRICS_AGE_BUCKETS - 1];
    uint64_t counts[METRICS_AGE_BUCKETS] = {0};
    struct exposition_histogram h = {
        .bounds = bounds, .counts = counts, .buckets = METRICS_AGE_BUCKETS, .sum = (double)age->sum};

    for (size_t i = 0; i < ARRAY_LEN(bounds); i++)
        bounds[i] = (double)((UINT64_C(1) << i) - 1);
    for (size_t i = 0; i < AGE_BUCKETS; i++)
        counts[MIN(i, (size_t)METRICS_AGE_BUCKETS - 1)] += age->count[i];
    metrics_begin(x, FAMILY_AGE);
    exposition_histogram(x, &h, NULL);
}

static void
write_pushes(const struct metrics *m, struct exposition *x)
{
    METRICS_WRITE_STATS(m, metrics_pushes, x);
    write_ages(&m->stats.age, x);
    METRICS_WRITE_STATS(m, metrics_pulls, x);
}

/* ---- Connections, sessions and waits ---- */

/* Of sockets whose certificate has a known end. */
static void
write_certificates(const struct metrics *m, struct exposition *x)
{
    static const char *const sockets[METRICS_CERTIFICATES] = {
        [METRICS_CERTIFICATE_TCP] = "tcp", [METRICS_CERTIFICATE_HTTP] = "http"};
    bool begun = false;

    for (enum metrics_certificate i = 0; i < METRICS_CERTIFICATES; i++) {
        if (m->certificate_ends[i] == 0)
            continue;
        if (!begun)
            metrics_begin(x, FAMILY_CERTIFICATE);
        begun = true;
        exposition_count(x, m->certificate_ends[i], "for", sockets[i], NULL);
    }
}

static void
write_peers(const struct metrics *m, struct exposition *x)
{
    static const char *const states[] = {"live", "lapsed", "finished"};
    static const char *const refusals[REFUSALS] = {[REFUSAL_CONNECTIONS] = "connections-max",
                                                   [REFUSAL_DESCRIPTORS] = "descriptors",
                                                   [REFUSAL_QUOTA] = "quota",
                                                   [REFUSAL_MEMORY] = "memory",
                                                   [REFUSAL_IN_FLIGHT] = "in-flight"};
    static const char *const handshakes[HANDSHAKES] = {
        [HANDSHAKE_GONE] = "gone",   [HANDSHAKE_SILENCE] = "silence",
        [HANDSHAKE_PLAIN] = "plain", [HANDSHAKE_CERTIFICATE] = "certificate",
        [HANDSHAKE_ROOM] = "room",   [HANDSHAKE_OTHER] = "other"};
    static const char *const denials[DENIALS] = {
        [DENIAL_TOKEN] = "token",     [DENIAL_ATTEMPTS] = "attempts", [DENIAL_SILENCE] = "silence",
        [DENIAL_GARBAGE] = "garbage", [DENIAL_USER] = "user",         [DENIAL_ROLE] = "role"};
    uint64_t denied[DENIALS];

    metrics_count(x, FAMILY_RECEIVED, m->received_bytes);
    metrics_count(x, FAMILY_SENT, m->sent_bytes);
    metrics_count(x, FAMILY_CONNECTIONS, m->connections);
    metrics_count(x, FAMILY_ACCEPTED, m->accepted);
    metrics_reasons(x, FAMILY_TURNED_AWAY, refusals, m->refused, REFUSALS);
    METRICS_WRITE_STATS(m, metrics_peers, x);
    metrics_reasons(x, FAMILY_HANDSHAKES, handshakes, m->handshakes_failed, HANDSHAKES);
    write_certificates(m, x);
    memcpy(denied, m->denied, sizeof denied);
    denied[DENIAL_ROLE] = m->stats.denied;
    metrics_reasons(x, FAMILY_DENIED, denials, denied, DENIALS);
    metrics_begin(x, FAMILY_SESSIONS);
    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        exposition_count(x, m->sessions[i], "state", states[i], NULL);
    METRICS_WRITE_STATS(m, metrics_workers, x);
}

static void
write_waits(const struct metrics *m, struct exposition *x)
{
    metrics_reasons(x, FAMILY_WAITING, wait_names, m->waiting, WAITS);
    metrics_begin(x, FAMILY_WAIT);
    for (enum wait i = 0; i < WAITS; i++)
        metrics_durations(x, &m->stats.waits[i], "reason", wait_names[i]);
}

/* ---- Memory and limits ---- */

static void
write_memory(const struct metrics *m, struct exposition *x)
{
    metrics_count(x, FAMILY_JOBS, m->jobs_len);
    metrics_count(x, FAMILY_VARIABLES, m->variables_len);
    metrics_count(x, FAMILY_BLOCKS, m->blocks);
    metrics_count(x, FAMILY_DATA, m->data_bytes);
    metrics_count(x, FAMILY_GATHER, m->gather_bytes);
    metrics_count(x, FAMILY_IN_FLIGHT, m->in_flight_bytes);
    metrics_count(x, FAMILY_LIVE_USED, m->live.used_bytes);
    metrics_count(x, FAMILY_LIVE_FILE, m->live.file_bytes);
    metrics_count(x, FAMILY_LIVE_MAX, m->live.max_bytes);
}

/* A limit's name: that of its option, when it has one. */
static const char *
limit_label(enum limit i)
{
    return limit_texts[i].option != NULL ? limit_texts[i].option : limit_texts[i].name;
}

/* Those that count bytes, or those that do not. */
static void
metrics_limits(struct exposition *x, enum family f, const uint64_t values[LIMITS], bool bytes)
{
    metrics_begin(x, f);
    for (enum limit i = 0; i < LIMITS; i++)
        if (limit_texts[i].bytes == bytes)
            exposition_count(x, values[i], "limit", limit_label(i), NULL);
}

static void
write_limits(const struct metrics *m, struct exposition *x)
{
    metrics_limits(x, FAMILY_LIMIT_NOW, m->limit_now, false);
    metrics_limits(x, FAMILY_LIMIT_MAX, m->limit_max, false);
    metrics_limits(x, FAMILY_LIMIT_NOW_BYTES, m->limit_now, true);
    metrics_limits(x, FAMILY_LIMIT_MAX_BYTES, m->limit_max, true);
    metrics_begin(x, FAMILY_LIMIT_REFUSED);
    for (enum limit i = 0; i < LIMITS; i++)
        exposition_count(x, m->limit_refused[i], "limit", limit_label(i), NULL);
}

/* ---- Saves ---- */

static void
write_redo(const struct metrics *m, struct exposition *x)
{
    metrics_count(x, FAMILY_NOT_DURABLE, m->durable_failed);
    metrics_count(x, FAMILY_DURABLE_FILE, m->http.durable_file_bytes);
    metrics_count(x, FAMILY_REDO, m->redo_committed - MIN(m->redo_committed, m->redo_saved));
    metrics_count(x, FAMILY_REDO_LOG_BYTES, m->redo_log_bytes);
    metrics_count(x, FAMILY_REDO_WAITING, m->redo_waiting);
    metrics_count(x, FAMILY_REDO_BYTES, m->redo_waiting_bytes);
}

static void
write_saves(const struct metrics *m, struct exposition *x)
{
    const struct save_stats *s = &m->save;

    metrics_count(x, FAMILY_CHECKPOINTS, s->checkpoints);
    metrics_count(x, FAMILY_CHECKPOINT_FAILURES, s->checkpoint_failures);
    if (!m->durable)
        return;
    metrics_count(x, FAMILY_SAVES, s->saves);
    metrics_count(x, FAMILY_SAVE_FAILURES, s->failures);
    metrics_begin(x, FAMILY_SAVE_SECONDS);
    metrics_durations(x, &s->took, NULL, NULL);
    if (m->saved_seconds > 0)
        metrics_number(x, FAMILY_SAVE_TIME, m->saved_seconds);
    if (s->saves > 0) {
        metrics_number(x, FAMILY_SAVE_LAST, metrics_seconds(s->last_ms));
        metrics_count(x, FAMILY_SAVE_BYTES, s->last_bytes);
    }
    metrics_count(x, FAMILY_SAVE_NUMBER, m->save_number);
    metrics_count(x, FAMILY_SAVE_RUNNING, m->save_running);
    if (m->save_running)
        metrics_number(x, FAMILY_SAVE_PROGRESS, (double)m->save_blocks_done / (double)MAX(m->save_blocks, UINT64_C(1)));
    metrics_count(x, FAMILY_UNSAVED, m->unsaved);
    write_redo(m, x);
}

/* ---- One by one ---- */

/* A metric without a name has an index alone. */
static void
write_job_metrics(const struct metrics *m, struct exposition *x)
{
    char index[16];

    metrics_begin(x, FAMILY_JOB_METRIC);
    for (const struct metrics_job *j = m->jobs; j < m->jobs + m->jobs_shown; j++)
        for (uint32_t i = 0; i < j->sums_len; i++) {
            snprintf(index, sizeof index, "%" PRIu32, i);
            exposition_real(x, j->sums[i], "job_name", j->name, "index", index, i < j->names.len ? "metric" : NULL,
                            j->names.name[i], NULL);
        }
}

static void
write_jobs(const struct metrics *m, struct exposition *x)
{
    const struct metrics_job *end = m->jobs + m->jobs_shown, *j;

    metrics_begin(x, FAMILY_JOB_WORKERS);
    for (j = m->jobs; j < end; j++) {
        uint32_t there = j->live + j->lapsed + j->finished;

        exposition_count(x, j->live, "job_name", j->name, "state", "live", NULL);
        exposition_count(x, j->lapsed, "job_name", j->name, "state", "lapsed", NULL);
        exposition_count(x, j->finished, "job_name", j->name, "state", "finished", NULL);
        exposition_count(x, j->workers - MIN(there, j->workers), "job_name", j->name, "state", "missing", NULL);
    }
    metrics_begin(x, FAMILY_JOB_SLOWEST);
    for (j = m->jobs; j < end; j++)
        exposition_count(x, j->slowest, "job_name", j->name, NULL);
    metrics_begin(x, FAMILY_JOB_FASTEST);
    for (j = m->jobs; j < end; j++)
        exposition_count(x, j->fastest, "job_name", j->name, NULL);
    write_job_metrics(m, x);
    metrics_count(x, FAMILY_JOBS_LEFT, m->jobs_len - m->jobs_shown);
}

/* Whole numbers of jobs' variables or workers, one family each. */
struct column {
    enum family family;
    size_t offset; /* of an uint64_t */
};

static uint64_t
metrics_cell(const void *row, const struct column *c)
{
    return *(const uint64_t *)(const void *)((const char *)row + c->offset);
}

/* Pulls of several variables, and pushes of several, wait for all of them; other waits are not about variables. */
static void
write_variable_waits(const struct metrics *m, struct exposition *x)
{
    metrics_begin(x, FAMILY_VAR_WAITED);
    for (size_t i = 0; i < m->variables_shown; i++)
        for (size_t j = 0; j < TRAFFIC_WAITS; j++)
            exposition_real(x, metrics_seconds(m->variables[i].waited_ms[j]), "job_name", m->variables[i].job,
                            "variable", m->variables[i].name, "reason", wait_names[traffic_waits[j]], NULL);
}

static void
write_variables(const struct metrics *m, struct exposition *x)
{
#define X(member, ...) {FAMILY_VAR_##member, offsetof(struct metrics_variable, stats.member)},
    static const struct column columns[] = {{FAMILY_VAR_BLOCKS, offsetof(struct metrics_variable, blocks)},
                                            {FAMILY_VAR_BYTES, offsetof(struct metrics_variable, bytes)},
                                            TRAFFIC_LIST(X)};
#undef X

    for (size_t c = 0; c < ARRAY_LEN(columns); c++) {
        metrics_begin(x, columns[c].family);
        for (size_t i = 0; i < m->variables_shown; i++)
            exposition_count(x, metrics_cell(&m->variables[i], &columns[c]), "job_name", m->variables[i].job,
                             "variable", m->variables[i].name, NULL);
    }
    write_variable_waits(m, x);
    metrics_count(x, FAMILY_VARS_LEFT, m->variables_len - m->variables_shown);
}

static const char *
task_text(const struct metrics_worker *w, char text[16])
{
    snprintf(text, 16, "%" PRIu32, w->task);
    return text;
}

static void
write_worker_times(const struct metrics *m, struct exposition *x)
{
    const struct metrics_worker *end = m->workers + m->workers_shown, *w;
    char task[16];

    metrics_begin(x, FAMILY_WORKER_SILENT);
    for (w = m->workers; w < end; w++)
        exposition_real(x, metrics_seconds(w->silent_ms), "job_name", w->job, "worker", task_text(w, task), NULL);
    metrics_begin(x, FAMILY_WORKER_WAITED);
    for (w = m->workers; w < end; w++)
        for (enum wait i = 0; i < WAITS; i++)
            exposition_real(x, metrics_seconds(w->waited_ms[i]), "job_name", w->job, "worker", task_text(w, task),
                            "reason", wait_names[i], NULL);
}

static void
write_workers(const struct metrics *m, struct exposition *x)
{
#define X(member, ...) {FAMILY_WORKER_##member, offsetof(struct metrics_worker, stats.member)},
    static const struct column columns[] = {
        {FAMILY_WORKER_LIVE, offsetof(struct metrics_worker, live)},
        {FAMILY_WORKER_CONNECTED, offsetof(struct metrics_worker, connected)},
        {FAMILY_WORKER_CLOCK, offsetof(struct metrics_worker, clock)},
        {FAMILY_WORKER_WAITS, offsetof(struct metrics_worker, unanswered)},
        {FAMILY_WORKER_PUSHES, offsetof(struct metrics_worker, pushes)},
        TRAFFIC_LIST(X){FAMILY_WORKER_LAPSES, offsetof(struct metrics_worker, lapses)}};
#undef X
    char task[16];

    for (size_t c = 0; c < ARRAY_LEN(columns); c++) {
        metrics_begin(x, columns[c].family);
        for (size_t i = 0; i < m->workers_shown; i++)
            exposition_count(x, metrics_cell(&m->workers[i], &columns[c]), "job_name", m->workers[i].job, "worker",
                             task_text(&m->workers[i], task), NULL);
    }
    write_worker_times(m, x);
    metrics_count(x, FAMILY_WORKERS_LEFT, m->workers_len - m->workers_shown);
}

/* ---- All ---- */

void
metrics_write(const struct metrics *m, const char *version, struct exposition *x)
{
    char shard[16], shards[16], boot[24];

    write_process(m, version, x);
    if (!m->measured)
        return;
    metrics_number(x, FAMILY_LOOP, m->http.loop_seconds);
    snprintf(shard, sizeof shard, "%" PRIu32, m->shard);
    snprintf(shards, sizeof shards, "%" PRIu32, m->shards);
    snprintf(boot, sizeof boot, "%016" PRIx64, m->boot);
    metrics_begin(x, FAMILY_INFO);
    exposition_count(x, 1, "cluster", m->cluster, "shard", shard, "shards", shards, "boot", boot, NULL);
    write_pushes(m, x);
    write_peers(m, x);
    write_waits(m, x);
    write_memory(m, x);
    write_limits(m, x);
    write_saves(m, x);
    write_jobs(m, x);
    write_variables(m, x);
    write_workers(m, x);
}
