/* Assigns of the client core: what their values wait for, and what becomes of an attempt when a shard loses data. */
#include "client/core/shards/op_assign.h"

#include "tests/unit/client/core/shards/core_harness.h"

#define BEGIN   PSD__ASSIGN_STEP__BEGIN
#define OPEN    PSD__ASSIGN_STEP__OPEN
#define STAGE   PSD__ASSIGN_STEP__STAGE
#define PREPARE PSD__ASSIGN_STEP__PREPARE
#define COMMIT  PSD__ASSIGN_STEP__COMMIT

static struct harness h;
static struct core_var *v; /* of one block */
static float values[8];

static void
op_assign_join(uint32_t shards, enum ps_mode mode)
{
    harness_start(&h, shards, mode);
    for (uint32_t i = 0; i < shards; i++)
        h.core->links[i].assigns = true;
    v = harness_var(&h, "w", 8);
}

static void
op_assign_setup(void)
{
    op_assign_join(1, PS_SYNC);
}

static void
op_assign_setup_two(void)
{
    op_assign_join(2, PS_SYNC);
}

static void
op_assign_teardown(void)
{
    harness_stop(&h);
}

static struct core_op *
op_assign_started(void)
{
    struct core_op *op;
    struct ps_error e;

    ck_assert_msg(core_assign(h.core, 1, &v, (const float *[]){values}, NULL, &op, &e) == PS_OK, "%s", e.text);
    harness_perform(&h);
    return op;
}

/* The next message to the shard is this step. */
static struct wire_msg
op_assign_sent(uint32_t shard, Psd__AssignStep step)
{
    struct wire_msg msg = core_expect(&h, shard, MSG_ASSIGN);

    ck_assert_int_eq(msg.u.assign->step, step);
    return msg;
}

static void
op_assign_answer(uint32_t shard, const struct wire_msg *msg, uint64_t number, uint64_t clock)
{
    Psd__Assigned m = PSD__ASSIGNED__INIT;

    m.number = number;
    m.clock = clock;
    to_client(&h, shard, MSG_ASSIGNED, msg->request, &m.base, NULL, 0);
}

static void
op_assign_goes_on(uint32_t shard, Psd__AssignStep step)
{
    struct wire_msg msg = op_assign_sent(shard, step);

    op_assign_answer(shard, &msg, 1, 0);
}

/* The shard's power was lost, and it is back with what it had at first. */
static void
op_assign_come_back(uint32_t shard)
{
    static uint64_t boot = 900;

    harness_cut(&h, shard);
    harness_pass(&h, 1000);
    core_expect(&h, shard, MSG_HELLO);
    tell_welcome(&h, shard, (struct welcome){.boot = ++boot});
    h.core->links[shard].assigns = true;
}

static void
op_assign_declared_again(uint32_t shard)
{
    Psd__Declared d = PSD__DECLARED__INIT;
    struct wire_msg msg = core_expect(&h, shard, MSG_DECLARE);

    to_client(&h, shard, MSG_DECLARED, msg.request, &d.base, NULL, 0);
}

/* Others may wait for the assign, and the pushes for the others. */
START_TEST(values_do_not_wait_behind_pushes_that_wait_for_other_workers)
{
    struct core_op *tick = start_tick(&h), *push, *op;

    core_expect(&h, 0, MSG_TICK);
    tell_ack(&h, 0, 1, PS_OK);
    end_op(&h, tick, PS_OK);
    push = start_push(&h, v, values);
    core_expect(&h, 0, MSG_PUSH);
    op_assign_come_back(0);
    op_assign_declared_again(0);
    core_expect(&h, 0, MSG_TICK);
    core_expect(&h, 0, MSG_PULL); /* whether the others have come to the push's clock */
    op = op_assign_started();
    op_assign_goes_on(0, BEGIN);
    op_assign_goes_on(0, STAGE);
    op_assign_goes_on(0, COMMIT);
    end_op(&h, op, PS_OK);
    expect_nothing(&h, 0);
    core_op_free(h.core, push);
}
END_TEST

/* So may pulls, as many as may be under way. */
START_TEST(values_do_not_wait_behind_pulls_that_wait_for_other_workers)
{
    static float out[SHARD_LINK_PULLS_MAX + 1][8];
    struct core_op *pull[SHARD_LINK_PULLS_MAX + 1], *op;

    for (int i = 0; i <= SHARD_LINK_PULLS_MAX; i++)
        pull[i] = start_pull(&h, v, out[i]);
    for (int i = 0; i < SHARD_LINK_PULLS_MAX; i++)
        core_expect(&h, 0, MSG_PULL);
    expect_nothing(&h, 0);
    op = op_assign_started();
    op_assign_goes_on(0, BEGIN);
    op_assign_goes_on(0, STAGE);
    op_assign_goes_on(0, COMMIT);
    end_op(&h, op, PS_OK);
    for (int i = 0; i <= SHARD_LINK_PULLS_MAX; i++)
        core_op_free(h.core, pull[i]);
}
END_TEST

/* Before that the shard does not know which variable they are of. */
START_TEST(values_wait_until_their_variables_are_declared_again)
{
    struct core_op *op = op_assign_started();
    struct wire_msg declare;
    Psd__Declared d = PSD__DECLARED__INIT;

    op_assign_goes_on(0, BEGIN);
    op_assign_sent(0, STAGE);
    op_assign_come_back(0);
    declare = core_expect(&h, 0, MSG_DECLARE);
    op_assign_goes_on(0, BEGIN);
    expect_nothing(&h, 0);
    to_client(&h, 0, MSG_DECLARED, declare.request, &d.base, NULL, 0);
    op_assign_goes_on(0, STAGE);
    op_assign_goes_on(0, COMMIT);
    end_op(&h, op, PS_OK);
}
END_TEST

/* Whether the other shard lost its part it says itself: it has it on its disk, or the call ends with an error. A second
 * attempt would be done once more. */
START_TEST(what_shard_0_has_decided_is_not_begun_again_when_a_shard_loses_data)
{
    uint32_t there = v->shard[0].blocks > 0 ? 0 : 1;
    struct core_op *op = op_assign_started();
    struct wire_msg commit;
    uint64_t request;

    op_assign_goes_on(0, BEGIN);
    op_assign_goes_on(1, OPEN);
    op_assign_goes_on(there, STAGE);
    op_assign_goes_on(1, PREPARE);
    commit = op_assign_sent(0, COMMIT);
    request = commit.request;
    op_assign_come_back(1);
    if (there == 1)
        op_assign_declared_again(1);
    if (_i == 0) {
        op_assign_answer(0, &commit, 1, 0);
    } else {
        tell_error(&h, 0, request, PS_ERR_NOT_DURABLE, "done, and the disk has failed since");
    }
    expect_nothing(&h, 0);
    op_assign_goes_on(1, COMMIT);
    end_op(&h, op, PS_OK);
}
END_TEST

/* What it has not decided is given to the shards anew. */
START_TEST(what_is_not_decided_is_begun_again_when_a_shard_loses_data)
{
    uint32_t there = v->shard[0].blocks > 0 ? 0 : 1;
    struct core_op *op = op_assign_started();

    op_assign_goes_on(0, BEGIN);
    op_assign_goes_on(1, OPEN);
    op_assign_goes_on(there, STAGE);
    op_assign_sent(1, PREPARE);
    op_assign_come_back(1);
    if (there == 1)
        op_assign_declared_again(1);
    op_assign_goes_on(0, BEGIN);
    op_assign_goes_on(1, OPEN);
    op_assign_goes_on(there, STAGE);
    op_assign_goes_on(1, PREPARE);
    op_assign_goes_on(0, COMMIT);
    op_assign_goes_on(1, COMMIT);
    end_op(&h, op, PS_OK);
}
END_TEST

/* Values that a shard has done are of a clock that shard 0 may not know any more. */
START_TEST(values_are_of_no_clock_before_that_of_others_on_any_shard)
{
    uint32_t there = v->shard[0].blocks > 0 ? 0 : 1;
    struct core_op *op;
    struct wire_msg msg;

    h.core->config.quorum = h.core->config.workers;
    op = op_assign_started();
    msg = op_assign_sent(0, BEGIN);
    op_assign_answer(0, &msg, 1, 2);
    msg = op_assign_sent(1, OPEN);
    op_assign_answer(1, &msg, 1, 7);
    op_assign_goes_on(there, STAGE);
    msg = op_assign_sent(1, PREPARE);
    ck_assert_uint_eq(msg.u.assign->clock, 7);
    op_assign_answer(1, &msg, 1, 0);
    msg = op_assign_sent(0, COMMIT);
    ck_assert_uint_eq(msg.u.assign->clock, 7);
    op_assign_answer(0, &msg, 1, 0);
    op_assign_goes_on(1, COMMIT);
    ck_assert_uint_eq(core_op_assign_clock(op), 7);
    end_op(&h, op, PS_OK);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("op_assign");
    TCase *one = tcase_create("op_assign"), *two = tcase_create("op_assign_two");

    tcase_add_checked_fixture(one, op_assign_setup, op_assign_teardown);
    tcase_add_test(one, values_do_not_wait_behind_pushes_that_wait_for_other_workers);
    tcase_add_test(one, values_do_not_wait_behind_pulls_that_wait_for_other_workers);
    tcase_add_test(one, values_wait_until_their_variables_are_declared_again);
    suite_add_tcase(s, one);
    tcase_add_checked_fixture(two, op_assign_setup_two, op_assign_teardown);
    tcase_add_loop_test(two, what_shard_0_has_decided_is_not_begun_again_when_a_shard_loses_data, 0, 2);
    tcase_add_test(two, what_is_not_decided_is_begun_again_when_a_shard_loses_data);
    tcase_add_test(two, values_are_of_no_clock_before_that_of_others_on_any_shard);
    suite_add_tcase(s, two);
    return s;
}

CHECK_MAIN(make_suite)
