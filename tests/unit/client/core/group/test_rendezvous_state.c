/* The state of a rendezvous: which worker is asked, how long, and how it ends. */
#include "client/core/group/rendezvous_state.h"

#include "tests/unit/kits/check_main.h"

#define NOW      UINT64_C(1000)
#define DEADLINE UINT64_C(60000)

static struct rendezvous_state
course_of(bool by_shard, uint32_t task)
{
    struct rendezvous_state c = {.by_shard = by_shard,
                                 .task = task,
                                 .connect_ms = 10000,
                                 .again_ms = 200,
                                 .answer_ms = 2000,
                                 .taken_ms = 1000,
                                 .retry_ms = 50,
                                 .retry_ms_max = 1000};

    rendezvous_state_begin(&c, DEADLINE, NOW);
    return c;
}

START_TEST(it_begins_at_once_and_ends_by_the_deadline)
{
    struct rendezvous_state c = course_of(true, 3);

    ck_assert_int_eq(rendezvous_state_due(&c, NOW), RENDEZVOUS_DUE_STEP);
    rendezvous_state_asking(&c, NOW);
    ck_assert_int_eq(rendezvous_state_due(&c, NOW), RENDEZVOUS_DUE_NOTHING);
    ck_assert_uint_eq(rendezvous_state_due_ms(&c), NOW + 10000);
    ck_assert_int_eq(rendezvous_state_due(&c, NOW + 10000), RENDEZVOUS_DUE_STEP);
    ck_assert_int_eq(rendezvous_state_due(&c, DEADLINE), RENDEZVOUS_DUE_DEADLINE);
    rendezvous_state_end(&c);
    ck_assert_int_eq(c.state, RENDEZVOUS_IDLE);
}
END_TEST

START_TEST(a_guest_waits_until_the_deadline)
{
    struct rendezvous_state c = course_of(false, 3);

    rendezvous_state_asking(&c, NOW);
    ck_assert_uint_eq(rendezvous_state_due_ms(&c), NOW + 2000);
    rendezvous_state_waiting(&c);
    ck_assert_uint_eq(rendezvous_state_due_ms(&c), DEADLINE);
    ck_assert_int_eq(rendezvous_state_due(&c, DEADLINE - 1), RENDEZVOUS_DUE_NOTHING);
    ck_assert_int_eq(rendezvous_state_due(&c, DEADLINE), RENDEZVOUS_DUE_DEADLINE);
}
END_TEST

START_TEST(a_name_that_must_be_found_has_all_the_time)
{
    struct rendezvous_state c = course_of(true, 0);

    rendezvous_state_resolving(&c, false, NOW);
    ck_assert_uint_eq(rendezvous_state_due_ms(&c), NOW + 2000);
    rendezvous_state_resolving(&c, true, NOW);
    ck_assert_uint_eq(rendezvous_state_due_ms(&c), DEADLINE);
}
END_TEST

START_TEST(the_host_hears_of_less_time_than_there_is)
{
    struct rendezvous_state c = course_of(true, 0);

    ck_assert_uint_eq(rendezvous_state_left_ms(&c, DEADLINE - 800), 700);
    ck_assert_uint_eq(rendezvous_state_left_ms(&c, NOW), DEADLINE - NOW - 250);
    ck_assert_uint_eq(rendezvous_state_left_ms(&c, DEADLINE), 0);
    ck_assert_uint_eq(rendezvous_state_left_ms(&c, DEADLINE + 5), 0);
    rendezvous_state_begin(&c, UINT64_MAX, NOW);
    ck_assert_uint_eq(rendezvous_state_left_ms(&c, NOW), 24 * 3600 * 1000);
}
END_TEST

/* ---- Failures ---- */

START_TEST(what_no_second_try_changes_is_final)
{
    static const enum ps_err final[] = {PS_ERR_CLUSTER,  PS_ERR_VERSION, PS_ERR_TLS,         PS_ERR_PROTOCOL,
                                        PS_ERR_MISMATCH, PS_ERR_INVALID, PS_ERR_UNSUPPORTED, PS_ERR_DENIED};
    static const enum ps_err passing[] = {PS_ERR_UNREACHABLE, PS_ERR_CLOSED, PS_ERR_CANCELLED,
                                          PS_ERR_DRAINING,    PS_ERR_BUSY,   PS_ERR_LIMIT};
    struct rendezvous_state c = course_of(true, 0);

    for (size_t i = 0; i < ARRAY_LEN(final); i++)
        ck_assert_msg(rendezvous_state_is_final(&c, final[i], NOW), "%s", ps_err_name(final[i]));
    for (size_t i = 0; i < ARRAY_LEN(passing); i++)
        ck_assert_msg(!rendezvous_state_is_final(&c, passing[i], NOW), "%s", ps_err_name(passing[i]));
}
END_TEST

START_TEST(time_runs_out_for_good_at_the_host_alone)
{
    struct rendezvous_state c = course_of(false, 2);

    rendezvous_state_asking(&c, NOW);
    ck_assert(!rendezvous_state_is_final(&c, PS_ERR_TIMEOUT, NOW));
    rendezvous_state_waiting(&c);
    ck_assert(rendezvous_state_is_final(&c, PS_ERR_TIMEOUT, NOW));
}
END_TEST

START_TEST(an_index_is_taken_for_good_after_a_while)
{
    struct rendezvous_state c = course_of(true, 2);

    ck_assert(!rendezvous_state_is_final(&c, PS_ERR_TASK_TAKEN, NOW));
    ck_assert(!rendezvous_state_is_final(&c, PS_ERR_TASK_TAKEN, NOW + 999));
    ck_assert(rendezvous_state_is_final(&c, PS_ERR_TASK_TAKEN, NOW + 1000));
    rendezvous_state_begin(&c, DEADLINE, NOW + 1000); /* the next time it may pass again */
    ck_assert(!rendezvous_state_is_final(&c, PS_ERR_TASK_TAKEN, NOW + 1000));
}
END_TEST

START_TEST(a_shard_is_asked_less_and_less_often)
{
    static const uint64_t pauses[] = {50, 100, 200, 400, 800, 1000, 1000, 1000, 1000, 1000, 1000};
    struct rendezvous_state c = course_of(true, 2);

    for (size_t i = 0; i < ARRAY_LEN(pauses); i++) {
        ck_assert(!rendezvous_state_retry(&c, PS_ERR_UNREACHABLE, NOW));
        ck_assert_uint_eq(rendezvous_state_due_ms(&c), NOW + pauses[i]);
    }
    rendezvous_state_waiting(&c);
    ck_assert(!rendezvous_state_retry(&c, PS_ERR_CLOSED, NOW));
    ck_assert_uint_eq(rendezvous_state_due_ms(&c), NOW + 50);
}
END_TEST

/* ---- Among workers ---- */

START_TEST(workers_below_are_asked_in_turn_then_the_own_meeting_is_held)
{
    struct rendezvous_state c = course_of(false, 2);

    ck_assert(rendezvous_state_has_next(&c, false));
    ck_assert_uint_eq(c.at, 0);
    rendezvous_state_asking(&c, NOW);
    ck_assert(rendezvous_state_retry(&c, PS_ERR_UNREACHABLE, NOW)); /* the next one, at once */
    ck_assert(rendezvous_state_has_next(&c, true));                 /* it was not, when the round began */
    ck_assert_uint_eq(c.at, 1);
    rendezvous_state_asking(&c, NOW);
    ck_assert(rendezvous_state_retry(&c, PS_ERR_TIMEOUT, NOW));
    ck_assert(!rendezvous_state_has_next(&c, true));
    ck_assert(!c.settled);
    rendezvous_state_next_round(&c, NOW);
    ck_assert_uint_eq(rendezvous_state_due_ms(&c), NOW + 200);
    ck_assert(rendezvous_state_has_next(&c, true));
    ck_assert_uint_eq(c.at, 0);
    ck_assert(c.settled);
    rendezvous_state_next_round(&c, NOW); /* a settled rendezvous does not wait long */
    ck_assert_uint_eq(rendezvous_state_due_ms(&c), NOW + 50);
}
END_TEST

START_TEST(who_was_let_down_or_sent_away_begins_with_the_lowest)
{
    static const enum ps_err away[] = {PS_ERR_CANCELLED, PS_ERR_TASK_TAKEN};
    struct rendezvous_state c = course_of(false, 3);

    ck_assert(rendezvous_state_retry(&c, PS_ERR_UNREACHABLE, NOW));
    rendezvous_state_asking(&c, NOW);
    rendezvous_state_waiting(&c);
    ck_assert(!rendezvous_state_retry(&c, PS_ERR_CLOSED, NOW)); /* its host is gone */
    ck_assert_uint_eq(c.at, 0);
    ck_assert_uint_eq(rendezvous_state_due_ms(&c), NOW + 50);
    for (size_t i = 0; i < ARRAY_LEN(away); i++) {
        rendezvous_state_asking(&c, NOW);
        ck_assert(rendezvous_state_retry(&c, PS_ERR_UNREACHABLE, NOW));
        rendezvous_state_asking(&c, NOW);
        ck_assert(!rendezvous_state_retry(&c, away[i], NOW));
        ck_assert_uint_eq(c.at, 0);
    }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("course");
    TCase *tc = tcase_create("time");

    tcase_add_test(tc, it_begins_at_once_and_ends_by_the_deadline);
    tcase_add_test(tc, a_guest_waits_until_the_deadline);
    tcase_add_test(tc, a_name_that_must_be_found_has_all_the_time);
    tcase_add_test(tc, the_host_hears_of_less_time_than_there_is);
    suite_add_tcase(suite, tc);
    tc = tcase_create("failures");
    tcase_add_test(tc, what_no_second_try_changes_is_final);
    tcase_add_test(tc, time_runs_out_for_good_at_the_host_alone);
    tcase_add_test(tc, an_index_is_taken_for_good_after_a_while);
    tcase_add_test(tc, a_shard_is_asked_less_and_less_often);
    suite_add_tcase(suite, tc);
    tc = tcase_create("among workers");
    tcase_add_test(tc, workers_below_are_asked_in_turn_then_the_own_meeting_is_held);
    tcase_add_test(tc, who_was_let_down_or_sent_away_begins_with_the_lowest);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
