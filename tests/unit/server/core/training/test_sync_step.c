/* Sync: gradients of a step are collected until there are enough, then make one update. */
#include "tests/unit/kits/shard_fixture.h"

#include <stdlib.h>
#include <string.h>

static Psd__Job *
sync_job(uint32_t workers, uint32_t quorum)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SYNC, workers);

    job->quorum = quorum;
    return job;
}

/* Both of two workers push to a variable of four elements, and the step is done. */
static void
step_of_two(uint32_t var, uint64_t clock, uint64_t seq, float g, uint64_t other_seq, float other)
{
    kit_push_four(&k, 1, seq, clock, var, g);
    kit_push_four(&k, 2, other_seq, clock, var, other);
    kit_ack(&k, 1, seq, PS_OK);
    kit_ack(&k, 2, other_seq, PS_OK);
}

/* A gradient of eights that was computed from version 0. */
static void
push_old(uint64_t conn, uint64_t seq, uint64_t clock, uint32_t var)
{
    static const float g[4] = {8, 8, 8, 8};
    static const uint64_t from = 0;

    kit_push(
        &k, conn,
        &(struct kit_push){.seq = seq, .clock = clock, .var = var, .gradient = g, .len = 4, .from_version = &from});
}

START_TEST(update_is_the_mean_of_all_workers)
{
    uint32_t var = kit_start(&k, sync_job(3, 3));

    kit_push_four(&k, 1, 1, 0, var, 3);
    kit_push_four(&k, 2, 1, 0, var, 6);
    kit_expect_nothing(&k, 1);
    ck_assert(kit_value_four(&k, 1, var, 0) == 0);
    kit_push_four(&k, 3, 1, 0, var, 0);
    for (uint64_t conn = 1; conn <= 3; conn++)
        kit_ack(&k, conn, 1, PS_OK);
    ck_assert(kit_value_four(&k, 1, var, 1) == -3);
}
END_TEST

START_TEST(pull_waits_until_the_step_is_done)
{
    uint32_t var = kit_start(&k, sync_job(2, 2));
    struct kit_answer *a;

    kit_pull(&k, 1, var, 0, 0);
    kit_expected(&k, 1, MSG_DATA);
    kit_push_four(&k, 1, 1, 0, var, 2);
    kit_ticked(&k, 1, 2, 1);
    kit_pull(&k, 1, var, 0, 1);
    kit_expect_nothing(&k, 1);
    kit_push_four(&k, 2, 1, 0, var, 4);
    kit_ack(&k, 2, 1, PS_OK);
    a = kit_expect(&k, 1, MSG_DATA); /* the ack of push 1 comes behind it, at the end of the turn */
    ck_assert(a->payload[0] == -3);
    ck_assert_uint_eq(a->msg.u.data->version[0], 1);
    kit_answer_free(a);
    kit_ack(&k, 1, 1, PS_OK);
}
END_TEST

START_TEST(late_gradients_are_dropped_and_reported)
{
    uint32_t var = kit_start(&k, sync_job(3, 2));

    step_of_two(var, 0, 1, 2, 1, 4);
    kit_push_four(&k, 3, 1, 0, var, 1000);
    kit_ack(&k, 3, 1, PS_ERR_LATE);
    ck_assert(kit_value_four(&k, 3, var, 1) == -3);
    kit_push_four(&k, 3, 1, 0, var, 1000); /* again: the same answer */
    kit_ack(&k, 3, 1, PS_ERR_LATE);
}
END_TEST

START_TEST(push_for_a_step_to_come_is_refused)
{
    uint32_t var = kit_start(&k, sync_job(2, 2));

    kit_ticked(&k, 1, 1, 1);
    kit_push_four(&k, 1, 2, 1, var, 1);
    kit_ack(&k, 1, 2, PS_ERR_CLOCK);
    kit_push_four(&k, 1, 3, 2, var, 1); /* not even where the worker is */
    kit_ack(&k, 1, 3, PS_ERR_CLOCK);
}
END_TEST

START_TEST(second_push_at_a_clock_is_refused)
{
    uint32_t var = kit_start(&k, sync_job(2, 2));

    kit_push_four(&k, 1, 1, 0, var, 1);
    kit_push_four(&k, 1, 2, 0, var, 5);
    kit_ack(&k, 1, 2, PS_ERR_INVALID);
    kit_push_four(&k, 2, 1, 0, var, 3);
    kit_ack(&k, 1, 1, PS_OK);
    ck_assert(kit_value_four(&k, 1, var, 1) == -2);
}
END_TEST

START_TEST(single_worker_steps_alone)
{
    uint32_t var = kit_start(&k, sync_job(1, 1));

    for (uint64_t c = 0; c < 5; c++) {
        kit_push_four(&k, 1, 2 * c + 1, c, var, 1);
        kit_ack(&k, 1, 2 * c + 1, PS_OK);
        kit_ticked(&k, 1, 2 * c + 2, c + 1);
    }
    ck_assert(kit_value_four(&k, 1, var, 5) == -5);
}
END_TEST

/* Gradients whose sum depends on the order of addition: whatever the order of arrival, the bits are the same. */
START_TEST(mean_is_bitwise_the_same_in_any_order_of_arrival)
{
    enum { N = 7, LEN = 1000 };
    static float g[N][LEN], first[LEN], out[LEN];
    struct test_rng rng = {test_seed()};

    for (int round = 0; round < 6; round++) {
        uint32_t order[N], var;

        kit_finish(&k);
        kit_init(&k, NULL);
        for (uint32_t task = 0; task < N; task++)
            kit_join(&k, task + 1, sync_job(N, N), task);
        var = kit_declare(&k, 1, "w", LEN, PS_ADAGRAD);
        for (uint32_t i = 0; i < N; i++)
            order[i] = i;
        for (uint32_t i = N - 1; i > 0; i--) {
            uint32_t j = (uint32_t)test_below(&rng, i + 1), t = order[i];

            order[i] = order[j];
            order[j] = t;
        }
        for (int i = 0; i < N && round == 0; i++)
            for (int j = 0; j < LEN; j++)
                g[i][j] = test_float(&rng) * (float)(1 << test_below(&rng, 20));
        for (uint32_t block = 0; block < 3; block++) { /* 496, 496 and 8 */
            size_t len = block < 2 ? 496 : 8;

            for (int i = 0; i < N; i++)
                kit_push(&k, order[i] + 1,
                         &(struct kit_push){.seq = block + 1,
                                            .var = var,
                                            .block = block,
                                            .gradient = g[order[i]] + 496 * block,
                                            .len = len});
        }
        for (int i = 0; i < N; i++)
            for (uint64_t seq = 1; seq <= 3; seq++)
                kit_ack(&k, (uint64_t)i + 1, seq, PS_OK);
        for (uint32_t block = 0; block < 3; block++)
            kit_read(&k, 1, var, block, out + 496 * block, block < 2 ? 496 : 8);
        if (round == 0)
            memcpy(first, out, sizeof out);
        ck_assert_mem_eq(first, out, sizeof out);
    }
}
END_TEST

START_TEST(lapse_shrinks_the_step)
{
    uint32_t var = kit_start(&k, sync_job(3, 3));

    kit_push_four(&k, 1, 1, 0, var, 2);
    kit_push_four(&k, 2, 1, 0, var, 4);
    kit_close(&k, 3);
    kit_expect_nothing(&k, 1);
    kit_pass(&k, 5000);
    kit_work(&k);
    kit_expected(&k, 1, MSG_EVENT);
    kit_ack(&k, 1, 1, PS_OK);
    kit_expected(&k, 2, MSG_EVENT);
    kit_ack(&k, 2, 1, PS_OK);
    ck_assert(kit_value_four(&k, 1, var, 1) == -3);
}
END_TEST

START_TEST(gradient_of_the_lapsed_does_not_stand_for_a_live_one)
{
    uint32_t var = kit_start(&k, sync_job(3, 3));

    kit_push_four(&k, 3, 1, 0, var, 6);
    kit_push_four(&k, 1, 1, 0, var, 3);
    kit_close(&k, 3);
    kit_pass(&k, 5000);
    kit_work(&k);
    kit_expected(&k, 1, MSG_EVENT);
    kit_expect_nothing(&k, 1); /* worker 1 of 0, 1 is still to come */
    kit_push_four(&k, 2, 1, 0, var, 0);
    kit_ack(&k, 1, 1, PS_OK);
    ck_assert(kit_value_four(&k, 1, var, 1) == -3); /* and the part of the lapsed one that arrived counts */
}
END_TEST

START_TEST(lapse_fails_the_step_when_the_job_says_so)
{
    Psd__Job *job = sync_job(2, 2);
    uint32_t var;
    struct kit_answer *a;

    job->lapse = PSD__LAPSE__FAIL;
    var = kit_start(&k, job);
    kit_push_four(&k, 1, 1, 0, var, 2);
    kit_close(&k, 2);
    kit_pass(&k, 5000);
    kit_expected(&k, 1, MSG_EVENT);
    a = kit_expect(&k, 1, MSG_ACK);
    ck_assert_uint_eq(a->msg.u.ack->code[0], PS_ERR_STEP_FAILED);
    ck_assert_ptr_nonnull(strstr(a->msg.u.ack->error[0]->text, "worker 1"));
    kit_answer_free(a);
    ck_assert(kit_value_four(&k, 1, var, 0) == 0);
    kit_push_four(&k, 1, 1, 0, var, 2); /* used up, and remembered */
    kit_ack(&k, 1, 1, PS_ERR_STEP_FAILED);
}
END_TEST

START_TEST(step_closes_with_what_came_when_all_moved_on)
{
    uint32_t var = kit_start(&k, sync_job(2, 2));

    kit_push_four(&k, 1, 1, 0, var, 4);
    kit_ticked(&k, 1, 2, 1);
    kit_tick(&k, 2, 1, 1); /* without a push */
    kit_work(&k);
    kit_ack(&k, 2, 1, PS_OK);
    kit_ack(&k, 1, 1, PS_OK);
    ck_assert(kit_value_four(&k, 1, var, 1) == -4);
    step_of_two(var, 1, 3, 1, 2, 1); /* the next step is open */
    ck_assert(kit_value_four(&k, 1, var, 2) == -5);
}
END_TEST

START_TEST(block_that_nobody_pushes_moves_on_with_the_slowest)
{
    uint32_t var = kit_start(&k, sync_job(2, 2));

    kit_ticked(&k, 1, 1, 1);
    kit_pull(&k, 1, var, 0, 1);
    kit_expect_nothing(&k, 1);
    kit_tick(&k, 2, 1, 1);
    kit_expected(&k, 1, MSG_DATA);
    kit_ack(&k, 2, 1, PS_OK);
    kit_crash(&k); /* and so it is after a restart */
    kit_resume_all(&k, sync_job(2, 2), 1);
    step_of_two(var, 1, 2, 2, 2, 2);
    ck_assert(kit_value_four(&k, 1, var, 1) == -2);
}
END_TEST

/* Rates 1, 3/4, 1/2, 1/4 by clock. Steps 0 and 1 pass without a gradient, and the block's own clock may lie behind. */
START_TEST(schedule_by_clock_goes_by_the_step_that_closes)
{
    struct ps_optimizer o = kit_optimizer(PS_SGD);
    uint32_t var;

    o.schedule = (struct ps_schedule){.kind = PS_SCHEDULE_LINEAR, .by = PS_BY_CLOCK, .steps = 4};
    kit_join(&k, 1, sync_job(2, 2), 0);
    kit_join(&k, 2, sync_job(2, 2), 1);
    var = kit_declare_with(&k, 1, "w", 4, &o);
    kit_ticked(&k, 1, 1, 2);
    kit_ticked(&k, 2, 1, 2);
    step_of_two(var, 2, 2, 4, 2, 4);
    ck_assert(kit_value_four(&k, 1, var, 1) == -2);
    kit_ticked(&k, 1, 3, 3);
    kit_ticked(&k, 2, 3, 3);
    step_of_two(var, 3, 4, 4, 4, 4);
    ck_assert(kit_value_four(&k, 1, var, 2) == -3);
}
END_TEST

START_TEST(worker_that_never_joined_is_waited_for)
{
    Psd__Job *job = sync_job(2, 2);
    struct kit_answer *a;
    uint32_t var;

    kit_join(&k, 1, job, 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_push_four(&k, 1, 1, 0, var, 2);
    kit_ticked(&k, 1, 2, 1);
    kit_work(&k);
    kit_expect_nothing(&k, 1); /* the step is not done without it */
    kit_hello(&k, 2, &(struct kit_hello){.job = job, .task = 1});
    a = kit_expect(&k, 2, MSG_WELCOME);
    ck_assert_uint_eq(a->msg.u.welcome->clock, 0);
    kit_answer_free(a);
    kit_push_four(&k, 2, 1, 0, var, 4);
    kit_ack(&k, 1, 1, PS_OK);
    kit_ack(&k, 2, 1, PS_OK);
    ck_assert(kit_value_four(&k, 1, var, 1) == -3);
}
END_TEST

START_TEST(gradients_are_sent_again_after_a_crash)
{
    Psd__Job *job = sync_job(2, 2);
    uint32_t var = kit_start(&k, job);

    kit_push_four(&k, 1, 1, 0, var, 2);
    kit_ticked(&k, 1, 2, 1);
    kit_crash(&k);
    ck_assert_uint_eq(kit_resume(&k, 1, job, 0, 0), 0);
    kit_resume(&k, 2, job, 1, 0);
    kit_push_four(&k, 1, 1, 0, var, 2);
    kit_tick(&k, 1, 2, 1); /* was taken before the crash, ahead of the push */
    kit_ack(&k, 1, 2, PS_OK);
    kit_push_four(&k, 2, 1, 0, var, 4);
    kit_ack(&k, 1, 1, PS_OK);
    kit_ack(&k, 2, 1, PS_OK);
    ck_assert(kit_value_four(&k, 1, var, 1) == -3);
}
END_TEST

START_TEST(several_ticks_ahead_of_a_push_survive_a_crash)
{
    Psd__Job *job = sync_job(2, 2);
    uint32_t var = kit_start(&k, job);

    kit_push_four(&k, 1, 1, 0, var, 2);
    kit_ticked(&k, 1, 2, 1);
    kit_ticked(&k, 1, 3, 2);
    kit_crash(&k);
    kit_resume_all(&k, job, 0);
    kit_push_four(&k, 1, 1, 0, var, 2);
    kit_ticked(&k, 1, 2, 1);
    kit_ticked(&k, 1, 3, 2);
    kit_push_four(&k, 2, 1, 0, var, 4);
    kit_ack(&k, 1, 1, PS_OK);
    ck_assert(kit_value_four(&k, 1, var, 1) == -3);
}
END_TEST

START_TEST(push_whose_update_survived_a_crash_is_not_taken_twice)
{
    Psd__Job *job = sync_job(2, 2);
    uint32_t var = kit_start(&k, job);
    uint32_t other = kit_declare(&k, 1, "v", 4, PS_SGD);

    kit_push_four(&k, 1, 1, 0, var, 2); /* waits */
    step_of_two(other, 0, 2, 2, 1, 4);  /* is done at once, ahead of it */
    kit_crash(&k);
    ck_assert_uint_eq(kit_resume(&k, 1, job, 0, 0), 0); /* 1 is not resolved, so 2 cannot be counted */
    ck_assert_uint_eq(kit_resume(&k, 2, job, 1, 1), 1);
    kit_push_four(&k, 1, 1, 0, var, 2);
    kit_push_four(&k, 1, 2, 0, other, 2);
    kit_ack(&k, 1, 2, PS_OK);
    ck_assert(kit_value_four(&k, 1, other, 1) == -3);
    kit_push_four(&k, 2, 2, 0, var, 4);
    kit_ack(&k, 1, 1, PS_OK);
    ck_assert(kit_value_four(&k, 1, var, 1) == -3);
}
END_TEST

START_TEST(push_waits_on_over_a_lost_connection)
{
    Psd__Job *job = sync_job(2, 2);
    uint32_t var = kit_start(&k, job);

    kit_push_four(&k, 1, 1, 0, var, 2);
    kit_close(&k, 1);
    kit_resume(&k, 3, job, 0, 0);
    kit_push_four(&k, 2, 1, 0, var, 4);
    kit_ack(&k, 2, 1, PS_OK);
    kit_expect_nothing(&k, 3); /* it has not asked again yet */
    kit_push_four(&k, 3, 1, 0, var, 2);
    kit_ack(&k, 3, 1, PS_OK);
    kit_ticked(&k, 3, 2, 1);
    kit_ticked(&k, 2, 2, 1);
    kit_push_four(&k, 3, 3, 1, var, 2);
    kit_close(&k, 3);
    kit_resume(&k, 4, job, 0, 2);
    kit_skip(&k, 4, 3); /* the worker gave it up; the sync step keeps it */
    kit_expect_nothing(&k, 4);
    kit_push_four(&k, 2, 3, 1, var, 4);
    kit_ack(&k, 4, 3, PS_OK);
    ck_assert(kit_value_four(&k, 4, var, 2) == -6);
}
END_TEST

START_TEST(push_that_wants_values_gets_them_after_the_step)
{
    uint32_t var = kit_start(&k, sync_job(2, 2));
    float g[4] = {2, 2, 2, 2};
    struct kit_answer *a;

    kit_push(&k, 1,
             &(struct kit_push){.seq = 1, .var = var, .gradient = g, .len = 4, .want_value = true, .request = 55});
    kit_expect_nothing(&k, 1);
    kit_push_four(&k, 2, 1, 0, var, 4);
    a = kit_expect(&k, 1, MSG_DATA);
    ck_assert_uint_eq(a->msg.request, 55);
    ck_assert_uint_eq(a->msg.u.data->seq, 1);
    ck_assert_uint_eq(a->msg.u.data->version[0], 1);
    ck_assert_uint_eq(a->msg.u.data->n_code, 0);
    ck_assert(a->payload[0] == -3);
    kit_answer_free(a);
}
END_TEST

START_TEST(new_incarnation_joins_the_gather_once)
{
    Psd__Job *job = sync_job(2, 2);
    uint32_t var = kit_start(&k, job);

    kit_push_four(&k, 1, 1, 0, var, 2);
    kit_close(&k, 1);
    kit_hello(&k, 3, &(struct kit_hello){.job = job, .task = 0, .incarnation = 5});
    kit_expected(&k, 3, MSG_WELCOME);
    kit_push_four(&k, 3, 1, 0, var, 100); /* its own first push of the step; the other one's gradient is in */
    kit_expected(&k, 2, MSG_EVENT);
    kit_push_four(&k, 2, 1, 0, var, 4);
    kit_ack(&k, 3, 1, PS_OK);
    ck_assert(kit_value_four(&k, 3, var, 1) == -3);
}
END_TEST

START_TEST(step_is_repeated_when_all_were_lost)
{
    Psd__Job *job = sync_job(2, 2);
    uint32_t var = kit_start(&k, job);

    kit_push_four(&k, 1, 1, 0, var, 100);
    kit_close(&k, 1);
    kit_close(&k, 2);
    kit_pass(&k, 6000);
    kit_work(&k);
    for (uint32_t task = 0; task < 2; task++) {
        kit_hello(&k, task + 1, &(struct kit_hello){.job = job, .task = task, .incarnation = 5 + task});
        kit_drop_answers(&k, task + 1);
    }
    kit_drop_answers(&k, 1);
    step_of_two(var, 0, 1, 2, 1, 4);
    ck_assert(kit_value_four(&k, 1, var, 1) == -3);
}
END_TEST

START_TEST(not_finite_gradient_is_refused_before_it_joins)
{
    uint32_t var = kit_start(&k, sync_job(2, 2));
    float g[4] = {1, 1, __builtin_nanf(""), 1};

    kit_push(&k, 1, &(struct kit_push){.seq = 1, .var = var, .gradient = g, .len = 4});
    kit_ack(&k, 1, 1, PS_ERR_NONFINITE);
    step_of_two(var, 0, 2, 2, 1, 4);
    ck_assert(kit_value_four(&k, 1, var, 1) == -3);
    kit_ticked(&k, 1, 3, 1);
    kit_drop_answers(&k, 2);
    kit_ticked(&k, 2, 2, 1);
    kit_push_four(&k, 1, 4, 1, var, 3e38f); /* each is finite, their sum is not */
    kit_push_four(&k, 2, 3, 1, var, 3e38f);
    kit_ack(&k, 1, 4, PS_ERR_NONFINITE);
    kit_ack(&k, 2, 3, PS_ERR_NONFINITE);
    ck_assert(kit_value_four(&k, 1, var, 1) == -3);
    kit_ticked(&k, 1, 5, 2);
    kit_ticked(&k, 2, 4, 2);
    kit_pull(&k, 1, var, 0, 2); /* the step is over anyway */
    kit_expected(&k, 1, MSG_DATA);
}
END_TEST

START_TEST(old_gradients_are_scaled_or_dropped_by_age)
{
    Psd__Job *job = sync_job(2, 2);
    uint32_t var;

    job->age->kind = PSD__AGE_KIND__AGE_INVERSE;
    var = kit_start(&k, job);
    kit_step(&k, 2, 1, 0, var, 0);
    push_old(1, 3, 1, var);
    kit_push_four(&k, 2, 3, 1, var, 2);
    kit_ack(&k, 1, 3, PS_OK);
    ck_assert(kit_value_four(&k, 1, var, 2) == -3); /* (8 / 2 + 2) / 2 */
}
END_TEST

START_TEST(dropped_gradient_counts_as_come)
{
    Psd__Job *job = sync_job(2, 2);
    uint32_t var;

    job->age->kind = PSD__AGE_KIND__AGE_CUTOFF;
    job->age->parameter = 0;
    var = kit_start(&k, job);
    kit_step(&k, 2, 1, 0, var, 0);
    push_old(1, 3, 1, var);
    kit_ack(&k, 1, 3, PS_ERR_STALE);
    kit_push_four(&k, 2, 3, 1, var, 2);
    kit_ack(&k, 2, 3, PS_OK);
    ck_assert(kit_value_four(&k, 1, var, 2) == -2); /* the mean of the one that counts */
    kit_ticked(&k, 1, 4, 2);
    kit_ticked(&k, 2, 4, 2);
    push_old(1, 5, 2, var);
    push_old(2, 5, 2, var);
    kit_ack(&k, 1, 5, PS_ERR_STALE);
    kit_ack(&k, 2, 5, PS_ERR_STALE);
    ck_assert(kit_value_four(&k, 1, var, 2) == -2);
    kit_crash(&k); /* the step without an update is done anyway */
    kit_resume_all(&k, job, 5);
    kit_ticked(&k, 1, 6, 3);
    kit_push_four(&k, 1, 7, 3, var, 1);
    kit_ticked(&k, 2, 6, 3);
    kit_push_four(&k, 2, 7, 3, var, 1);
    kit_ack(&k, 1, 7, PS_OK);
}
END_TEST

START_TEST(dropped_gradient_may_be_followed_by_a_fresh_one)
{
    Psd__Job *job = sync_job(2, 2);
    uint32_t var;

    job->age->kind = PSD__AGE_KIND__AGE_CUTOFF;
    job->age->parameter = 0;
    var = kit_start(&k, job);
    kit_push_four(&k, 1, 1, 0, var, 0);
    kit_push_four(&k, 2, 1, 0, var, 0);
    kit_drop_answers(&k, 1);
    kit_ticked(&k, 1, 2, 1);
    push_old(1, 3, 1, var);
    kit_ack(&k, 1, 3, PS_ERR_STALE);
    kit_push_four(&k, 1, 4, 1, var, 4);
    kit_expect_nothing(&k, 1);
    kit_drop_answers(&k, 2);
    kit_ticked(&k, 2, 2, 1);
    kit_push_four(&k, 2, 3, 1, var, 2);
    kit_ack(&k, 1, 4, PS_OK);
    ck_assert(kit_value_four(&k, 1, var, 2) == -3);
}
END_TEST

START_TEST(gradients_of_one_variable_have_a_budget)
{
    struct shard_config config = {.cluster = "test", .shards = 1, .boot = 1, .gather_bytes_max = 8 * MIB};
    uint64_t dims = 262144;
    struct kit small;

    kit_init(&small, &config);
    kit_join(&small, 1, sync_job(4, 4), 0);
    kit_declare_as(&small, 1, 5, "a", &dims, 1, PS_SGD, PSD__INIT_KIND__ZEROS);
    kit_work(&small);
    kit_answer_free(kit_expect(&small, 1, MSG_DECLARED));
    kit_declare_as(&small, 1, 6, "b", &dims, 1, PS_SGD, PSD__INIT_KIND__ZEROS);
    kit_expect_error(&small, 1, 6, PS_ERR_LIMIT);
    kit_crash(&small);
    kit_resume(&small, 1, sync_job(4, 4), 0, 0);
    kit_declare_as(&small, 1, 7, "c", &dims, 1, PS_SGD, PSD__INIT_KIND__ZEROS);
    kit_expect_error(&small, 1, 7, PS_ERR_LIMIT);
    kit_finish(&small);
}
END_TEST

START_TEST(outcomes_ahead_of_a_push_that_waits_survive_a_crash)
{
    Psd__Job *job = sync_job(2, 2);
    uint32_t var = kit_start(&k, job);
    float g[3] = {0};

    kit_push_four(&k, 1, 1, 0, var, 2); /* waits */
    kit_push(&k, 1, &(struct kit_push){.seq = 2, .var = var, .gradient = g, .len = 3});
    kit_ack(&k, 1, 2, PS_ERR_SHAPE);
    kit_tick(&k, 1, 3, UINT64_MAX);
    kit_ack(&k, 1, 3, PS_ERR_CLOCK);
    kit_crash(&k);
    ck_assert_uint_eq(kit_resume(&k, 1, job, 0, 0), 0);
    kit_resume(&k, 2, job, 1, 0);
    kit_push_four(&k, 1, 1, 0, var, 2);
    kit_push_four(&k, 1, 2, 0, var, 2); /* whatever it holds now */
    kit_ack(&k, 1, 2, PS_ERR_SHAPE);
    kit_tick(&k, 1, 3, 1);
    kit_ack(&k, 1, 3, PS_ERR_CLOCK);
    kit_push_four(&k, 2, 1, 0, var, 4);
    kit_ack(&k, 1, 1, PS_OK);
    ck_assert(kit_value_four(&k, 1, var, 1) == -3);
}
END_TEST

static void
push_two(uint64_t conn, uint64_t seq, uint32_t a, uint32_t b, bool want_value)
{
    uint32_t var[2] = {a, b}, block[2] = {0, 0};
    Psd__Push m = PSD__PUSH__INIT;
    float g[8] = {1, 1, 1, 1, 1, 1, 1, 1};

    m.seq = seq;
    m.n_var = m.n_block = 2;
    m.var = var;
    m.block = block;
    m.want_value = want_value;
    kit_push_many(&k, conn, &m, g, 8);
}

START_TEST(blocks_of_one_push_have_their_own_outcomes)
{
    struct kit_answer *a;
    uint32_t v, w = kit_start(&k, sync_job(4, 2));

    v = kit_declare(&k, 1, "v", 4, PS_SGD);
    kit_push_four(&k, 1, 1, 0, w, 1);
    kit_push_four(&k, 2, 1, 0, w, 1); /* w's step is done, v's is not */
    push_two(3, 1, w, v, false);
    kit_expect_nothing(&k, 3);
    push_two(4, 1, w, v, true);
    a = kit_expect(&k, 3, MSG_ACK);
    ck_assert_uint_eq(a->msg.u.ack->code[0], PS_ERR_LATE);
    ck_assert_uint_eq(a->msg.u.ack->n_blocks, 1);
    ck_assert_uint_eq(a->msg.u.ack->blocks[0]->code[0], PS_ERR_LATE);
    ck_assert_uint_eq(a->msg.u.ack->blocks[0]->code[1], PS_OK);
    kit_answer_free(a);
    a = kit_expect(&k, 4, MSG_DATA);
    ck_assert_uint_eq(a->msg.u.data->code[0], PS_ERR_LATE);
    ck_assert_uint_eq(a->msg.u.data->code[1], PS_OK);
    ck_assert_uint_eq(a->payload_len, 8);
    kit_answer_free(a);
    push_two(4, 1, w, v, true); /* again: the values, and the code for a partly taken push */
    a = kit_expect(&k, 4, MSG_DATA);
    ck_assert_uint_eq(a->msg.u.data->code[0], PS_ERR_LATE);
    kit_answer_free(a);
    kit_drop_answers(&k, 1);
    ck_assert(kit_value_four(&k, 1, v, 1) == -1);
}
END_TEST

/* Blocks of 40 MiB whose step is done by a lapse: more than one turn closes. */
enum { DUE_BLOCKS = 160, DUE_LEN = 65536 };
static float due_gradient[DUE_LEN], due_out[DUE_LEN];

static void
make_many_due(Psd__Job *job)
{
    uint64_t dims = (uint64_t)DUE_BLOCKS * DUE_LEN;

    for (int i = 0; i < DUE_LEN; i++)
        due_gradient[i] = 1;
    kit_join(&k, 1, job, 0);
    kit_join(&k, 2, job, 1);
    kit_declare_as(&k, 1, 5, "w", &dims, 1, PS_SGD, PSD__INIT_KIND__ZEROS);
    kit_work(&k);
    kit_drop_answers(&k, 1);
    for (uint32_t i = 0; i < DUE_BLOCKS; i++)
        kit_push(&k, 1,
                 &(struct kit_push){.seq = i + 1, .var = 1, .block = i, .gradient = due_gradient, .len = DUE_LEN});
    kit_expect_nothing(&k, 1);
    kit_close(&k, 2);
    kit_pass(&k, 5000);
    ck_assert(shard_busy(k.shard)); /* one turn was not enough */
}

START_TEST(large_step_closes_over_several_turns)
{
    make_many_due(sync_job(2, 2));
    kit_work(&k);
    kit_drop_answers(&k, 1);
    for (uint32_t i = 0; i < DUE_BLOCKS; i++) {
        ck_assert_uint_eq(kit_read(&k, 1, 1, i, due_out, DUE_LEN), 1);
        ck_assert(due_out[DUE_LEN - 1] == -1);
    }
}
END_TEST

START_TEST(push_for_the_next_step_closes_a_due_one_first)
{
    make_many_due(sync_job(2, 2));
    k.hold = true;
    kit_tick(&k, 1, DUE_BLOCKS + 1, 1);
    kit_push(&k, 1,
             &(struct kit_push){.seq = DUE_BLOCKS + 2,
                                .clock = 1,
                                .var = 1,
                                .block = DUE_BLOCKS - 1,
                                .gradient = due_gradient,
                                .len = DUE_LEN});
    k.hold = false;
    kit_turn(&k);
    kit_drop_answers(&k, 1);
    ck_assert_uint_eq(kit_read(&k, 1, 1, DUE_BLOCKS - 1, due_out, DUE_LEN), 2);
    kit_work(&k);
    kit_drop_answers(&k, 1);
    ck_assert_uint_eq(kit_read(&k, 1, 1, DUE_BLOCKS - 2, due_out, DUE_LEN), 1);
}
END_TEST

START_TEST(crash_with_steps_that_are_due_repeats_them)
{
    Psd__Job *job = sync_job(2, 2);

    make_many_due(job);
    kit_crash(&k);
    kit_resume(&k, 1, job, 0, 0);
    for (uint32_t i = 0; i < DUE_BLOCKS; i++)
        kit_push(&k, 1,
                 &(struct kit_push){.seq = i + 1, .var = 1, .block = i, .gradient = due_gradient, .len = DUE_LEN});
    kit_work(&k);
    kit_drop_answers(&k, 1);
    for (uint32_t i = 0; i < DUE_BLOCKS; i++) {
        ck_assert_uint_eq(kit_read(&k, 1, 1, i, due_out, DUE_LEN), 1);
        ck_assert(due_out[0] == -1);
    }
}
END_TEST

START_TEST(full_store_ends_due_steps_with_an_error)
{
    struct store_key key = {.var = 100000};
    struct store_usage usage;
    uint64_t full = 0;
    struct kit_answer *a;
    void *place;

    make_many_due(sync_job(2, 2));
    kit_drop_answers(&k, 1);
    for (;; key.block++) { /* another user takes the memory */
        k.store->ops->usage(k.store, &usage);
        if (usage.used_bytes + 2 * layout_value_size(2) > usage.max_bytes)
            break;
        ck_assert_int_eq(k.store->ops->begin(k.store, layout_value_size(2)), PS_OK);
        ck_assert_int_eq(k.store->ops->reserve(k.store, &key, layout_value_size(2), &place), PS_OK);
        ck_assert_int_eq(k.store->ops->commit(k.store), PS_OK);
    }
    kit_work(&k);
    while ((a = kit_take(&k, 1)) != NULL) {
        const Psd__Ack *m = a->msg.u.ack;

        for (size_t i = 0; i < m->n_code; i++)
            full += m->code[i] == PS_ERR_FULL;
        kit_answer_free(a);
    }
    ck_assert_uint_gt(full, 40);
    ck_assert_uint_eq(kit_read(&k, 1, 1, DUE_BLOCKS - 1, due_out, DUE_LEN), 0);
    for (uint32_t n = key.block; n-- > 0;) {
        key.block = n;
        ck_assert_int_eq(k.store->ops->begin(k.store, 0), PS_OK);
        ck_assert_int_eq(k.store->ops->erase(k.store, &key), PS_OK);
        ck_assert_int_eq(k.store->ops->commit(k.store), PS_OK);
    }
}
END_TEST

/* A training in sync(k of n) with lost connections, crashes and failing commits; at every point the value must be what
 * the ledger of updates says: each step's mean of the gradients that were in it. With k = n these are all. */
START_TEST(full_sync_is_exact_under_random_crashes)
{
    enum { N = 4, STEPS = 60 }; /* a power of two, so that the mean is exact */
    struct test_rng rng = {test_seed()};
    Psd__Job *job = sync_job(N, N);
    uint64_t acked[N] = {0};
    float expected = 0;
    uint32_t var = kit_start(&k, job);

    for (uint64_t c = 0; c < STEPS; c++) {
        float g[N], sum = 0;
        bool done[N] = {false};
        int left = N, tries = 0;

        for (int i = 0; i < N; i++)
            sum += g[i] = (float)(4 * test_below(&rng, 10));
        expected -= sum / N;
        while (left > 0) {
            uint32_t task = (uint32_t)test_below(&rng, N);
            uint64_t conn = task + 1;
            struct kit_answer *a;

            ck_assert_int_lt(tries++, 2000);
            if (test_below(&rng, 12) == 0)
                kit_crash(&k);
            if (test_below(&rng, 12) == 0)
                store_mem_fail_at(k.store, STORE_MEM_FAIL_COMMIT, 1 + test_below(&rng, 4));
            if (!k.open[conn] || test_below(&rng, 10) == 0) {
                if (k.open[conn])
                    kit_close(&k, conn);
                kit_hello(&k, conn,
                          &(struct kit_hello){.job = job, .task = task, .resume = true, .acked_through = acked[task]});
                a = kit_take(&k, conn);
                ck_assert(a == NULL || a->msg.type == MSG_WELCOME);
                kit_answer_free(a);
            }
            if (!k.open[conn])
                continue;
            /* The worker's messages of this step are 2c + 1, its push, and 2c + 2, its tick. */
            kit_push_four(&k, conn, 2 * c + 1, c, var, g[task]);
            if (k.open[conn])
                kit_tick(&k, conn, 2 * c + 2, c + 1);
            for (int i = 0; i < N; i++) {
                while ((a = kit_take(&k, (uint64_t)i + 1)) != NULL) {
                    if (a->msg.type == MSG_ACK)
                        for (size_t j = 0; j < a->msg.u.ack->n_seq; j++) {
                            ck_assert_uint_eq(a->msg.u.ack->n_code, 0);
                            if (a->msg.u.ack->seq[j] == 2 * c + 1 && !done[i]) {
                                done[i] = true;
                                acked[i] = 2 * c + 1;
                                left--;
                            }
                        }
                    kit_answer_free(a);
                }
            }
        }
        /* All ticks must be in before the next step. */
        for (int stage = 0; stage < STORE_MEM_FAILS; stage++)
            store_mem_fail_at(k.store, (enum store_mem_fail)stage, 0);
        for (uint32_t task = 0; task < N; task++) {
            if (!k.open[task + 1])
                kit_resume(&k, task + 1, job, task, acked[task]);
            kit_ticked(&k, task + 1, 2 * c + 2, c + 1);
            acked[task] = 2 * c + 2;
        }
        ck_assert(kit_value_four(&k, 1, var, c + 1) == expected);
    }
}
END_TEST

/* Blocks of the largest size, of which 59 fill a turn. */
#define LARGE      layout_capacity(LAYOUT_CLASSES - 1, 0)
#define LARGE_MOST 66000
#define TURN_FULL  59

static void
push_large(uint64_t conn, uint64_t seq, uint64_t clock, uint32_t var, uint32_t block)
{
    static float gradient[LARGE_MOST];

    ck_assert_uint_le(LARGE, ARRAY_LEN(gradient));
    for (size_t i = 0; i < LARGE; i++)
        gradient[i] = 1;
    kit_push(
        &k, conn,
        &(struct kit_push){.seq = seq, .clock = clock, .var = var, .block = block, .gradient = gradient, .len = LARGE});
}

/* In one turn: two steps of a block, the second closing with what came, the room of the turn taken by others, and a
 * gradient for the third. The block is written already, so it needs no more room. */
START_TEST(step_closes_in_place_when_the_turn_is_full)
{
    uint64_t seq = 0;
    uint32_t var;
    static float out[LARGE_MOST];

    kit_join(&k, 1, sync_job(3, 2), 0);
    var = kit_declare(&k, 1, "large", TURN_FULL * (uint64_t)LARGE, PS_SGD);
    kit_join(&k, 2, sync_job(3, 2), 1);
    kit_join(&k, 3, sync_job(3, 2), 2);
    k.hold = true;
    for (uint32_t block = 0; block < TURN_FULL; block++) {
        push_large(1, ++seq, 0, var, block);
        push_large(2, seq, 0, var, block);
    }
    kit_tick(&k, 1, seq + 1, 1);
    kit_tick(&k, 2, seq + 1, 1);
    kit_tick(&k, 3, 1, 1);
    push_large(1, seq + 2, 1, var, 0);
    kit_tick(&k, 1, seq + 3, 2);
    kit_tick(&k, 2, seq + 2, 2);
    kit_tick(&k, 3, 2, 2);
    push_large(1, seq + 4, 2, var, 0);
    k.hold = false;
    kit_turn(&k);
    kit_work(&k);
    kit_drop_answers(&k, 1);
    kit_drop_answers(&k, 2);
    push_large(2, seq + 3, 2, var, 0);
    kit_ack(&k, 1, seq + 4, PS_OK);
    kit_ack(&k, 2, seq + 3, PS_OK);
    ck_assert_uint_eq(kit_read(&k, 1, var, 0, out, LARGE), 3);
    ck_assert(out[0] == -3);
}
END_TEST

/* The step closes in a later turn than the tick that made it due, and the store refuses its update: the block's clock
 * goes on without one, and pulls that wait for it are released. */
START_TEST(pull_goes_on_when_a_step_ends_without_its_update)
{
    uint32_t var, other;
    uint64_t asked;

    kit_join(&k, 1, sync_job(2, 2), 0);
    var = kit_declare(&k, 1, "large", LARGE, PS_SGD);
    kit_join(&k, 2, sync_job(2, 2), 1);
    kit_join(&k, 3, kit_job("other", PSD__MODE__ASYNC, 1), 0);
    other = kit_declare(&k, 3, "large", TURN_FULL * (uint64_t)LARGE, PS_SGD);
    push_large(2, 1, 0, var, 0);
    kit_close(&k, 2);
    kit_pass(&k, 6000); /* lapses; its gradient stays */
    kit_drop_answers(&k, 1);
    asked = kit_pull(&k, 1, var, 0, 1);
    kit_expect_nothing(&k, 1);
    k.hold = true;
    for (uint32_t block = 0; block < TURN_FULL; block++)
        push_large(3, block + 1, 0, other, block);
    kit_tick(&k, 1, 1, 1);
    k.hold = false;
    store_mem_fail_at(k.store, STORE_MEM_FAIL_BEGIN, 1);
    kit_turn(&k);
    kit_work(&k);
    kit_ack(&k, 1, 1, PS_OK);
    {
        struct kit_answer *a = kit_expect(&k, 1, MSG_DATA);

        ck_assert_uint_eq(a->msg.request, asked);
        ck_assert_uint_eq(a->msg.u.data->version[0], 0);
        kit_answer_free(a);
    }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("sync_step");
    TCase *tc = tcase_create("sync_step");

    tcase_add_checked_fixture(tc, shard_setup, shard_teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, update_is_the_mean_of_all_workers);
    tcase_add_test(tc, pull_waits_until_the_step_is_done);
    tcase_add_test(tc, late_gradients_are_dropped_and_reported);
    tcase_add_test(tc, push_for_a_step_to_come_is_refused);
    tcase_add_test(tc, second_push_at_a_clock_is_refused);
    tcase_add_test(tc, single_worker_steps_alone);
    tcase_add_test(tc, mean_is_bitwise_the_same_in_any_order_of_arrival);
    tcase_add_test(tc, lapse_shrinks_the_step);
    tcase_add_test(tc, gradient_of_the_lapsed_does_not_stand_for_a_live_one);
    tcase_add_test(tc, lapse_fails_the_step_when_the_job_says_so);
    tcase_add_test(tc, step_closes_with_what_came_when_all_moved_on);
    tcase_add_test(tc, block_that_nobody_pushes_moves_on_with_the_slowest);
    tcase_add_test(tc, schedule_by_clock_goes_by_the_step_that_closes);
    tcase_add_test(tc, worker_that_never_joined_is_waited_for);
    tcase_add_test(tc, gradients_are_sent_again_after_a_crash);
    tcase_add_test(tc, several_ticks_ahead_of_a_push_survive_a_crash);
    tcase_add_test(tc, push_whose_update_survived_a_crash_is_not_taken_twice);
    tcase_add_test(tc, push_waits_on_over_a_lost_connection);
    tcase_add_test(tc, push_that_wants_values_gets_them_after_the_step);
    tcase_add_test(tc, new_incarnation_joins_the_gather_once);
    tcase_add_test(tc, step_is_repeated_when_all_were_lost);
    tcase_add_test(tc, not_finite_gradient_is_refused_before_it_joins);
    tcase_add_test(tc, old_gradients_are_scaled_or_dropped_by_age);
    tcase_add_test(tc, dropped_gradient_counts_as_come);
    tcase_add_test(tc, dropped_gradient_may_be_followed_by_a_fresh_one);
    tcase_add_test(tc, gradients_of_one_variable_have_a_budget);
    tcase_add_test(tc, outcomes_ahead_of_a_push_that_waits_survive_a_crash);
    tcase_add_test(tc, blocks_of_one_push_have_their_own_outcomes);
    tcase_add_test(tc, large_step_closes_over_several_turns);
    tcase_add_test(tc, push_for_the_next_step_closes_a_due_one_first);
    tcase_add_test(tc, crash_with_steps_that_are_due_repeats_them);
    tcase_add_test(tc, full_store_ends_due_steps_with_an_error);
    tcase_add_test(tc, step_closes_in_place_when_the_turn_is_full);
    tcase_add_test(tc, pull_goes_on_when_a_step_ends_without_its_update);
    tcase_add_test(tc, full_sync_is_exact_under_random_crashes);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
