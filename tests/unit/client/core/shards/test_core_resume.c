/* The client core after lost connections and lost data: the messages that are sent again, their order and numbers, and
 * that every push is applied once wherever the connection breaks. */
#include "tests/unit/client/core/shards/core_harness.h"

static struct harness h;

static void
core_resume_setup(void)
{
    harness_start(&h, 1, PS_ASYNC);
}

static void
core_resume_teardown(void)
{
    harness_stop(&h);
}

/* Cut link 0, connect again, and take the HELLO that comes. */
static Psd__Hello *
core_resume_reconnect(void)
{
    struct wire_msg m;

    harness_cut(&h, 0);
    harness_pass(&h, 1000);
    m = core_expect(&h, 0, MSG_HELLO);
    return m.u.hello;
}

/* ---- By hand ---- */

START_TEST(unacknowledged_goes_again_in_order_pulls_in_their_place)
{
    struct core_var *v = harness_var(&h, "w", 8);
    float grad[8] = {1}, out[8];
    struct core_op *a = start_push(&h, v, grad), *pull = start_pull(&h, v, out), *tick = start_tick(&h),
                   *b = start_push(&h, v, grad);
    Psd__Hello *hello = core_resume_reconnect();
    struct wire_msg m;

    ck_assert(hello->resume);
    ck_assert_uint_eq(hello->acked_through, 0);
    tell_welcome(&h, 0, (struct welcome){.last_seq = 1});
    m = core_expect(&h, 0, MSG_PUSH);
    ck_assert_uint_eq(m.u.push->seq, 1);
    ck_assert_uint_eq(m.u.push->clock, 0);
    core_expect(&h, 0, MSG_PULL);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_TICK).u.tick->seq, 2);
    m = core_expect(&h, 0, MSG_PUSH);
    ck_assert_uint_eq(m.u.push->seq, 3);
    ck_assert_uint_eq(m.u.push->clock, 1);
    expect_nothing(&h, 0);
    ck_assert_uint_eq(core_stats(h.core)->resent, 3);
    core_op_free(h.core, a);
    core_op_free(h.core, pull);
    core_op_free(h.core, tick);
    core_op_free(h.core, b);
    harness_perform(&h);
}
END_TEST

START_TEST(numbers_acknowledged_out_of_order_go_as_skips_above_last_seq)
{
    struct core_var *v = harness_var(&h, "w", 8);
    float grad[8] = {1};
    struct core_op *op[5];
    struct wire_msg m;
    int i;

    for (i = 0; i < 5; i++)
        op[i] = start_push(&h, v, grad);
    tell_ack(&h, 0, 2, PS_OK);
    tell_ack(&h, 0, 4, PS_OK);
    ck_assert_uint_eq(core_resume_reconnect()->acked_through, 0);
    tell_welcome(&h, 0, (struct welcome){.last_seq = 2});
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->seq, 1);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->seq, 3);
    m = core_expect(&h, 0, MSG_SKIP);
    ck_assert_uint_eq(m.u.skip->seq, 4);
    ck_assert(m.u.skip->push); /* so that the shard counts it as it is counted here */
    m = core_expect(&h, 0, MSG_PUSH);
    ck_assert_uint_eq(m.u.push->seq, 5);
    ck_assert_uint_eq(m.u.push->acked_through, 0);
    tell_ack(&h, 0, 1, PS_OK);
    tell_ack(&h, 0, 3, PS_OK);
    tell_ack(&h, 0, 5, PS_OK);
    ck_assert(!core_quiet(h.core));
    tell_ack(&h, 0, 4, PS_OK);
    ck_assert(core_quiet(h.core));
    for (i = 0; i < 5; i++)
        end_op(&h, op[i], PS_OK);
}
END_TEST

START_TEST(acked_through_is_told)
{
    struct core_var *v = harness_var(&h, "w", 8);
    float grad[8] = {1};
    struct core_op *a = start_push(&h, v, grad), *b;

    core_expect(&h, 0, MSG_PUSH);
    tell_ack(&h, 0, 1, PS_OK);
    b = start_push(&h, v, grad);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->acked_through, 1);
    ck_assert_uint_eq(core_resume_reconnect()->acked_through, 1);
    core_op_free(h.core, a);
    core_op_free(h.core, b);
    harness_perform(&h);
}
END_TEST

START_TEST(older_state_is_told_and_the_rest_numbered_anew)
{
    struct core_var *v = harness_var(&h, "w", 8);
    float grad[8] = {1};
    struct core_op *op[4], *tick;
    struct wire_msg m;
    int i;

    for (i = 0; i < 3; i++) {
        op[i] = start_push(&h, v, grad);
        tell_ack(&h, 0, (uint64_t)i + 1, PS_OK);
        end_op(&h, op[i], PS_OK);
    }
    tick = start_tick(&h);
    tell_ack(&h, 0, 4, PS_OK);
    end_op(&h, tick, PS_OK);
    op[3] = start_push(&h, v, grad);
    core_resume_reconnect();
    tell_welcome(&h, 0, (struct welcome){.last_seq = 1, .boot = 999, .pushes = 1});
    ck_assert_int_eq(h.rolled_back.code, PS_ERR_ROLLED_BACK);
    ck_assert_str_eq(h.rolled_back.text,
                     "restarted with an older state: 2 acknowledged pushes of this worker are gone");
    ck_assert_uint_eq(core_rolled_back(h.core, 0), 2);
    ck_assert_uint_eq(core_stats(h.core)->rolled_back, 2);
    m = core_expect(&h, 0, MSG_DECLARE);
    ck_assert_str_eq(m.u.declare->name, "w");
    expect_nothing(&h, 0); /* nothing that names variables before their ids are known */
    Psd__Declared d = PSD__DECLARED__INIT;
    d.var = 17;
    to_client(&h, 0, MSG_DECLARED, m.request, &d.base, NULL, 0);
    m = core_expect(&h, 0, MSG_TICK);
    ck_assert_uint_eq(m.u.tick->seq, 2);
    ck_assert_uint_eq(m.u.tick->clock, 1);
    m = core_expect(&h, 0, MSG_PUSH);
    ck_assert_uint_eq(m.u.push->seq, 3);
    ck_assert_uint_eq(m.u.push->var[0], 17);
    tell_ack(&h, 0, 2, PS_OK);
    tell_ack(&h, 0, 3, PS_OK);
    end_op(&h, op[3], PS_OK);
    ck_assert(core_quiet(h.core));
}
END_TEST

START_TEST(older_state_without_loss_is_told_too)
{
    harness_cut(&h, 0);
    h.model[0].boot++;
    harness_run(&h);
    ck_assert_str_eq(h.rolled_back.text, "restarted with an older state; nothing that it had acknowledged to this "
                                         "worker is missing");
}
END_TEST

/* The store is another one, whose session row claims that it lacks nothing; still its blocks may be older. */
START_TEST(gradient_of_a_version_of_another_store_goes_without_it)
{
    struct core_var *v = harness_var(&h, "w", 8);
    struct ps_pull_options changed = {.only_changed = 1};
    Psd__Declared declared = PSD__DECLARED__INIT;
    Psd__Data d = PSD__DATA__INIT;
    float grad[8] = {1}, out[8], *outs[1] = {out};
    struct core_op *push, *pull;
    uint64_t version = 3;
    struct ps_error e;
    struct wire_msg m;

    pull = start_pull(&h, v, out);
    m = core_expect(&h, 0, MSG_PULL);
    d.n_version = 1;
    d.version = &version;
    to_client(&h, 0, MSG_DATA, m.request, &d.base, grad, sizeof(grad));
    end_op(&h, pull, PS_OK);
    push = start_push(&h, v, grad);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->from_version[0], 3);
    ck_assert_int_eq(core_pull(h.core, 1, &v, outs, &changed, &pull, &e), PS_OK);
    harness_perform(&h);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PULL).u.pull->newer_than[0], 3);
    core_resume_reconnect();
    tell_welcome(&h, 0, (struct welcome){.boot = 999});
    m = core_expect(&h, 0, MSG_DECLARE);
    to_client(&h, 0, MSG_DECLARED, m.request, &declared.base, NULL, 0);
    m = core_expect(&h, 0, MSG_PUSH);
    ck_assert_uint_eq(m.u.push->seq, 1);
    ck_assert_uint_eq(m.u.push->n_from_version, 0);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PULL).u.pull->n_newer_than, 0);
    core_op_free(h.core, push);
    core_op_free(h.core, pull);
    harness_perform(&h);
}
END_TEST

START_TEST(session_that_is_gone_is_made_anew_and_variables_declared)
{
    struct core_var *v = harness_var(&h, "w", 300000);
    float *grad = calloc(300000, sizeof(float)), *out = calloc(300000, sizeof(float));
    struct core_op *op, *tick;
    uint64_t version;

    grad[0] = grad[299999] = 1;
    op = start_push(&h, v, grad);
    tick = start_tick(&h);
    harness_run(&h);
    end_op(&h, op, PS_OK);
    end_op(&h, tick, PS_OK);
    op = start_pull(&h, v, out);
    harness_run(&h);
    end_op(&h, op, PS_OK);
    core_var_versions(v, NULL, &version);
    ck_assert_uint_eq(version, 1);
    model_forget(&h.model[0]);
    harness_cut(&h, 0);
    op = start_push(&h, v, grad); /* from_version would be refused there */
    harness_run(&h);
    end_op(&h, op, PS_OK);
    ck_assert_ptr_nonnull(strstr(h.rolled_back.text, "acknowledged pushes of this worker are gone"));
    ck_assert_uint_eq(h.model[0].clock, 1);
    op = start_pull(&h, v, out);
    harness_run(&h);
    end_op(&h, op, PS_OK);
    ck_assert_float_eq(out[299999], 1);
    free(grad);
    free(out);
}
END_TEST

START_TEST(variable_that_one_shard_lost_while_another_was_asked_is_declared_there_again)
{
    struct ps_var_spec spec = {.name = "w", .rank = 1, .dims = {40000}, .optimizer = {.learning_rate = 0.1}};
    float *out = calloc(40000, sizeof(float));
    struct core_op *op, *pull;
    struct core_var *v;
    struct ps_error e;

    harness_stop(&h);
    harness_start(&h, 2, PS_ASYNC);
    ck_assert_int_eq(core_declare(h.core, &spec, &v, &op, &e), PS_OK);
    harness_perform(&h);
    ck_assert(model_step(&h, 0) && harness_deliver(&h, 0)); /* the other has not answered yet */
    model_forget(&h.model[0]);
    harness_cut(&h, 0);
    for (int round = 0; round < 20; round++) { /* until the session there is made again */
        harness_pass(&h, 100);
        model_step(&h, 0);
        harness_deliver(&h, 0);
    }
    ck_assert(h.model[0].session && !core_op_done(op));
    harness_run(&h);
    end_op(&h, op, PS_OK);
    pull = start_pull(&h, v, out);
    harness_run(&h);
    end_op(&h, pull, PS_OK);
    free(out);
}
END_TEST

START_TEST(variable_that_was_being_declared_again_when_the_worker_joined_anew_is_declared_then)
{
    struct core_var *v = harness_var(&h, "w", 100);
    struct core_op *pull;
    float out[100];

    model_forget(&h.model[0]);
    harness_cut(&h, 0);
    while (h.link[0].up.first == NULL || h.link[0].up.first->head.type != MSG_DECLARE) {
        harness_pass(&h, 100);
        if (h.link[0].up.first != NULL && h.link[0].up.first->head.type == MSG_HELLO)
            model_step(&h, 0);
        harness_deliver(&h, 0);
    }
    core_rejoin(h.core, 78, h.now);
    harness_run(&h);
    pull = start_pull(&h, v, out);
    harness_run(&h);
    end_op(&h, pull, PS_OK);
}
END_TEST

START_TEST(tick_below_a_new_sessions_clock_counts_as_done)
{
    struct core_op *op;

    harness_cut(&h, 0);
    model_forget(&h.model[0]);
    h.model[0].clock = 40; /* the others are that far */
    harness_run(&h);
    op = start_tick(&h);
    harness_run(&h);
    end_op(&h, op, PS_OK);
}
END_TEST

/* The shard lost its data and others came back first: the new session is at their clock. There a shard takes pushes of
 * async and ssp at the session's clock only; in sync the clock says which step a gradient belongs to. */
START_TEST(push_below_a_new_sessions_clock_is_made_at_that_clock)
{
    Psd__Declared declared = PSD__DECLARED__INIT;
    struct core_op *a, *tick, *b;
    float grad[8] = {1};
    struct core_var *v;
    struct wire_msg m;

    harness_stop(&h);
    harness_start(&h, 1, (enum ps_mode)_i);
    v = harness_var(&h, "w", 8);
    a = start_push(&h, v, grad);
    ck_assert(core_resume_reconnect()->resume);
    tell_error(&h, 0, REQUEST_ID_HELLO, PS_ERR_NOT_FOUND, "no such session");
    harness_pass(&h, 1000);
    ck_assert(!core_expect(&h, 0, MSG_HELLO).u.hello->resume);
    tell_welcome(&h, 0, (struct welcome){.clock = 2, .slowest = 2});
    m = core_expect(&h, 0, MSG_DECLARE);
    to_client(&h, 0, MSG_DECLARED, m.request, &declared.base, NULL, 0);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->clock, _i == PS_SYNC ? 0 : 2);
    tick = start_tick(&h);
    b = start_push(&h, v, grad);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_TICK).u.tick->clock, 1);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->clock, _i == PS_SYNC ? 1 : 2);
    tell_ack(&h, 0, 1, PS_OK);
    tell_ack(&h, 0, 2, PS_ERR_CLOCK);
    tell_ack(&h, 0, 3, PS_OK);
    end_op(&h, a, PS_OK);
    end_op(&h, tick, PS_OK);
    end_op(&h, b, PS_OK);
}
END_TEST

/* No honest shard answers a push before it has received all of it. The gradient's buffer is the caller's again, so the
 * connection that still reads from it must go. */
START_TEST(push_answered_before_it_was_sent_costs_the_connection)
{
    struct core_var *v = harness_var(&h, "w", 8);
    uint64_t disconnects = h.disconnects;
    float grad[8] = {1};
    struct core_op *op;

    h.hold = true;
    op = start_push(&h, v, grad);
    tell_ack(&h, 0, 1, PS_OK);
    end_op(&h, op, PS_OK);
    ck_assert_uint_eq(h.disconnects, disconnects + 1);
    h.hold = false;
    harness_release(&h, 0, SIZE_MAX);
    op = start_push(&h, v, grad);
    harness_run(&h);
    core_op_free(h.core, op);
}
END_TEST

START_TEST(lost_welcome_is_asked_for_again_as_the_same_incarnation)
{
    harness_stop(&h);
    harness_init(&h, 1, PS_ASYNC);
    harness_perform(&h);
    ck_assert(model_step(&h, 0)); /* it has made the session; the welcome is lost */
    harness_cut(&h, 0);
    harness_run(&h);
    ck_assert(core_joined(h.core));
}
END_TEST

START_TEST(gradient_of_an_earlier_version_keeps_it_when_sent_again)
{
    struct core_var *v = harness_var(&h, "w", 8);
    float grad[8] = {1}, out[8];
    struct core_op *a, *b, *pull;
    struct wire_msg m;

    a = start_push(&h, v, grad);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->n_from_version, 0);
    tell_ack(&h, 0, 1, PS_OK);
    end_op(&h, a, PS_OK);
    pull = start_pull(&h, v, out);
    m = core_expect(&h, 0, MSG_PULL);
    Psd__Data d = PSD__DATA__INIT;
    uint64_t version = 3;
    d.n_version = 1;
    d.version = &version;
    to_client(&h, 0, MSG_DATA, m.request, &d.base, grad, sizeof(grad));
    end_op(&h, pull, PS_OK);
    b = start_push(&h, v, grad);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->from_version[0], 3);
    pull = start_pull(&h, v, out);
    m = core_expect(&h, 0, MSG_PULL);
    version = 4;
    to_client(&h, 0, MSG_DATA, m.request, &d.base, grad, sizeof(grad));
    end_op(&h, pull, PS_OK);
    core_resume_reconnect();
    tell_welcome(&h, 0, (struct welcome){.last_seq = 1});
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->from_version[0], 3);
    core_op_free(h.core, b);
    harness_perform(&h);
}
END_TEST

/* ---- Cuts everywhere ---- */

#define BIG   70000 /* elements: blocks of two sizes */
#define SMALL 5

struct script {
    struct core_var *big, *small;
    float *grad, *out, *both;
    struct core_op *ops[32];
    size_t n;
};

/* A step of training and more: everything that a worker does, all in flight at once. */
static void
script_start(struct script *s)
{
    struct ps_pull_options changed = {.only_changed = 1};
    struct core_var *vars[2] = {s->big, s->small};
    const float *grads[2] = {s->grad, s->grad};
    float *outs[2] = {s->out, s->both};
    struct ps_error e;

    s->n = 0;
    ck_assert_int_eq(core_push(h.core, 2, vars, grads, NULL, NULL, &s->ops[s->n++], &e), PS_OK);
    ck_assert_int_eq(core_tick(h.core, &s->ops[s->n++], &e), PS_OK);
    ck_assert_int_eq(core_pull(h.core, 2, vars, outs, NULL, &s->ops[s->n++], &e), PS_OK);
    ck_assert_int_eq(core_push(h.core, 1, &s->small, grads, &outs[1], NULL, &s->ops[s->n++], &e), PS_OK);
    ck_assert_int_eq(core_barrier(h.core, "b", &s->ops[s->n++], &e), PS_OK);
    ck_assert_int_eq(core_push(h.core, 2, vars, grads, NULL, &copied, &s->ops[s->n++], &e), PS_OK);
    ck_assert_int_eq(core_tick(h.core, &s->ops[s->n++], &e), PS_OK);
    ck_assert_int_eq(core_pull(h.core, 2, vars, outs, &changed, &s->ops[s->n++], &e), PS_OK);
    harness_perform(&h);
}

static void
script_open(struct script *s, uint32_t shards)
{
    size_t i;

    harness_start(&h, shards, PS_ASYNC);
    h.by_meta = true;
    s->grad = malloc(BIG * sizeof(float));
    s->out = malloc(BIG * sizeof(float));
    s->both = malloc(BIG * sizeof(float));
    for (i = 0; i < BIG; i++)
        s->grad[i] = (float)(i % 7);
    s->big = harness_var(&h, "big", BIG);
    s->small = harness_var(&h, "small", SMALL);
}

/* All done, every gradient counted once, and the last pull shows that. */
static void
script_check(struct script *s)
{
    size_t i;

    for (i = 0; i < s->n; i++)
        end_op(&h, s->ops[i], PS_OK);
    ck_assert(core_quiet(h.core));
    for (i = 0; i < BIG; i++)
        if (s->out[i] != 2 * s->grad[i]) /* an assertion each would cost more than the test */
            ck_abort_msg("big[%zu] is %g, not %g", i, (double)s->out[i], (double)(2 * s->grad[i]));
    for (i = 0; i < SMALL; i++)
        ck_assert_float_eq(s->both[i], 3 * s->grad[i]);
    for (i = 0; i < h.shards; i++)
        ck_assert_uint_eq(h.model[i].clock, 2);
    ck_assert_uint_eq(core_stats(h.core)->pushes, 3);
}

static void
script_close(struct script *s)
{
    free(s->grad);
    free(s->out);
    free(s->both);
    harness_stop(&h);
}

/* Garbage where the next DATA would go, as when a connection breaks in the midst of a payload. */
static void
half_a_payload(uint32_t shard)
{
    struct core_flight *f = h.link[shard].down.first;
    struct core_payload_dest place;
    size_t i;

    if (f == NULL || f->head.type != MSG_DATA)
        return;
    core_meta(h.core, shard, &f->head, f->meta, &place);
    for (i = 0; i < place.n && !place.discard; i++)
        memset(place.parts[i].data, 0x55, place.parts[i].len / 2);
}

/* Move one message, on the first link that has one; false: none. */
static bool
move_one(void)
{
    uint32_t i;

    for (i = 0; i < h.shards; i++)
        if (model_step(&h, i) || harness_deliver(&h, i))
            return true;
    return false;
}

/* Run the script, cutting one link after `at` messages; returns how many messages the whole took. */
static uint64_t
run_cut_at(uint64_t at, uint32_t shards, uint32_t cut)
{
    struct script s;
    uint64_t moved = 0;

    script_open(&s, shards);
    script_start(&s);
    while (moved < at && move_one())
        moved++;
    half_a_payload(cut);
    harness_cut(&h, cut);
    while (move_one())
        moved++;
    harness_run(&h);
    script_check(&s);
    script_close(&s);
    return moved;
}

START_TEST(every_push_counts_once_wherever_the_connection_breaks)
{
    uint64_t all = run_cut_at(UINT64_MAX, 1, 0), at;

    ck_assert_uint_ge(all, 16);
    for (at = 0; at <= all; at++)
        run_cut_at(at, 1, 0);
}
END_TEST

START_TEST(the_same_with_two_shards)
{
    uint64_t all = run_cut_at(UINT64_MAX, 2, 1), at;

    for (at = 0; at <= all; at++) {
        run_cut_at(at, 2, 0);
        run_cut_at(at, 2, 1);
    }
}
END_TEST

START_TEST(the_same_with_random_cuts_and_held_sends)
{
    struct test_rng rng = {test_seed() + (uint64_t)_i};
    struct script s;
    uint32_t shard, step;

    script_open(&s, 3);
    script_start(&s);
    for (step = 0; step < 400; step++) {
        shard = (uint32_t)test_below(&rng, h.shards);
        h.hold = test_below(&rng, 3) == 0;
        switch (test_below(&rng, 12)) {
        case 0:
            half_a_payload(shard);
            harness_cut(&h, shard);
            break;
        case 1:
        case 2:
            harness_pass(&h, 1 + test_below(&rng, 400));
            break;
        case 3:
        case 4:
        case 5:
            harness_release(&h, shard, test_below(&rng, 3));
            break;
        default:
            if (h.link[shard].connected && test_below(&rng, 2) == 0)
                harness_deliver(&h, shard);
            else
                model_step(&h, shard);
        }
    }
    h.hold = false;
    for (shard = 0; shard < h.shards; shard++)
        harness_release(&h, shard, SIZE_MAX);
    harness_run(&h);
    script_check(&s);
    script_close(&s);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("core_resume");
    TCase *hand = tcase_create("by_hand"), *cuts = tcase_create("cuts");

    tcase_add_checked_fixture(hand, core_resume_setup, core_resume_teardown);
    tcase_add_test(hand, unacknowledged_goes_again_in_order_pulls_in_their_place);
    tcase_add_test(hand, numbers_acknowledged_out_of_order_go_as_skips_above_last_seq);
    tcase_add_test(hand, acked_through_is_told);
    tcase_add_test(hand, older_state_is_told_and_the_rest_numbered_anew);
    tcase_add_test(hand, older_state_without_loss_is_told_too);
    tcase_add_test(hand, gradient_of_a_version_of_another_store_goes_without_it);
    tcase_add_test(hand, session_that_is_gone_is_made_anew_and_variables_declared);
    tcase_add_test(hand, variable_that_one_shard_lost_while_another_was_asked_is_declared_there_again);
    tcase_add_test(hand, variable_that_was_being_declared_again_when_the_worker_joined_anew_is_declared_then);
    tcase_add_test(hand, tick_below_a_new_sessions_clock_counts_as_done);
    tcase_add_loop_test(hand, push_below_a_new_sessions_clock_is_made_at_that_clock, PS_ASYNC, PS_SYNC + 1);
    tcase_add_test(hand, push_answered_before_it_was_sent_costs_the_connection);
    tcase_add_test(hand, lost_welcome_is_asked_for_again_as_the_same_incarnation);
    tcase_add_test(hand, gradient_of_an_earlier_version_keeps_it_when_sent_again);
    suite_add_tcase(s, hand);
    tcase_set_timeout(cuts, 60);
    tcase_add_test(cuts, every_push_counts_once_wherever_the_connection_breaks);
    tcase_add_test(cuts, the_same_with_two_shards);
    tcase_add_loop_test(cuts, the_same_with_random_cuts_and_held_sends, 0, 100);
    suite_add_tcase(s, cuts);
    return s;
}

CHECK_MAIN(make_suite)
