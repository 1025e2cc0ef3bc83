/* Metrics of a worker: the values in its ticks to shard 0, and its use of a welcome. */
#include "tests/unit/client/core/shards/core_harness.h"

static struct harness h;
static struct core_var *v;

static void
own_metrics_setup(void)
{
    harness_start(&h, 2, PS_ASYNC);
    v = harness_var(&h, "w", 8);
}

static void
own_metrics_teardown(void)
{
    harness_stop(&h);
}

/* One step: its data ends here (0: without a cursor), and it has these metrics. */
static void
own_metrics_step(uint64_t position, size_t n, const double *values)
{
    struct ps_cursor cursor = {0, position};
    struct ps_push_options options = {.flags = PS_PUSH_COPY, .cursor = &cursor};
    const float grad[8] = {1}, *grads[1] = {grad};
    struct core_op *op;
    struct ps_error e;

    if (position > 0) {
        ck_assert_msg(core_push(h.core, 1, &v, grads, NULL, &options, &op, &e) == PS_OK, "%s", e.text);
        harness_perform(&h);
        core_op_free(h.core, op);
    }
    ck_assert_int_eq(core_set_metrics(h.core, n, values, &e), PS_OK);
    core_op_free(h.core, start_tick(&h));
}

/* The next tick to a shard, which has its variables declared on the way; its pushes are passed over. */
static const Psd__Tick *
next_tick(uint32_t to)
{
    Psd__Declared d = PSD__DECLARED__INIT;
    struct wire_msg msg;

    while (to_shard(&h, to, &msg)) {
        if (msg.type == MSG_TICK)
            return msg.u.tick;
        if (msg.type == MSG_DECLARE)
            to_client(&h, to, MSG_DECLARED, msg.request, &d.base, NULL, 0);
    }
    ck_abort_msg("no tick comes");
}

/* The next tick to shard 0 has these; n 0: none. */
static void
check_told(size_t n, const double *want, uint64_t position)
{
    const Psd__Metrics *m = next_tick(0)->metrics;

    ck_assert_uint_eq(m != NULL ? m->n_value : 0, n);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(m->value[i] == want[i], "metric %zu is %g, not %g", i, m->value[i], want[i]);
    ck_assert_uint_eq(m != NULL && m->at != NULL ? m->at->position : 0, position);
}

START_TEST(ticks_tell_shard_0_the_sums_of_all_steps)
{
    own_metrics_step(4, 2, (double[]){1, 0.5});
    check_told(2, (double[]){1, 0.5}, 4);
    ck_assert_ptr_null(next_tick(1)->metrics);
    own_metrics_step(8, 1, (double[]){2}); /* fewer add nothing to the others */
    check_told(2, (double[]){3, 0.5}, 8);
    core_op_free(h.core, start_tick(&h)); /* a step without */
    check_told(2, (double[]){3, 0.5}, 8);
    own_metrics_step(0, 3, (double[]){1, 1, 1}); /* more, and no cursor */
    check_told(3, (double[]){4, 1.5, 1}, 8);
}
END_TEST

START_TEST(what_is_set_again_replaces_what_was_set)
{
    ck_assert_int_eq(core_set_metrics(h.core, 2, (double[]){7, 7}, NULL), PS_OK);
    own_metrics_step(1, 1, (double[]){2});
    check_told(1, (double[]){2}, 1);
    ck_assert_int_eq(core_set_metrics(h.core, 1, (double[]){9}, NULL), PS_OK);
    own_metrics_step(2, 0, NULL);
    check_told(1, (double[]){2}, 1);
}
END_TEST

START_TEST(more_than_a_tick_carries_are_invalid)
{
    double many[PS_METRICS_MAX + 1] = {0};
    struct ps_error e;

    ck_assert_int_eq(core_set_metrics(h.core, PS_METRICS_MAX, many, &e), PS_OK);
    ck_assert_int_eq(core_set_metrics(h.core, PS_METRICS_MAX + 1, many, &e), PS_ERR_INVALID);
    ck_assert_str_eq(e.text, "33 metrics; at most 32 can be set");
}
END_TEST

/* With each hello, for a shard that has lost them. */
START_TEST(shard_0_is_told_what_they_are_called)
{
    for (uint32_t i = 0; i < 2; i++) {
        const Psd__Hello *hello;

        harness_cut(&h, i);
        harness_pass(&h, 10000);
        hello = core_expect(&h, i, MSG_HELLO).u.hello;
        ck_assert(hello->resume);
        ck_assert_uint_eq(hello->n_metric_names, i == 0 ? 2 : 0);
        if (i == 0)
            ck_assert_str_eq(hello->metric_names[1], "loss");
    }
}
END_TEST

/* Both shards are asked by this incarnation. */
static void
await_hellos(uint64_t incarnation)
{
    for (uint32_t i = 0; i < 2; i++)
        while (core_expect(&h, i, MSG_HELLO).u.hello->incarnation != incarnation)
            ;
}

static void
join_again(uint64_t incarnation, struct welcome first, struct welcome second)
{
    core_rejoin(h.core, incarnation, h.now);
    harness_perform(&h);
    await_hellos(incarnation);
    tell_welcome(&h, 0, first);
    tell_welcome(&h, 1, second);
    ck_assert(core_joined(h.core));
}

/* The second shard does not know that the step to 8 is over, so it is done again. */
START_TEST(a_step_that_is_in_them_already_adds_nothing)
{
    join_again(78, (struct welcome){.cursor = {0, 8}, .metrics = {5, 2}, .metrics_at = 8, .clock = 2},
               (struct welcome){.cursor = {0, 4}, .clock = 1});
    ck_assert_uint_eq(core_cursor(h.core).position, 4);
    own_metrics_step(8, 2, (double[]){1, 1});
    check_told(2, (double[]){5, 2}, 8);
    own_metrics_step(12, 2, (double[]){1, 1});
    check_told(2, (double[]){6, 3}, 12);
}
END_TEST

START_TEST(who_joins_again_has_what_the_shard_has_settled)
{
    own_metrics_step(4, 2, (double[]){1, 1});                                     /* a tick that does not arrive */
    ck_assert_int_eq(core_set_metrics(h.core, 2, (double[]){7, 7}, NULL), PS_OK); /* a step that is not over */
    join_again(78, (struct welcome){.cursor = {0, 2}, .metrics = {10, 20}, .metrics_at = 2},
               (struct welcome){.cursor = {0, 2}});
    core_op_free(h.core, start_tick(&h));
    check_told(2, (double[]){10, 20}, 2);
    own_metrics_step(4, 2, (double[]){1, 1});
    check_told(2, (double[]){11, 21}, 4);
}
END_TEST

START_TEST(what_is_of_the_round_before_is_not_taken_over)
{
    join_again(78, (struct welcome){.cursor = {0, 8}, .metrics = {5, 2}, .metrics_at = 8},
               (struct welcome){.round = 1});
    check_told(0, NULL, 0); /* that the round has begun */
    own_metrics_step(4, 2, (double[]){1, 1});
    check_told(2, (double[]){1, 1}, 4);
}
END_TEST

/* Everything is acknowledged; then shard 0 comes back older, and no step follows. */
START_TEST(a_shard_that_lost_them_is_told_at_once)
{
    const Psd__Tick *t;

    own_metrics_step(4, 2, (double[]){1, 1});
    own_metrics_step(8, 2, (double[]){1, 1});
    harness_run(&h);
    harness_cut(&h, 0);
    harness_pass(&h, 2000);
    (void)core_expect(&h, 0, MSG_HELLO);
    /* Its clock is not behind. */
    tell_welcome(&h, 0, (struct welcome){.boot = 500, .clock = 2, .metrics = {1, 1}, .metrics_at = 4});
    t = next_tick(0);
    ck_assert(t->clock == 2 && t->metrics->n_value == 2);
    ck_assert(t->metrics->value[0] == 2 && t->metrics->at->position == 8);
}
END_TEST

/* The same while this worker joins again: it knows more than the shard does. */
START_TEST(a_worker_that_joins_a_shard_that_lost_them_keeps_its_own)
{
    own_metrics_step(4, 2, (double[]){1, 1});
    own_metrics_step(8, 2, (double[]){1, 1});
    harness_run(&h);
    join_again(78, (struct welcome){.boot = 500, .clock = 2, .cursor = {0, 4}, .metrics = {1, 1}, .metrics_at = 4},
               (struct welcome){.clock = 2, .cursor = {0, 8}});
    own_metrics_step(8, 2, (double[]){1, 1}); /* again, where shard 0 goes on */
    check_told(2, (double[]){2, 2}, 8);
}
END_TEST

START_TEST(of_the_round_before_it_keeps_nothing_either)
{
    own_metrics_step(4, 2, (double[]){1, 1});
    own_metrics_step(8, 2, (double[]){1, 1});
    harness_run(&h);
    join_again(78, (struct welcome){.boot = 500, .round = 1}, (struct welcome){.round = 1});
    own_metrics_step(4, 2, (double[]){1, 1});
    check_told(2, (double[]){1, 1}, 4);
}
END_TEST

/* Under its index another process went on to 12; the shard lost less than it still has of that. */
START_TEST(what_another_process_has_done_since_is_more_than_its_own)
{
    own_metrics_step(4, 2, (double[]){1, 1});
    own_metrics_step(8, 2, (double[]){1, 1});
    harness_run(&h);
    join_again(78, (struct welcome){.boot = 500, .clock = 3, .cursor = {0, 12}, .metrics = {3, 3}, .metrics_at = 12},
               (struct welcome){.clock = 3, .cursor = {0, 12}});
    own_metrics_step(16, 2, (double[]){1, 1});
    check_told(2, (double[]){4, 4}, 16);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("tally_told");
    TCase *tc = tcase_create("tally_told");

    tcase_add_checked_fixture(tc, own_metrics_setup, own_metrics_teardown);
    tcase_add_test(tc, ticks_tell_shard_0_the_sums_of_all_steps);
    tcase_add_test(tc, what_is_set_again_replaces_what_was_set);
    tcase_add_test(tc, more_than_a_tick_carries_are_invalid);
    tcase_add_test(tc, shard_0_is_told_what_they_are_called);
    tcase_add_test(tc, a_step_that_is_in_them_already_adds_nothing);
    tcase_add_test(tc, who_joins_again_has_what_the_shard_has_settled);
    tcase_add_test(tc, what_is_of_the_round_before_is_not_taken_over);
    tcase_add_test(tc, a_shard_that_lost_them_is_told_at_once);
    tcase_add_test(tc, a_worker_that_joins_a_shard_that_lost_them_keeps_its_own);
    tcase_add_test(tc, of_the_round_before_it_keeps_nothing_either);
    tcase_add_test(tc, what_another_process_has_done_since_is_more_than_its_own);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
