/* Variables whose first values workers give: nobody gets one before it has them, and the first to give them is the only
 * one. */
#include "tests/unit/kits/assign_kit.h"
#include "tests/unit/kits/shard_fixture.h"

static void
setup_async(void)
{
    kit_init(&k, NULL);
    for (uint32_t task = 0; task < 2; task++)
        kit_join(&k, task + 1, kit_job("train", PSD__MODE__ASYNC, 2), task);
}

static uint32_t
first_declared(const char *name)
{
    bool awaits;
    uint32_t var;

    assign_declare(&k, 1, 901, name, true);
    var = assign_declared(&k, 1, 901, &awaits);
    ck_assert(awaits);
    return var;
}

/* Worker 0's first values for var. */
static void
first_give(uint32_t var, float value)
{
    struct kit_assign a = {.attempt = 1, .first = true};

    assign_begin_ok(&k, 1, &a);
    assign_stage_four(&k, 1, &a, var, value);
    assign_commit_ok(&k, 1, &a, 1);
}

START_TEST(workers_without_values_wait_for_them)
{
    uint32_t var = first_declared("g");
    bool awaits = true;

    assign_declare(&k, 2, 5, "g", false);
    kit_expect_nothing(&k, 2);
    first_give(var, 7);
    ck_assert_uint_eq(assign_declared(&k, 2, 5, &awaits), var);
    ck_assert(!awaits);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, var, 1) == 7);
}
END_TEST

START_TEST(a_second_worker_with_values_gets_the_first_ones)
{
    struct kit_assign b = {.attempt = 1, .first = true};
    const float x[4] = {9, 9, 9, 9};
    uint32_t var = first_declared("g");
    bool awaits;
    uint64_t begin, request;

    assign_declare(&k, 2, 5, "g", true);
    ck_assert_uint_eq(assign_declared(&k, 2, 5, &awaits), var);
    ck_assert(awaits);
    {
        struct kit_assign a = {.attempt = 1, .first = true};

        assign_begin_ok(&k, 1, &a);
        begin = assign_send(&k, 2, PSD__ASSIGN_STEP__BEGIN, &b, 0);
        assign_stage_four(&k, 1, &a, var, 7);
        assign_commit_ok(&k, 1, &a, 1);
        b.number = assign_expect(&k, 2, begin).number;
    }
    assign_declare(&k, 2, 6, "g", true);
    ck_assert_uint_eq(assign_declared(&k, 2, 6, &awaits), var);
    ck_assert(!awaits);
    request = assign_send_stage(&k, 2, &b, var, 0, x, 4);
    kit_expect_error(&k, 2, request, PS_ERR_LATE);
    (void)assign_expect(&k, 2, assign_send(&k, 2, PSD__ASSIGN_STEP__GIVE_UP, &b, 0));
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, var, 1) == 7);
}
END_TEST

START_TEST(nobody_uses_a_variable_without_its_values)
{
    uint32_t var = first_declared("g");
    uint64_t request = kit_pull(&k, 1, var, 0, 0);

    kit_expect_error(&k, 1, request, PS_ERR_NOT_FOUND);
    kit_push_four(&k, 1, 1, 0, var, 1);
    kit_ack(&k, 1, 1, PS_ERR_NOT_FOUND);
}
END_TEST

/* Observers attach, and what restores a checkpoint gives them. */
START_TEST(an_attach_waits_as_well)
{
    uint32_t var = first_declared("g");
    Psd__Attach m = PSD__ATTACH__INIT;

    m.job = (char *)"train";
    m.name = (char *)"g";
    kit_observe(&k, 9);
    kit_frame(&k, 9, MSG_ATTACH, 7, &m.base, NULL, 0);
    kit_expect_nothing(&k, 9);
    first_give(var, 7);
    ck_assert_uint_eq(assign_declared(&k, 9, 7, NULL), var);
}
END_TEST

START_TEST(first_values_are_given_once_whatever_is_killed)
{
    Psd__Job *job = kit_job("train", PSD__MODE__ASYNC, 2);
    uint32_t var = first_declared("g");
    struct kit_assign a = {.attempt = 1, .first = true};
    bool awaits;

    if (_i == 0)
        kit_crash(&k);
    if (_i == 0)
        kit_resume_all(&k, job, 0);
    assign_begin_ok(&k, 1, &a);
    assign_stage_four(&k, 1, &a, var, 7);
    if (_i == 1) {
        kit_crash(&k);
        kit_resume_all(&k, job, 0);
    }
    assign_declare(&k, 2, 5, "g", true);
    (void)assign_declared(&k, 2, 5, &awaits);
    ck_assert(awaits);
    assign_commit_ok(&k, 1, &a, 1);
    if (_i == 2) { /* the block has not taken it */
        kit_crash(&k);
        kit_resume_all(&k, job, 0);
    }
    if (_i == 3) {
        kit_work(&k);
        kit_crash(&k);
        kit_resume_all(&k, job, 0);
    }
    assign_declare(&k, 2, 6, "g", false);
    ck_assert_uint_eq(assign_declared(&k, 2, 6, &awaits), var);
    ck_assert(!awaits);
    ck_assert(kit_value_four(&k, 2, var, 1) == 7);
}
END_TEST

START_TEST(a_worker_that_is_gone_leaves_the_variable_to_the_next)
{
    uint32_t var = first_declared("g");
    struct kit_assign a = {.attempt = 1, .first = true}, b = a;
    bool awaits;

    assign_begin_ok(&k, 1, &a);
    assign_stage_four(&k, 1, &a, var, 7);
    kit_close(&k, 1);
    kit_pass(&k, 60000);
    kit_drop_answers(&k, 2);
    assign_declare(&k, 2, 5, "g", true);
    ck_assert_uint_eq(assign_declared(&k, 2, 5, &awaits), var);
    ck_assert(awaits);
    assign_begin_ok(&k, 2, &b);
    assign_stage_four(&k, 2, &b, var, 8);
    assign_commit_ok(&k, 2, &b, 1);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, var, 1) == 8);
}
END_TEST

/* An assign later on is one like any other. */
START_TEST(values_can_be_assigned_again_later)
{
    uint32_t var = first_declared("g");
    struct kit_assign a = {.attempt = 2};

    first_give(var, 7);
    assign_begin_ok(&k, 1, &a);
    assign_stage_four(&k, 1, &a, var, 8);
    assign_commit_ok(&k, 1, &a, 1);
    kit_work(&k);
    ck_assert(kit_value_four(&k, 2, var, 2) == 8);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("first_values");
    TCase *t = tcase_create("first_values");

    tcase_add_checked_fixture(t, setup_async, shard_teardown);
    tcase_add_test(t, workers_without_values_wait_for_them);
    tcase_add_test(t, a_second_worker_with_values_gets_the_first_ones);
    tcase_add_test(t, nobody_uses_a_variable_without_its_values);
    tcase_add_test(t, an_attach_waits_as_well);
    tcase_add_loop_test(t, first_values_are_given_once_whatever_is_killed, 0, 4);
    tcase_add_test(t, a_worker_that_is_gone_leaves_the_variable_to_the_next);
    tcase_add_test(t, values_can_be_assigned_again_later);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
