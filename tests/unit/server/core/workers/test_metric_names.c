/* Names of metrics on a shard: which worker's names hold, for how long, and the treatment of others. */
#include "server/core/workers/metric_names.h"

#include <string.h>

#include "server/core/shard_state.h"
#include "tests/unit/kits/power_kit.h"
#include "tests/unit/kits/shard_fixture.h"

static Psd__Job *
metric_names_job(void)
{
    return kit_job("train", PSD__MODE__ASYNC, 3);
}

/* names: NULL-terminated. */
static void
metric_names_hello(uint64_t conn, uint32_t task, const char *const *names)
{
    struct kit_hello h = {.job = metric_names_job(), .task = task, .incarnation = 5000 + conn};

    for (size_t i = 0; names[i] != NULL; i++)
        h.metric_names[i] = names[i];
    kit_hello(&k, conn, &h);
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void
metric_names_joins(uint64_t conn, uint32_t task, const char *const *names)
{
    metric_names_hello(conn, task, names);
    kit_answer_free(kit_expect(&k, conn, MSG_WELCOME));
}

#define ANEW ": all must run the same program; to begin anew: psctl drop --job train --force"

/* The error names the wrong name, and the connection is closed. */
static void
is_refused(uint64_t conn, uint32_t task, const char *const *names, const char *says)
{
    struct kit_answer *a;

    metric_names_hello(conn, task, names);
    a = kit_expect(&k, conn, MSG_ERROR);
    ck_assert_int_eq(a->msg.u.error->code, PS_ERR_MISMATCH);
    ck_assert_str_eq(a->msg.u.error->text, says);
    kit_answer_free(a);
    ck_assert(k.closed[conn]);
}

static void
metric_names_resumes(uint64_t conn, uint64_t incarnation, const char *const *names)
{
    struct kit_hello h = {.job = metric_names_job(), .incarnation = incarnation, .resume = true};

    for (size_t i = 0; names[i] != NULL; i++)
        h.metric_names[i] = names[i];
    kit_hello(&k, conn, &h);
    kit_answer_free(kit_expect(&k, conn, MSG_WELCOME));
}

/* The names in a report, and so those that are kept. */
static void
names_are(const char *const *want)
{
    struct kit_answer *a = kit_look(&k, PSD__QUERY_KIND__JOBS, NULL);
    const Psd__JobReport *m = a->msg.u.report->job[0];
    size_t n = 0;

    for (; want[n] != NULL; n++)
        ck_assert_msg(n < m->n_metric_names && strcmp(m->metric_names[n], want[n]) == 0, "metric %zu is not %s", n,
                      want[n]);
    ck_assert_uint_eq(m->n_metric_names, n);
    kit_answer_free(a);
}

START_TEST(workers_bring_the_same_or_more_or_none)
{
    metric_names_joins(1, 0, NAMES(NULL));
    names_are(NAMES(NULL));
    metric_names_joins(2, 1, NAMES("rows", "loss"));
    names_are(NAMES("rows", "loss"));
    metric_names_joins(3, 2, NAMES("rows"));
    names_are(NAMES("rows", "loss"));
    kit_close(&k, 3);
    metric_names_joins(4, 2, NAMES("rows", "loss", "Genauigkeit, größer"));
    names_are(NAMES("rows", "loss", "Genauigkeit, größer"));
}
END_TEST

START_TEST(others_are_refused_while_a_worker_is_live)
{
    metric_names_joins(1, 0, NAMES("rows", "loss"));
    is_refused(2, 1, NAMES("rows", "hits", "x"),
               "metric 1 of job 'train' is 'loss' to its live workers, not 'hits'" ANEW);
    names_are(NAMES("rows", "loss"));
    kit_close(&k, 1); /* without a connection it is live until its grace is over */
    is_refused(2, 1, NAMES("hits"), "metric 0 of job 'train' is 'rows' to its live workers, not 'hits'" ANEW);
    kit_pass(&k, 60000);
    metric_names_joins(2, 1, NAMES("hits"));
    names_are(NAMES("hits"));
}
END_TEST

/* A changed program starts again where it was. */
START_TEST(who_is_alone_may_bring_others)
{
    metric_names_joins(1, 0, NAMES("rows", "loss"));
    kit_close(&k, 1);
    metric_names_joins(2, 0, NAMES("rows", "error"));
    names_are(NAMES("rows", "error"));
    kit_close(&k, 2);
    metric_names_joins(3, 0, NAMES(NULL));
    names_are(NAMES("rows", "error"));
}
END_TEST

START_TEST(a_new_round_has_its_own)
{
    metric_names_joins(1, 0, NAMES("rows", "loss"));
    metric_names_joins(2, 1, NAMES("rows", "loss"));
    kit_goodbye(&k, 1, true);
    metric_names_joins(3, 0, NAMES("steps")); /* the round of worker 1 is not over */
    names_are(NAMES("steps"));
    kit_close(&k, 2);
    kit_hello(&k, 4,
              &(struct kit_hello){.job = metric_names_job(),
                                  .task = 1,
                                  .incarnation = 5002,
                                  .resume = true,
                                  .metric_names = {"rows", "loss"}});
    kit_answer_free(kit_expect(&k, 4, MSG_WELCOME)); /* it goes on in its own, */
    names_are(NAMES("steps"));                       /* and changes nothing in this one */
    kit_goodbye(&k, 3, true);
    metric_names_joins(5, 0, NAMES(NULL));
    names_are(NAMES(NULL));
}
END_TEST

START_TEST(a_kill_of_the_shard_forgets_none)
{
    char longest[WIRE_METRICS_MAX][WIRE_METRIC_NAME_MAX + 1];
    const char *many[WIRE_METRICS_MAX + 1] = {NULL};

    for (size_t i = 0; i < WIRE_METRICS_MAX; i++) {
        memset(longest[i], 'a' + (int)(i % 26), WIRE_METRIC_NAME_MAX);
        longest[i][0] = (char)('A' + i / 26);
        longest[i][WIRE_METRIC_NAME_MAX] = '\0';
        many[i] = longest[i];
    }
    metric_names_joins(1, 0, many);
    kit_crash(&k);
    names_are(many);
    metric_names_resumes(1, 5001, NAMES(NULL));
    names_are(many);
}
END_TEST

START_TEST(a_power_loss_takes_back_what_is_told_again)
{
    struct power_disk disk = {0};

    metric_names_joins(1, 0, NAMES("rows"));
    disk_save(&disk, &k);
    kit_close(&k, 1);
    metric_names_joins(2, 0, NAMES("rows", "loss"));
    power_loss(&disk, &k, 99);
    names_are(NAMES("rows"));
    metric_names_resumes(3, 5001, NAMES("rows", "loss"));
    names_are(NAMES("rows", "loss"));
    disk_finish(&disk);
}
END_TEST

START_TEST(durable_pushes_take_them_to_the_disk)
{
    struct power_disk disk = {0};
    float g[4] = {1, 1, 1, 1};
    uint32_t var;

    metric_names_joins(1, 0, NAMES(NULL));
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    disk_save(&disk, &k);
    metric_names_joins(2, 1, NAMES("rows", "loss"));
    kit_push(&k, 2, &(struct kit_push){.seq = 1, .var = var, .gradient = g, .len = 4, .durable = true});
    disk_take(&disk, &k, k.redo);
    power_loss(&disk, &k, 99);
    names_are(NAMES("rows", "loss"));
    disk_finish(&disk);
}
END_TEST

START_TEST(what_is_not_committed_did_not_happen)
{
    metric_names_joins(1, 0, NAMES("rows"));
    kit_close(&k, 1);
    store_mem_fail_at(k.store, STORE_MEM_FAIL_COMMIT, 1);
    metric_names_hello(2, 0, NAMES("rows", "loss"));
    ck_assert(k.closed[2]);
    names_are(NAMES("rows"));
}
END_TEST

START_TEST(bad_ones_end_the_connection_and_change_nothing)
{
    const char *many[WIRE_METRICS_MAX + 2] = {NULL};
    char names[WIRE_METRICS_MAX + 1][4];

    metric_names_joins(1, 0, NAMES("rows"));
    for (size_t i = 0; i <= WIRE_METRICS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "m%zu", i);
        many[i] = names[i];
    }
    metric_names_hello(2, 1, many);
    kit_expect_closed(&k, 2, PS_ERR_LIMIT);
    metric_names_hello(2, 1, NAMES("rows", "rows"));
    kit_expect_closed(&k, 2, PS_ERR_INVALID);
    metric_names_hello(2, 1, NAMES("rows", "a\nb"));
    kit_expect_closed(&k, 2, PS_ERR_INVALID);
    names_are(NAMES("rows"));
    ck_assert_ptr_null(k.shard->jobs_by_id[1]->sessions[1]);
}
END_TEST

/* The row of a job is changed to hold what no hello could have brought. */
START_TEST(a_row_with_bad_ones_is_not_loaded)
{
    Psd__JobRow row = PSD__JOB_ROW__INIT;
    char *names[] = {(char *)"loss", (char *)"loss"};

    metric_names_joins(1, 0, NAMES("rows"));
    row.id = 1;
    row.options = metric_names_job();
    row.metric_names = names;
    row.n_metric_names = 2;
    kit_job_row_is_damaged(&k, &row);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("metric_names");
    TCase *tc = tcase_create("metric_names");

    tcase_add_checked_fixture(tc, shard_setup_durable, shard_teardown);
    tcase_add_test(tc, workers_bring_the_same_or_more_or_none);
    tcase_add_test(tc, others_are_refused_while_a_worker_is_live);
    tcase_add_test(tc, who_is_alone_may_bring_others);
    tcase_add_test(tc, a_new_round_has_its_own);
    tcase_add_test(tc, a_kill_of_the_shard_forgets_none);
    tcase_add_test(tc, a_power_loss_takes_back_what_is_told_again);
    tcase_add_test(tc, durable_pushes_take_them_to_the_disk);
    tcase_add_test(tc, what_is_not_committed_did_not_happen);
    tcase_add_test(tc, bad_ones_end_the_connection_and_change_nothing);
    tcase_add_test(tc, a_row_with_bad_ones_is_not_loaded);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
