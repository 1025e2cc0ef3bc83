#include "server/core/metrics/metrics_json.h"

#include "common/core/base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

/* ---- Members ---- */

/* Whether an addition to an object or array failed: without memory the value is NULL, and an incomplete text is thrown
 * away at the end. */
struct builder {
    bool failed;
};

static void
metrics_json_put(struct builder *b, json_t *object, const char *name, json_t *value)
{
    b->failed = json_object_set_new(object, name, value) != 0 || b->failed;
}

static void
metrics_json_append(struct builder *b, json_t *array, json_t *value)
{
    b->failed = json_array_append_new(array, value) != 0 || b->failed;
}

static void
put_count(struct builder *b, json_t *object, const char *name, uint64_t value)
{
    metrics_json_put(b, object, name, json_integer((json_int_t)MIN(value, (uint64_t)INT64_MAX)));
}

/* JSON cannot express a number that is not finite. */
static json_t *
metrics_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* Bytes that are no UTF-8 become '?'. */
static void
put_text(struct builder *b, json_t *object, const char *name, const char *value)
{
    char clean[PS_ERROR_TEXT_MAX];

    snprintf(clean, sizeof clean, "%s", value);
    utf8_clean(clean);
    metrics_json_put(b, object, name, json_string(clean));
}

static json_t *
sums_of(struct builder *b, const double *sums, uint32_t len)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < len; i++)
        metrics_json_append(b, array, metrics_json_number(sums[i]));
    return array;
}

static json_t *
names_of(struct builder *b, const struct metrics_names *names)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < names->len; i++)
        metrics_json_append(b, array, json_string(names->name[i]));
    return array;
}

/* Whole numbers by name. */
struct json_member {
    const char *name;
    uint64_t value;
};

static json_t *
metrics_json_counts(struct builder *b, const struct json_member *members, size_t n)
{
    json_t *object = json_object();

    for (size_t i = 0; i < n; i++)
        put_count(b, object, members[i].name, members[i].value);
    return object;
}
#define COUNTS(b, members) metrics_json_counts(b, members, ARRAY_LEN(members))

/* ---- The shard ---- */

struct metrics_json_stat {
    const char *name;
    size_t offset; /* in struct shard_stats */
    enum stats_page page;
};

/* clang-format off */
#define LIVE_STAT(member, page, ...) {#member, offsetof(struct shard_stats, member), STATS_##page},
static const struct metrics_json_stat metrics_json_updates[] = {
    STATS_PUSHES(LIVE_STAT) STATS_DURABLE(LIVE_STAT) STATS_LOST(LIVE_STAT) STATS_PULLS(LIVE_STAT)
};
static const struct metrics_json_stat metrics_json_peers[] = {STATS_WORKERS(LIVE_STAT) STATS_PEERS(LIVE_STAT) STATS_DENIED(LIVE_STAT)};
/* clang-format on */
static_assert(ARRAY_LEN(metrics_json_updates) + ARRAY_LEN(metrics_json_peers) == STATS_LEN,
              "each counter is there once");

static void
metrics_json_put_stats(struct builder *b, json_t *object, const struct shard_stats *stats,
                       const struct metrics_json_stat *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (rows[i].page == STATS_PAGE)
            put_count(b, object, rows[i].name, *(const uint64_t *)(const void *)((const char *)stats + rows[i].offset));
}

static json_t *
metrics_json_totals(struct builder *b, const struct metrics *m)
{
    json_t *object = json_object();

    metrics_json_put_stats(b, object, &m->stats, metrics_json_updates, ARRAY_LEN(metrics_json_updates));
    put_count(b, object, "received_bytes", m->received_bytes);
    put_count(b, object, "sent_bytes", m->sent_bytes);
    metrics_json_put_stats(b, object, &m->stats, metrics_json_peers, ARRAY_LEN(metrics_json_peers));
    return object;
}

static json_t *
metrics_json_memory(struct builder *b, const struct metrics *m)
{
    const struct json_member members[] = {{"live_used_bytes", m->live.used_bytes},
                                          {"live_file_bytes", m->live.file_bytes},
                                          {"live_max_bytes", m->live.max_bytes},
                                          {"data_bytes", m->data_bytes},
                                          {"gather_bytes", m->gather_bytes},
                                          {"in_flight_bytes", m->in_flight_bytes},
                                          {"resident_bytes", m->process.resident_bytes}};

    return COUNTS(b, members);
}

static json_t *
metrics_json_saves(struct builder *b, const struct metrics *m)
{
    const struct json_member members[] = {{"number", m->save_number},
                                          {"saves", m->save.saves},
                                          {"failures", m->save.failures},
                                          {"last_ms", m->save.last_ms},
                                          {"last_bytes", m->save.last_bytes},
                                          {"blocks", m->save_blocks},
                                          {"blocks_done", m->save_blocks_done},
                                          {"file_bytes", m->http.durable_file_bytes},
                                          {"log_pieces", m->redo_committed - MIN(m->redo_committed, m->redo_saved)},
                                          {"log_bytes", m->redo_log_bytes},
                                          {"log_waiting_pieces", m->redo_waiting},
                                          {"log_waiting_bytes", m->redo_waiting_bytes}};
    json_t *object;

    if (!m->durable)
        return json_null();
    object = COUNTS(b, members);
    metrics_json_put(b, object, "saved_at", m->saved_seconds > 0 ? metrics_json_number(m->saved_seconds) : json_null());
    metrics_json_put(b, object, "running", json_boolean(m->save_running));
    metrics_json_put(b, object, "due", json_boolean(m->unsaved));
    metrics_json_put(b, object, "failed", json_boolean(m->durable_failed));
    put_text(b, object, "failure", m->save.failure);
    return object;
}

/* Pairs of the greatest age of a bucket and how many had one in it; the last bucket has no greatest: null. */
static json_t *
metrics_json_ages(struct builder *b, const struct age_histogram *age)
{
    json_t *array = json_array();
    uint64_t count[METRICS_AGE_BUCKETS] = {0};

    for (size_t i = 0; i < AGE_BUCKETS; i++)
        count[MIN(i, (size_t)METRICS_AGE_BUCKETS - 1)] += age->count[i];
    for (size_t i = 0; i < METRICS_AGE_BUCKETS; i++) {
        json_t *pair = json_array();

        metrics_json_append(b, pair, i + 1 < METRICS_AGE_BUCKETS ? json_integer((INT64_C(1) << i) - 1) : json_null());
        metrics_json_append(b, pair, json_integer((json_int_t)count[i]));
        metrics_json_append(b, array, pair);
    }
    return array;
}

static json_t *
metrics_json_waited(struct builder *b, const struct metrics *m)
{
    json_t *object = json_object();

    for (enum wait i = 0; i < WAITS; i++) {
        const struct durations *d = &m->stats.waits[i];
        json_t *one = json_object();
        uint64_t count = 0;

        for (size_t j = 0; j < DURATION_BUCKETS; j++)
            count += d->count[j];
        put_count(b, one, "now", m->waiting[i]);
        put_count(b, one, "over", count);
        put_count(b, one, "over_ms", d->sum_ms);
        metrics_json_put(b, object, wait_names[i], one);
    }
    return object;
}

/* ---- One by one ---- */

static json_t *
metrics_json_jobs(struct builder *b, const struct metrics *m)
{
    json_t *array = json_array();

    for (size_t i = 0; i < m->jobs_shown; i++) {
        const struct metrics_job *j = &m->jobs[i];
        const struct json_member members[] = {
            {"id", j->id},          {"workers", j->workers},   {"live", j->live},
            {"lapsed", j->lapsed},  {"finished", j->finished}, {"slowest", j->slowest},
            {"fastest", j->fastest}};
        json_t *object = COUNTS(b, members);

        put_text(b, object, "name", j->name);
        put_text(b, object, "options", j->options);
        metrics_json_put(b, object, "metrics", sums_of(b, j->sums, j->sums_len));
        metrics_json_put(b, object, "metric_names", names_of(b, &j->names));
        metrics_json_append(b, array, object);
    }
    return array;
}

static const char *
worker_state(const struct metrics_worker *w)
{
    if (w->finished)
        return "finished";
    if (!w->live)
        return "lapsed";
    return w->connected ? "live" : "away";
}

static json_t *
metrics_json_workers(struct builder *b, const struct metrics *m)
{
    json_t *array = json_array();

    for (size_t i = 0; i < m->workers_shown; i++) {
        const struct metrics_worker *w = &m->workers[i];
        const struct json_member members[] = {{"job_id", w->job_id},         {"worker", w->task},
                                              {"clock", w->clock},           {"silent_ms", w->silent_ms},
                                              {"unanswered", w->unanswered}, {"pushes", w->pushes}};
        json_t *object = COUNTS(b, members);

        put_text(b, object, "job", w->job);
        metrics_json_put(b, object, "state", json_string(worker_state(w)));
        metrics_json_put(b, object, "metrics", sums_of(b, w->sums, w->sums_len));
        metrics_json_append(b, array, object);
    }
    return array;
}

static void
metrics_json_put_traffic(struct builder *b, json_t *object, const struct traffic *t)
{
#define X(member, shown, ...)                                                                                          \
    if (TRAFFIC_##shown == TRAFFIC_PAGE)                                                                               \
        put_count(b, object, #member, t->member);
    TRAFFIC_LIST(X)
#undef X
}

static json_t *
metrics_json_variables(struct builder *b, const struct metrics *m)
{
    json_t *array = json_array();

    for (size_t i = 0; i < m->variables_shown; i++) {
        const struct metrics_variable *v = &m->variables[i];
        const struct json_member members[] = {{"blocks", v->blocks}, {"bytes", v->bytes}};
        json_t *object = COUNTS(b, members);
        char optimizer[PS_OPTIMIZER_TEXT_MAX];

        ps_optimizer_describe(&v->optimizer, optimizer, sizeof optimizer);
        metrics_json_put(b, object, "optimizer", json_string(optimizer));
        metrics_json_put(b, object, "learning_rate", json_real(v->learning_rate));
        metrics_json_put_traffic(b, object, &v->stats);
        put_text(b, object, "job", v->job);
        put_text(b, object, "name", v->name);
        metrics_json_append(b, array, object);
    }
    return array;
}

static json_t *
metrics_json_waits(struct builder *b, const struct metrics *m)
{
    json_t *array = json_array();

    for (size_t i = 0; i < m->waits_shown; i++) {
        const struct metrics_wait *w = &m->waits[i];
        const uint32_t named = MIN(w->on_len, (uint32_t)METRICS_ON_MAX);
        const struct json_member members[] = {{"worker", w->task},
                                              {"clock", w->clock},
                                              {"on_clock", w->on_clock},
                                              {"waited_ms", w->waited_ms},
                                              {"on_workers_left_out", w->on_len - named}};
        json_t *object = COUNTS(b, members), *on = json_array();

        for (uint32_t j = 0; j < named; j++)
            metrics_json_append(b, on, json_integer(w->on_task[j]));
        metrics_json_put(b, object, "on_workers", on);
        put_text(b, object, "job", w->job);
        put_text(b, object, "who", w->who);
        put_text(b, object, "what", w->what);
        put_text(b, object, "variable", w->variable);
        put_text(b, object, "on", w->on);
        metrics_json_append(b, array, object);
    }
    return array;
}

/* ---- All ---- */

static char *
text_of(struct builder *b, json_t *root)
{
    char *text = b->failed ? NULL : json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(17));

    json_decref(root);
    return text;
}

static void
put_shard(struct builder *b, json_t *root, const struct metrics *m)
{
    char boot[24];

    snprintf(boot, sizeof boot, "%016" PRIx64, m->boot);
    put_text(b, root, "cluster", m->cluster);
    put_count(b, root, "shard", m->shard);
    put_count(b, root, "shards", m->shards);
    put_text(b, root, "boot", boot);
    put_count(b, root, "connections", m->connections);
    metrics_json_put(b, root, "totals", metrics_json_totals(b, m));
    metrics_json_put(b, root, "ages", metrics_json_ages(b, &m->stats.age));
    metrics_json_put(b, root, "waiting", metrics_json_waited(b, m));
    metrics_json_put(b, root, "memory", metrics_json_memory(b, m));
    metrics_json_put(b, root, "saves", metrics_json_saves(b, m));
    metrics_json_put(b, root, "jobs", metrics_json_jobs(b, m));
    put_count(b, root, "jobs_left_out", m->jobs_len - m->jobs_shown);
    metrics_json_put(b, root, "workers", metrics_json_workers(b, m));
    put_count(b, root, "workers_left_out", m->workers_len - m->workers_shown);
    metrics_json_put(b, root, "variables", metrics_json_variables(b, m));
    put_count(b, root, "variables_left_out", m->variables_len - m->variables_shown);
    metrics_json_put(b, root, "waits", metrics_json_waits(b, m));
    metrics_json_put(b, root, "waits_left_out", json_boolean(m->waits_more));
}

char *
metrics_json_text(const struct metrics *m, const char *version, double at)
{
    struct builder b = {false};
    json_t *root = json_object();

    put_text(&b, root, "version", version);
    metrics_json_put(&b, root, "at", metrics_json_number(at));
    metrics_json_put(&b, root, "state", json_string(metrics_state_names[m->state]));
    metrics_json_put(&b, root, "state_text", json_string(metrics_state_texts[m->state]));
    metrics_json_put(&b, root, "started_at", metrics_json_number(m->process.start_seconds));
    metrics_json_put(&b, root, "cpu_seconds", metrics_json_number(m->process.cpu_seconds));
    metrics_json_put(&b, root, "measured", json_boolean(m->measured));
    if (m->measured)
        put_shard(&b, root, m);
    return text_of(&b, root);
}

static json_t *
metrics_json_sample(struct builder *b, const struct history_sample *s)
{
    const struct json_member members[] = {{"pushes_applied", s->applied},
                                          {"pulls", s->pulls},
                                          {"pushed_bytes", s->pushed_bytes},
                                          {"pulled_bytes", s->pulled_bytes}};
    json_t *object = COUNTS(b, members), *list = json_array();

    metrics_json_put(b, object, "at", metrics_json_number(s->at));
    for (uint32_t i = 0; i < s->jobs_len; i++) {
        json_t *job = json_object();

        put_count(b, job, "id", s->jobs[i].id);
        put_count(b, job, "clock", s->jobs[i].clock);
        metrics_json_put(b, job, "metrics", sums_of(b, s->jobs[i].sums, s->jobs[i].sums_len));
        metrics_json_append(b, list, job);
    }
    metrics_json_put(b, object, "jobs", list);
    return object;
}

/* Names of the metrics of the newest sample's jobs. */
static json_t *
history_names(struct builder *b, const struct history *h)
{
    const struct history_sample *newest = h->len > 0 ? history_at(h, h->len - 1) : NULL;
    json_t *array = json_array();

    for (uint32_t i = 0; newest != NULL && i < newest->jobs_len; i++) {
        json_t *job = json_object();

        put_count(b, job, "id", newest->jobs[i].id);
        metrics_json_put(b, job, "metric_names", names_of(b, &h->names[i]));
        metrics_json_append(b, array, job);
    }
    return array;
}

char *
metrics_json_history(const struct history *h)
{
    struct builder b = {false};
    json_t *root = json_object(), *list = json_array();

    for (size_t i = 0; i < h->len; i++)
        metrics_json_append(&b, list, metrics_json_sample(&b, history_at(h, i)));
    put_count(&b, root, "interval_ms", HISTORY_MS);
    metrics_json_put(&b, root, "jobs", history_names(&b, h));
    metrics_json_put(&b, root, "samples", list);
    return text_of(&b, root);
}
