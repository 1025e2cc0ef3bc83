/* Sync: steps whose gradients are late in coming, or will not come: found by the simulator. A tick does not wait for
 * the pushes before it, so a worker may have ticked past a step while its gradient waits there, was refused, or was
 * lost in a crash and is yet to be sent again. */
#include "tests/unit/kits/shard_fixture.h"

#include <math.h>

/* Worker t is on connection t + 1. */
static uint32_t
sync_step_resend_start(Psd__Job *job)
{
    uint32_t var;

    kit_join(&k, 1, job, 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    for (uint32_t task = 1; task < job->workers; task++)
        kit_join(&k, task + 1, job, task);
    return var;
}

START_TEST(step_does_not_wait_for_a_gradient_that_was_refused)
{
    uint32_t var = sync_step_resend_start(kit_job("train", PSD__MODE__SYNC, 2));

    kit_push_four(&k, 1, 1, 0, var, 4);
    kit_expect_nothing(&k, 1);
    kit_push_four(&k, 2, 1, 0, var, NAN);
    kit_ack(&k, 2, 1, PS_ERR_NONFINITE);
    kit_expect_nothing(&k, 1); /* it might push again */
    kit_ticked(&k, 2, 2, 1);
    kit_ack(&k, 1, 1, PS_OK);
    ck_assert(kit_value_four(&k, 1, var, 1) == -4);
}
END_TEST

START_TEST(step_does_not_wait_for_a_gradient_that_was_skipped)
{
    uint32_t var = sync_step_resend_start(kit_job("train", PSD__MODE__SYNC, 2));

    kit_skip(&k, 2, 1);
    kit_ack(&k, 2, 1, PS_OK);
    kit_ticked(&k, 2, 2, 1);
    kit_push_four(&k, 1, 1, 0, var, 4);
    kit_ack(&k, 1, 1, PS_OK);
    ck_assert(kit_value_four(&k, 1, var, 1) == -4);
}
END_TEST

START_TEST(step_waits_for_gradients_that_a_crash_lost)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SYNC, 3);
    uint32_t var = sync_step_resend_start(job);

    for (uint64_t conn = 1; conn <= 2; conn++) {
        kit_push_four(&k, conn, 1, 0, var, (float)conn);
        kit_ticked(&k, conn, 2, 1);
    }
    kit_crash(&k);
    for (uint32_t task = 0; task < 3; task++)
        ck_assert_uint_eq(kit_resume(&k, task + 1, job, task, 0), 0);
    kit_push_four(&k, 3, 1, 0, var, 3);
    kit_ticked(&k, 3, 2, 1);
    ck_assert(kit_value_four(&k, 3, var, 0) == 0); /* all have ticked, two gradients are on their way */
    kit_push_four(&k, 1, 1, 0, var, 1);
    kit_ticked(&k, 1, 2, 1);
    kit_push_four(&k, 2, 1, 0, var, 2);
    for (uint64_t conn = 1; conn <= 3; conn++)
        kit_ack(&k, conn, 1, PS_OK);
    ck_assert(kit_value_four(&k, 3, var, 1) == -2);
}
END_TEST

START_TEST(newcomer_begins_at_the_step_that_still_waits)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SYNC, 2);
    uint32_t var = sync_step_resend_start(job);
    struct kit_answer *a;

    kit_push_four(&k, 1, 1, 0, var, 2);
    kit_ticked(&k, 1, 2, 1);
    kit_crash(&k);
    kit_resume(&k, 1, job, 0, 0);
    kit_hello(&k, 3, &(struct kit_hello){.job = job, .task = 1, .incarnation = 77});
    a = kit_expect(&k, 3, MSG_WELCOME);
    ck_assert_uint_eq(a->msg.u.welcome->clock, 0);
    kit_answer_free(a);
    kit_drop_answers(&k, 1); /* that worker 1 is back */
    kit_push_four(&k, 3, 1, 0, var, 4);
    kit_push_four(&k, 1, 1, 0, var, 2);
    kit_ack(&k, 3, 1, PS_OK);
    ck_assert(kit_value_four(&k, 3, var, 1) == -3);
}
END_TEST

/* A new process takes the place of a worker that held the step up, and begins behind it. */
START_TEST(step_goes_on_when_a_newcomer_begins_past_it)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SYNC, 2);
    uint32_t var = sync_step_resend_start(job);

    kit_push_four(&k, 1, 1, 0, var, 4);
    kit_ticked(&k, 1, 2, 1);
    kit_close(&k, 1); /* its push stays in the sync step, without a connection to answer */
    kit_hello(&k, 3, &(struct kit_hello){.job = job, .task = 0, .incarnation = 77});
    kit_answer_free(kit_expect(&k, 3, MSG_WELCOME));
    kit_ticked(&k, 3, 1, 1);
    kit_close(&k, 2);
    kit_hello(&k, 4, &(struct kit_hello){.job = job, .task = 1, .incarnation = 78});
    kit_answer_free(kit_expect(&k, 4, MSG_WELCOME));
    ck_assert(kit_value_four(&k, 4, var, 1) == -4);
}
END_TEST

/* Worker 1 comes back to a step that was done without it, and the shard restarts: the answer to its push must not be
 * that it was counted. */
START_TEST(push_for_a_step_done_before_its_worker_came_back_is_not_said_to_count)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SYNC, 2);
    uint32_t var = sync_step_resend_start(job);

    kit_push_four(&k, 1, 1, 0, var, 4);
    kit_close(&k, 2);
    kit_pass(&k, 6000); /* it lapses */
    kit_drop_answers(&k, 1);
    ck_assert(kit_value_four(&k, 1, var, 1) == -4);
    kit_hello(&k, 3, &(struct kit_hello){.job = job, .task = 1, .incarnation = 77});
    kit_answer_free(kit_expect(&k, 3, MSG_WELCOME));
    kit_crash(&k);
    kit_hello(&k, 4, &(struct kit_hello){.job = job, .task = 1, .incarnation = 77, .resume = true});
    kit_answer_free(kit_expect(&k, 4, MSG_WELCOME));
    kit_push_four(&k, 4, 1, 0, var, 8);
    kit_ack(&k, 4, 1, PS_ERR_UNKNOWN_OUTCOME);
    ck_assert(kit_value_four(&k, 4, var, 1) == -4);
}
END_TEST

/* A worker that awaits a tick sends a push in its place: its hold moves on although none of its messages is resolved.
 * The next crash must not bring the older hold back under the job's clock. */
START_TEST(hold_is_kept_over_a_second_crash)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SYNC, 3);
    uint32_t x = sync_step_resend_start(job), y = kit_declare(&k, 1, "y", 4, PS_SGD);

    for (uint64_t conn = 1; conn <= 3; conn++)
        kit_push_four(&k, conn, 1, 0, y, 1);
    kit_push_four(&k, 1, 2, 0, x, 1);
    kit_tick(&k, 1, 3, 1);
    kit_push_four(&k, 1, 4, 1, y, 1);
    kit_tick(&k, 1, 5, 2);
    kit_crash(&k);
    for (uint32_t task = 0; task < 3; task++)
        ck_assert_uint_eq(kit_resume(&k, task + 1, job, task, 0), 1);
    for (uint64_t conn = 1; conn <= 3; conn++)
        kit_push_four(&k, conn, 2, 0, x, 1);
    for (uint64_t conn = 3; conn > 0; conn--)
        kit_tick(&k, conn, 3, 1);
    kit_push_four(&k, 1, 4, 1, y, 1);
    kit_push_four(&k, 1, 5, 1, x, 1);
    kit_close(&k, 3);
    kit_pass(&k, 6000);
    kit_crash(&k);
    kit_resume(&k, 1, job, 0, 0);
    kit_resume(&k, 2, job, 1, 0);
    kit_close(&k, 2);
    kit_pass(&k, 6000);
    kit_drop_answers(&k, 1);
    kit_push_four(&k, 1, 4, 1, y, 1);
    kit_ack(&k, 1, 4, PS_OK);
}
END_TEST

static void
sync_step_resend_push(uint64_t conn, uint64_t seq, uint64_t clock, uint32_t var, float g, uint64_t example)
{
    const float gradient[4] = {g, g, g, g};
    const uint64_t cursor[2] = {0, example}, from[2] = {0, example - 1};

    kit_push(&k, conn,
             &(struct kit_push){.seq = seq,
                                .clock = clock,
                                .var = var,
                                .gradient = gradient,
                                .len = 4,
                                .cursor = cursor,
                                .cursor_from = from});
}

/* A worker that goes back to where all shards have its data gives a step anew what some blocks have counted: these take
 * nothing of it, and the others do not wait for more of it: what that worker does next may wait for them elsewhere. */
START_TEST(step_does_not_wait_for_data_that_its_block_has)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SYNC, 2);
    uint32_t var = sync_step_resend_start(job);

    for (uint64_t conn = 1; conn <= 2; conn++)
        sync_step_resend_push(conn, 1, 0, var, 2, 1);
    for (uint64_t conn = 1; conn <= 2; conn++) {
        kit_ack(&k, conn, 1, PS_OK);
        kit_ticked(&k, conn, 2, 1);
    }
    if (_i == 0) /* the other one comes first */
        sync_step_resend_push(2, 3, 1, var, 8, 2);
    sync_step_resend_push(1, 3, 1, var, 2, 1);
    if (_i > 0) {
        kit_expect_nothing(&k, 1);
        if (_i == 2) {
            kit_crash(&k);
            kit_resume_all(&k, job, 2);
        }
        sync_step_resend_push(2, 3, 1, var, 8, 2);
        if (_i == 2) {
            kit_expect_nothing(&k, 2);
            sync_step_resend_push(1, 3, 1, var, 2, 1); /* it comes again */
        }
    }
    kit_ack(&k, 1, 3, PS_OK);
    kit_ack(&k, 2, 3, PS_OK);
    ck_assert(kit_value_four(&k, 2, var, 2) == -10);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("gather_resend");
    TCase *tc = tcase_create("resend");

    tcase_add_checked_fixture(tc, shard_setup, shard_teardown);
    tcase_add_test(tc, step_does_not_wait_for_a_gradient_that_was_refused);
    tcase_add_test(tc, step_does_not_wait_for_a_gradient_that_was_skipped);
    tcase_add_test(tc, step_waits_for_gradients_that_a_crash_lost);
    tcase_add_test(tc, newcomer_begins_at_the_step_that_still_waits);
    tcase_add_test(tc, step_goes_on_when_a_newcomer_begins_past_it);
    tcase_add_test(tc, push_for_a_step_done_before_its_worker_came_back_is_not_said_to_count);
    tcase_add_test(tc, hold_is_kept_over_a_second_crash);
    tcase_add_loop_test(tc, step_does_not_wait_for_data_that_its_block_has, 0, 3);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
