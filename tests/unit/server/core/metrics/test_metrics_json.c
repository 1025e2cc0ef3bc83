/* The JSON for the page and other clients: well formed, and true. */
#include "server/core/metrics/metrics_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "tests/unit/kits/shard_kit.h"

static struct kit k;
static struct metrics *m;
static struct history *history;
static json_t *root;

static void
metrics_json_setup(void)
{
    kit_init(&k, &kit_durable_config);
    m = calloc(1, sizeof *m);
    history = calloc(1, sizeof *history);
    ck_assert(m != NULL && history != NULL);
    root = NULL;
}

static void
metrics_json_teardown(void)
{
    json_decref(root);
    free(history);
    free(m);
    kit_finish(&k);
}

static void
read_text(char *text)
{
    json_error_t e;

    ck_assert_ptr_nonnull(text);
    json_decref(root);
    root = json_loads(text, 0, &e);
    ck_assert_msg(root != NULL, "%s: %s", e.text, text);
    free(text);
}

static void
metrics_json_measure(void)
{
    struct shard_figures figures = {.descriptors_max = 100};
    struct shard_event event = {.now_ms = k.now_ms, .figures = &figures, .in_flight_bytes = 123};

    shard_measure(k.shard, &event, m);
}

static void
metrics_json_lookup(void)
{
    metrics_json_measure();
    read_text(metrics_json_text(m, "1.2", 1000.5));
}

/* "totals.pulls", "jobs.0.name"; it is there. */
static const json_t *
metrics_json_at(const char *path)
{
    const json_t *value = root;
    char name[64];

    for (const char *p = path; *p != '\0'; p += *p == '.') {
        size_t len = strcspn(p, ".");

        snprintf(name, sizeof name, "%.*s", (int)len, p);
        value = json_is_array(value) ? json_array_get(value, (size_t)atoi(name)) : json_object_get(value, name);
        ck_assert_msg(value != NULL, "there is no %s", path);
        p += len;
    }
    return value;
}

#define EXPECT(path, value)     ck_assert_int_eq(json_integer_value(metrics_json_at(path)), value)
#define EXPECT_TEXT(path, text) ck_assert_str_eq(json_string_value(metrics_json_at(path)), text)

static void
metrics_json_tick(uint64_t conn, uint64_t seq, uint64_t clock, double rows, double loss)
{
    Psd__Tick t = PSD__TICK__INIT;
    Psd__Metrics said = PSD__METRICS__INIT;

    t.seq = seq;
    t.clock = clock;
    said.value = (double[]){rows, loss};
    said.n_value = 2;
    t.metrics = &said;
    kit_frame(&k, conn, MSG_TICK, k.next_request++, &t.base, NULL, 0);
}

START_TEST(before_there_is_a_shard_it_says_what_is_known)
{
    m->state = METRICS_STARTING;
    read_text(metrics_json_text(m, "1.2", 1000.5));
    EXPECT_TEXT("version", "1.2");
    EXPECT_TEXT("state", "starting");
    ck_assert_double_eq(json_real_value(metrics_json_at("at")), 1000.5);
    ck_assert(json_is_false(metrics_json_at("measured")));
    ck_assert_ptr_null(json_object_get(root, "totals"));
}
END_TEST

/* Each has a number of its own, so that none can stand for another. */
START_TEST(totals_are_the_counters_of_the_list)
{
    size_t expected = 2; /* received_bytes and sent_bytes */
    uint64_t n = 1000;

    metrics_json_measure();
#define X(member, ...) m->stats.member = ++n;
    STATS_LIST(X)
#undef X
    read_text(metrics_json_text(m, "1.2", 1000.5));
#define X(member, page, ...)                                                                                           \
    if (STATS_##page == STATS_PAGE)                                                                                    \
        ck_assert_int_eq(json_integer_value(metrics_json_at("totals." #member)), (json_int_t)m->stats.member);         \
    expected += STATS_##page == STATS_PAGE;
    STATS_LIST(X)
#undef X
    ck_assert_uint_eq(json_object_size(metrics_json_at("totals")), expected);
}
END_TEST

/* Worker 0 of a job of one joins and names its metrics. */
static void
join_named(uint64_t conn, const char *job)
{
    kit_hello(&k, conn,
              &(struct kit_hello){.job = kit_job(job, PSD__MODE__ASYNC, 1),
                                  .metric_names = {"rows", "</script>", "more than there are"}});
    kit_answer_free(kit_expect(&k, conn, MSG_WELCOME));
}

/* Only those that a worker has reported. */
START_TEST(metrics_are_told_with_their_names)
{
    join_named(1, "train");
    metrics_json_lookup();
    ck_assert_uint_eq(json_array_size(metrics_json_at("jobs.0.metric_names")), 0);
    metrics_json_tick(1, 1, 1, 32, 8);
    metrics_json_lookup();
    ck_assert_uint_eq(json_array_size(metrics_json_at("jobs.0.metrics")), 2);
    ck_assert_uint_eq(json_array_size(metrics_json_at("jobs.0.metric_names")), 2);
    EXPECT_TEXT("jobs.0.metric_names.0", "rows");
    EXPECT_TEXT("jobs.0.metric_names.1", "</script>");
}
END_TEST

START_TEST(a_shard_is_told_with_its_jobs_workers_and_variables)
{
    uint32_t var;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 3), 0);
    kit_join(&k, 2, kit_job("train", PSD__MODE__ASYNC, 3), 2);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    for (uint64_t seq = 1; seq <= 3; seq++)
        kit_push_four(&k, 1, seq, 0, var, 1);
    metrics_json_tick(1, 4, 1, 32, 8);
    metrics_json_tick(2, 1, 1, 16, NAN);
    kit_close(&k, 2);
    metrics_json_lookup();
    EXPECT_TEXT("cluster", "test");
    EXPECT("shard", 0);
    EXPECT("shards", 1);
    EXPECT("connections", 1);
    EXPECT("totals.pushes_applied", 3);
    EXPECT("totals.pushed_bytes", 48);
    EXPECT("ages.0.0", 0);
    EXPECT("ages.0.1", 3);
    ck_assert(json_is_null(metrics_json_at("ages.17.0")));
    EXPECT("memory.live_max_bytes", 256 * MIB);
    EXPECT("memory.in_flight_bytes", 123);
    EXPECT_TEXT("jobs.0.name", "train");
    ck_assert_ptr_nonnull(strstr(json_string_value(metrics_json_at("jobs.0.options")), "async"));
    EXPECT("jobs.0.workers", 3);
    EXPECT("jobs.0.live", 2);
    ck_assert_double_eq(json_real_value(metrics_json_at("jobs.0.metrics.0")), 48);
    ck_assert(json_is_null(metrics_json_at("jobs.0.metrics.1"))); /* a sum with NaN in it */
    EXPECT("workers.0.worker", 0);
    EXPECT("workers.0.clock", 1);
    EXPECT_TEXT("workers.0.state", "live");
    ck_assert_double_eq(json_real_value(metrics_json_at("workers.0.metrics.1")), 8);
    EXPECT("workers.1.worker", 2);
    EXPECT_TEXT("workers.1.state", "away");
    EXPECT_TEXT("variables.0.name", "w");
    EXPECT_TEXT("variables.0.optimizer", "sgd:learning_rate=1");
    ck_assert_double_eq(json_real_value(metrics_json_at("variables.0.learning_rate")), 1);
    EXPECT("variables.0.pushes", 3);
    EXPECT("saves.number", 0);
    ck_assert(json_is_true(metrics_json_at("saves.due")) && json_is_null(metrics_json_at("saves.saved_at")));
    kit_pass(&k, 5000);
    metrics_json_lookup();
    EXPECT_TEXT("workers.1.state", "lapsed");
    EXPECT("totals.lease_lapses", 1);
}
END_TEST

START_TEST(who_waits_for_whom_is_told)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SSP, 12);

    job->bound = 0;
    kit_join(&k, 1, job, 3);
    kit_barrier(&k, 1, 1, "start");
    kit_pass(&k, 700);
    metrics_json_lookup();
    ck_assert_uint_eq(json_array_size(metrics_json_at("waits")), 1);
    EXPECT_TEXT("waits.0.job", "train");
    EXPECT_TEXT("waits.0.who", "");
    EXPECT_TEXT("waits.0.what", "barrier start");
    EXPECT("waits.0.worker", 3);
    EXPECT("waits.0.waited_ms", 700);
    ck_assert_uint_eq(json_array_size(metrics_json_at("waits.0.on_workers")), METRICS_ON_MAX);
    EXPECT("waits.0.on_workers.2", 2);
    EXPECT("waits.0.on_workers.3", 4);
    EXPECT("waits.0.on_workers_left_out", 11 - METRICS_ON_MAX);
    EXPECT("waiting.barrier.now", 1);
    ck_assert(json_is_false(metrics_json_at("waits_left_out")));
}
END_TEST

/* Names are arbitrary text from workers: they come back unchanged. */
START_TEST(names_are_text_whatever_is_in_them)
{
    static const char name[] = "</script><script>alert(\"1\")</script>\\'&";

    kit_join(&k, 1, kit_job(name, PSD__MODE__ASYNC, 1), 0);
    kit_declare(&k, 1, "a\"b<c", 4, PS_SGD);
    metrics_json_lookup();
    EXPECT_TEXT("jobs.0.name", name);
    EXPECT_TEXT("workers.0.job", name);
    EXPECT_TEXT("variables.0.name", "a\"b<c");
    snprintf(m->cluster, sizeof m->cluster, "\xff\n");
    read_text(metrics_json_text(m, "1.2", 0));
    EXPECT_TEXT("cluster", "??");
}
END_TEST

/* However much there is. */
START_TEST(lists_are_bounded_and_say_so)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SSP, 1000);
    uint32_t var;

    job->bound = 0;
    for (uint32_t task = 0; task < METRICS_WORKERS_MAX + 5; task++) {
        kit_join(&k, 1, job, task);
        kit_close(&k, 1);
    }
    kit_join(&k, 1, job, METRICS_WORKERS_MAX + 5);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_ticked(&k, 1, 1, 1);
    for (int i = 0; i < METRICS_WAITS_MAX + 1; i++)
        kit_pull(&k, 1, var, 0, 1);
    metrics_json_lookup();
    ck_assert_uint_eq(json_array_size(metrics_json_at("workers")), METRICS_WORKERS_MAX);
    EXPECT("workers_left_out", 6);
    ck_assert_uint_eq(json_array_size(metrics_json_at("waits")), METRICS_WAITS_MAX);
    ck_assert(json_is_true(metrics_json_at("waits_left_out")));
    EXPECT("waiting.bound.now", METRICS_WAITS_MAX + 1);
    EXPECT_TEXT("waits.0.variable", "w");
    EXPECT("waits.0.on_clock", 1);
    EXPECT("waits.0.on_workers_left_out", WAIT_REPORT_ON_MAX - METRICS_ON_MAX);
}
END_TEST

/* ---- History ---- */

START_TEST(a_history_has_a_sample_each_time_that_one_is_due)
{
    kit_join(&k, 1, kit_job("over", PSD__MODE__ASYNC, 1), 0);
    kit_join(&k, 2, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    metrics_json_tick(2, 1, 1, 32, 8);
    read_text(metrics_json_history(history));
    ck_assert_uint_eq(json_array_size(metrics_json_at("samples")), 0);
    history_take(history, 1000, 5, m); /* nothing was measured yet */
    metrics_json_measure();
    history_take(history, 1000, 10, m);
    ck_assert_uint_eq(history_due(history), 1000 + HISTORY_SOON_MS);
    history_take(history, 999 + HISTORY_SOON_MS, 14, m);
    m->stats.pulls = 77;
    history_take(history, 1000 + HISTORY_SOON_MS, 15, m);
    read_text(metrics_json_history(history));
    EXPECT("interval_ms", HISTORY_MS);
    ck_assert_uint_eq(json_array_size(metrics_json_at("samples")), 2);
    ck_assert_double_eq(json_real_value(metrics_json_at("samples.0.at")), 10);
    EXPECT("samples.1.pulls", 77);
    ck_assert_uint_eq(json_array_size(metrics_json_at("samples.1.jobs")), 1); /* a job without metrics has no curve */
    EXPECT("samples.1.jobs.0.id", 2);
    ck_assert_double_eq(json_real_value(metrics_json_at("samples.1.jobs.0.metrics.1")), 8);
}
END_TEST

START_TEST(a_history_has_the_newest_names)
{
    kit_join(&k, 1, kit_job("bare", PSD__MODE__ASYNC, 1), 0);
    join_named(2, "train");
    metrics_json_tick(1, 1, 1, 4, 1);
    metrics_json_tick(2, 1, 1, 32, 8);
    read_text(metrics_json_history(history));
    ck_assert_uint_eq(json_array_size(metrics_json_at("jobs")), 0);
    metrics_json_measure();
    history_take(history, 1000, 10, m);
    read_text(metrics_json_history(history));
    EXPECT("jobs.0.id", 1);
    ck_assert_uint_eq(json_array_size(metrics_json_at("jobs.0.metric_names")), 0);
    EXPECT("jobs.1.id", 2);
    EXPECT_TEXT("jobs.1.metric_names.0", "rows");
    EXPECT("samples.0.jobs.1.id", 2);
    kit_goodbye(&k, 2, true);
    metrics_json_measure();
    history_take(history, 1000 + HISTORY_SOON_MS, 11, m);
    read_text(metrics_json_history(history));
    ck_assert_uint_eq(json_array_size(metrics_json_at("jobs")), 1);
}
END_TEST

START_TEST(a_history_forgets_what_is_oldest)
{
    metrics_json_measure();
    for (uint64_t i = 0; i < HISTORY_SAMPLES + 10; i++)
        history_take(history, i * HISTORY_MS, (double)i, m);
    ck_assert_uint_eq(history->len, HISTORY_SAMPLES);
    ck_assert_uint_eq(history_due(history), (HISTORY_SAMPLES + 10) * (uint64_t)HISTORY_MS);
    for (size_t i = 0; i < HISTORY_SAMPLES; i++)
        ck_assert_double_eq(history_at(history, i)->at, (double)(i + 10));
    read_text(metrics_json_history(history));
    ck_assert_uint_eq(json_array_size(metrics_json_at("samples")), HISTORY_SAMPLES);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("live");
    TCase *t = tcase_create("live");

    tcase_add_checked_fixture(t, metrics_json_setup, metrics_json_teardown);
    tcase_add_test(t, before_there_is_a_shard_it_says_what_is_known);
    tcase_add_test(t, totals_are_the_counters_of_the_list);
    tcase_add_test(t, a_shard_is_told_with_its_jobs_workers_and_variables);
    tcase_add_test(t, metrics_are_told_with_their_names);
    tcase_add_test(t, who_waits_for_whom_is_told);
    tcase_add_test(t, names_are_text_whatever_is_in_them);
    tcase_add_test(t, lists_are_bounded_and_say_so);
    tcase_add_test(t, a_history_has_a_sample_each_time_that_one_is_due);
    tcase_add_test(t, a_history_has_the_newest_names);
    tcase_add_test(t, a_history_forgets_what_is_oldest);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
