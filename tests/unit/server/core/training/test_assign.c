/* The steps of an assign at a shard: all of its values or none, once, whatever is repeated, lost or killed. */
#include "server/core/training/assign.h"

#include "tests/unit/kits/assign_kit.h"
#include "tests/unit/kits/shard_fixture.h"

#define BEGIN   PSD__ASSIGN_STEP__BEGIN
#define OPEN    PSD__ASSIGN_STEP__OPEN
#define PREPARE PSD__ASSIGN_STEP__PREPARE
#define COMMIT  PSD__ASSIGN_STEP__COMMIT
#define GIVE_UP PSD__ASSIGN_STEP__GIVE_UP

static uint32_t w; /* of four elements, all 0 */

/* ---- Shard 0 ---- */

static void
assign_setup(void)
{
    kit_init(&k, NULL);
    w = kit_start(&k, kit_job("train", PSD__MODE__ASYNC, 2));
}

START_TEST(all_values_of_an_assign_come_at_once)
{
    uint32_t v = kit_declare(&k, 1, "v", 4, PS_SGD);
    struct kit_assign a = {.attempt = 1};

    assign_begin_ok(&k, 1, &a);
    ck_assert_uint_eq(assign_nth(a.number), 1);
    assign_stage_four(&k, 1, &a, w, 5);
    assign_stage_four(&k, 1, &a, v, 6);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 0) == 0 && kit_value_four(&k, 2, v, 0) == 0);
    assign_commit_ok(&k, 1, &a, 2);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 1) == 5 && kit_value_four(&k, 2, v, 1) == 6);
    ck_assert_uint_eq(assign_kit_staged(&k), 0);
}
END_TEST

START_TEST(repeats_are_answered_as_the_first_time)
{
    struct kit_assign a = {.attempt = 1}, again = a;

    assign_begin_ok(&k, 1, &a);
    assign_begin_ok(&k, 1, &again);
    ck_assert_uint_eq(again.number, a.number);
    assign_stage_four(&k, 1, &a, w, 5);
    assign_stage_four(&k, 1, &a, w, 5);
    assign_commit_ok(&k, 1, &a, 1);
    kit_work(&k);
    kit_push_four(&k, 2, 1, 0, w, 1);
    kit_ack(&k, 2, 1, PS_OK);
    assign_commit_ok(&k, 1, &a, 1);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 2) == 4);
    ck_assert_uint_eq(assign_nth(assign_four(&k, 2, 1, w, 7)), 2);
    assign_commit_ok(&k, 1, &a, 1); /* behind another one */
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 3) == 7);
}
END_TEST

static void
assign_crash(void)
{
    kit_crash(&k);
    kit_resume_all(&k, kit_job("train", PSD__MODE__ASYNC, 2), 0);
}

/* After the killed shard's next start, the worker goes on from the step that was not answered. */
START_TEST(a_killed_shard_goes_on_where_it_was)
{
    struct kit_assign a = {.attempt = 1};
    const float five[4] = {5, 5, 5, 5};

    assign_begin_ok(&k, 1, &a);
    if (_i == 0)
        assign_crash();
    assign_send_stage(&k, 1, &a, w, 0, five, 4);
    kit_drop_answers(&k, 1);
    if (_i == 1) {
        assign_crash();
        assign_stage_four(&k, 1, &a, w, 5);
    }
    assign_send(&k, 1, COMMIT, &a, 1);
    kit_drop_answers(&k, 1);
    if (_i == 2) {
        assign_crash(); /* before the block takes its value */
        assign_commit_ok(&k, 1, &a, 1);
    }
    kit_work(&k);
    if (_i == 3) {
        assign_crash();
        assign_commit_ok(&k, 1, &a, 1);
        kit_work(&k);
    }
    ck_assert(kit_value_four(&k, 2, w, 1) == 5);
    ck_assert_uint_eq(assign_kit_staged(&k), 0);
}
END_TEST

/* Answers of a turn whose commit fails are not sent, and what was done in it has not happened. */
START_TEST(what_no_commit_has_kept_has_not_happened)
{
    struct kit_assign a = {.attempt = 1};
    const float five[4] = {5, 5, 5, 5};

    assign_begin_ok(&k, 1, &a);
    if (_i == 1)
        assign_stage_four(&k, 1, &a, w, 5);
    k.may_fail = true;
    store_mem_fail_at(k.store, STORE_MEM_FAIL_COMMIT, 1);
    if (_i == 0)
        assign_send_stage(&k, 1, &a, w, 0, five, 4);
    else
        assign_send(&k, 1, COMMIT, &a, 1);
    kit_work(&k);
    k.may_fail = false;
    store_mem_fail_none(k.store);
    assign_crash();
    if (_i == 0)
        assign_stage_four(&k, 1, &a, w, 5);
    ck_assert(kit_value_four(&k, 2, w, 0) == 0);
    assign_commit_ok(&k, 1, &a, 1);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 1) == 5);
}
END_TEST

/* How a worker is gone: lapse, goodbye, finish, and another incarnation in its place. */
static void
assign_worker_gone(int how)
{
    switch (how) {
    case 0:
        kit_close(&k, 1);
        kit_pass(&k, 60000);
        break;
    case 1:
        kit_goodbye(&k, 1, true);
        break;
    default:
        kit_close(&k, 1);
        kit_hello(&k, 5,
                  &(struct kit_hello){.job = kit_job("train", PSD__MODE__ASYNC, 2), .task = 0, .incarnation = 77});
        kit_drop_answers(&k, 5);
        break;
    }
    kit_drop_answers(&k, 1);
}

START_TEST(an_assign_ends_with_its_worker)
{
    struct kit_assign a = {.attempt = 1}, b = {.attempt = 1};
    uint64_t request;

    assign_begin_ok(&k, 1, &a);
    assign_stage_four(&k, 1, &a, w, 5);
    request = assign_send(&k, 2, BEGIN, &b, 0);
    kit_expect_nothing(&k, 2);
    kit_work(&k);
    ck_assert_uint_eq(assign_kit_staged(&k), 1);
    assign_worker_gone(_i);
    b.number = assign_expect(&k, 2, request).number;
    ck_assert_uint_eq(assign_nth(b.number), 2);
    kit_drop_answers(&k, 2); /* the event */
    kit_work(&k);
    ck_assert_uint_eq(assign_kit_staged(&k), 0);
    assign_stage_four(&k, 2, &b, w, 8);
    assign_commit_ok(&k, 2, &b, 1);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 1) == 8);
}
END_TEST

START_TEST(a_second_worker_waits_for_the_first)
{
    struct kit_assign a = {.attempt = 1}, b = {.attempt = 1};
    uint64_t request;

    assign_begin_ok(&k, 1, &a);
    request = assign_send(&k, 2, BEGIN, &b, 0);
    kit_expect_nothing(&k, 2);
    assign_stage_four(&k, 1, &a, w, 5);
    assign_commit_ok(&k, 1, &a, 1);
    b.number = assign_expect(&k, 2, request).number;
    ck_assert_uint_eq(assign_nth(b.number), 2);
    assign_stage_four(&k, 2, &b, w, 6);
    assign_commit_ok(&k, 2, &b, 1);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 2) == 6);
}
END_TEST

START_TEST(a_begin_that_waits_can_be_cancelled_or_lost)
{
    struct kit_assign a = {.attempt = 1}, b = {.attempt = 1};
    uint64_t request;

    assign_begin_ok(&k, 1, &a);
    request = assign_send(&k, 2, BEGIN, &b, 0);
    kit_cancel(&k, 2, request);
    kit_expect_error(&k, 2, request, PS_ERR_CANCELLED);
    (void)assign_send(&k, 2, BEGIN, &b, 0);
    kit_close(&k, 2);
    a.number = 0; /* its worker may not know it yet */
    (void)assign_expect(&k, 1, assign_send(&k, 1, GIVE_UP, &a, 0));
    kit_resume(&k, 2, kit_job("train", PSD__MODE__ASYNC, 2), 1, 0);
    assign_begin_ok(&k, 2, &b);
    ck_assert_uint_eq(assign_nth(b.number), 2);
}
END_TEST

START_TEST(a_worker_that_begins_again_has_left_what_it_began)
{
    struct kit_assign a = {.attempt = 1}, b = {.attempt = 2};

    assign_begin_ok(&k, 1, &a);
    assign_stage_four(&k, 1, &a, w, 5);
    assign_begin_ok(&k, 1, &b);
    ck_assert_uint_eq(assign_nth(b.number), 2);
    ck_assert_uint_eq(assign_expect_again(&k, 1, assign_send(&k, 1, COMMIT, &a, 1)), b.number);
    ck_assert_uint_eq(assign_expect_again(&k, 1, assign_send(&k, 1, BEGIN, &a, 0)), b.number);
    assign_commit_ok(&k, 1, &b, 0);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 0) == 0);
    ck_assert_uint_eq(assign_kit_staged(&k), 0);
}
END_TEST

/* Its BEGIN of the second one did not come. */
START_TEST(a_give_up_ends_what_the_worker_began_before)
{
    struct kit_assign a = {.attempt = 1}, later = {.attempt = 2}, b = {.attempt = 1};

    assign_begin_ok(&k, 1, &a);
    assign_stage_four(&k, 1, &a, w, 5);
    (void)assign_expect(&k, 1, assign_send(&k, 1, GIVE_UP, &later, 0));
    kit_work(&k);
    ck_assert_uint_eq(assign_kit_staged(&k), 0);
    assign_begin_ok(&k, 2, &b); /* it waits for nothing */
    (void)assign_expect(&k, 1, assign_send(&k, 1, GIVE_UP, &later, 0));
    assign_stage_four(&k, 2, &b, w, 7);
    assign_commit_ok(&k, 2, &b, 1);
}
END_TEST

START_TEST(steps_of_an_assign_that_is_not_known_begin_again)
{
    struct kit_assign a = {.attempt = 1, .number = 5};
    const float x[4] = {0};

    ck_assert_uint_eq(assign_expect_again(&k, 1, assign_send(&k, 1, COMMIT, &a, 0)), 0);
    ck_assert_uint_eq(assign_expect_again(&k, 1, assign_send_stage(&k, 1, &a, w, 0, x, 4)), 0);
    a.number = 9 << 20; /* the highest that it knows of */
    assign_begin_ok(&k, 1, &a);
    ck_assert_uint_eq(assign_nth(a.number), 10);
}
END_TEST

START_TEST(a_commit_before_all_values_are_there_is_refused)
{
    struct kit_assign a = {.attempt = 1};
    uint64_t request;

    assign_begin_ok(&k, 1, &a);
    assign_stage_four(&k, 1, &a, w, 5);
    request = assign_send(&k, 1, COMMIT, &a, 2);
    kit_expect_error(&k, 1, request, PS_ERR_INVALID);
    assign_commit_ok(&k, 1, &a, 1);
}
END_TEST

START_TEST(steps_go_to_their_shards)
{
    struct kit_assign a = {.attempt = 1, .number = 1};
    uint64_t request;

    request = assign_send(&k, 1, OPEN, &a, 0);
    kit_expect_error(&k, 1, request, PS_ERR_INVALID);
    request = assign_send(&k, 1, PREPARE, &a, 0);
    kit_expect_error(&k, 1, request, PS_ERR_INVALID);
}
END_TEST

/* Of the tick's acknowledgement. */
static void
assign_tick_says(uint64_t seq, uint64_t assigned, uint64_t given_up)
{
    struct kit_answer *answer;

    kit_tick(&k, 1, seq, seq);
    answer = kit_expect(&k, 1, MSG_ACK);
    ck_assert_uint_eq(answer->msg.u.ack->assigned, assigned);
    ck_assert_uint_eq(answer->msg.u.ack->given_up, given_up);
    kit_answer_free(answer);
}

START_TEST(acks_of_shard_0_say_what_is_done_and_what_is_given_up)
{
    uint64_t number = assign_four(&k, 1, 1, w, 3);
    struct kit_assign a = {.attempt = 2};

    assign_begin_ok(&k, 1, &a);
    ck_assert_uint_gt(a.number, number);
    assign_tick_says(1, number, 0);
    (void)assign_expect(&k, 1, assign_send(&k, 1, GIVE_UP, &a, 0));
    assign_tick_says(2, number, a.number);
}
END_TEST

/* What a shard has forgotten it cannot mistake for another attempt's. */
START_TEST(numbers_are_of_one_attempt)
{
    struct kit_assign a = {.attempt = 1}, again = a, b = {.attempt = 2};

    assign_begin_ok(&k, 1, &a);
    kit_finish(&k);
    assign_setup();
    assign_begin_ok(&k, 1, &b);
    ck_assert_uint_ne(b.number, a.number);
    kit_finish(&k);
    assign_setup();
    assign_begin_ok(&k, 1, &again);
    ck_assert_uint_eq(again.number, a.number);
}
END_TEST

START_TEST(numbers_have_an_end)
{
    struct kit_assign a = {.attempt = 1, .number = WIRE_ASSIGN_MAX};
    uint64_t request = assign_send(&k, 1, BEGIN, &a, 0);

    kit_expect_error(&k, 1, request, PS_ERR_LIMIT);
}
END_TEST

/* ---- Another shard ---- */

static void
assign_setup_other(void)
{
    kit_init(&k, &assign_kit_other);
    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    kit_join(&k, 2, kit_job("train", PSD__MODE__ASYNC, 2), 1);
    w = kit_declare(&k, 1, assign_kit_name_there(), 4, PS_SGD);
}

/* Assign 1 of worker 0, prepared with value 5. */
static struct kit_assign
assign_prepared(void)
{
    struct kit_assign a = {.attempt = 1, .number = 1};

    assign_open_ok(&k, 1, &a);
    assign_stage_four(&k, 1, &a, w, 5);
    assign_prepare_ok(&k, 1, &a, 1);
    return a;
}

START_TEST(another_shard_takes_values_when_shard_0_has_decided)
{
    struct kit_assign a = assign_prepared();

    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 0) == 0);
    assign_open_ok(&k, 1, &a);
    assign_prepare_ok(&k, 1, &a, 1);
    assign_commit_ok(&k, 1, &a, 1);
    assign_commit_ok(&k, 1, &a, 1);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 1) == 5);
    ck_assert_uint_eq(assign_kit_staged(&k), 0);
}
END_TEST

START_TEST(a_prepared_assign_outlives_its_worker)
{
    (void)assign_prepared();
    assign_worker_gone(0);
    kit_drop_answers(&k, 2);
    if (_i / 4 == 1) {
        kit_crash(&k);
        kit_work(&k);
    }
    if (_i / 4 == 1)
        kit_resume(&k, 2, kit_job("train", PSD__MODE__ASYNC, 2), 1, 0);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 0) == 0);
    switch (_i % 4) {
    case 0: /* done, says a tick */
        assign_tick(&k, 2, 1, 1, 1, 0);
        break;
    case 1: /* done, says a pull */
        (void)assign_pull(&k, 2, w, 0, 1, 0);
        break;
    case 2: { /* done, says the next assign */
        struct kit_assign b = {.attempt = 1, .number = 2, .committed = 1};

        assign_open_ok(&k, 2, &b);
        break;
    }
    default: /* given up */
        assign_tick(&k, 2, 1, 1, 0, 1);
        break;
    }
    kit_work(&k);
    kit_drop_answers(&k, 2);
    if (_i % 4 == 3)
        ck_assert(kit_value_four(&k, 2, w, 0) == 0);
    else
        ck_assert(kit_value_four(&k, 2, w, 1) == 5);
    ck_assert_uint_eq(assign_kit_staged(&k), 0);
}
END_TEST

START_TEST(an_assign_that_is_not_prepared_ends_with_its_worker_everywhere)
{
    struct kit_assign a = {.attempt = 1, .number = 1}, b = {.attempt = 1, .number = 2};

    assign_open_ok(&k, 1, &a);
    assign_stage_four(&k, 1, &a, w, 5);
    assign_worker_gone(_i);
    kit_drop_answers(&k, 2);
    kit_work(&k);
    ck_assert_uint_eq(assign_kit_staged(&k), 0);
    assign_open_ok(&k, 2, &b);
    kit_hello(&k, 1, &(struct kit_hello){.job = kit_job("train", PSD__MODE__ASYNC, 2), .task = 0, .incarnation = 78});
    kit_expected(&k, 1, MSG_WELCOME);
    ck_assert_uint_eq(assign_expect_again(&k, 1, assign_send(&k, 1, PREPARE, &a, 1)), 2);
}
END_TEST

/* Shard 0 may have lost the clock that values wait for here: later ones do not come before them. */
START_TEST(an_open_says_which_clock_values_wait_for)
{
    struct kit_assign a = {.attempt = 1, .number = 1, .clock = 3}, b = {.attempt = 2, .number = 2, .committed = 1};
    uint32_t var;

    kit_join(&k, 3, kit_job("step", PSD__MODE__SYNC, 1), 0);
    var = kit_declare(&k, 3, assign_kit_name_there(), 4, PS_SGD);
    ck_assert_uint_eq(assign_expect(&k, 3, assign_send(&k, 3, OPEN, &a, 0)).clock, 0);
    assign_stage_four(&k, 3, &a, var, 5);
    assign_prepare_ok(&k, 3, &a, 1);
    for (int i = 0; i < 2; i++) /* an OPEN may come again */
        ck_assert_uint_eq(assign_expect(&k, 3, assign_send(&k, 3, OPEN, &b, 0)).clock, 3);
    kit_ticked(&k, 3, 1, 3);
    kit_work(&k);
    ck_assert_uint_eq(assign_expect(&k, 3, assign_send(&k, 3, OPEN, &b, 0)).clock, 0); /* they have come */
}
END_TEST

START_TEST(a_commit_of_what_was_lost_says_so)
{
    struct kit_assign a = {.attempt = 1, .number = 4};
    uint64_t request;

    if (_i == 1) { /* some of it is there */
        assign_open_ok(&k, 1, &a);
        assign_stage_four(&k, 1, &a, w, 5);
    }
    request = assign_send(&k, 1, COMMIT, &a, 1);
    ck_assert_uint_eq(assign_expect_again(&k, 1, request), 4);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 0) == 0);
    ck_assert_uint_eq(assign_kit_staged(&k), 0);
    a.number = 3; /* an old OPEN comes late */
    ck_assert_uint_eq(assign_expect_again(&k, 1, assign_send(&k, 1, OPEN, &a, 0)), 4);
}
END_TEST

START_TEST(a_welcome_says_what_a_shard_knows)
{
    struct kit_answer *a;

    (void)assign_prepared();
    kit_close(&k, 2);
    kit_hello(&k, 2, &(struct kit_hello){.job = kit_job("train", PSD__MODE__ASYNC, 2), .task = 1, .resume = true});
    a = kit_expect(&k, 2, MSG_WELCOME);
    ck_assert(a->msg.u.welcome->assigns);
    ck_assert_uint_eq(a->msg.u.welcome->assigned, 0);
    kit_answer_free(a);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("assign");
    TCase *t = tcase_create("assign_first"), *other = tcase_create("assign_other");

    tcase_add_checked_fixture(t, assign_setup, shard_teardown);
    tcase_add_test(t, all_values_of_an_assign_come_at_once);
    tcase_add_test(t, repeats_are_answered_as_the_first_time);
    tcase_add_loop_test(t, a_killed_shard_goes_on_where_it_was, 0, 4);
    tcase_add_loop_test(t, what_no_commit_has_kept_has_not_happened, 0, 2);
    tcase_add_loop_test(t, an_assign_ends_with_its_worker, 0, 3);
    tcase_add_test(t, a_second_worker_waits_for_the_first);
    tcase_add_test(t, a_begin_that_waits_can_be_cancelled_or_lost);
    tcase_add_test(t, a_worker_that_begins_again_has_left_what_it_began);
    tcase_add_test(t, a_give_up_ends_what_the_worker_began_before);
    tcase_add_test(t, steps_of_an_assign_that_is_not_known_begin_again);
    tcase_add_test(t, a_commit_before_all_values_are_there_is_refused);
    tcase_add_test(t, steps_go_to_their_shards);
    tcase_add_test(t, acks_of_shard_0_say_what_is_done_and_what_is_given_up);
    tcase_add_test(t, numbers_are_of_one_attempt);
    tcase_add_test(t, numbers_have_an_end);
    suite_add_tcase(s, t);
    tcase_add_checked_fixture(other, assign_setup_other, shard_teardown);
    tcase_add_test(other, another_shard_takes_values_when_shard_0_has_decided);
    tcase_add_loop_test(other, a_prepared_assign_outlives_its_worker, 0, 8);
    tcase_add_loop_test(other, an_assign_that_is_not_prepared_ends_with_its_worker_everywhere, 0, 2);
    tcase_add_test(other, an_open_says_which_clock_values_wait_for);
    tcase_add_loop_test(other, a_commit_of_what_was_lost_says_so, 0, 2);
    tcase_add_test(other, a_welcome_says_what_a_shard_knows);
    suite_add_tcase(s, other);
    return s;
}

CHECK_MAIN(make_suite)
