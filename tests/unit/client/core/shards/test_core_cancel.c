/* Giving up: every kind of operation in every state of its requests. A buffer is free when the cancel returned,
 * sequence numbers are never lost, and the caller learns as much of the outcome as is known. */
#include "tests/unit/client/core/shards/core_harness.h"

static struct harness h;
static struct core_var *w;
static float grad[8] = {1}, out[8];

static void
core_cancel_setup(void)
{
    harness_start(&h, 1, PS_ASYNC);
    h.by_meta = true;
    w = harness_var(&h, "w", 8);
}

static void
core_cancel_teardown(void)
{
    harness_stop(&h);
}

static struct core_op *
core_cancel_push(void)
{
    return start_push(&h, w, grad);
}

static void
expect_skip(uint64_t seq)
{
    const Psd__Skip *m = core_expect(&h, 0, MSG_SKIP).u.skip;

    ck_assert_uint_eq(m->seq, seq);
    ck_assert(m->push); /* it may have come: the shard is to count it, and so does the client */
}

static void
welcome_again(uint64_t last_seq)
{
    harness_pass(&h, 1000);
    ck_assert(core_expect(&h, 0, MSG_HELLO).u.hello->resume);
    tell_welcome(&h, 0, (struct welcome){.last_seq = last_seq});
}

/* ---- Pushes ---- */

START_TEST(push_that_has_no_number_yet_leaves_no_trace)
{
    struct core_op *op, *next;

    harness_cut(&h, 0);
    op = core_cancel_push();
    cancel_op(&h, op, PS_ERR_CANCELLED);
    ck_assert(core_quiet(h.core));
    next = core_cancel_push();
    welcome_again(0);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->seq, 1);
    core_op_free(h.core, next);
    harness_perform(&h);
}
END_TEST

START_TEST(push_in_the_socket_resets_the_connection_and_becomes_a_skip)
{
    struct core_op *op;

    h.hold = true;
    op = core_cancel_push();
    cancel_op(&h, op, PS_ERR_UNKNOWN_OUTCOME);
    ck_assert_uint_eq(h.disconnects, 1);
    h.hold = false;
    welcome_again(0);
    expect_skip(1);
    tell_ack(&h, 0, 1, PS_OK);
    ck_assert(core_quiet(h.core));
}
END_TEST

START_TEST(sent_push_has_an_unknown_outcome_and_is_skipped_when_sent_again)
{
    struct core_op *op = core_cancel_push();

    core_expect(&h, 0, MSG_PUSH);
    cancel_op(&h, op, PS_ERR_UNKNOWN_OUTCOME);
    ck_assert_uint_eq(h.disconnects, 0);
    ck_assert(!core_quiet(h.core));
    harness_cut(&h, 0);
    welcome_again(0);
    expect_skip(1);
}
END_TEST

START_TEST(push_that_was_given_up_counts_among_those_that_are_rolled_back)
{
    struct core_op *op = core_cancel_push();

    core_expect(&h, 0, MSG_PUSH);
    cancel_op(&h, op, PS_ERR_UNKNOWN_OUTCOME);
    harness_cut(&h, 0);
    welcome_again(0);
    expect_skip(1);
    tell_ack(&h, 0, 1, PS_OK);
    op = core_cancel_push();
    core_expect(&h, 0, MSG_PUSH);
    tell_ack(&h, 0, 2, PS_OK);
    end_op(&h, op, PS_OK);
    harness_cut(&h, 0);
    harness_pass(&h, 1000);
    core_expect(&h, 0, MSG_HELLO);
    tell_welcome(&h, 0, (struct welcome){.boot = 2, .last_seq = 1, .pushes = 1});
    ck_assert_uint_eq(core_rolled_back(h.core, 0), 1); /* the second: the shard still counts the first */
}
END_TEST

START_TEST(answer_to_a_push_that_was_given_up_is_taken_quietly)
{
    struct core_op *op = core_cancel_push();

    core_expect(&h, 0, MSG_PUSH);
    cancel_op(&h, op, PS_ERR_UNKNOWN_OUTCOME);
    tell_ack(&h, 0, 1, _i == 0 ? PS_OK : PS_ERR_NONFINITE);
    ck_assert(core_quiet(h.core));
    ck_assert_int_eq(core_fatal(h.core, NULL), PS_OK);
}
END_TEST

START_TEST(push_waiting_to_be_sent_again_may_have_been_applied)
{
    struct core_op *a = core_cancel_push(), *b = core_cancel_push();

    harness_cut(&h, 0);
    cancel_op(&h, a, PS_ERR_UNKNOWN_OUTCOME);
    welcome_again(0);
    expect_skip(1);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->seq, 2);
    core_op_free(h.core, b);
    harness_perform(&h);
}
END_TEST

/* Shard 1 cannot be reached when it starts and never receives its request. */
START_TEST(push_that_one_shard_has_answered_and_one_never_got_is_not_just_cancelled)
{
    static struct harness two;
    static float grads[1500];
    struct core_var *x;
    struct core_op *op;

    harness_start(&two, 2, PS_ASYNC);
    x = harness_var(&two, "x", 1500);
    harness_cut(&two, 1);
    op = start_push(&two, x, grads);
    tell_ack(&two, 0, core_expect(&two, 0, MSG_PUSH).u.push->seq, PS_OK);
    cancel_op(&two, op, PS_ERR_UNKNOWN_OUTCOME);
    harness_stop(&two);
}
END_TEST

START_TEST(given_up_push_is_not_numbered_after_a_rollback)
{
    struct core_op *a = core_cancel_push(), *b = core_cancel_push();

    cancel_op(&h, a, PS_ERR_UNKNOWN_OUTCOME);
    harness_cut(&h, 0);
    model_forget(&h.model[0]);
    harness_run(&h);
    end_op(&h, b, PS_OK);
    ck_assert_uint_eq(h.model[0].taken, 1);
    ck_assert_uint_eq(h.model[0].applied, 1);
    ck_assert(core_quiet(h.core));
}
END_TEST

/* ---- Pulls ---- */

START_TEST(asked_pull_is_taken_back_and_its_data_dropped)
{
    struct core_op *op = start_pull(&h, w, out);
    struct wire_msg m = core_expect(&h, 0, MSG_PULL);
    uint64_t request = m.request, version = 1;
    Psd__Data d = PSD__DATA__INIT;

    out[0] = 5;
    cancel_op(&h, op, PS_ERR_CANCELLED);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_CANCEL).u.cancel->request, request);
    d.n_version = 1;
    d.version = &version;
    if (_i == 0)
        to_client(&h, 0, MSG_DATA, request, &d.base, grad, sizeof(grad));
    else
        tell_error(&h, 0, request, PS_ERR_CANCELLED, "");
    ck_assert_float_eq(out[0], 5);
    ck_assert_int_eq(core_fatal(h.core, NULL), PS_OK);
    core_var_versions(w, NULL, &version);
    ck_assert_uint_eq(version, 0);
    ck_assert_ptr_null(h.core->links[0].parts.first);
}
END_TEST

START_TEST(pull_that_is_being_read_stops_being_written_to)
{
    struct core_op *op = start_pull(&h, w, out);
    struct wire_msg m = core_expect(&h, 0, MSG_PULL);
    uint64_t version = 1;
    Psd__Data d = PSD__DATA__INIT;
    struct core_payload_dest place;
    struct core_flight *f;

    d.n_version = 1;
    d.version = &version;
    flight_down(&h, 0, MSG_DATA, m.request, &d.base, grad, sizeof(grad));
    f = flights_take(&h.link[0].down);
    core_meta(h.core, 0, &f->head, f->meta, &place);
    ck_assert_uint_eq(place.n, 1);
    ck_assert_ptr_eq(place.parts[0].data, out);
    ck_assert_uint_eq(place.parts[0].len, sizeof(out));
    cancel_op(&h, op, PS_ERR_CANCELLED);
    ck_assert_uint_eq(h.discards, 1);
    core_frame(h.core, 0, &f->head, f->meta, NULL, h.now);
    harness_perform(&h);
    ck_assert_int_eq(core_fatal(h.core, NULL), PS_OK);
    ck_assert_ptr_null(h.core->links[0].parts.first);
    flight_free(f);
}
END_TEST

START_TEST(pull_without_connection_is_forgotten)
{
    struct core_op *op = start_pull(&h, w, out);

    harness_cut(&h, 0);
    cancel_op(&h, op, PS_ERR_CANCELLED);
    welcome_again(0);
    expect_nothing(&h, 0);
}
END_TEST

START_TEST(given_up_pull_is_not_asked_again)
{
    struct core_op *op = start_pull(&h, w, out);

    cancel_op(&h, op, PS_ERR_CANCELLED);
    harness_cut(&h, 0);
    welcome_again(0);
    expect_nothing(&h, 0);
}
END_TEST

START_TEST(pull_error_ends_the_pull_and_takes_the_rest_back)
{
    struct core_var *big = harness_var(&h, "big", 600000); /* several frames */
    float *room = malloc(600000 * sizeof(float));
    struct core_op *op = start_pull(&h, big, room);
    struct wire_msg m = core_expect(&h, 0, MSG_PULL);
    size_t more = h.link[0].up.n, i;
    struct ps_error e;

    ck_assert_uint_ge(more, 2);
    tell_error(&h, 0, m.request, PS_ERR_STEP_FAILED, "worker 1 was lost");
    ck_assert_int_eq(core_op_result(op, &e), PS_ERR_STEP_FAILED);
    ck_assert_str_eq(e.text, "worker 1 was lost");
    for (i = 0; i < more; i++)
        core_expect(&h, 0, MSG_PULL);
    for (i = 0; i < more; i++)
        core_expect(&h, 0, MSG_CANCEL);
    core_op_free(h.core, op);
    free(room);
}
END_TEST

/* ---- Push and pull ---- */

START_TEST(push_and_pull_given_up_takes_no_values)
{
    const float *grads[1] = {grad};
    float *outs[1] = {out};
    struct core_op *op;
    struct wire_msg m;
    uint64_t version = 1;
    Psd__Data d = PSD__DATA__INIT;
    struct core_flight *f;
    struct core_payload_dest place;

    ck_assert_int_eq(core_push(h.core, 1, &w, grads, outs, NULL, &op, NULL), PS_OK);
    harness_perform(&h);
    m = core_expect(&h, 0, MSG_PUSH);
    ck_assert(m.u.push->want_value);
    d.n_version = 1;
    d.version = &version;
    d.seq = 1;
    flight_down(&h, 0, MSG_DATA, m.request, &d.base, grad, sizeof(grad));
    f = flights_take(&h.link[0].down);
    if (_i == 1) {
        core_meta(h.core, 0, &f->head, f->meta, &place);
        ck_assert_uint_eq(place.n, 1);
    }
    cancel_op(&h, op, PS_ERR_UNKNOWN_OUTCOME);
    ck_assert_uint_eq(h.discards, (uint64_t)_i);
    if (_i == 0) {
        core_meta(h.core, 0, &f->head, f->meta, &place);
        ck_assert(place.discard);
    }
    core_frame(h.core, 0, &f->head, f->meta, NULL, h.now);
    ck_assert(core_quiet(h.core));
    ck_assert_int_eq(core_fatal(h.core, NULL), PS_OK);
    flight_free(f);
}
END_TEST

/* ---- Ticks, barriers, declares, questions ---- */

START_TEST(tick_goes_on_without_its_caller)
{
    struct core_op *op;

    harness_cut(&h, 0);
    op = start_tick(&h);
    cancel_op(&h, op, PS_ERR_UNKNOWN_OUTCOME);
    ck_assert_uint_eq(core_clock(h.core), 1);
    welcome_again(0);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_TICK).u.tick->clock, 1);
    tell_ack(&h, 0, 1, PS_OK);
    ck_assert(core_quiet(h.core));
    ck_assert_ptr_null(h.core->ops);
}
END_TEST

START_TEST(barrier_is_taken_back)
{
    struct core_op *op;
    struct wire_msg m;
    uint64_t request;

    ck_assert_int_eq(core_barrier(h.core, "b", &op, NULL), PS_OK);
    harness_perform(&h);
    m = core_expect(&h, 0, MSG_BARRIER);
    request = m.request;
    cancel_op(&h, op, PS_ERR_CANCELLED);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_CANCEL).u.cancel->request, request);
    tell_ack(&h, 0, 1, PS_ERR_CANCELLED);
    ck_assert(core_quiet(h.core));
}
END_TEST

START_TEST(declare_given_up_may_be_made_again)
{
    struct ps_var_spec spec = {.name = "v", .rank = 1, .dims = {3}, .optimizer = {.learning_rate = 1}};
    struct core_var *v, *again;
    struct core_op *op;
    struct wire_msg m;
    Psd__Declared d = PSD__DECLARED__INIT;

    ck_assert_int_eq(core_declare(h.core, &spec, &v, &op, NULL), PS_OK);
    harness_perform(&h);
    m = core_expect(&h, 0, MSG_DECLARE);
    cancel_op(&h, op, PS_ERR_CANCELLED);
    d.var = 3;
    to_client(&h, 0, MSG_DECLARED, m.request, &d.base, NULL, 0);
    ck_assert_int_eq(core_declare(h.core, &spec, &again, &op, NULL), PS_OK);
    ck_assert_ptr_eq(v, again);
    harness_run(&h);
    end_op(&h, op, PS_OK);
}
END_TEST

START_TEST(question_given_up_is_answered_to_nobody)
{
    struct core_op *op;
    struct wire_msg m;
    Psd__Ping pong = PSD__PING__INIT;

    ck_assert_int_eq(core_ping(h.core, 0, &op, NULL), PS_OK);
    harness_perform(&h);
    m = core_expect(&h, 0, MSG_PING);
    cancel_op(&h, op, PS_ERR_CANCELLED);
    to_client(&h, 0, MSG_PONG, m.request, &pong.base, NULL, 0);
    ck_assert_int_eq(core_fatal(h.core, NULL), PS_OK);
    ck_assert_ptr_null(h.core->links[0].control.first);
}
END_TEST

START_TEST(done_operation_is_not_cancelled)
{
    struct core_op *op = core_cancel_push();

    harness_run(&h);
    cancel_op(&h, op, PS_OK);
}
END_TEST

START_TEST(operation_that_waits_for_an_answer_why_may_be_freed)
{
    struct core_op *op = start_pull(&h, w, out);
    struct wire_msg m;
    Psd__Report r = PSD__REPORT__INIT;

    core_expect(&h, 0, MSG_PULL);
    core_op_query_delay(h.core, op);
    harness_perform(&h);
    m = core_expect(&h, 0, MSG_QUERY);
    core_op_free(h.core, op);
    harness_perform(&h);
    r.kind = PSD__QUERY_KIND__BLOCKED;
    to_client(&h, 0, MSG_REPORT, m.request, &r.base, NULL, 0);
    ck_assert_int_eq(core_fatal(h.core, NULL), PS_OK);
}
END_TEST

/* ---- At random ---- */

/* Operations start and are given up at any moment while the connection breaks; the shard's own assertions say that
 * every number comes in order, and operations that succeeded were applied. */
START_TEST(numbers_stay_in_order_whatever_is_given_up)
{
    struct test_rng rng = {test_seed() + 1000 + (uint64_t)_i};
    struct core_op *ops[6] = {0};
    const float *grads[1] = {grad};
    float *outs[1] = {out};
    uint64_t fine = 0;
    uint32_t step, at;

    for (step = 0; step < 600; step++) {
        at = (uint32_t)test_below(&rng, ARRAY_LEN(ops));
        h.hold = test_below(&rng, 3) == 0;
        switch (test_below(&rng, 14)) {
        case 0:
            harness_cut(&h, 0);
            break;
        case 1:
            harness_pass(&h, 1 + test_below(&rng, 500));
            break;
        case 2:
        case 3:
            harness_release(&h, 0, test_below(&rng, 3));
            break;
        case 4:
        case 5:
        case 6:
            if (ops[at] != NULL) {
                fine += core_op_done(ops[at]) && core_op_result(ops[at], NULL) == PS_OK && _i % 2 == 0;
                core_op_free(h.core, ops[at]);
                harness_perform(&h);
            }
            if (_i % 2 == 0)
                ops[at] = core_cancel_push();
            else if (test_below(&rng, 2) == 0)
                ops[at] = start_pull(&h, w, out);
            else
                ck_assert_int_eq(core_push(h.core, 1, &w, grads, outs, &copied, &ops[at], NULL), PS_OK);
            harness_perform(&h);
            break;
        default:
            if (test_below(&rng, 2) == 0)
                harness_deliver(&h, 0);
            else
                model_step(&h, 0);
        }
    }
    h.hold = false;
    harness_release(&h, 0, SIZE_MAX);
    harness_run(&h);
    for (at = 0; at < ARRAY_LEN(ops); at++)
        if (ops[at] != NULL)
            core_op_free(h.core, ops[at]);
    ck_assert(core_quiet(h.core));
    ck_assert_uint_le(fine, h.model[0].applied);
    ck_assert_float_eq(h.model[0].var[0].value[0], (float)h.model[0].applied);
    ck_assert_uint_eq(h.core->links[0].sending_bytes, 0);
    ck_assert_uint_eq(h.core->links[0].pulling, 0);
    ck_assert_uint_eq(h.core->links[0].pulling_bytes, 0);
    ck_assert_uint_eq(h.core->copies.used, 0);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("core_cancel");
    TCase *t = tcase_create("cancel");

    tcase_add_checked_fixture(t, core_cancel_setup, core_cancel_teardown);
    tcase_set_timeout(t, 30);
    tcase_add_test(t, push_that_has_no_number_yet_leaves_no_trace);
    tcase_add_test(t, push_in_the_socket_resets_the_connection_and_becomes_a_skip);
    tcase_add_test(t, sent_push_has_an_unknown_outcome_and_is_skipped_when_sent_again);
    tcase_add_test(t, push_that_was_given_up_counts_among_those_that_are_rolled_back);
    tcase_add_loop_test(t, answer_to_a_push_that_was_given_up_is_taken_quietly, 0, 2);
    tcase_add_test(t, push_waiting_to_be_sent_again_may_have_been_applied);
    tcase_add_test(t, push_that_one_shard_has_answered_and_one_never_got_is_not_just_cancelled);
    tcase_add_test(t, given_up_push_is_not_numbered_after_a_rollback);
    tcase_add_loop_test(t, asked_pull_is_taken_back_and_its_data_dropped, 0, 2);
    tcase_add_test(t, pull_that_is_being_read_stops_being_written_to);
    tcase_add_test(t, pull_without_connection_is_forgotten);
    tcase_add_test(t, given_up_pull_is_not_asked_again);
    tcase_add_test(t, pull_error_ends_the_pull_and_takes_the_rest_back);
    tcase_add_loop_test(t, push_and_pull_given_up_takes_no_values, 0, 2);
    tcase_add_test(t, tick_goes_on_without_its_caller);
    tcase_add_test(t, barrier_is_taken_back);
    tcase_add_test(t, declare_given_up_may_be_made_again);
    tcase_add_test(t, question_given_up_is_answered_to_nobody);
    tcase_add_test(t, done_operation_is_not_cancelled);
    tcase_add_test(t, operation_that_waits_for_an_answer_why_may_be_freed);
    tcase_add_loop_test(t, numbers_stay_in_order_whatever_is_given_up, 0, 100);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
