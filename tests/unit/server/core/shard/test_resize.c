/* The number of a job's workers: when it may change, by whom, and what the next round is like. */
#include "tests/unit/kits/shard_fixture.h"

#include <string.h>

static uint64_t resize_request;

static Psd__Job *
resize_job(Psd__Mode mode, uint32_t workers)
{
    return kit_job("train", mode, workers);
}

/* Worker `task` comes as a new process; its sentence is to contain this. */
static void
resize_refused(uint64_t conn, const Psd__Job *job, uint32_t task, const char *says)
{
    struct kit_answer *a;

    kit_hello(&k, conn, &(struct kit_hello){.job = job, .task = task, .incarnation = ++resize_request});
    a = kit_expect(&k, conn, MSG_ERROR);
    ck_assert_int_eq((int)a->msg.u.error->code, PS_ERR_MISMATCH);
    ck_assert_msg(strstr(a->msg.u.error->text, says) != NULL, "'%s' does not say '%s'", a->msg.u.error->text, says);
    kit_answer_free(a);
}

/* The same; it is welcomed in this round. */
static void
resize_joins(uint64_t conn, const Psd__Job *job, uint32_t task, uint64_t round)
{
    struct kit_answer *a;

    kit_hello(&k, conn, &(struct kit_hello){.job = job, .task = task, .incarnation = ++resize_request});
    a = kit_expect(&k, conn, MSG_WELCOME);
    ck_assert_uint_eq(a->msg.u.welcome->round, round);
    kit_answer_free(a);
}

/* As many workers as the job says join, on connections 1, 2 ..., and one declares. */
static uint32_t
resize_round(const Psd__Job *job, uint64_t round)
{
    for (uint32_t task = 0; task < job->workers; task++)
        resize_joins(task + 1, job, task, round);
    for (uint32_t task = 0; task < job->workers; task++)
        kit_drop_answers(&k, task + 1); /* others are back */
    return kit_declare(&k, 1, "w", 4, PS_SGD);
}

static void
resize_goodbyes(uint32_t workers)
{
    for (uint32_t task = 0; task < workers; task++)
        kit_goodbye(&k, task + 1, true);
}

/* NULL: it is done. */
static void
resize_set(uint32_t workers, const char *says)
{
    Psd__Set m = PSD__SET__INIT;
    struct kit_answer *a;

    m.job = (char *)"train";
    m.workers = workers;
    kit_observe(&k, 9);
    kit_frame(&k, 9, MSG_SET, 500, &m.base, NULL, 0);
    a = kit_expect(&k, 9, says == NULL ? MSG_SET_DONE : MSG_ERROR);
    if (says != NULL) {
        ck_assert_int_eq((int)a->msg.u.error->code, PS_ERR_INVALID);
        ck_assert_msg(strstr(a->msg.u.error->text, says) != NULL, "'%s' does not say '%s'", a->msg.u.error->text, says);
    } else {
        ck_assert(a->msg.u.set_done->changed);
    }
    kit_answer_free(a);
    kit_close(&k, 9);
}

static void
resize_reports(uint32_t workers, const char *options, const char *declared)
{
    struct kit_answer *a = kit_look(&k, PSD__QUERY_KIND__JOBS, "train");
    const Psd__JobReport *m = a->msg.u.report->job[0];

    ck_assert_uint_eq(m->workers, workers);
    ck_assert_str_eq(m->options, options);
    ck_assert_str_eq(m->declared, declared);
    kit_answer_free(a);
}

/* ---- Rounds ---- */

/* Each needs all of its workers for a step, whatever the round before had. */
START_TEST(a_round_has_as_many_workers_as_the_first_of_it_says)
{
    static const uint32_t workers[] = {2, 5, 1, 3};
    uint64_t clock = 0;
    float value = 0;

    for (size_t round = 0; round < ARRAY_LEN(workers); round++) {
        const Psd__Job *job = resize_job(PSD__MODE__SYNC, workers[round]);
        uint32_t var = resize_round(job, round), n = workers[round];

        for (uint64_t conn = 1; conn < n; conn++) {
            kit_push_four(&k, conn, 1, clock, var, (float)conn);
            kit_expect_nothing(&k, conn);
        }
        kit_push_four(&k, n, 1, clock, var, (float)n);
        for (uint64_t conn = 1; conn <= n; conn++)
            kit_ack(&k, conn, 1, PS_OK);
        clock++;
        for (uint64_t conn = 1; conn <= n; conn++)
            kit_ticked(&k, conn, 2, clock);
        value -= (float)(n + 1) / 2; /* the mean of 1 to n */
        ck_assert_float_eq(kit_value_four(&k, 1, var, clock), value);
        resize_goodbyes(n);
    }
    resize_reports(3, "sync(3 of 3), lapse shrink, age none", "sync(2 of 2), lapse shrink, age none");
}
END_TEST

START_TEST(in_every_mode_another_number_waits_until_no_worker_is_live)
{
    Psd__Mode mode = (Psd__Mode)_i;

    resize_round(resize_job(mode, 2), 0);
    resize_refused(4, resize_job(mode, 3), 2, ": worker 0 (kit) is live. While none is live");
    kit_goodbye(&k, 1, true);
    resize_refused(4, resize_job(mode, 3), 2,
                   "worker 1 (kit) is live. While none is live the first that comes "
                   "may bring another number, or psctl set --job train workers=3 sets it");
    kit_close(&k, 2);
    resize_refused(4, resize_job(mode, 3), 2, "worker 1 (kit) was cut off, and may come again for ");
    kit_pass(&k, 3600000); /* its lease is over */
    for (uint32_t task = 0; task < 3; task++)
        resize_joins(task + 4, resize_job(mode, 3), task, 1);
    resize_refused(2, resize_job(mode, 2), 1,
                   "has 3 workers, no longer the 2 that it was opened with, and this one says "
                   "2: worker 0 (kit) is live");
}
END_TEST

/* Who is late says what it was started with, and hears that it is too late. */
START_TEST(a_restarted_shard_has_the_number_that_it_had)
{
    const Psd__Job *job = resize_job(PSD__MODE__SSP, 2);

    resize_round(job, 0);
    resize_goodbyes(2);
    resize_joins(1, resize_job(PSD__MODE__SSP, 4), 3, 1);
    for (int restarted = 0; restarted < 2; restarted++) {
        kit_crash(&k);
        resize_refused(2, resize_job(PSD__MODE__SSP, 2), 0, "has 4 workers, no longer the 2");
        resize_joins(3, resize_job(PSD__MODE__SSP, 4), (uint32_t)restarted, 1);
    }
    resize_reports(4, "ssp(bound 0), 4 workers, lapse shrink, age none",
                   "ssp(bound 0), 2 workers, lapse shrink, age none");
}
END_TEST

/* A power loss took the round's beginning; one of its workers says which round it is in. */
START_TEST(a_shard_that_lost_a_round_learns_its_number_from_who_is_in_it)
{
    Psd__Hello m = PSD__HELLO__INIT;
    struct kit_answer *a;

    resize_round(resize_job(PSD__MODE__SSP, 2), 0);
    m.cluster = (char *)k.config.cluster;
    m.shard = k.config.shard;
    m.shards = k.config.shards;
    m.job = resize_job(PSD__MODE__SSP, 1);
    m.incarnation = 77;
    m.agent = (char *)"kit";
    m.round = 4;
    kit_close(&k, 1);
    kit_open(&k, 5);
    kit_frame(&k, 5, MSG_HELLO, 1, &m.base, NULL, 0);
    a = kit_expect(&k, 5, MSG_WELCOME);
    ck_assert_uint_eq(a->msg.u.welcome->round, 4);
    kit_answer_free(a);
    kit_expect_closed(&k, 2, PS_ERR_MISMATCH); /* worker 1 is no more */
}
END_TEST

/* ---- SET ---- */

START_TEST(a_set_changes_the_number_while_no_worker_is_live)
{
    resize_round(resize_job(PSD__MODE__SYNC, 3), 0);
    resize_set(2, "job 'train' keeps its 3 workers while one of them trains, and worker 0 (kit) is live");
    kit_goodbye(&k, 1, true);
    kit_close(&k, 2);
    kit_close(&k, 3);
    kit_pass(&k, 3600000); /* two lapsed, and would be waited for */
    resize_set(2, NULL);
    kit_crash(&k);
    resize_set(2, NULL); /* once more: it has them, and no further round begins */
    resize_refused(1, resize_job(PSD__MODE__SYNC, 3), 2,
                   "has 2 workers, no longer the 3 that it was opened with, and "
                   "this one says 3: a new round waits for so many");
    resize_reports(2, "sync(2 of 2), lapse shrink, age none", "sync(3 of 3), lapse shrink, age none");
    resize_round(resize_job(PSD__MODE__SYNC, 2), 1);
    resize_set(2, NULL);
    resize_set(4, "job 'train' keeps its 2 workers");
}
END_TEST

/* What was pushed for a step that the old workers did not complete is not in one of the new. */
START_TEST(a_step_of_before_does_not_wait_for_the_new_workers)
{
    const Psd__Job *job = resize_job(PSD__MODE__SYNC, 3);
    uint32_t var;

    for (uint32_t task = 0; task < 2; task++)
        resize_joins(task + 1, job, task, 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_push_four(&k, 1, 1, 0, var, 64);
    kit_close(&k, 1);
    kit_close(&k, 2);
    kit_pass(&k, 3600000);
    resize_set(1, NULL);
    var = resize_round(resize_job(PSD__MODE__SYNC, 1), 1);
    kit_push_four(&k, 1, 1, 0, var, 1);
    kit_ack(&k, 1, 1, PS_OK);
    ck_assert_float_eq(kit_value_four(&k, 1, var, 1), -1);
}
END_TEST

START_TEST(a_quorum_that_is_not_of_all_stays)
{
    Psd__Job *job = resize_job(PSD__MODE__SYNC, 3);

    job->quorum = 2;
    resize_round(job, 0);
    resize_goodbyes(3);
    resize_set(1, "job 'train' needs gradients of 2 workers for a step, which 1 cannot give");
    resize_refused(1, resize_job(PSD__MODE__SYNC, 3), 0, "mode sync(2 of 3), not sync(3 of 3)");
    job = resize_job(PSD__MODE__SYNC, 5);
    job->quorum = 2;
    resize_joins(1, job, 4, 1);
    resize_reports(5, "sync(2 of 5), lapse shrink, age none", "sync(2 of 3), lapse shrink, age none");
}
END_TEST

START_TEST(memory_for_gradients_goes_by_the_number)
{
    struct shard_config config = {.cluster = "test", .shards = 1, .gather_bytes_max = 64 * KIB};
    struct kit_answer *a;

    kit_finish(&k);
    kit_init(&k, &config);
    resize_round(resize_job(PSD__MODE__SYNC, 2), 0);
    resize_goodbyes(2);
    kit_hello(&k, 4, &(struct kit_hello){.job = resize_job(PSD__MODE__SYNC, 60000), .incarnation = 5});
    a = kit_expect(&k, 4, MSG_ERROR);
    ck_assert_int_eq((int)a->msg.u.error->code, PS_ERR_LIMIT);
    kit_answer_free(a);
    resize_round(resize_job(PSD__MODE__SYNC, 2), 1);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("resize");
    TCase *tc = tcase_create("resize");

    tcase_add_checked_fixture(tc, shard_setup, shard_teardown);
    tcase_add_test(tc, a_round_has_as_many_workers_as_the_first_of_it_says);
    tcase_add_loop_test(tc, in_every_mode_another_number_waits_until_no_worker_is_live, PSD__MODE__ASYNC,
                        PSD__MODE__SYNC + 1);
    tcase_add_test(tc, a_restarted_shard_has_the_number_that_it_had);
    tcase_add_test(tc, a_shard_that_lost_a_round_learns_its_number_from_who_is_in_it);
    tcase_add_test(tc, a_set_changes_the_number_while_no_worker_is_live);
    tcase_add_test(tc, a_step_of_before_does_not_wait_for_the_new_workers);
    tcase_add_test(tc, a_quorum_that_is_not_of_all_stays);
    tcase_add_test(tc, memory_for_gradients_goes_by_the_number);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
