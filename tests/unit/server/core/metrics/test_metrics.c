/* A shard's figures on the page: well formed, and true. */
#include "server/core/metrics/metrics.h"

#include <string.h>

#include "server/core/shard_state.h"
#include "tests/exposition_page.h"
#include "tests/unit/kits/shard_kit.h"

static struct kit k;
static struct metrics *m;
static struct exposition x;
static uint64_t ends[METRICS_CERTIFICATES]; /* set by the glue */

static void
metrics_setup(void)
{
    kit_init(&k, &kit_durable_config);
    memset(ends, 0, sizeof ends);
    m = calloc(1, sizeof *m);
    ck_assert_ptr_nonnull(m);
}

static void
metrics_teardown(void)
{
    exposition_finish(&x);
    free(m);
    kit_finish(&k);
}

/* The page as it is now. */
static const char *
metrics_page(void)
{
    struct shard_figures figures = {.descriptors_refused = 3, .descriptors_max = 100};
    struct shard_event event = {.now_ms = k.now_ms, .figures = &figures, .in_flight_bytes = 123};
    const char *wrong;

    exposition_finish(&x);
    shard_measure(k.shard, &event, m);
    memcpy(m->certificate_ends, ends, sizeof ends);
    metrics_write(m, "1.2", &x);
    ck_assert(!x.failed);
    wrong = page_wrong(x.text);
    ck_assert_msg(wrong == NULL, "%s", wrong);
    return x.text;
}

#define EXPECT(series, value)                                                                                          \
    do {                                                                                                               \
        double says = page_value(metrics_page(), series);                                                              \
        ck_assert_msg(says == (value), "%s is %g", series, says);                                                      \
    } while (0)

static Psd__Job *
metrics_ssp(uint32_t workers)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SSP, workers);

    job->bound = 0;
    return job;
}

/* The first workers of the job join, task n on connection n + 1, and declare 'w': its id. */
static uint32_t
metrics_begin(const Psd__Job *job, uint32_t workers)
{
    for (uint32_t task = 0; task < workers; task++)
        kit_join(&k, task + 1, job, task);
    return kit_declare(&k, 1, "w", 4, PS_SGD);
}

START_TEST(before_there_is_a_shard_the_page_is_about_the_process)
{
    m->state = METRICS_STARTING;
    m->process.cpu_seconds = 0.5;
    metrics_write(m, "1.2", &x);
    ck_assert_ptr_null(page_wrong(x.text));
    ck_assert_double_eq(page_value(x.text, "psd_build_info{version=\"1.2\"}"), 1);
    ck_assert_double_eq(page_value(x.text, "psd_state{state=\"starting\"}"), 1);
    ck_assert_double_eq(page_value(x.text, "psd_state{state=\"serving\"}"), 0);
    ck_assert_double_eq(page_value(x.text, "process_cpu_seconds_total"), 0.5);
    ck_assert_ptr_null(strstr(x.text, "psd_pushes"));
}
END_TEST

START_TEST(an_empty_shard_has_all_families)
{
    EXPECT("psd_state{state=\"serving\"}", 1);
    EXPECT("psd_shard_info{cluster=\"test\",shard=\"0\",shards=\"1\",boot=\"000000000000004d\"}", 1);
    EXPECT("psd_pushes_applied_total", 0);
    EXPECT("psd_push_age_updates_count", 0);
    EXPECT("psd_live_max_bytes", 256 * MIB);
    EXPECT("psd_in_flight_bytes", 123);
    EXPECT("psd_limit_max{limit=\"jobs-max\"}", SHARD_JOBS);
    EXPECT("psd_limit_max_bytes{limit=\"parked-bytes-max\"}", SHARD_PARKED_BYTES);
    EXPECT("psd_limit_refused_total{limit=\"open files\"}", 3);
    ends[METRICS_CERTIFICATE_TCP] = 1;
#define X(id, name, ...)                                                                                               \
    ck_assert_msg(strstr(metrics_page(), "# HELP " name " ") != NULL || strstr(name, "_last_") != NULL ||              \
                      strstr(name, "_progress_") != NULL || strstr(name, "process_open") != NULL ||                    \
                      strstr(name, "process_max") != NULL,                                                             \
                  name " is missing");
    METRICS_LIST(X)
#undef X
}
END_TEST

/* Each has a number of its own, so that none can stand for another. */
START_TEST(every_counter_of_the_list_is_a_series)
{
    char series[128];
    uint64_t n = 1000;

#define X(member, ...) k.shard->stats.member = ++n;
    STATS_LIST(X)
#undef X
#define NAME_FIRST(id, name, help) begun[FAMILY_##id] = name, begun[FAMILY_##id]
#define NAME_ALSO(id)              begun[FAMILY_##id]
    enum {
#define X(id, ...) FAMILY_##id,
        METRICS_LIST(X)
#undef X
            FAMILIES
    };
    const char *begun[FAMILIES] = {[FAMILY_DENIED] = "psd_denied_total"};
#define X(member, page, kind, name, about, family, reason)                                                             \
    snprintf(series, sizeof series, "%s{reason=\"%s\"}", (NAME_##family), (reason) != NULL ? (reason) : "");           \
    if ((reason) == NULL)                                                                                              \
        *strchr(series, '{') = '\0';                                                                                   \
    EXPECT(series, (double)k.shard->stats.member);
    STATS_LIST(X)
#undef X
}
END_TEST

START_TEST(certificates_are_told_where_there_are_any)
{
    ck_assert_ptr_null(strstr(metrics_page(), "psd_certificate"));
    ends[METRICS_CERTIFICATE_HTTP] = UINT64_C(1767268800);
    EXPECT("psd_certificate_expiry_timestamp_seconds{for=\"http\"}", 1767268800);
    ck_assert_ptr_null(strstr(metrics_page(), "for=\"tcp\""));
    ends[METRICS_CERTIFICATE_TCP] = UINT64_C(253402300799); /* the last that there is */
    EXPECT("psd_certificate_expiry_timestamp_seconds{for=\"tcp\"}", 253402300799);
    EXPECT("psd_certificate_expiry_timestamp_seconds{for=\"http\"}", 1767268800);
}
END_TEST

START_TEST(pushes_are_counted_by_what_became_of_them)
{
    float good[4] = {1, 1, 1, 1}, bad[4] = {1, (float)INFINITY, 1, 1};
    uint64_t old = 0;
    uint32_t var;

    var = metrics_begin(kit_job("train", PSD__MODE__ASYNC, 2), 1);
    for (uint64_t seq = 1; seq <= 3; seq++)
        kit_push_four(&k, 1, seq, 0, var, 1);
    kit_push(&k, 1, &(struct kit_push){.seq = 4, .var = var, .gradient = good, .len = 4, .from_version = &old});
    kit_push(&k, 1, &(struct kit_push){.seq = 4, .var = var, .gradient = good, .len = 4, .from_version = &old});
    kit_push(&k, 1, &(struct kit_push){.seq = 5, .var = var, .gradient = bad, .len = 4});
    EXPECT("psd_pushes_applied_total", 4);
    EXPECT("psd_pushes_repeated_total", 1);
    EXPECT("psd_pushes_refused_total{reason=\"nonfinite\"}", 1);
    EXPECT("psd_pushed_bytes_total", 4 * 16);
    EXPECT("psd_push_age_updates_bucket{le=\"0\"}", 3);
    EXPECT("psd_push_age_updates_bucket{le=\"1\"}", 3);
    EXPECT("psd_push_age_updates_bucket{le=\"3\"}", 4);
    EXPECT("psd_push_age_updates_sum", 3);
    EXPECT("psd_variable_pushes_total{job_name=\"train\",variable=\"w\"}", 4);
    EXPECT("psd_variable_refused_total{job_name=\"train\",variable=\"w\"}", 1);
    EXPECT("psd_worker_pushes_total{job_name=\"train\",worker=\"0\"}", 5);
    EXPECT("psd_worker_pushes_applied_total{job_name=\"train\",worker=\"0\"}", 4);
    EXPECT("psd_worker_pushed_bytes_total{job_name=\"train\",worker=\"0\"}", 4 * 16);
    EXPECT("psd_worker_pushes_refused_total{job_name=\"train\",worker=\"0\"}", 1);
    EXPECT("psd_worker_push_age_updates_total{job_name=\"train\",worker=\"0\"}", 3);
    EXPECT("psd_worker_push_age_max_updates{job_name=\"train\",worker=\"0\"}", 3);
    EXPECT("psd_variable_push_age_updates_total{job_name=\"train\",variable=\"w\"}", 3);
    EXPECT("psd_variable_push_age_max_updates{job_name=\"train\",variable=\"w\"}", 3);
    EXPECT("psd_data_bytes", layout_value_size(0));
    EXPECT("psd_job_workers{job_name=\"train\",state=\"live\"}", 1);
    EXPECT("psd_job_workers{job_name=\"train\",state=\"missing\"}", 1);
}
END_TEST

START_TEST(what_is_too_old_is_dropped)
{
    Psd__AgePolicy age = PSD__AGE_POLICY__INIT;
    Psd__Job *job = kit_job("train", PSD__MODE__ASYNC, 1);
    float g[4] = {1, 1, 1, 1};
    uint64_t old = 0;
    uint32_t var;

    age.kind = PSD__AGE_KIND__AGE_CUTOFF;
    age.parameter = 1;
    job->age = &age;
    var = metrics_begin(job, 1);
    for (uint64_t seq = 1; seq <= 4; seq++)
        kit_push(&k, 1, &(struct kit_push){.seq = seq, .var = var, .gradient = g, .len = 4, .from_version = &old});
    EXPECT("psd_pushes_applied_total", 2);
    EXPECT("psd_pushes_dropped_total{reason=\"stale\"}", 2);
    EXPECT("psd_variable_dropped_total{job_name=\"train\",variable=\"w\"}", 2);
    EXPECT("psd_push_age_updates_count", 4);
    EXPECT("psd_worker_pushes_dropped_total{job_name=\"train\",worker=\"0\"}", 2);
    EXPECT("psd_worker_push_age_updates_total{job_name=\"train\",worker=\"0\"}", 1);
    EXPECT("psd_worker_push_age_max_updates{job_name=\"train\",worker=\"0\"}", 2);
}
END_TEST

/* Each worker by itself, for pushes and pulls; an observer's pulls count for no worker. */
START_TEST(workers_are_counted_one_by_one)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SYNC, 2);
    float g[4] = {1, 1, 1, 1};
    uint32_t var;

    var = metrics_begin(job, 2);
    kit_push(&k, 1, &(struct kit_push){.seq = 1, .var = var, .gradient = g, .len = 4});
    EXPECT("psd_worker_pushes_applied_total{job_name=\"train\",worker=\"0\"}", 0); /* it waits for the other's */
    kit_push(&k, 2, &(struct kit_push){.seq = 1, .var = var, .gradient = g, .len = 4});
    kit_pull(&k, 2, var, 0, 0);
    kit_pull(&k, 2, var, 0, 0);
    EXPECT("psd_worker_pushes_applied_total{job_name=\"train\",worker=\"0\"}", 1);
    EXPECT("psd_worker_pushes_applied_total{job_name=\"train\",worker=\"1\"}", 1);
    EXPECT("psd_worker_pushed_bytes_total{job_name=\"train\",worker=\"1\"}", 16);
    EXPECT("psd_worker_pulls_total{job_name=\"train\",worker=\"0\"}", 0);
    EXPECT("psd_worker_pulls_total{job_name=\"train\",worker=\"1\"}", 2);
    EXPECT("psd_worker_pulled_bytes_total{job_name=\"train\",worker=\"1\"}", 32);
    EXPECT("psd_variable_pulled_bytes_total{job_name=\"train\",variable=\"w\"}", 32);
}
END_TEST

/* The store says nothing of them: a commit that fails takes none of them back. */
START_TEST(counts_outlive_a_commit_that_fails)
{
    float g[4] = {1, 1, 1, 1};
    uint32_t var;

    var = metrics_begin(kit_job("train", PSD__MODE__ASYNC, 2), 2);
    kit_push_four(&k, 1, 1, 0, var, 1);
    store_mem_fail_at(k.store, STORE_MEM_FAIL_COMMIT, 1);
    kit_push(&k, 2, &(struct kit_push){.seq = 1, .var = var, .gradient = g, .len = 4});
    ck_assert(k.closed[2]);
    EXPECT("psd_worker_pushes_applied_total{job_name=\"train\",worker=\"0\"}", 1);
    EXPECT("psd_worker_pushes_applied_total{job_name=\"train\",worker=\"1\"}", 1); /* it was, and was undone */
    EXPECT("psd_variable_pushes_total{job_name=\"train\",variable=\"w\"}", 2);
}
END_TEST

START_TEST(pulls_that_wait_for_slower_workers_are_seen_waiting_and_measured)
{
    uint32_t var;

    var = metrics_begin(metrics_ssp(2), 2);
    kit_ticked(&k, 1, 1, 1);
    kit_pull(&k, 1, var, 0, 1);
    EXPECT("psd_waiting{reason=\"bound\"}", 1);
    EXPECT("psd_pulls_parked_total", 1);
    EXPECT("psd_wait_seconds_count{reason=\"bound\"}", 0);
    EXPECT("psd_job_slowest_clock{job_name=\"train\"}", 0);
    EXPECT("psd_job_fastest_clock{job_name=\"train\"}", 1);
    kit_pass(&k, 250);
    EXPECT("psd_worker_silent_seconds{job_name=\"train\",worker=\"1\"}", 0.25);
    kit_ticked(&k, 2, 1, 1);
    EXPECT("psd_waiting{reason=\"bound\"}", 0);
    EXPECT("psd_wait_seconds_sum{reason=\"bound\"}", 0.25);
    EXPECT("psd_wait_seconds_bucket{reason=\"bound\",le=\"0.1\"}", 0);
    EXPECT("psd_wait_seconds_bucket{reason=\"bound\",le=\"0.5\"}", 1);
    EXPECT("psd_worker_clock{job_name=\"train\",worker=\"1\"}", 1);
    EXPECT("psd_worker_wait_seconds_total{job_name=\"train\",worker=\"0\",reason=\"bound\"}", 0.25);
    EXPECT("psd_worker_wait_seconds_total{job_name=\"train\",worker=\"1\",reason=\"bound\"}", 0);
    EXPECT("psd_variable_wait_seconds_total{job_name=\"train\",variable=\"w\",reason=\"bound\"}", 0.25);
}
END_TEST

START_TEST(steps_gradients_and_barriers_are_told_apart)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SYNC, 2);
    float g[4] = {1, 1, 1, 1};
    uint32_t var;

    var = metrics_begin(job, 2);
    kit_push(&k, 1, &(struct kit_push){.seq = 1, .var = var, .gradient = g, .len = 4});
    kit_pull(&k, 1, var, 0, 1);
    kit_barrier(&k, 1, 2, "here");
    EXPECT("psd_waiting{reason=\"gradients\"}", 1);
    EXPECT("psd_waiting{reason=\"step\"}", 1);
    EXPECT("psd_waiting{reason=\"barrier\"}", 1);
    EXPECT("psd_worker_unanswered{job_name=\"train\",worker=\"0\"}", 2);
    kit_pass(&k, 7);
    kit_push(&k, 2, &(struct kit_push){.seq = 1, .var = var, .gradient = g, .len = 4});
    EXPECT("psd_waiting{reason=\"gradients\"}", 0);
    EXPECT("psd_wait_seconds_sum{reason=\"gradients\"}", 0.007); /* the second did not wait */
    EXPECT("psd_wait_seconds_count{reason=\"gradients\"}", 2);
    EXPECT("psd_wait_seconds_sum{reason=\"step\"}", 0.007);
    EXPECT("psd_worker_wait_seconds_total{job_name=\"train\",worker=\"0\",reason=\"gradients\"}", 0.007);
    EXPECT("psd_worker_wait_seconds_total{job_name=\"train\",worker=\"0\",reason=\"step\"}", 0.007);
    EXPECT("psd_variable_wait_seconds_total{job_name=\"train\",variable=\"w\",reason=\"gradients\"}", 0.007);
    EXPECT("psd_variable_wait_seconds_total{job_name=\"train\",variable=\"w\",reason=\"step\"}", 0.007);
    EXPECT("psd_waiting{reason=\"barrier\"}", 1);
    kit_close(&k, 1);
    kit_pass(&k, 5000);
    EXPECT("psd_lease_lapses_total", 1);
    EXPECT("psd_sessions{state=\"live\"}", 1);
    EXPECT("psd_sessions{state=\"lapsed\"}", 1);
    EXPECT("psd_waiting{reason=\"barrier\"}", 0); /* the worker that waited is gone */
    EXPECT("psd_wait_seconds_count{reason=\"barrier\"}", 1);
    EXPECT("psd_worker_live{job_name=\"train\",worker=\"0\"}", 0);
    EXPECT("psd_worker_lease_lapses_total{job_name=\"train\",worker=\"0\"}", 1);
    EXPECT("psd_worker_lease_lapses_total{job_name=\"train\",worker=\"1\"}", 0);
    EXPECT("psd_worker_wait_seconds_total{job_name=\"train\",worker=\"0\",reason=\"barrier\"}", 5.007);
    EXPECT("psd_worker_connected{job_name=\"train\",worker=\"1\"}", 1);
}
END_TEST

START_TEST(durable_pushes_wait_for_the_disk)
{
    float g[4] = {1, 1, 1, 1};
    uint32_t var;

    var = metrics_begin(kit_job("train", PSD__MODE__ASYNC, 1), 1);
    kit_durable(&k, k.redo);
    kit_push(&k, 1, &(struct kit_push){.seq = 1, .var = var, .gradient = g, .len = 4, .durable = true});
    EXPECT("psd_waiting{reason=\"disk\"}", 1);
    EXPECT("psd_pushes_durable_total", 1);
    ck_assert_double_gt(page_value(metrics_page(), "psd_redo_waiting_pieces"), 0);
    ck_assert_double_gt(page_value(metrics_page(), "psd_redo_waiting_bytes"), 0);
    ck_assert_double_gt(page_value(metrics_page(), "psd_redo_log_pieces"), 0);
    kit_pass(&k, 30);
    kit_durable(&k, k.redo);
    EXPECT("psd_waiting{reason=\"disk\"}", 0);
    EXPECT("psd_redo_waiting_pieces", 0);
    EXPECT("psd_wait_seconds_sum{reason=\"disk\"}", 0.03);
    EXPECT("psd_worker_wait_seconds_total{job_name=\"train\",worker=\"0\",reason=\"disk\"}", 0.03);
}
END_TEST

/* Hand out all blocks of the save that runs, as read. */
static void
read_save(void)
{
    struct shard_save_block blocks[8];
    size_t n;

    while ((n = shard_save_next(k.shard, SIZE_MAX, blocks, ARRAY_LEN(blocks))) > 0)
        kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE_PASSED, .count = n});
}

static void
push_durable(uint32_t var, uint64_t seq)
{
    float g[4] = {1, 1, 1, 1};

    kit_push(&k, 1, &(struct kit_push){.seq = seq, .var = var, .gradient = g, .len = 4, .durable = true});
}

START_TEST(the_redo_log_is_what_no_save_has)
{
    struct ps_error disk = {.code = PS_ERR_IO, .text = "no"};
    double rows, one, two;
    uint32_t var;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    rows = page_value(metrics_page(), "psd_redo_log_bytes"); /* of the job, the session and the variable */
    ck_assert_double_gt(rows, 0);
    push_durable(var, 1);
    one = page_value(metrics_page(), "psd_redo_log_bytes");
    ck_assert_double_gt(one, rows);
    kit_durable(&k, k.redo);
    EXPECT("psd_redo_log_bytes", one); /* that is where it lies */
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE});
    kit_save_ended(&k, 0, 0, &disk);
    EXPECT("psd_redo_log_bytes", one);
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE});
    push_durable(var, 2); /* after its instant */
    two = page_value(metrics_page(), "psd_redo_log_bytes");
    ck_assert_double_gt(two, one);
    read_save();
    kit_turn(&k);
    kit_save_ended(&k, 4096, 0, NULL);
    EXPECT("psd_redo_log_bytes", two - one);
    kit_durable(&k, k.redo);
    k.config.redo_next = k.redo;
    k.config.redo_bytes = 12288;
    kit_crash(&k);
    EXPECT("psd_redo_log_bytes", 12288); /* as the disk has it */
}
END_TEST

START_TEST(saves_are_counted_and_timed)
{
    struct ps_error disk = {.code = PS_ERR_IO, .text = "no"};

    metrics_begin(kit_job("train", PSD__MODE__ASYNC, 1), 1);
    EXPECT("psd_save_due", 1);
    ck_assert(isnan(page_value(metrics_page(), "psd_save_last_duration_seconds")));
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE});
    EXPECT("psd_save_running", 1);
    EXPECT("psd_save_progress_ratio", 0);
    kit_save_ended(&k, 0, 0, &disk);
    EXPECT("psd_save_failures_total", 1);
    EXPECT("psd_save_running", 0);
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE});
    read_save();
    kit_pass(&k, 2000);
    ck_assert(k.save_closing);
    kit_save_ended(&k, 4096, 0, NULL);
    EXPECT("psd_saves_total", 1);
    EXPECT("psd_save_due", 0);
    EXPECT("psd_save_duration_seconds_sum", 2);
    EXPECT("psd_save_duration_seconds_bucket{le=\"1\"}", 0);
    EXPECT("psd_save_duration_seconds_bucket{le=\"5\"}", 1);
    EXPECT("psd_save_last_duration_seconds", 2);
    EXPECT("psd_save_last_bytes", 4096);
    EXPECT("psd_save_number", 2);
}
END_TEST

static void
metrics_report(uint64_t conn, size_t n, double *values)
{
    Psd__Tick t = PSD__TICK__INIT;
    Psd__Metrics said = PSD__METRICS__INIT;

    t.seq = t.clock = 1;
    said.value = values;
    said.n_value = n;
    t.metrics = &said;
    kit_frame(&k, conn, MSG_TICK, k.next_request++, &t.base, NULL, 0);
}

/* Those that the page has room for. */
START_TEST(what_workers_add_up_is_told_by_index_and_name)
{
    double values[METRICS_SUMS_MAX + 1] = {32, -0.5, 7};

    kit_hello(&k, 1,
              &(struct kit_hello){.job = kit_job("train", PSD__MODE__ASYNC, 2), .metric_names = {"rows", "lo\"ss"}});
    kit_join(&k, 2, kit_job("train", PSD__MODE__ASYNC, 2), 1);
    metrics_report(1, 3, values);
    metrics_report(2, METRICS_SUMS_MAX + 1, values);
    EXPECT("psd_job_metric{job_name=\"train\",index=\"0\",metric=\"rows\"}", 64);
    EXPECT("psd_job_metric{job_name=\"train\",index=\"1\",metric=\"lo\\\"ss\"}", -1);
    EXPECT("psd_job_metric{job_name=\"train\",index=\"2\"}", 14);
    EXPECT("psd_job_metric{job_name=\"train\",index=\"7\"}", 0);
    ck_assert(isnan(page_value(metrics_page(), "psd_job_metric{job_name=\"train\",index=\"8\"}")));
}
END_TEST

static size_t
series_of(const char *text, const char *prefix)
{
    size_t n = 0;

    for (const char *at = text; at != NULL; at = strchr(at + 1, '\n'))
        n += strncmp(at + (*at == '\n'), prefix, strlen(prefix)) == 0;
    return n;
}

/* However many there are, the page has an end. */
START_TEST(series_are_bounded)
{
    double many[METRICS_SUMS_MAX] = {0};
    char name[32];

    for (int i = 0; i < METRICS_JOBS_MAX + 6; i++) {
        snprintf(name, sizeof name, "job-%d", i);
        kit_join(&k, 1, kit_job(name, PSD__MODE__ASYNC, 8), 0);
        for (int j = 0; j < 5; j++)
            kit_declare(&k, 1, (char[]){(char)('a' + j), '\0'}, 4, PS_SGD);
        metrics_report(1, METRICS_SUMS_MAX, many);
        kit_close(&k, 1);
        for (uint32_t task = 1; task < 5; task++) {
            kit_join(&k, 1, kit_job(name, PSD__MODE__ASYNC, 8), task);
            kit_close(&k, 1);
        }
    }
    k.now_ms += 60000; /* their grace is over */
    kit_event(&k, &(struct shard_event){.kind = SHARD_TIME});
    EXPECT("psd_jobs", METRICS_JOBS_MAX + 6);
    EXPECT("psd_jobs_left_out", 6);
    EXPECT("psd_variables", 5 * (METRICS_JOBS_MAX + 6));
    EXPECT("psd_variables_left_out", 5 * (METRICS_JOBS_MAX + 6) - METRICS_VARIABLES_MAX);
    EXPECT("psd_workers_left_out", 5 * (METRICS_JOBS_MAX + 6) - METRICS_WORKERS_MAX);
    ck_assert_uint_eq(series_of(metrics_page(), "psd_job_"), METRICS_JOBS_MAX * METRICS_JOB_SERIES);
    ck_assert_uint_eq(series_of(metrics_page(), "psd_variable_"), METRICS_VARIABLES_MAX * METRICS_VARIABLE_SERIES);
    ck_assert_uint_eq(series_of(metrics_page(), "psd_worker_"), METRICS_WORKERS_MAX * METRICS_WORKER_SERIES);
    ck_assert_uint_lt(series_of(metrics_page(), "psd_"), 310 + METRICS_JOBS_MAX * METRICS_JOB_SERIES +
                                                             METRICS_VARIABLES_MAX * METRICS_VARIABLE_SERIES +
                                                             METRICS_WORKERS_MAX * METRICS_WORKER_SERIES);
    EXPECT("psd_job_workers{job_name=\"job-63\",state=\"missing\"}", 3);
    ck_assert(isnan(page_value(metrics_page(), "psd_job_workers{job_name=\"job-64\",state=\"missing\"}")));
    EXPECT("psd_variable_blocks{job_name=\"job-51\",variable=\"a\"}", 1);
    ck_assert(isnan(page_value(metrics_page(), "psd_variable_blocks{job_name=\"job-51\",variable=\"b\"}")));
    kit_join(&k, 1, kit_job("job-69", PSD__MODE__ASYNC, 8), 7); /* a training job comes before others */
    EXPECT("psd_job_workers{job_name=\"job-69\",state=\"live\"}", 1);
    EXPECT("psd_variable_blocks{job_name=\"job-69\",variable=\"b\"}", 1);
    EXPECT("psd_worker_live{job_name=\"job-69\",worker=\"7\"}", 1);
    ck_assert(isnan(page_value(metrics_page(), "psd_job_workers{job_name=\"job-63\",state=\"missing\"}")));
}
END_TEST

/* Of a job that may have very many. */
START_TEST(workers_are_found_however_far_apart)
{
    static const uint32_t tasks[] = {0, 63, 64, 4095, 40000, WIRE_WORKERS_MAX - 1};
    char series[80];

    for (size_t i = 0; i < ARRAY_LEN(tasks); i++)
        kit_join(&k, 1 + i, kit_job("train", PSD__MODE__ASYNC, WIRE_WORKERS_MAX), tasks[i]);
    EXPECT("psd_sessions{state=\"live\"}", ARRAY_LEN(tasks));
    EXPECT("psd_job_workers{job_name=\"train\",state=\"missing\"}", WIRE_WORKERS_MAX - ARRAY_LEN(tasks));
    for (size_t i = 0; i < ARRAY_LEN(tasks); i++) {
        snprintf(series, sizeof series, "psd_worker_live{job_name=\"train\",worker=\"%u\"}", tasks[i]);
        EXPECT(series, 1);
    }
}
END_TEST

START_TEST(a_shard_that_drains_is_not_ready)
{
    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    kit_event(&k, &(struct shard_event){.kind = SHARD_DRAIN});
    EXPECT("psd_state{state=\"stopping\"}", 1);
    EXPECT("psd_state{state=\"serving\"}", 0);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("metrics");
    TCase *t = tcase_create("metrics");

    tcase_add_checked_fixture(t, metrics_setup, metrics_teardown);
    tcase_add_test(t, before_there_is_a_shard_the_page_is_about_the_process);
    tcase_add_test(t, an_empty_shard_has_all_families);
    tcase_add_test(t, every_counter_of_the_list_is_a_series);
    tcase_add_test(t, certificates_are_told_where_there_are_any);
    tcase_add_test(t, pushes_are_counted_by_what_became_of_them);
    tcase_add_test(t, what_is_too_old_is_dropped);
    tcase_add_test(t, workers_are_counted_one_by_one);
    tcase_add_test(t, counts_outlive_a_commit_that_fails);
    tcase_add_test(t, pulls_that_wait_for_slower_workers_are_seen_waiting_and_measured);
    tcase_add_test(t, steps_gradients_and_barriers_are_told_apart);
    tcase_add_test(t, durable_pushes_wait_for_the_disk);
    tcase_add_test(t, the_redo_log_is_what_no_save_has);
    tcase_add_test(t, saves_are_counted_and_timed);
    tcase_add_test(t, what_workers_add_up_is_told_by_index_and_name);
    tcase_add_test(t, series_are_bounded);
    tcase_add_test(t, workers_are_found_however_far_apart);
    tcase_add_test(t, a_shard_that_drains_is_not_ready);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
