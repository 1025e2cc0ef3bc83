/* Barriers: which workers are waited for, which are not, giving up, crashes. */
#include "tests/unit/kits/shard_fixture.h"

#include <string.h>

static Psd__Job *
barrier_job(uint32_t workers)
{
    return kit_job("train", PSD__MODE__ASYNC, workers);
}

START_TEST(barrier_opens_when_all_have_arrived)
{
    for (uint64_t conn = 1; conn <= 3; conn++)
        kit_join(&k, conn, barrier_job(3), (uint32_t)conn - 1);
    kit_barrier(&k, 1, 1, "start");
    kit_barrier(&k, 3, 1, "start");
    kit_expect_nothing(&k, 1);
    kit_barrier(&k, 2, 1, "start");
    for (uint64_t conn = 1; conn <= 3; conn++)
        kit_ack(&k, conn, 1, PS_OK);
    kit_barrier(&k, 1, 2, "start"); /* the name is free again */
    kit_expect_nothing(&k, 1);
}
END_TEST

START_TEST(worker_that_never_joined_is_waited_for)
{
    kit_join(&k, 1, barrier_job(2), 0);
    kit_barrier(&k, 1, 1, "start");
    kit_expect_nothing(&k, 1);
    kit_join(&k, 2, barrier_job(2), 1);
    kit_expect_nothing(&k, 1);
    kit_barrier(&k, 2, 1, "start");
    kit_ack(&k, 1, 1, PS_OK);
}
END_TEST

START_TEST(names_and_jobs_are_kept_apart)
{
    kit_join(&k, 1, barrier_job(2), 0);
    kit_join(&k, 2, barrier_job(2), 1);
    kit_join(&k, 3, kit_job("other", PSD__MODE__ASYNC, 2), 1);
    kit_barrier(&k, 1, 1, "a");
    kit_barrier(&k, 2, 1, "b");
    kit_barrier(&k, 3, 1, "a");
    for (uint64_t conn = 1; conn <= 3; conn++)
        kit_expect_nothing(&k, conn);
    kit_barrier(&k, 2, 2, "a");
    kit_ack(&k, 1, 1, PS_OK);
    kit_ack(&k, 2, 2, PS_OK);
    kit_expect_nothing(&k, 3);
}
END_TEST

START_TEST(lapsed_and_finished_workers_are_not_waited_for)
{
    for (uint64_t conn = 1; conn <= 3; conn++)
        kit_join(&k, conn, barrier_job(3), (uint32_t)conn - 1);
    kit_barrier(&k, 1, 1, "start");
    kit_close(&k, 2);
    kit_pass(&k, 5000);
    kit_answer_free(kit_expect(&k, 1, MSG_EVENT));
    kit_expect_nothing(&k, 1);
    kit_goodbye(&k, 3, true);
    kit_ack(&k, 1, 1, PS_OK);
}
END_TEST

START_TEST(arrival_of_a_lapsed_worker_does_not_count)
{
    for (uint64_t conn = 1; conn <= 3; conn++)
        kit_join(&k, conn, barrier_job(3), (uint32_t)conn - 1);
    kit_barrier(&k, 1, 1, "start");
    kit_barrier(&k, 2, 1, "start");
    kit_close(&k, 2);
    kit_pass(&k, 5000);
    kit_answer_free(kit_expect(&k, 1, MSG_EVENT));
    kit_expect_nothing(&k, 1);
    kit_hello(&k, 4, &(struct kit_hello){.job = barrier_job(3), .task = 1, .incarnation = 5});
    kit_answer_free(kit_expect(&k, 4, MSG_WELCOME));
    kit_barrier(&k, 3, 1, "start");
    kit_answer_free(kit_expect(&k, 1, MSG_EVENT)); /* it is back */
    kit_expect_nothing(&k, 1);
    kit_barrier(&k, 4, 1, "start");
    kit_ack(&k, 1, 1, PS_OK);
    kit_ack(&k, 4, 1, PS_OK);
}
END_TEST

START_TEST(given_up_barrier_is_cancelled_and_remembered)
{
    uint64_t request;

    kit_join(&k, 1, barrier_job(2), 0);
    kit_join(&k, 2, barrier_job(2), 1);
    request = kit_barrier(&k, 1, 1, "start");
    kit_cancel(&k, 1, request);
    kit_ack(&k, 1, 1, PS_ERR_CANCELLED);
    kit_barrier(&k, 2, 1, "start");
    kit_expect_nothing(&k, 2); /* the other one left */
    kit_barrier(&k, 1, 1, "start");
    kit_ack(&k, 1, 1, PS_ERR_CANCELLED);
    kit_barrier(&k, 1, 2, "start");
    kit_ack(&k, 1, 2, PS_OK);
    kit_ack(&k, 2, 1, PS_OK);
}
END_TEST

START_TEST(barrier_given_up_without_a_connection_is_skipped)
{
    kit_join(&k, 1, barrier_job(2), 0);
    kit_join(&k, 2, barrier_job(2), 1);
    kit_barrier(&k, 1, 1, "start");
    kit_close(&k, 1);
    kit_resume(&k, 1, barrier_job(2), 0, 0);
    kit_skip(&k, 1, 1);
    kit_ack(&k, 1, 1, PS_ERR_CANCELLED);
    kit_barrier(&k, 2, 1, "start");
    kit_expect_nothing(&k, 2); /* the arrival was taken back */
    kit_skip(&k, 1, 1);
    kit_ack(&k, 1, 1, PS_ERR_CANCELLED);
}
END_TEST

START_TEST(arriving_twice_is_refused)
{
    kit_join(&k, 1, barrier_job(2), 0);
    kit_barrier(&k, 1, 1, "start");
    kit_barrier(&k, 1, 2, "start");
    kit_ack(&k, 1, 2, PS_ERR_INVALID);
}
END_TEST

START_TEST(barrier_is_waited_for_over_crashes)
{
    kit_join(&k, 1, barrier_job(2), 0);
    kit_join(&k, 2, barrier_job(2), 1);
    kit_barrier(&k, 1, 1, "start");
    kit_tick(&k, 1, 2, 1);
    kit_ack(&k, 1, 2, PS_OK);
    kit_crash(&k);
    ck_assert_uint_eq(kit_resume(&k, 1, barrier_job(2), 0, 0), 0);
    kit_resume(&k, 2, barrier_job(2), 1, 0);
    kit_barrier(&k, 1, 1, "start");
    kit_tick(&k, 1, 2, 1);
    kit_ack(&k, 1, 2, PS_OK);
    kit_barrier(&k, 2, 1, "start");
    kit_ack(&k, 1, 1, PS_OK);
    kit_ack(&k, 2, 1, PS_OK);
}
END_TEST

START_TEST(barriers_have_a_limit)
{
    kit_join(&k, 1, barrier_job(2), 0);
    for (uint64_t seq = 1; seq <= SHARD_BARRIERS; seq++) {
        char name[32];

        snprintf(name, sizeof name, "b%d", (int)seq);
        kit_barrier(&k, 1, seq, name);
    }
    kit_expect_nothing(&k, 1);
    kit_barrier(&k, 1, SHARD_BARRIERS + 1, "one more");
    kit_ack(&k, 1, SHARD_BARRIERS + 1, PS_ERR_LIMIT);
}
END_TEST

START_TEST(messages_that_are_not_answered_have_a_limit)
{
    kit_join(&k, 1, barrier_job(2), 0);
    kit_barrier(&k, 1, 1, "start"); /* nothing behind it can be counted as resolved */
    k.hold = true;
    for (uint64_t seq = 2; seq <= SHARD_UNRESOLVED_MAX; seq++)
        kit_tick(&k, 1, seq, seq);
    kit_turn(&k);
    k.hold = false;
    kit_drop_answers(&k, 1);
    ck_assert(k.open[1]);
    kit_tick(&k, 1, SHARD_UNRESOLVED_MAX + 1, SHARD_UNRESOLVED_MAX + 1);
    kit_expect_closed(&k, 1, PS_ERR_LIMIT);
}
END_TEST

START_TEST(barrier_that_opened_ahead_of_an_older_one_does_not_open_that_after_a_crash)
{
    kit_join(&k, 1, barrier_job(2), 0);
    kit_join(&k, 2, barrier_job(2), 1);
    kit_barrier(&k, 1, 1, "first");
    kit_barrier(&k, 1, 2, "second");
    kit_barrier(&k, 2, 1, "second");
    kit_ack(&k, 1, 2, PS_OK);
    kit_ack(&k, 2, 1, PS_OK);
    kit_crash(&k);
    kit_resume(&k, 1, barrier_job(2), 0, 0);
    kit_resume(&k, 2, barrier_job(2), 1, 1);
    kit_barrier(&k, 1, 1, "first");
    kit_expect_nothing(&k, 1);
    kit_barrier(&k, 1, 2, "second");
    kit_ack(&k, 1, 2, PS_OK);
    kit_barrier(&k, 2, 2, "first");
    kit_ack(&k, 1, 1, PS_OK);
    kit_ack(&k, 2, 2, PS_OK);
}
END_TEST

START_TEST(push_in_the_place_of_a_barrier_gets_no_values)
{
    float gradient[4] = {1, 1, 1, 1};
    uint32_t var;

    kit_join(&k, 1, barrier_job(2), 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_join(&k, 2, barrier_job(2), 1);
    kit_barrier(&k, 1, 1, "b");
    kit_push(&k, 1, &(struct kit_push){.seq = 1, .var = var, .gradient = gradient, .len = 4, .want_value = true});
    kit_expect_nothing(&k, 1);
    kit_barrier(&k, 2, 1, "b");
    kit_ack(&k, 1, 1, PS_OK);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("barrier");
    TCase *tc = tcase_create("barrier");

    tcase_add_checked_fixture(tc, shard_setup, shard_teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, barrier_opens_when_all_have_arrived);
    tcase_add_test(tc, worker_that_never_joined_is_waited_for);
    tcase_add_test(tc, names_and_jobs_are_kept_apart);
    tcase_add_test(tc, lapsed_and_finished_workers_are_not_waited_for);
    tcase_add_test(tc, arrival_of_a_lapsed_worker_does_not_count);
    tcase_add_test(tc, given_up_barrier_is_cancelled_and_remembered);
    tcase_add_test(tc, barrier_given_up_without_a_connection_is_skipped);
    tcase_add_test(tc, arriving_twice_is_refused);
    tcase_add_test(tc, barrier_is_waited_for_over_crashes);
    tcase_add_test(tc, barrier_that_opened_ahead_of_an_older_one_does_not_open_that_after_a_crash);
    tcase_add_test(tc, push_in_the_place_of_a_barrier_gets_no_values);
    tcase_add_test(tc, barriers_have_a_limit);
    tcase_add_test(tc, messages_that_are_not_answered_have_a_limit);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
