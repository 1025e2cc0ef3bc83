/* Metrics on a shard: values from ticks are settled with the clock, reported to a process that resumes or takes over,
 * and summed up over the workers of a job. */
#include "tests/unit/kits/shard_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/store.pb-c.h"
#include "tests/unit/kits/power_kit.h"

static Psd__Job *
worker_metrics_job(void)
{
    return kit_job("train", PSD__MODE__ASYNC, 3);
}

/* n values; position 0: none of the data. */
static void
worker_metrics_tick(uint64_t conn, uint64_t seq, uint64_t clock, size_t n, const double *values, uint64_t position)
{
    Psd__Tick m = PSD__TICK__INIT;
    Psd__Metrics metrics = PSD__METRICS__INIT;
    Psd__Cursor at = PSD__CURSOR__INIT;

    m.seq = seq;
    m.clock = clock;
    m.metrics = &metrics;
    metrics.n_value = n;
    metrics.value = (double *)values;
    at.position = position;
    metrics.at = position > 0 ? &at : NULL;
    kit_frame(&k, conn, MSG_TICK, k.next_request++, &m.base, NULL, 0);
}

static void
worker_metrics_answered(uint64_t conn, uint64_t seq, uint64_t clock, double a, double b, uint64_t position)
{
    worker_metrics_tick(conn, seq, clock, 2, (double[]){a, b}, position);
    kit_ack(&k, conn, seq, PS_OK);
}

/* The next answer is a welcome with these; n 0: with none. */
static void
welcomed_with(uint64_t conn, size_t n, const double *want, uint64_t position)
{
    struct kit_answer *a = kit_expect(&k, conn, MSG_WELCOME);
    const Psd__Metrics *m = a->msg.u.welcome->metrics;

    ck_assert_uint_eq(m != NULL ? m->n_value : 0, n);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(m->value[i] == want[i], "metric %zu is %g, not %g", i, m->value[i], want[i]);
    ck_assert_uint_eq(m != NULL && m->at != NULL ? m->at->position : 0, position);
    kit_answer_free(a);
}

static void
sums_are(size_t n, const double *want)
{
    struct kit_answer *a = kit_look(&k, PSD__QUERY_KIND__JOBS, "train");
    const Psd__JobReport *m = a->msg.u.report->job[0];

    ck_assert_uint_eq(m->n_metrics, n);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(m->metrics[i] == want[i], "sum %zu is %g, not %g", i, m->metrics[i], want[i]);
    kit_answer_free(a);
}

START_TEST(a_tick_settles_them_and_who_resumes_or_takes_over_hears_it)
{
    kit_hello(&k, 1, &(struct kit_hello){.job = worker_metrics_job()});
    welcomed_with(1, 0, NULL, 0);
    worker_metrics_answered(1, 1, 1, 10, 0.25, 7);
    worker_metrics_answered(1, 2, 2, 20, 0.5, 9);
    kit_ticked(&k, 1, 3, 3); /* that brings none leaves them as they were */
    kit_close(&k, 1);
    kit_hello(&k, 2, &(struct kit_hello){.job = worker_metrics_job(), .resume = true});
    welcomed_with(2, 2, (double[]){20, 0.5}, 9);
    kit_close(&k, 2);
    kit_hello(&k, 3, &(struct kit_hello){.job = worker_metrics_job(), .incarnation = 77});
    welcomed_with(3, 2, (double[]){20, 0.5}, 9);
}
END_TEST

START_TEST(a_kill_of_the_shard_forgets_none)
{
    double many[WIRE_METRICS_MAX];

    for (size_t i = 0; i < WIRE_METRICS_MAX; i++)
        many[i] = 1.0 / (double)(i + 1);
    kit_join(&k, 1, worker_metrics_job(), 0);
    worker_metrics_tick(1, 1, 1, WIRE_METRICS_MAX, many, 3);
    kit_ack(&k, 1, 1, PS_OK);
    kit_crash(&k);
    kit_hello(&k, 1, &(struct kit_hello){.job = worker_metrics_job(), .resume = true});
    welcomed_with(1, WIRE_METRICS_MAX, many, 3);
    sums_are(WIRE_METRICS_MAX, many);
}
END_TEST

START_TEST(what_comes_again_counts_once)
{
    kit_join(&k, 1, worker_metrics_job(), 0);
    worker_metrics_answered(1, 1, 1, 10, 1, 0);
    worker_metrics_answered(1, 1, 1, 10, 1, 0); /* the answer was lost */
    kit_crash(&k);
    kit_resume(&k, 1, worker_metrics_job(), 0, 0);
    worker_metrics_answered(1, 1, 1, 10, 1, 0);
    sums_are(2, (double[]){10, 1});
    worker_metrics_answered(1, 2, 1, 12, 1,
                            0); /* to where it is already: a rollback was made up for, or a session began further */
    sums_are(2, (double[]){12, 1});
}
END_TEST

START_TEST(a_tick_that_is_refused_for_its_clock_brings_them_all_the_same)
{
    kit_join(&k, 1, worker_metrics_job(), 0);
    kit_ticked(&k, 1, 1, 5);
    worker_metrics_tick(1, 2, 3, 1, (double[]){8}, 0);
    kit_ack(&k, 1, 2, PS_ERR_CLOCK);
    sums_are(1, (double[]){8});
    kit_crash(&k);
    sums_are(1, (double[]){8});
}
END_TEST

START_TEST(sums_are_of_all_workers_also_those_that_are_gone)
{
    kit_join(&k, 1, worker_metrics_job(), 0);
    sums_are(0, NULL);
    kit_join(&k, 2, worker_metrics_job(), 1);
    kit_join(&k, 3, worker_metrics_job(), 2);
    worker_metrics_answered(1, 1, 1, 1, 0.1, 0);
    worker_metrics_answered(2, 1, 1, 2, 0.2, 0);
    worker_metrics_tick(3, 1, 1, 3, (double[]){3, 0.3, 5}, 0); /* one more than the others have */
    kit_ack(&k, 3, 1, PS_OK);
    sums_are(3, (double[]){6, 0.1 + 0.2 + 0.3, 5});
    kit_goodbye(&k, 1, true);
    kit_close(&k, 2);
    kit_pass(&k, 120000); /* the grace, and the lease */
    sums_are(3, (double[]){6, 0.1 + 0.2 + 0.3, 5});
}
END_TEST

START_TEST(each_worker_is_listed_with_its_own)
{
    struct kit_answer *a;
    const Psd__WorkerReport *m;

    kit_join(&k, 1, worker_metrics_job(), 0);
    kit_join(&k, 2, worker_metrics_job(), 2);
    worker_metrics_answered(2, 1, 1, 4, -2, 0);
    a = kit_look(&k, PSD__QUERY_KIND__WORKERS, "train");
    ck_assert_uint_eq(a->msg.u.report->n_worker, 2);
    ck_assert_uint_eq(a->msg.u.report->worker[0]->n_metrics, 0);
    m = a->msg.u.report->worker[1];
    ck_assert(m->task == 2 && m->n_metrics == 2 && m->metrics[0] == 4 && m->metrics[1] == -2);
    kit_answer_free(a);
}
END_TEST

START_TEST(a_new_round_begins_with_none)
{
    kit_join(&k, 1, worker_metrics_job(), 0);
    kit_join(&k, 2, worker_metrics_job(), 1);
    kit_join(&k, 3, worker_metrics_job(), 2);
    worker_metrics_answered(1, 1, 1, 1, 1, 5);
    worker_metrics_answered(2, 1, 1, 2, 2, 5);
    worker_metrics_answered(3, 1, 1, 4, 4, 5);
    kit_goodbye(&k, 1, true);
    kit_goodbye(&k, 2, true);
    kit_hello(&k, 4, &(struct kit_hello){.job = worker_metrics_job(), .task = 0, .incarnation = 5});
    welcomed_with(4, 0, NULL, 0);
    sums_are(0, NULL);
    worker_metrics_answered(4, 1, 2, 7, 0, 1);
    sums_are(2, (double[]){7, 0});
    { /* a worker that stayed is told of the round, and reports its sums in it */
        Psd__Tick m = PSD__TICK__INIT;

        kit_drop_answers(&k, 3);
        m.seq = 2;
        m.clock = 2;
        m.round = 1;
        kit_frame(&k, 3, MSG_TICK, k.next_request++, &m.base, NULL, 0);
        kit_ack(&k, 3, 2, PS_OK);
    }
    sums_are(2, (double[]){7, 0});
    worker_metrics_answered(3, 3, 3, 1, 1, 2);
    sums_are(2, (double[]){8, 1});
}
END_TEST

START_TEST(they_may_be_no_numbers)
{
    struct kit_answer *a;

    kit_join(&k, 1, worker_metrics_job(), 0);
    kit_join(&k, 2, worker_metrics_job(), 1);
    worker_metrics_answered(1, 1, 1, NAN, 1, 0);
    worker_metrics_answered(2, 1, 1, 1, INFINITY, 0);
    kit_crash(&k);
    a = kit_look(&k, PSD__QUERY_KIND__JOBS, "train");
    ck_assert(isnan(a->msg.u.report->job[0]->metrics[0]));
    ck_assert(a->msg.u.report->job[0]->metrics[1] == INFINITY);
    kit_answer_free(a);
}
END_TEST

START_TEST(too_many_end_the_connection_and_change_nothing)
{
    double many[WIRE_METRICS_MAX + 1] = {1};

    kit_join(&k, 1, worker_metrics_job(), 0);
    worker_metrics_answered(1, 1, 1, 3, 3, 0);
    worker_metrics_tick(1, 2, 2, WIRE_METRICS_MAX + 1, many, 0);
    kit_expect_closed(&k, 1, PS_ERR_LIMIT);
    sums_are(2, (double[]){3, 3});
}
END_TEST

/* The row of a session is changed to hold more than any tick could have brought. */
START_TEST(a_row_with_too_many_is_not_loaded)
{
    const struct store_ops *ops = k.store->ops;
    Psd__SessionRow row = PSD__SESSION_ROW__INIT;
    Psd__Metrics metrics = PSD__METRICS__INIT;
    double many[WIRE_METRICS_MAX + 1] = {0};
    uint8_t key[8] = {0, 0, 0, 1, 0, 0, 0, 0}, bytes[1024];
    struct ps_error e;
    struct shard *shard;
    size_t len;

    kit_join(&k, 1, worker_metrics_job(), 0);
    worker_metrics_answered(1, 1, 1, 3, 3, 0);
    metrics.value = many;
    metrics.n_value = WIRE_METRICS_MAX + 1;
    row.metrics = &metrics;
    len = psd__session_row__get_packed_size(&row);
    ck_assert_uint_le(len, sizeof bytes);
    psd__session_row__pack(&row, bytes);
    ck_assert_int_eq(ops->begin(k.store, KIB), PS_OK);
    ck_assert_int_eq(ops->row_put(k.store, STORE_SESSIONS, (struct span){key, sizeof key}, (struct span){bytes, len}),
                     PS_OK);
    ck_assert_int_eq(ops->commit(k.store), PS_OK);
    ck_assert_int_eq(shard_new(&k.config, k.store, k.now_ms, &shard, &e), PS_ERR_IO);
    ck_assert_msg(strstr(e.text, "the session of worker 0 of job 1 cannot be loaded") != NULL, "%s", e.text);
}
END_TEST

/* The shard goes back to its save; the worker's next tick reports all of them, whatever was lost. */
START_TEST(a_power_loss_takes_them_back_to_the_save)
{
    struct power_disk disk = {0};

    kit_join(&k, 1, worker_metrics_job(), 0);
    worker_metrics_answered(1, 1, 1, 1, 1, 1);
    disk_save(&disk, &k);
    worker_metrics_answered(1, 2, 2, 2, 2, 2);
    power_loss(&disk, &k, 99);
    kit_hello(&k, 1, &(struct kit_hello){.job = worker_metrics_job(), .resume = true});
    welcomed_with(1, 2, (double[]){1, 1}, 1);
    worker_metrics_answered(1, 2, 3, 3, 3, 3);
    sums_are(2, (double[]){3, 3});
    disk_finish(&disk);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("tally");
    TCase *tc = tcase_create("tally");

    tcase_add_checked_fixture(tc, shard_setup_durable, shard_teardown);
    tcase_add_test(tc, a_tick_settles_them_and_who_resumes_or_takes_over_hears_it);
    tcase_add_test(tc, a_kill_of_the_shard_forgets_none);
    tcase_add_test(tc, what_comes_again_counts_once);
    tcase_add_test(tc, a_tick_that_is_refused_for_its_clock_brings_them_all_the_same);
    tcase_add_test(tc, sums_are_of_all_workers_also_those_that_are_gone);
    tcase_add_test(tc, each_worker_is_listed_with_its_own);
    tcase_add_test(tc, a_new_round_begins_with_none);
    tcase_add_test(tc, they_may_be_no_numbers);
    tcase_add_test(tc, too_many_end_the_connection_and_change_nothing);
    tcase_add_test(tc, a_row_with_too_many_is_not_loaded);
    tcase_add_test(tc, a_power_loss_takes_them_back_to_the_save);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
