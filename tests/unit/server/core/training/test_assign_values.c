/* What an assign does to values: when blocks take them, next to gradients, clocks, slots and pulls; and what is
 * refused.
 */
#include <math.h>
#include <string.h>

#include "tests/unit/kits/assign_kit.h"
#include "tests/unit/kits/shard_fixture.h"

#define COMMIT PSD__ASSIGN_STEP__COMMIT

static uint32_t w; /* of four elements, all 0 */

static void
setup_async(void)
{
    kit_init(&k, NULL);
    w = kit_start(&k, kit_job("train", PSD__MODE__ASYNC, 2));
}

static void
setup_sync(void)
{
    kit_init(&k, NULL);
    w = kit_start(&k, kit_job("train", PSD__MODE__SYNC, 2));
}

/* An assign of w that is done, and which the block has not taken. */
static struct kit_assign
assign_done_by(uint64_t conn, uint64_t attempt, float value, uint64_t clock)
{
    struct kit_assign a = {.attempt = attempt};

    assign_begin_ok(&k, conn, &a);
    assign_stage_four(&k, conn, &a, w, value);
    a.clock = clock;
    assign_commit_ok(&k, conn, &a, 1);
    return a;
}

static struct kit_assign
assign_done(uint64_t attempt, float value, uint64_t clock)
{
    return assign_done_by(1, attempt, value, clock);
}

/* ---- Gradients ---- */

START_TEST(a_gradient_comes_on_top_of_the_values)
{
    (void)assign_done(1, 5, 0);
    kit_push_four(&k, 2, 1, 0, w, 1); /* before any background work */
    kit_ack(&k, 2, 1, PS_OK);
    ck_assert(kit_value_four(&k, 2, w, 2) == 4);
}
END_TEST

START_TEST(a_gradient_from_before_is_applied_and_older_by_one)
{
    const float g[4] = {1, 1, 1, 1};
    const uint64_t from = 0;

    assign_four(&k, 1, 1, w, 5);
    kit_push(&k, 2, &(struct kit_push){.seq = 1, .var = w, .gradient = g, .len = 4, .from_version = &from});
    kit_ack(&k, 2, 1, PS_OK);
    ck_assert(kit_value_four(&k, 2, w, 2) == 4);
}
END_TEST

START_TEST(assigns_follow_one_another_in_order)
{
    (void)assign_done(1, 5, 0);
    (void)assign_done(2, 7, 0);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 2) == 7);
    ck_assert_uint_eq(assign_kit_staged(&k), 0);
}
END_TEST

/* ---- Slots ---- */

static float
values_slot_step(bool reset)
{
    struct kit_assign a = {.attempt = 1, .reset_slots = reset};
    uint32_t m = kit_declare(&k, 1, "m", 4, PS_MOMENTUM);

    kit_push_four(&k, 1, 1, 0, m, 8);
    kit_ack(&k, 1, 1, PS_OK);
    assign_begin_ok(&k, 1, &a);
    assign_stage_four(&k, 1, &a, m, 100);
    assign_commit_ok(&k, 1, &a, 1);
    kit_push_four(&k, 1, 2, 0, m, 0); /* what the momentum still does */
    kit_ack(&k, 1, 2, PS_OK);
    return kit_value_four(&k, 1, m, 3);
}

START_TEST(slots_are_kept)
{
    ck_assert(values_slot_step(false) == 96);
}
END_TEST

START_TEST(slots_begin_anew_when_that_is_asked_for)
{
    ck_assert(values_slot_step(true) == 100);
}
END_TEST

/* Its weights follow from its slots: an update that changes nothing keeps those that were assigned. */
START_TEST(weights_that_follow_from_slots_stay_as_assigned)
{
    uint32_t f = kit_declare(&k, 1, "f", 4, PS_FTRL);
    struct kit_assign a = {.attempt = 1, .reset_slots = _i == 1};
    float value;

    kit_push_four(&k, 1, 1, 0, f, 3);
    kit_ack(&k, 1, 1, PS_OK);
    assign_begin_ok(&k, 1, &a);
    assign_stage_four(&k, 1, &a, f, 2.5f);
    assign_commit_ok(&k, 1, &a, 1);
    kit_push_four(&k, 1, 2, 0, f, 0);
    kit_ack(&k, 1, 2, PS_OK);
    value = kit_value_four(&k, 1, f, 3);
    ck_assert_msg(fabsf(value - 2.5f) < 1e-6f, "%g", (double)value);
}
END_TEST

/* ---- Pulls ---- */

START_TEST(a_pull_waits_until_the_block_has_its_value)
{
    struct kit_assign a = assign_done(1, 5, 0);
    uint64_t request = assign_pull(&k, 2, w, 0, 0, 0);
    struct assign_data d;

    kit_expect_nothing(&k, 2);
    kit_work(&k);
    d = assign_expect_data(&k, 2, request);
    ck_assert(d.value == 5);
    ck_assert_uint_eq(d.version, 1);
    ck_assert_uint_eq(d.assigned, a.number);
    ck_assert_uint_eq(d.newest, a.number);
}
END_TEST

/* What fails with a worker is what waits for workers. */
START_TEST(a_lapse_does_not_fail_pulls_that_wait_for_values)
{
    Psd__Job *job = kit_job("brittle", PSD__MODE__SYNC, 2);
    uint64_t request;

    job->lapse = PSD__LAPSE__FAIL;
    kit_join(&k, 3, job, 0);
    kit_join(&k, 4, job, 1);
    w = kit_declare(&k, 3, "w", 4, PS_SGD);
    (void)assign_done_by(3, 1, 5, 0);
    request = assign_pull(&k, 4, w, 0, 0, 0);
    kit_close(&k, 3);
    kit_pass(&k, 60000);
    kit_expected(&k, 4, MSG_EVENT);
    kit_work(&k);
    ck_assert(assign_expect_data(&k, 4, request).value == 5);
}
END_TEST

START_TEST(data_says_which_assigns_are_in_it)
{
    uint32_t v = kit_declare(&k, 1, "v", 4, PS_SGD);
    struct assign_data d;
    uint64_t number;

    d = assign_expect_data(&k, 2, assign_pull(&k, 2, v, 0, 0, 0));
    ck_assert_uint_eq(d.assigned, 0);
    ck_assert_uint_eq(d.newest, 0);
    number = assign_four(&k, 1, 1, w, 5);
    d = assign_expect_data(&k, 2, assign_pull(&k, 2, v, 0, 0, 0));
    ck_assert_uint_eq(d.assigned, number); /* it does not concern the block, so it is in it */
    ck_assert_uint_eq(d.newest, 0);
    d = assign_expect_data(&k, 2, assign_pull(&k, 2, w, 0, 0, 0));
    ck_assert_uint_eq(d.assigned, number);
    ck_assert_uint_eq(d.newest, number);
}
END_TEST

/* ---- Sync with all workers: the clock ---- */

START_TEST(sync_takes_values_at_the_clock)
{
    struct assign_data d;
    uint64_t request;

    (void)assign_done(1, 50, 1);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 0) == 0); /* clock 0 goes on without them */
    kit_push_four(&k, 1, 1, 0, w, 2);
    kit_ticked(&k, 1, 2, 1);
    request = assign_pull(&k, 1, w, 1, 0, 0);
    kit_expect_nothing(&k, 1);
    kit_push_four(&k, 2, 1, 0, w, 4);
    kit_drop_answers(&k, 2);
    d = assign_expect_data(&k, 1, request);
    ck_assert(d.value == 50); /* the step's update was made, and then the values came in its place */
    ck_assert_uint_eq(d.version, 2);
    kit_drop_answers(&k, 1);
    kit_ticked(&k, 2, 2, 1);
    kit_step(&k, 2, 3, 1, w, 1);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 3) == 49);
}
END_TEST

START_TEST(sync_takes_values_of_this_clock_before_its_step)
{
    struct assign_data d;

    (void)assign_done(1, 50, 0);
    kit_step(&k, 2, 1, 0, w, 1);
    d = assign_expect_data(&k, 2, assign_pull(&k, 2, w, 1, 0, 0));
    ck_assert(d.value == 49);
    ck_assert_uint_eq(d.version, 2);
}
END_TEST

START_TEST(a_block_without_a_step_takes_values_when_all_have_come_to_the_clock)
{
    (void)assign_done(1, 50, 2);
    kit_ticked(&k, 1, 1, 2);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 0) == 0);
    kit_ticked(&k, 2, 1, 2);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 1) == 50);
}
END_TEST

/* A worker that has other blocks with the assign cannot do its step with this one from before it. */
START_TEST(a_pull_that_needs_the_values_gets_them_before_the_clock)
{
    struct kit_assign a = assign_done(1, 50, 3);
    uint64_t request = assign_pull(&k, 2, w, 0, a.number, a.number);
    struct assign_data d;

    kit_expect_nothing(&k, 2);
    kit_work(&k);
    d = assign_expect_data(&k, 2, request);
    ck_assert(d.value == 50);
    ck_assert_uint_eq(d.assigned, a.number);
}
END_TEST

START_TEST(values_of_a_quorum_come_at_once)
{
    Psd__Job *job = kit_job("few", PSD__MODE__SYNC, 2);
    struct kit_assign a = {.attempt = 1};
    uint32_t v;

    job->quorum = 1;
    kit_join(&k, 3, job, 0);
    v = kit_declare(&k, 3, "v", 4, PS_SGD);
    assign_begin_ok(&k, 3, &a);
    assign_stage_four(&k, 3, &a, v, 9);
    a.clock = 5;
    assign_commit_ok(&k, 3, &a, 1);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 3, v, 1) == 9);
}
END_TEST

/* ---- Another number of workers ---- */

/* Both leave, and the next round's first brings another number. */
static void
assign_resized_round(Psd__Job *job, uint32_t workers)
{
    static uint64_t incarnation = 1 << 20;

    kit_goodbye(&k, 1, true);
    kit_goodbye(&k, 2, true);
    job->workers = workers;
    for (uint32_t task = 0; task < workers; task++)
        kit_hello(&k, task + 1, &(struct kit_hello){.job = job, .task = task, .incarnation = ++incarnation});
    for (uint32_t task = 0; task < workers; task++)
        kit_drop_answers(&k, task + 1);
}

/* Two of three make a step of all workers where there are two, and values wait for their clock; with three again they
 * wait for none. */
START_TEST(values_wait_for_no_clock_where_steps_need_not_all_any_more)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SYNC, 3);
    struct kit_assign a = {.attempt = 1};

    job->quorum = 2;
    shard_teardown();
    kit_init(&k, NULL);
    w = kit_start(&k, job);
    kit_goodbye(&k, 3, true);
    assign_resized_round(job, 2);
    assign_begin_ok(&k, 1, &a);
    assign_stage_four(&k, 1, &a, w, 5);
    a.clock = 9;
    assign_commit_ok(&k, 1, &a, 1);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 0) == 0);
    assign_resized_round(job, 3);
    if (_i == 1) {
        kit_crash(&k);
        kit_observe(&k, 2);
    }
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 1) == 5);
}
END_TEST

START_TEST(eight_assigns_may_wait_for_a_clock)
{
    struct kit_assign a = {.attempt = 9};
    uint64_t request;

    for (uint64_t i = 1; i <= 8; i++)
        (void)assign_done(i, (float)i, 1);
    request = assign_send(&k, 1, PSD__ASSIGN_STEP__BEGIN, &a, 0);
    kit_expect_error(&k, 1, request, PS_ERR_LIMIT);
    kit_ticked(&k, 1, 1, 1);
    kit_ticked(&k, 2, 1, 1);
    request = assign_send(&k, 1, PSD__ASSIGN_STEP__BEGIN, &a, 0);
    kit_expect_nothing(&k, 1); /* until a slot is free */
    kit_work(&k);
    a.number = assign_expect(&k, 1, request).number;
    ck_assert_uint_eq(assign_nth(a.number), 9);
    ck_assert(kit_value_four(&k, 2, w, 8) == 8);
}
END_TEST

START_TEST(a_begin_says_the_clock_of_the_last_one)
{
    struct kit_assign a = {.attempt = 2};
    uint64_t number = assign_done(1, 3, 7).number;

    assign_begin_ok(&k, 1, &a);
    ck_assert_uint_eq(a.clock, 7);
    ck_assert_uint_eq(a.committed, number);
}
END_TEST

/* Killed at any time, the block takes each value once. */
START_TEST(values_that_wait_outlive_the_process)
{
    struct kit_assign b = {.attempt = 2};
    Psd__Job *job = kit_job("train", PSD__MODE__SYNC, 2);

    (void)assign_done(1, 50, 1);
    assign_begin_ok(&k, 1, &b);
    assign_stage_four(&k, 1, &b, w, 70);
    kit_crash(&k);
    kit_resume_all(&k, job, 0);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 0) == 0);
    kit_ticked(&k, 1, 1, 1);
    kit_ticked(&k, 2, 1, 1);
    if (_i == 1) {
        kit_crash(&k);
        kit_resume_all(&k, job, 1);
    }
    b.clock = 1;
    assign_commit_ok(&k, 1, &b, 1);
    kit_crash(&k);
    kit_resume_all(&k, job, 1);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 2) == 70);
    ck_assert_uint_eq(assign_kit_staged(&k), 0);
}
END_TEST

/* A block has taken a later assign than one that does not concern it and still waits when the process is killed; then
 * the slot of that one is used again. */
START_TEST(a_slot_that_is_used_again_is_of_the_next_assign)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SYNC, 2);
    uint32_t v = kit_declare(&k, 1, "v", 4, PS_SGD);
    struct kit_assign a = {.attempt = 2};

    (void)assign_done(1, 50, 1);
    assign_begin_ok(&k, 1, &a);
    assign_stage_four(&k, 1, &a, v, 60);
    a.clock = 1;
    assign_commit_ok(&k, 1, &a, 1);
    kit_push_four(&k, 1, 1, 0, v, 1);
    kit_push_four(&k, 2, 1, 0, v, 1);
    kit_drop_answers(&k, 1);
    kit_drop_answers(&k, 2);
    ck_assert(kit_value_four(&k, 2, v, 2) == 60);
    kit_crash(&k);
    kit_resume_all(&k, job, 1);
    kit_ticked(&k, 1, 2, 1);
    kit_ticked(&k, 2, 2, 1);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, w, 1) == 50);
    a = (struct kit_assign){.attempt = 3};
    assign_begin_ok(&k, 1, &a);
    assign_stage_four(&k, 1, &a, v, 70);
    a.clock = 1;
    assign_commit_ok(&k, 1, &a, 1);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, v, 3) == 70);
}
END_TEST

/* ---- What is refused ---- */

START_TEST(values_of_another_shape_are_refused)
{
    struct kit_assign a = {.attempt = 1};
    const float x[5] = {1, 2, 3, 4, 5};
    uint64_t request;

    assign_begin_ok(&k, 1, &a);
    request = assign_send_stage(&k, 1, &a, w, 0, x, 5);
    kit_expect_error(&k, 1, request, PS_ERR_SHAPE);
    request = assign_send_stage(&k, 1, &a, w, 1, x, 4);
    kit_expect_error(&k, 1, request, PS_ERR_NOT_FOUND);
    request = assign_send_stage(&k, 1, &a, 99, 0, x, 4);
    kit_expect_error(&k, 1, request, PS_ERR_NOT_FOUND);
    kit_turn(&k);
    ck_assert_uint_eq(assign_kit_staged(&k), 0);
}
END_TEST

static const float values_bad[] = {(float)NAN, (float)INFINITY, (float)-INFINITY};

START_TEST(values_that_are_not_finite_are_refused)
{
    struct kit_assign a = {.attempt = 1};
    const float x[4] = {1, 2, values_bad[_i], 4};
    uint64_t request;

    assign_begin_ok(&k, 1, &a);
    request = assign_send_stage(&k, 1, &a, w, 0, x, 4);
    kit_expect_error(&k, 1, request, PS_ERR_NONFINITE);
    ck_assert_uint_eq(assign_kit_staged(&k), 0);
}
END_TEST

START_TEST(values_that_are_not_finite_are_taken_when_asked_for)
{
    struct kit_assign a = {.attempt = 1, .nonfinite = true};
    const float x[4] = {1, 2, values_bad[_i], 4};
    float out[4];

    assign_begin_ok(&k, 1, &a);
    (void)assign_expect(&k, 1, assign_send_stage(&k, 1, &a, w, 0, x, 4));
    assign_commit_ok(&k, 1, &a, 1);
    kit_work(&k);
    ck_assert_uint_eq(kit_read(&k, 1, w, 0, out, 4), 1);
    ck_assert_mem_eq(out, x, sizeof x);
}
END_TEST

START_TEST(a_prepared_assign_takes_no_more_values)
{
    struct kit_assign a = {.attempt = 1, .number = 1};
    const float x[4] = {1, 2, 3, 4};
    uint64_t request;

    kit_finish(&k);
    kit_init(&k, &assign_kit_other);
    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    w = kit_declare(&k, 1, assign_kit_name_there(), 4, PS_SGD);
    assign_open_ok(&k, 1, &a);
    assign_prepare_ok(&k, 1, &a, 0);
    request = assign_send_stage(&k, 1, &a, w, 0, x, 4);
    kit_expect_error(&k, 1, request, PS_ERR_INVALID);
}
END_TEST

/* Values that wait may not fill the room that updates need. */
START_TEST(values_for_which_there_is_no_room_are_refused)
{
    static float x[65536];
    struct kit_assign a = {.attempt = 1};
    uint32_t big, took = 0;
    struct kit_answer *answer;
    uint64_t request;

    kit_finish(&k);
    kit_init_size(&k, NULL, 64 * MIB);
    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    big = kit_declare(&k, 1, "big", 96 * ARRAY_LEN(x), PS_SGD); /* 24 MiB */
    assign_begin_ok(&k, 1, &a);
    for (;; took++) {
        ck_assert_uint_lt(took, 96);
        request = assign_send_stage(&k, 1, &a, big, took, x, ARRAY_LEN(x));
        answer = kit_take(&k, 1);
        if (answer->msg.type == MSG_ERROR)
            break;
        kit_answer_free(answer);
    }
    ck_assert_int_eq((int)answer->msg.u.error->code, PS_ERR_FULL);
    ck_assert_uint_eq(answer->msg.request, request);
    kit_answer_free(answer);
    ck_assert_uint_gt(took, 0);
    kit_push(&k, 1, &(struct kit_push){.seq = 1, .var = big, .gradient = x, .len = ARRAY_LEN(x)});
    kit_ack(&k, 1, 1, PS_OK);
    (void)assign_expect(&k, 1, assign_send(&k, 1, PSD__ASSIGN_STEP__GIVE_UP, &a, 0));
    kit_work(&k);
    ck_assert_uint_eq(assign_kit_staged(&k), 0);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("assign_values");
    TCase *t = tcase_create("assign_async"), *sync = tcase_create("assign_sync");

    tcase_add_checked_fixture(t, setup_async, shard_teardown);
    tcase_add_test(t, a_gradient_comes_on_top_of_the_values);
    tcase_add_test(t, a_gradient_from_before_is_applied_and_older_by_one);
    tcase_add_test(t, assigns_follow_one_another_in_order);
    tcase_add_test(t, slots_are_kept);
    tcase_add_test(t, slots_begin_anew_when_that_is_asked_for);
    tcase_add_loop_test(t, weights_that_follow_from_slots_stay_as_assigned, 0, 2);
    tcase_add_test(t, a_pull_waits_until_the_block_has_its_value);
    tcase_add_test(t, a_lapse_does_not_fail_pulls_that_wait_for_values);
    tcase_add_test(t, data_says_which_assigns_are_in_it);
    tcase_add_test(t, values_of_another_shape_are_refused);
    tcase_add_loop_test(t, values_that_are_not_finite_are_refused, 0, ARRAY_LEN(values_bad));
    tcase_add_loop_test(t, values_that_are_not_finite_are_taken_when_asked_for, 0, ARRAY_LEN(values_bad));
    tcase_add_test(t, a_prepared_assign_takes_no_more_values);
    tcase_add_test(t, values_for_which_there_is_no_room_are_refused);
    suite_add_tcase(s, t);
    tcase_add_checked_fixture(sync, setup_sync, shard_teardown);
    tcase_add_test(sync, sync_takes_values_at_the_clock);
    tcase_add_test(sync, sync_takes_values_of_this_clock_before_its_step);
    tcase_add_test(sync, a_block_without_a_step_takes_values_when_all_have_come_to_the_clock);
    tcase_add_test(sync, a_pull_that_needs_the_values_gets_them_before_the_clock);
    tcase_add_test(sync, values_of_a_quorum_come_at_once);
    tcase_add_loop_test(sync, values_wait_for_no_clock_where_steps_need_not_all_any_more, 0, 2);
    tcase_add_test(sync, eight_assigns_may_wait_for_a_clock);
    tcase_add_test(sync, a_begin_says_the_clock_of_the_last_one);
    tcase_add_loop_test(sync, values_that_wait_outlive_the_process, 0, 2);
    tcase_add_test(sync, a_slot_that_is_used_again_is_of_the_next_assign);
    suite_add_tcase(s, sync);
    return s;
}

CHECK_MAIN(make_suite)
