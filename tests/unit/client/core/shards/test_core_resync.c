/* The client core and a shard that came back with older data: which of its pushes survived, how many are gone, which
 * are sent again and in which order. In fixed cases, and with random schedules against a shard that saves, loses its
 * power and keeps what was durable. */
#include "tests/unit/client/core/shards/core_harness.h"

static struct harness h;
static struct core_var *v;
static float grad[8] = {1};
static uint64_t life = 900; /* of the shard's data: its boot */

static void
core_resync_start(enum ps_mode mode)
{
    harness_start(&h, 1, mode);
    v = harness_var(&h, "w", 8);
}

static void
core_resync_setup(void)
{
    core_resync_start(PS_ASYNC);
}

static void
core_resync_teardown(void)
{
    harness_stop(&h);
}

/* ---- By hand ---- */

static struct core_op *
start_durable(float *out)
{
    struct ps_push_options options = {.flags = PS_PUSH_DURABLE};
    const float *grads[1] = {grad};
    struct core_op *op;
    struct ps_error e;

    ck_assert_int_eq(core_push(h.core, 1, &v, grads, out != NULL ? &out : NULL, &options, &op, &e), PS_OK);
    harness_perform(&h);
    return op;
}

static void
tick_done(uint64_t seq)
{
    struct core_op *op = start_tick(&h);

    tell_ack(&h, 0, seq, PS_OK);
    end_op(&h, op, PS_OK);
}

/* The shard's power was lost, and it is back; all variables are declared again. */
static void
come_back(struct welcome with)
{
    Psd__Declared d = PSD__DECLARED__INIT;
    struct wire_msg m;

    with.survived_boot = life > 900 ? life : 100; /* the harness's first */
    with.boot = ++life;
    harness_cut(&h, 0);
    harness_pass(&h, 1000);
    core_expect(&h, 0, MSG_HELLO);
    tell_welcome(&h, 0, with);
    m = core_expect(&h, 0, MSG_DECLARE);
    to_client(&h, 0, MSG_DECLARED, m.request, &d.base, NULL, 0);
}

/* Its store may have had no room, or its disk an error: that passes. */
START_TEST(a_variable_that_the_shard_cannot_take_again_yet_is_declared_until_it_can)
{
    static const enum ps_err troubles[] = {PS_ERR_IO, PS_ERR_FULL, PS_ERR_NOMEM};
    struct core_op *op = start_pull(&h, v, (float[8]){0});
    Psd__Declared d = PSD__DECLARED__INIT;
    enum ps_err trouble = troubles[_i];
    uint64_t request, events;
    struct ps_error e;

    core_expect(&h, 0, MSG_PULL);
    harness_cut(&h, 0);
    harness_pass(&h, 1000);
    core_expect(&h, 0, MSG_HELLO);
    tell_welcome(&h, 0, (struct welcome){.boot = ++life});
    for (int i = 0; i < 3; i++) {
        request = core_expect(&h, 0, MSG_DECLARE).request;
        events = h.events;
        tell_error(&h, 0, request, trouble, "could make 0 of 1 blocks");
        ck_assert_int_eq(core_fatal(h.core, NULL), PS_OK);
        ck_assert_uint_eq(h.events - events, i == 0); /* once */
        ck_assert_int_eq(h.last_event.code, trouble);
        ck_assert_int_eq(core_op_waiting(h.core, op, 7, &e), PS_ERR_TIMEOUT);
        ck_assert_ptr_nonnull(strstr(e.text, "could make 0 of 1 blocks"));
        harness_pass(&h, SHARD_LINK_ATTACH_MS - 1);
        expect_nothing(&h, 0);
        harness_pass(&h, 1);
    }
    to_client(&h, 0, MSG_DECLARED, core_expect(&h, 0, MSG_DECLARE).request, &d.base, NULL, 0);
    core_expect(&h, 0, MSG_PULL);
    (void)core_op_waiting(h.core, op, 7, &e);
    ck_assert_ptr_null(strstr(e.text, "could make"));
    cancel_op(&h, op, PS_ERR_CANCELLED);
}
END_TEST

START_TEST(a_variable_that_is_another_one_there_now_ends_the_worker)
{
    struct core_op *op = start_pull(&h, v, (float[8]){0});

    core_expect(&h, 0, MSG_PULL);
    harness_cut(&h, 0);
    harness_pass(&h, 1000);
    core_expect(&h, 0, MSG_HELLO);
    tell_welcome(&h, 0, (struct welcome){.boot = ++life});
    tell_error(&h, 0, core_expect(&h, 0, MSG_DECLARE).request, PS_ERR_MISMATCH, "it has another shape");
    ck_assert_int_eq(core_fatal(h.core, NULL), PS_ERR_MISMATCH);
    end_op(&h, op, PS_ERR_MISMATCH);
}
END_TEST

START_TEST(durable_pushes_that_survived_are_done_and_the_rest_is_numbered_anew)
{
    struct core_op *op[6];

    op[0] = start_push(&h, v, grad);
    tell_ack(&h, 0, 1, PS_OK);
    op[1] = start_push(&h, v, grad); /* 2: lost */
    op[2] = start_durable(NULL);     /* 3: survived */
    op[3] = start_push(&h, v, grad); /* 4: acknowledged, lost */
    op[4] = start_durable(NULL);     /* 5: survived, and acknowledged */
    op[5] = start_durable(NULL);     /* 6: not yet on disk */
    tell_ack(&h, 0, 4, PS_OK);
    tell_ack(&h, 0, 5, PS_OK);
    come_back((struct welcome){.last_seq = 1, .pushes = 3, .survived_from = 2, .survived = 0xa});
    ck_assert_str_eq(h.rolled_back.text, "restarted with an older state: 1 acknowledged push of this worker is gone");
    ck_assert_uint_eq(core_rolled_back(h.core, 0), 1);
    end_op(&h, op[2], PS_OK);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->seq, 2);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->seq, 3);
    expect_nothing(&h, 0);
    tell_ack(&h, 0, 2, PS_OK);
    tell_ack(&h, 0, 3, PS_OK);
    ck_assert(core_quiet(h.core));
    end_op(&h, op[0], PS_OK);
    end_op(&h, op[1], PS_OK);
    end_op(&h, op[3], PS_OK);
    end_op(&h, op[4], PS_OK);
    end_op(&h, op[5], PS_OK);

    /* The second time all that it acknowledged is there: 1, 3 and 5 of before, 2 and 3 of now. */
    come_back((struct welcome){.last_seq = 3, .pushes = 5});
    ck_assert_uint_eq(core_rolled_back(h.core, 0), 1);
    come_back((struct welcome){.last_seq = 1, .pushes = 1});
    ck_assert_uint_eq(core_rolled_back(h.core, 0), 5);
}
END_TEST

START_TEST(a_survivor_that_wants_values_pulls_them)
{
    float out[8] = {0}, values[8] = {5, 6, 7};
    struct core_op *op = start_durable(out);
    Psd__Data d = PSD__DATA__INIT;
    uint64_t version = 9;
    struct wire_msg m;

    core_expect(&h, 0, MSG_PUSH);
    come_back((struct welcome){.pushes = 1, .survived_from = 1, .survived = 1});
    ck_assert_str_eq(h.rolled_back.text, "restarted with an older state; nothing that it had acknowledged to this "
                                         "worker is missing");
    ck_assert(core_quiet(h.core));
    m = core_expect(&h, 0, MSG_PULL);
    ck_assert(m.u.pull->now);
    d.n_version = 1;
    d.version = &version;
    to_client(&h, 0, MSG_DATA, m.request, &d.base, values, sizeof values);
    end_op(&h, op, PS_OK);
    ck_assert_float_eq(out[2], 7);
}
END_TEST

/* One of its blocks was dropped: not all of it is there, and it is not sent again. */
START_TEST(a_survivor_that_was_dropped_in_part_says_so)
{
    struct core_op *op[4];
    float out[8] = {0}, values[8] = {5, 6, 7};
    Psd__Data d = PSD__DATA__INIT;
    uint64_t version = 9;
    struct wire_msg m;

    for (int i = 0; i < 4; i++) {
        op[i] = start_durable(i == 3 ? out : NULL);
        core_expect(&h, 0, MSG_PUSH);
    }
    come_back((struct welcome){.pushes = 4,
                               .survived_from = 1,
                               .survived = 0xf,
                               .odd_seq = _i == 0 ? 2 : 4,
                               .odd_code = PS_ERR_STALE,
                               .odd_lost = 1});
    ck_assert_uint_eq(core_rolled_back(h.core, 0), 0);
    end_op(&h, op[0], PS_ERR_UNKNOWN_OUTCOME); /* the shard had too many to remember */
    end_op(&h, op[1], _i == 0 ? PS_ERR_STALE : PS_OK);
    end_op(&h, op[2], PS_OK);
    ck_assert_uint_eq(core_stats(h.core)->dropped_stale, 1);
    m = core_expect(&h, 0, MSG_PULL);
    d.n_version = 1;
    d.version = &version;
    to_client(&h, 0, MSG_DATA, m.request, &d.base, values, sizeof values);
    end_op(&h, op[3], _i == 0 ? PS_OK : PS_ERR_STALE);
    ck_assert_float_eq(out[2], 7);
    expect_nothing(&h, 0);
}
END_TEST

START_TEST(a_survivor_that_is_given_up_while_its_values_come_is_not_said_to_be_undone)
{
    float out[8] = {0};
    struct core_op *op = start_durable(out);

    core_expect(&h, 0, MSG_PUSH);
    come_back((struct welcome){.pushes = 1, .survived_from = 1, .survived = 1});
    cancel_op(&h, op, PS_ERR_UNKNOWN_OUTCOME);
    core_expect(&h, 0, MSG_PULL);
    core_expect(&h, 0, MSG_CANCEL);
    expect_nothing(&h, 0);
}
END_TEST

/* The save holds it, so the shard remembers its outcome. */
START_TEST(what_was_saved_and_not_answered_is_asked_by_its_number)
{
    struct core_op *a = start_push(&h, v, grad), *b = start_push(&h, v, grad), *c = start_push(&h, v, grad);

    come_back((struct welcome){.last_seq = 2, .pushes = 2});
    ck_assert_uint_eq(core_rolled_back(h.core, 0), 0);
    for (uint64_t seq = 1; seq <= 3; seq++)
        ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->seq, seq);
    tell_ack(&h, 0, 1, PS_OK);
    tell_ack(&h, 0, 2, PS_ERR_NONFINITE);
    tell_ack(&h, 0, 3, PS_OK);
    end_op(&h, a, PS_OK);
    end_op(&h, b, PS_ERR_NONFINITE);
    end_op(&h, c, PS_OK);
    come_back((struct welcome){.last_seq = 3, .pushes = 3});
    ck_assert_uint_eq(core_rolled_back(h.core, 0), 0);
}
END_TEST

/* Acknowledged ahead of a push that waited: without a tick of the core's own it would never come again. */
START_TEST(a_tick_that_overtook_a_push_is_made_up_for)
{
    struct core_op *push;

    harness_stop(&h);
    core_resync_start(PS_SYNC);
    push = start_push(&h, v, grad);
    tick_done(2);
    come_back((struct welcome){.last_seq = 0});
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->seq, 1);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_TICK).u.tick->clock, 1);
    expect_nothing(&h, 0);
    core_op_free(h.core, push);
    harness_perform(&h);
}
END_TEST

/* Every push at the clock at which it was made: a shard accepts no other. */
START_TEST(ticks_that_are_gone_come_again_where_they_were)
{
    struct core_op *a, *b;
    struct wire_msg m;

    harness_stop(&h);
    core_resync_start(_i == 0 ? PS_ASYNC : PS_SSP);
    tick_done(1);
    tick_done(2);
    a = start_push(&h, v, grad); /* 3, at 2 */
    tick_done(4);
    b = start_push(&h, v, grad); /* 5, at 3 */
    come_back((struct welcome){.last_seq = 1, .clock = 1});
    m = core_expect(&h, 0, MSG_TICK);
    ck_assert_uint_eq(m.u.tick->seq, 2);
    ck_assert_uint_eq(m.u.tick->clock, 2);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->clock, 2);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_TICK).u.tick->clock, 3);
    m = core_expect(&h, 0, MSG_PUSH);
    ck_assert_uint_eq(m.u.push->clock, 3);
    ck_assert_uint_eq(m.u.push->seq, 5);
    core_op_free(h.core, a);
    core_op_free(h.core, b);
    harness_perform(&h);
}
END_TEST

/* The session knows of the round before, and of its data: the same numbers mean others now. */
START_TEST(a_session_that_went_back_behind_its_round_hears_of_it_first)
{
    struct core_op *a;
    struct wire_msg m;

    core_rejoin(h.core, 78, h.now);
    harness_perform(&h);
    while (core_expect(&h, 0, MSG_HELLO).u.hello->incarnation != 78)
        ;
    tell_welcome(&h, 0, (struct welcome){.clock = 5, .round = 1});
    a = start_push(&h, v, grad); /* 1 */
    core_expect(&h, 0, MSG_PUSH);
    if (_i == 0)
        tell_ack(&h, 0, 1, PS_OK);
    else
        tick_done(2);
    come_back((struct welcome){.clock = 5});
    m = core_expect(&h, 0, MSG_TICK);
    ck_assert_uint_eq(m.u.tick->round, 1);
    ck_assert_uint_eq(m.u.tick->seq, 1);
    ck_assert_uint_eq(m.u.tick->clock, 5);
    if (_i == 1) {
        ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->seq, 2);
        ck_assert_uint_eq(core_expect(&h, 0, MSG_TICK).u.tick->clock, 6);
    }
    expect_nothing(&h, 0);
    core_op_free(h.core, a);
    harness_perform(&h);
}
END_TEST

/* A push that survived was made past what is sent again: its clock is the session's. */
START_TEST(what_a_survivor_is_past_goes_at_its_clock)
{
    struct core_op *lost, *first, *second, *there;

    lost = start_push(&h, v, grad);
    first = start_tick(&h);
    second = start_tick(&h);
    there = start_durable(NULL);
    come_back((struct welcome){.pushes = 1, .clock = 2, .survived_from = 1, .survived = 0x8});
    end_op(&h, there, PS_OK);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->clock, 2);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_TICK).u.tick->clock, 1);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_TICK).u.tick->clock, 2);
    tell_ack(&h, 0, 1, PS_OK);
    tell_ack(&h, 0, 2, PS_ERR_CLOCK);
    tell_ack(&h, 0, 3, PS_OK);
    end_op(&h, lost, PS_OK);
    end_op(&h, first, PS_OK);
    end_op(&h, second, PS_OK);
}
END_TEST

static void
answer_gate(const struct wire_msg *gate, uint64_t slowest)
{
    Psd__Data d = PSD__DATA__INIT;
    uint64_t version = 1;

    d.n_version = 1;
    d.version = &version;
    d.clock = slowest;
    to_client(&h, 0, MSG_DATA, gate->request, &d.base, NULL, 0);
}

/* In sync the blocks are behind the worker's clock until the others have sent theirs. */
START_TEST(sync_pushes_wait_until_their_blocks_are_there)
{
    struct core_op *a, *b, *tick;
    struct wire_msg gate;
    struct ps_error why;

    harness_stop(&h);
    core_resync_start(PS_SYNC);
    for (uint64_t seq = 1; seq <= 5; seq++)
        tick_done(seq);
    a = start_push(&h, v, grad);
    come_back((struct welcome){.last_seq = 2, .clock = 2, .slowest = 2});
    ck_assert_uint_eq(core_expect(&h, 0, MSG_TICK).u.tick->clock, 5);
    gate = core_expect(&h, 0, MSG_PULL);
    ck_assert_uint_eq(gate.u.pull->clock, 5);
    ck_assert_uint_eq(gate.u.pull->newer_than[0], UINT64_MAX);
    ck_assert_int_eq(core_op_waiting(h.core, a, 5, &why), PS_ERR_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(why.text, "came back with older data and waits for the clocks of the other workers"));
    b = start_push(&h, v, grad); /* computed from weights of before, too */
    tick = start_tick(&h);
    expect_nothing(&h, 0);
    answer_gate(&gate, 0);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->clock, 5);
    gate = core_expect(&h, 0, MSG_PULL);
    answer_gate(&gate, 5); /* now the slowest worker is known to be there: no more requests are needed */
    core_expect(&h, 0, MSG_PUSH);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_TICK).u.tick->clock, 6);
    core_op_free(h.core, a);
    core_op_free(h.core, b);
    core_op_free(h.core, tick);
    a = start_push(&h, v, grad); /* of the next step, whose pull waits by itself */
    core_expect(&h, 0, MSG_PUSH);
    core_op_free(h.core, a);
    harness_perform(&h);
}
END_TEST

START_TEST(a_gated_push_may_be_given_up_or_lose_its_connection)
{
    struct core_op *a, *b;
    struct wire_msg gate;

    harness_stop(&h);
    core_resync_start(PS_SYNC);
    tick_done(1);
    a = start_push(&h, v, grad);
    b = start_push(&h, v, grad);
    come_back((struct welcome){.slowest = 0});
    core_expect(&h, 0, MSG_TICK);
    gate = core_expect(&h, 0, MSG_PULL);
    cancel_op(&h, a, PS_ERR_UNKNOWN_OUTCOME);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_SKIP).u.skip->seq, 2);
    answer_gate(&gate, 0);
    gate = core_expect(&h, 0, MSG_PULL);
    harness_cut(&h, 0); /* the same life of the shard: what it was asked must be asked again */
    harness_pass(&h, 1000);
    core_expect(&h, 0, MSG_HELLO);
    tell_welcome(&h, 0, (struct welcome){.boot = life});
    core_expect(&h, 0, MSG_TICK);
    core_expect(&h, 0, MSG_SKIP);
    gate = core_expect(&h, 0, MSG_PULL);
    tell_error(&h, 0, gate.request, PS_ERR_STEP_FAILED, "worker 1 was lost"); /* the others have not advanced */
    gate = core_expect(&h, 0, MSG_PULL);
    tell_error(&h, 0, gate.request, PS_ERR_NOT_FOUND, "no such variable");
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->seq, 3); /* the push will be answered itself */
    core_op_free(h.core, b);
    harness_perform(&h);
}
END_TEST

/* Of a step that is under way an answered push is gone, and will not be sent again: the others, which may wait in
 * another push of the step that this worker waits in, are told that nothing more comes. */
START_TEST(a_step_that_went_back_does_not_wait_for_what_was_answered)
{
    struct core_op *a, *b, *tick;
    struct wire_msg gate;

    harness_stop(&h);
    core_resync_start(PS_SYNC);
    tick_done(1);
    a = start_push(&h, v, grad);
    b = start_push(&h, v, grad);
    tell_ack(&h, 0, 2, PS_OK);
    end_op(&h, a, PS_OK);
    come_back((struct welcome){.last_seq = 1, .clock = 1, .slowest = 1});
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->clock, 1);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_TICK).u.tick->clock, 2);
    tell_ack(&h, 0, 2, PS_OK);
    tell_ack(&h, 0, 3, PS_OK);
    end_op(&h, b, PS_OK);
    come_back((struct welcome){.last_seq = 1, .clock = 1, .slowest = 1}); /* and the same again */
    ck_assert_uint_eq(core_expect(&h, 0, MSG_TICK).u.tick->clock, 2);
    tell_ack(&h, 0, 2, PS_OK);
    tick = start_tick(&h); /* the worker's own */
    ck_assert_uint_eq(core_expect(&h, 0, MSG_TICK).u.tick->clock, 2);
    tell_ack(&h, 0, 3, PS_OK);
    end_op(&h, tick, PS_OK);
    come_back((struct welcome){.last_seq = 0, .clock = 1, .slowest = 1}); /* nothing of this step was answered */
    a = start_push(&h, v, grad);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_TICK).u.tick->clock, 2);
    gate = core_expect(&h, 0, MSG_PULL);
    answer_gate(&gate, 2);
    core_expect(&h, 0, MSG_PUSH);
    expect_nothing(&h, 0);
    core_op_free(h.core, a);
    harness_perform(&h);
}
END_TEST

START_TEST(all_is_gone_with_the_session)
{
    struct core_op *op[3];

    for (int i = 0; i < 3; i++)
        op[i] = start_push(&h, v, grad);
    tell_ack(&h, 0, 1, PS_OK);
    tell_ack(&h, 0, 3, PS_ERR_NONFINITE); /* counts: the shard counts it */
    harness_cut(&h, 0);
    harness_pass(&h, 1000);
    core_expect(&h, 0, MSG_HELLO);
    tell_error(&h, 0, REQUEST_ID_HELLO, PS_ERR_NOT_FOUND, "no session");
    harness_pass(&h, 1000);
    ck_assert(!core_expect(&h, 0, MSG_HELLO).u.hello->resume);
    tell_welcome(&h, 0, (struct welcome){.boot = 999});
    ck_assert_uint_eq(core_rolled_back(h.core, 0), 2);
    ck_assert_uint_eq(h.events, 3); /* lost, rolled back, there again */
    for (int i = 0; i < 3; i++)
        core_op_free(h.core, op[i]);
    harness_perform(&h);
}
END_TEST

static void
lose_session(struct welcome with)
{
    Psd__Declared d = PSD__DECLARED__INIT;

    harness_cut(&h, 0);
    harness_pass(&h, 1000);
    core_expect(&h, 0, MSG_HELLO);
    tell_error(&h, 0, REQUEST_ID_HELLO, PS_ERR_NOT_FOUND, "no session");
    harness_pass(&h, 1000);
    core_expect(&h, 0, MSG_HELLO);
    with.boot = ++life;
    tell_welcome(&h, 0, with);
    to_client(&h, 0, MSG_DECLARED, core_expect(&h, 0, MSG_DECLARE).request, &d.base, NULL, 0);
}

/* The first time the others were further, and the session was made there. The second time it is at the clock of an old
 * checkpoint: this worker comes back to where it was itself, and goes on. */
START_TEST(a_session_that_was_ahead_of_its_worker_is_not_where_the_next_one_goes)
{
    struct core_op *op;

    tick_done(1);
    tick_done(2);
    core_expect(&h, 0, MSG_TICK);
    core_expect(&h, 0, MSG_TICK);
    lose_session((struct welcome){.clock = 9});
    expect_nothing(&h, 0);
    lose_session((struct welcome){.clock = 1});
    ck_assert_uint_eq(core_expect(&h, 0, MSG_TICK).u.tick->clock, 2);
    tell_ack(&h, 0, 1, PS_OK);
    op = start_tick(&h);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_TICK).u.tick->clock, 3);
    tell_ack(&h, 0, 2, PS_OK);
    end_op(&h, op, PS_OK);
}
END_TEST

/* The same where the one that was ahead lacked this worker's sums: the tick that reports them is at the session's
 * clock, and is answered before all is lost again, or is not. */
START_TEST(a_tick_that_told_of_metrics_is_not_where_the_worker_was)
{
    struct core_op *op;

    ck_assert_int_eq(core_set_metrics(h.core, 1, (double[]){7}, NULL), PS_OK);
    tick_done(1);
    core_expect(&h, 0, MSG_TICK);
    lose_session((struct welcome){.clock = 9});
    ck_assert_uint_eq(core_expect(&h, 0, MSG_TICK).u.tick->clock, 9);
    if (_i == 0)
        tell_ack(&h, 0, 1, PS_OK);
    lose_session((struct welcome){0});
    ck_assert_uint_eq(core_expect(&h, 0, MSG_TICK).u.tick->clock, 1);
    tell_ack(&h, 0, 1, PS_OK);
    op = start_tick(&h);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_TICK).u.tick->clock, 2);
    tell_ack(&h, 0, 2, PS_OK);
    end_op(&h, op, PS_OK);
}
END_TEST

/* This worker's pushes in the checkpoint are not known, so no loss is reported. */
START_TEST(a_restore_is_told_as_one)
{
    struct core_op *op[2];

    op[0] = start_push(&h, v, grad);
    tell_ack(&h, 0, 1, PS_OK);
    lose_session((struct welcome){.restored = "clock-40", .restored_boot = 999});
    ck_assert_int_eq(h.rolled_back.code, PS_ERR_RESTORED);
    ck_assert_str_eq(h.rolled_back.text, "was restored from checkpoint 'clock-40': what this worker had pushed since "
                                         "that was made is gone");
    ck_assert_uint_eq(core_rolled_back(h.core, 0), 0);
    op[1] = start_push(&h, v, grad);
    tell_ack(&h, 0, 1, PS_OK);
    lose_session((struct welcome){.restored = "clock-40", .restored_boot = 999}); /* and then a loss */
    ck_assert_int_eq(h.rolled_back.code, PS_ERR_ROLLED_BACK);
    ck_assert_uint_eq(core_rolled_back(h.core, 0), 1);
    /* Its power was lost before this worker was notified of the restore. */
    lose_session((struct welcome){.restored = "clock-7", .restored_boot = 1001});
    ck_assert_int_eq(h.rolled_back.code, PS_ERR_RESTORED);
    ck_assert_uint_eq(core_rolled_back(h.core, 0), 1);
    end_op(&h, op[0], PS_OK);
    end_op(&h, op[1], PS_OK);
}
END_TEST

/* The same when the worker has gone on meanwhile: its later pushes come behind its last known place. */
START_TEST(what_was_made_ahead_of_a_session_keeps_its_clock)
{
    Psd__Declared d = PSD__DECLARED__INIT;
    struct core_op *push, *tick[2];

    lose_session((struct welcome){.clock = 9});
    harness_cut(&h, 0);
    tick[0] = start_tick(&h);
    push = start_push(&h, v, grad); /* at clock 1 */
    tick[1] = start_tick(&h);
    harness_pass(&h, 1000);
    core_expect(&h, 0, MSG_HELLO);
    tell_error(&h, 0, REQUEST_ID_HELLO, PS_ERR_NOT_FOUND, "no session");
    harness_pass(&h, 1000);
    core_expect(&h, 0, MSG_HELLO);
    tell_welcome(&h, 0, (struct welcome){.boot = ++life});
    to_client(&h, 0, MSG_DECLARED, core_expect(&h, 0, MSG_DECLARE).request, &d.base, NULL, 0);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_TICK).u.tick->clock, 1);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->clock, 1);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_TICK).u.tick->clock, 2);
    expect_nothing(&h, 0);
    for (uint64_t seq = 1; seq <= 3; seq++)
        tell_ack(&h, 0, seq, PS_OK);
    end_op(&h, push, PS_OK);
    end_op(&h, tick[0], PS_OK);
    end_op(&h, tick[1], PS_OK);
}
END_TEST

START_TEST(an_outcome_of_what_was_not_sent_is_final)
{
    harness_cut(&h, 0);
    harness_pass(&h, 1000);
    tell_welcome(&h, 0, (struct welcome){.last_seq = 1, .boot = _i});
    ck_assert_int_eq(core_fatal(h.core, NULL), PS_ERR_PROTOCOL);
}
END_TEST

/* ---- Random schedules ---- */

#define PUSHES   300
#define ELEMENTS 1000 /* one block: a push is one frame */

/* Push k adds 1 to element k: the shard's values show which pushes it has. */
static struct {
    struct core_var *var;
    struct core_op *op[PUSHES]; /* NULL: over */
    float *gradient[PUSHES], *out[PUSHES];
    bool fine[PUSHES];
    uint64_t disk_of[PUSHES]; /* the disk that it was started with */
    uint64_t started, given_up, lives, disks;
} run;

/* The shard's state on disk: the last save, and which pushes were durable since. */
static struct {
    bool saved;
    uint64_t next_seq, clock, pushes, version;
    float value[ELEMENTS];
    uint64_t seq[PUSHES], element[PUSHES];
    size_t durable;
    size_t held;   /* those before it are in the saved values */
    size_t named;  /* those before it are no longer known by their numbers: the session has taken others since */
    bool names;    /* the session knows survivors by their numbers */
    uint64_t boot; /* that these are of */
} disk;

/* The shard's log record when a session takes its first sequence after a restart. */
static void
disk_note_names(void)
{
    if (!disk.names || h.model[0].survived_len > 0)
        return;
    disk.named = disk.durable;
    disk.boot = h.model[0].boot;
    disk.names = false;
}

static void
disk_save(void)
{
    struct core_model *m = &h.model[0];

    if (m->vars == 0)
        return;
    disk.saved = true;
    disk.next_seq = m->next_seq;
    disk.clock = m->clock;
    disk.pushes = m->pushes;
    disk.version = m->var[0].version[0];
    memcpy(disk.value, m->var[0].value, sizeof disk.value);
    disk_note_names();
    disk.durable -= disk.named; /* kept in a session row: the numbers of those that survived */
    memmove(disk.seq, disk.seq + disk.named, disk.durable * sizeof disk.seq[0]);
    if (!disk.names) {
        disk.durable = 0;
        disk.boot = m->boot;
    }
    disk.held = disk.durable;
    disk.named = 0;
}

static void
disk_pushed(struct harness *harness, uint32_t shard, const Psd__Push *m, const float *gradient)
{
    uint64_t k = 0;

    (void)harness;
    (void)shard;
    if (!m->durable || !disk.saved)
        return;
    disk_note_names();
    while (gradient[k] == 0)
        k++;
    disk.seq[disk.durable] = m->seq;
    disk.element[disk.durable++] = k;
}

/* The shard as its disk has it. */
static void
disk_restore(void)
{
    struct core_model *m = &h.model[0];
    struct model_var *var = &m->var[0];

    m->boot += 1000;
    m->next_seq = disk.next_seq;
    m->clock = disk.clock;
    m->pushes = disk.pushes + disk.durable - disk.held;
    var->version[0] = disk.version + disk.durable - disk.held;
    memcpy(var->value, disk.value, sizeof disk.value);
    memset(m->code, 0, sizeof m->code);
    m->survived_from = disk.next_seq;
    m->survived_boot = disk.boot;
    m->survived_len = sizeof m->survived;
    memset(m->survived, 0, sizeof m->survived);
    disk.names = true;
    for (size_t i = 0; i < disk.durable; i++) {
        uint64_t bit = disk.seq[i] - disk.next_seq;

        if (i >= disk.named)
            m->survived[bit / 8] |= (uint8_t)(1 << bit % 8);
        if (i >= disk.held)
            var->value[disk.element[i]]++;
    }
}

/* Power is lost; now and then, the disk, too. */
static void
lose_power(bool disk_too)
{
    harness_cut(&h, 0);
    disk_note_names();
    run.lives++;
    if (!disk_too && disk.saved) {
        disk_restore();
        return;
    }
    model_forget(&h.model[0]);
    disk.saved = false;
    run.disks++;
}

static void
random_push(struct test_rng *rng)
{
    struct ps_push_options options = {.flags = test_below(rng, 2) == 0 ? PS_PUSH_DURABLE : 0};
    uint64_t k = run.started++;
    const float *grads[1];
    float *outs[1];
    bool want = test_below(rng, 3) == 0;
    struct ps_error e;

    run.gradient[k] = calloc(ELEMENTS, sizeof(float));
    run.out[k] = want ? calloc(ELEMENTS, sizeof(float)) : NULL;
    run.gradient[k][k] = 1;
    run.disk_of[k] = run.disks;
    grads[0] = run.gradient[k];
    outs[0] = run.out[k];
    ck_assert_int_eq(core_push(h.core, 1, &run.var, grads, want ? outs : NULL, &options, &run.op[k], &e), PS_OK);
    harness_perform(&h);
}

static void
give_one_up(struct test_rng *rng)
{
    uint64_t k = run.started > 0 ? test_below(rng, run.started) : 0;

    if (run.op[k] == NULL || core_op_done(run.op[k]))
        return;
    run.given_up++;
    core_op_free(h.core, run.op[k]);
    run.op[k] = NULL;
    harness_perform(&h);
}

static void
note_what_is_done(void)
{
    for (uint64_t k = 0; k < run.started; k++) {
        if (run.op[k] == NULL || !core_op_done(run.op[k]))
            continue;
        end_op(&h, run.op[k], PS_OK);
        run.op[k] = NULL;
        run.fine[k] = true;
        if (run.out[k] != NULL && run.disk_of[k] == run.disks) /* when it was answered the shard had it */
            ck_assert_float_eq(run.out[k][k], 1);
    }
}

static void
random_event(struct test_rng *rng, bool give_up)
{
    switch (test_below(rng, 40)) {
    case 0:
        harness_cut(&h, 0);
        break;
    case 1:
        lose_power(test_below(rng, 8) == 0);
        break;
    case 2:
        disk_save();
        break;
    case 3:
        core_op_free(h.core, start_tick(&h));
        break;
    case 4:
        if (give_up)
            give_one_up(rng);
        break;
    case 5:
    case 6:
        harness_pass(&h, 1 + test_below(rng, 300));
        break;
    case 7:
    case 8:
        h.hold = test_below(rng, 3) == 0;
        harness_release(&h, 0, test_below(rng, 4));
        break;
    default:
        if (test_below(rng, 4) == 0 && run.started < PUSHES)
            random_push(rng);
        else if (h.link[0].connected && test_below(rng, 2) == 0)
            harness_deliver(&h, 0);
        else
            model_step(&h, 0);
    }
}

static void
random_run(uint64_t seed, bool give_up)
{
    struct test_rng rng = {seed};
    uint64_t missing = 0, rolled;

    memset(&run, 0, sizeof run);
    memset(&disk, 0, sizeof disk);
    run.var = harness_var(&h, "big", ELEMENTS);
    h.pushed = disk_pushed;
    for (int i = 0; i < 1500; i++) {
        random_event(&rng, give_up);
        note_what_is_done();
    }
    h.hold = false;
    harness_release(&h, 0, SIZE_MAX);
    harness_run(&h);
    note_what_is_done();
    ck_assert(core_quiet(h.core));
    for (uint64_t k = 0; k < run.started; k++) {
        float value = h.model[0].var[0].value[k];

        ck_assert(run.fine[k] || give_up);
        ck_assert_msg(value == 0 || value == 1, "push %llu counts %g times", (unsigned long long)k, (double)value);
        missing += run.fine[k] && value == 0;
        free(run.gradient[k]);
        free(run.out[k]);
    }
    rolled = core_rolled_back(h.core, 0);
    ck_assert_msg(rolled <= missing + run.given_up && missing <= rolled + run.given_up,
                  "%llu pushes are gone, %llu were told (%llu given up, %llu lives)", (unsigned long long)missing,
                  (unsigned long long)rolled, (unsigned long long)run.given_up, (unsigned long long)run.lives);
    ck_assert_uint_eq(core_stats(h.core)->rolled_back, rolled);
    ck_assert_uint_eq(h.model[0].clock, core_clock(h.core));
}

START_TEST(what_is_gone_is_counted_and_nothing_counts_twice)
{
    random_run(test_seed() + (uint64_t)_i, _i % 4 == 3);
}
END_TEST

static void
setup_random(void)
{
    harness_start(&h, 1, PS_ASYNC);
}

static Suite *
make_suite(void)
{
    Suite *s = suite_create("core_reunion");
    TCase *hand = tcase_create("by_hand"), *random = tcase_create("random");

    tcase_add_checked_fixture(hand, core_resync_setup, core_resync_teardown);
    tcase_add_loop_test(hand, a_variable_that_the_shard_cannot_take_again_yet_is_declared_until_it_can, 0, 3);
    tcase_add_test(hand, a_variable_that_is_another_one_there_now_ends_the_worker);
    tcase_add_test(hand, durable_pushes_that_survived_are_done_and_the_rest_is_numbered_anew);
    tcase_add_test(hand, a_survivor_that_wants_values_pulls_them);
    tcase_add_loop_test(hand, a_survivor_that_was_dropped_in_part_says_so, 0, 2);
    tcase_add_test(hand, a_survivor_that_is_given_up_while_its_values_come_is_not_said_to_be_undone);
    tcase_add_test(hand, what_was_saved_and_not_answered_is_asked_by_its_number);
    tcase_add_test(hand, a_tick_that_overtook_a_push_is_made_up_for);
    tcase_add_loop_test(hand, ticks_that_are_gone_come_again_where_they_were, 0, 2);
    tcase_add_loop_test(hand, a_session_that_went_back_behind_its_round_hears_of_it_first, 0, 2);
    tcase_add_test(hand, what_a_survivor_is_past_goes_at_its_clock);
    tcase_add_test(hand, sync_pushes_wait_until_their_blocks_are_there);
    tcase_add_test(hand, a_gated_push_may_be_given_up_or_lose_its_connection);
    tcase_add_test(hand, a_step_that_went_back_does_not_wait_for_what_was_answered);
    tcase_add_test(hand, all_is_gone_with_the_session);
    tcase_add_test(hand, a_restore_is_told_as_one);
    tcase_add_test(hand, a_session_that_was_ahead_of_its_worker_is_not_where_the_next_one_goes);
    tcase_add_loop_test(hand, a_tick_that_told_of_metrics_is_not_where_the_worker_was, 0, 2);
    tcase_add_test(hand, what_was_made_ahead_of_a_session_keeps_its_clock);
    tcase_add_loop_test(hand, an_outcome_of_what_was_not_sent_is_final, 0, 2);
    suite_add_tcase(s, hand);
    tcase_add_checked_fixture(random, setup_random, core_resync_teardown);
    tcase_add_loop_test(random, what_is_gone_is_counted_and_nothing_counts_twice, 0, 60);
    suite_add_tcase(s, random);
    return s;
}

CHECK_MAIN(make_suite)
