/* Compressed pushes in the client: elements that their encodings leave out are neither lost nor counted twice, whatever
 * the fate of a push. Gradients are of few digits, so that all sums are exact. */
#include "tests/unit/client/core/shards/core_harness.h"

#include <math.h>

#define LEN 8

static struct harness h;
static struct core_var *w;
static const struct ps_compress top = {.kind = PS_COMPRESS_TOP_K, .fraction = 0.25}; /* two of eight */
static const float steep[LEN] = {1, 2, 3, 4, 5, 6, 7, 8}, flat[LEN] = {1, 1, 1, 1, 1, 1, 1, 1};

static void
residual_setup(void)
{
    harness_start(&h, 1, PS_ASYNC);
    w = harness_var(&h, "w", LEN);
}

static void
residual_teardown(void)
{
    harness_stop(&h);
}

static struct core_op *
push_with(const float *g, const struct ps_compress *how, unsigned flags)
{
    struct ps_push_options options = {.flags = flags, .compress = how};
    struct core_op *op;
    struct ps_error e = {0};

    ck_assert_msg(core_push(h.core, 1, &w, &g, NULL, &options, &op, &e) == PS_OK, "%s", e.text);
    harness_perform(&h);
    return op;
}

static struct core_op *
residual_push(const float *g)
{
    return push_with(g, &top, 0);
}

/* The next message is a push of this sequence number; its gradient, decoded. */
static const float *
expect_push(uint64_t seq)
{
    static uint8_t payload[8 * LEN + 4] __attribute__((aligned(4)));
    static float gradient[LEN];
    struct core_flight *f = h.link[0].up.first;
    const Psd__Push *m;
    size_t bytes;

    ck_assert_ptr_nonnull(f);
    ck_assert_uint_le(f->head.payload_len, sizeof payload);
    if (f->payload != NULL)
        memcpy(payload, f->payload, f->head.payload_len);
    bytes = f->head.payload_len;
    m = core_expect(&h, 0, MSG_PUSH).u.push;
    ck_assert_uint_eq(m->seq, seq);
    ck_assert_int_eq(codec_measure((enum ps_compress_kind)m->encoding, LEN, payload, bytes, &bytes, NULL), PS_OK);
    codec_decode((enum ps_compress_kind)m->encoding, LEN, payload, gradient);
    return gradient;
}

static void
expect_floats(const float *is, const float *want, const char *what)
{
    for (int i = 0; i < LEN; i++)
        ck_assert_msg(is[i] == want[i], "%s: element %d is %g, not %g", what, i, (double)is[i], (double)want[i]);
}

static void
expect_left(const float *want)
{
    expect_floats(w->residual, want, "left");
}

START_TEST(what_is_left_out_comes_with_the_next_push)
{
    struct core_op *op = residual_push(steep);

    expect_floats(expect_push(1), (float[LEN]){0, 0, 0, 0, 0, 0, 7, 8}, "sent");
    expect_left((float[LEN]){1, 2, 3, 4, 5, 6, 0, 0});
    tell_ack(&h, 0, 1, PS_OK);
    end_op(&h, op, PS_OK);
    expect_left((float[LEN]){1, 2, 3, 4, 5, 6, 0, 0});
    op = residual_push(flat);
    expect_floats(expect_push(2), (float[LEN]){0, 0, 0, 0, 6, 7, 0, 0}, "sent");
    expect_left((float[LEN]){2, 3, 4, 5, 0, 0, 1, 1});
    tell_ack(&h, 0, 2, PS_OK);
    end_op(&h, op, PS_OK);
}
END_TEST

START_TEST(bytes_that_travel_are_counted_beside_those_of_the_gradient)
{
    struct core_op *op = residual_push(steep);

    harness_run(&h);
    end_op(&h, op, PS_OK);
    ck_assert_uint_eq(core_stats(h.core)->bytes_pushed, 4 + 2 * 8);
    ck_assert_uint_eq(core_stats(h.core)->gradient_bytes, LEN * sizeof(float));
    op = push_with(steep, NULL, 0);
    harness_run(&h);
    end_op(&h, op, PS_OK);
    ck_assert_uint_eq(core_stats(h.core)->bytes_pushed, 4 + 2 * 8 + LEN * sizeof(float));
    ck_assert_uint_eq(core_stats(h.core)->gradient_bytes, 2 * LEN * sizeof(float));
}
END_TEST

START_TEST(push_that_is_not_compressed_leaves_alone_what_is_kept)
{
    struct core_op *op = residual_push(steep), *plain;

    expect_push(1);
    plain = push_with(flat, NULL, 0);
    expect_floats(expect_push(2), flat, "sent");
    expect_left((float[LEN]){1, 2, 3, 4, 5, 6, 0, 0});
    core_op_free(h.core, plain);
    core_op_free(h.core, op);
    harness_perform(&h);
}
END_TEST

/* With these answers a push has not counted: its own residual is discarded with it, the residual from before is not. */
static const enum ps_err not_counted[] = {PS_ERR_FULL,  PS_ERR_STALE,   PS_ERR_LATE,
                                          PS_ERR_CLOCK, PS_ERR_INVALID, PS_ERR_UNSUPPORTED};

START_TEST(push_that_did_not_count_was_never_there)
{
    struct core_op *op = residual_push(steep);

    expect_push(1);
    tell_ack(&h, 0, 1, PS_OK);
    end_op(&h, op, PS_OK);
    op = residual_push(flat);
    expect_push(2);
    tell_ack(&h, 0, 2, not_counted[_i]);
    end_op(&h, op, not_counted[_i]);
    expect_left((float[LEN]){1, 2, 3, 4, 5, 6, 0, 0});
}
END_TEST

static const enum ps_err counted[] = {PS_ERR_NOT_DURABLE, PS_ERR_UNKNOWN_OUTCOME};

START_TEST(push_that_counted_or_may_have_is_not_taken_back)
{
    struct core_op *op = residual_push(steep);

    expect_push(1);
    tell_ack(&h, 0, 1, counted[_i]);
    end_op(&h, op, counted[_i]);
    expect_left((float[LEN]){1, 2, 3, 4, 5, 6, 0, 0});
}
END_TEST

START_TEST(refusal_is_taken_back_behind_a_push_that_was_encoded_since)
{
    struct core_op *first = residual_push(steep), *second = residual_push(flat);

    expect_floats(expect_push(1), (float[LEN]){0, 0, 0, 0, 0, 0, 7, 8}, "sent");
    expect_floats(expect_push(2), (float[LEN]){0, 0, 0, 0, 6, 7, 0, 0}, "sent");
    tell_ack(&h, 0, 1, PS_ERR_FULL);
    end_op(&h, first, PS_ERR_FULL);
    tell_ack(&h, 0, 2, PS_OK);
    end_op(&h, second, PS_OK);
    expect_left((float[LEN]){1, 1, 1, 1, -5, -6, 1, 1}); /* of the second gradient alone, less what arrived */
}
END_TEST

START_TEST(blocks_that_were_dropped_are_taken_back_and_the_others_are_not)
{
    enum { MANY = 2016 }; /* two blocks of 1008 */
    static float g[MANY];
    struct core_var *v = harness_var(&h, "two", MANY);
    struct ps_push_options options = {.compress = &top};
    const float *grads = g;
    struct core_op *op;
    Psd__Ack a = PSD__ACK__INIT;
    Psd__AckBlocks b = PSD__ACK_BLOCKS__INIT, *list[] = {&b};
    uint64_t seq = 1;
    uint32_t code = PS_ERR_STALE, codes[] = {PS_ERR_STALE, PS_OK};
    double left = 0;

    for (int i = 0; i < MANY; i++)
        g[i] = 1;
    ck_assert_int_eq(core_push(h.core, 1, &v, &grads, NULL, &options, &op, NULL), PS_OK);
    harness_perform(&h);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->n_var, 2);
    a.n_seq = a.n_code = a.n_blocks = 1;
    a.seq = &seq;
    a.code = &code;
    a.blocks = list;
    b.seq = 1;
    b.n_code = 2;
    b.code = codes;
    to_client(&h, 0, MSG_ACK, 0, &a.base, NULL, 0);
    end_op(&h, op, PS_ERR_STALE);
    for (int i = 0; i < 1008; i++) {
        ck_assert(v->residual[i] == 0);
        left += (double)v->residual[1008 + i];
    }
    ck_assert(left == 1008 - 252);
}
END_TEST

START_TEST(push_that_is_cancelled_before_it_was_sent_was_never_there)
{
    struct core_op *op;

    harness_cut(&h, 0);
    harness_pass(&h, 1000);
    core_expect(&h, 0, MSG_HELLO);
    tell_welcome(&h, 0, (struct welcome){.last_seq = 0});
    op = residual_push(steep);
    expect_push(1);
    tell_ack(&h, 0, 1, PS_OK);
    end_op(&h, op, PS_OK);
    harness_cut(&h, 0);
    op = residual_push(flat);
    cancel_op(&h, op, PS_ERR_CANCELLED);
    expect_left((float[LEN]){1, 2, 3, 4, 5, 6, 0, 0});
}
END_TEST

/* It has its bytes and its number, but the shard has not let it out: in sync, behind data that went back. */
START_TEST(push_that_waits_at_a_gate_is_taken_back_when_it_is_cancelled)
{
    struct core_op *op;

    harness_stop(&h);
    harness_start(&h, 1, PS_SYNC);
    w = harness_var(&h, "w", LEN);
    op = residual_push(steep);
    expect_push(1);
    expect_left((float[LEN]){1, 2, 3, 4, 5, 6, 0, 0});
    tell_ack(&h, 0, 1, PS_OK);
    end_op(&h, op, PS_OK);
    h.core->links[0].gates = true;
    h.core->links[0].gated_through = 5;
    h.core->clock = 3;
    op = residual_push(flat);
    expect_left((float[LEN]){2, 3, 4, 5, 0, 0, 1, 1});
    cancel_op(&h, op, PS_ERR_CANCELLED);
    expect_left((float[LEN]){1, 2, 3, 4, 5, 6, 0, 0});
}
END_TEST

START_TEST(push_that_is_cancelled_once_it_was_sent_is_not_taken_back)
{
    struct core_op *op = residual_push(steep);

    expect_push(1);
    cancel_op(&h, op, PS_ERR_UNKNOWN_OUTCOME);
    expect_left((float[LEN]){1, 2, 3, 4, 5, 6, 0, 0});
    tell_ack(&h, 0, 1, PS_OK);
    expect_left((float[LEN]){1, 2, 3, 4, 5, 6, 0, 0});
}
END_TEST

START_TEST(push_that_is_sent_again_is_the_same_bytes)
{
    struct core_op *first = residual_push(steep), *second = residual_push(flat);

    expect_push(1);
    expect_push(2);
    harness_cut(&h, 0);
    harness_pass(&h, 1000);
    ck_assert(core_expect(&h, 0, MSG_HELLO).u.hello->resume);
    tell_welcome(&h, 0, (struct welcome){.last_seq = 1});
    expect_floats(expect_push(1), (float[LEN]){0, 0, 0, 0, 0, 0, 7, 8}, "sent again");
    expect_floats(expect_push(2), (float[LEN]){0, 0, 0, 0, 6, 7, 0, 0}, "sent again");
    tell_ack(&h, 0, 1, PS_OK);
    tell_ack(&h, 0, 2, PS_OK);
    end_op(&h, first, PS_OK);
    end_op(&h, second, PS_OK);
    expect_left((float[LEN]){2, 3, 4, 5, 0, 0, 1, 1});
}
END_TEST

/* A shard that lies: its connection ends, and until then the bytes are there to be written. */
START_TEST(push_that_is_answered_before_it_was_written_keeps_its_bytes_until_then)
{
    struct core_op *op;
    Psd__Ack a = PSD__ACK__INIT;
    uint64_t seq = 1;
    struct core_flight *f;

    h.hold = true;
    op = residual_push(steep);
    a.n_seq = 1;
    a.seq = &seq;
    flight_down(&h, 0, MSG_ACK, 0, &a.base, NULL, 0);
    f = flights_take(&h.link[0].down);
    core_frame(h.core, 0, &f->head, f->meta, NULL, h.now);
    flight_free(f);
    ck_assert(((const uint32_t *)h.link[0].unsent.first->send->parts[0].data)[0] == 2);
    harness_perform(&h);
    ck_assert_uint_eq(h.disconnects, 1);
    end_op(&h, op, PS_OK);
    expect_left((float[LEN]){1, 2, 3, 4, 5, 6, 0, 0});
}
END_TEST

START_TEST(gradient_that_is_not_finite_is_refused_and_changes_nothing)
{
    float bad[LEN] = {1, 2, 3, INFINITY, 5, 6, 7, 8};
    struct ps_push_options options = {.compress = &top};
    const float *g = bad;
    struct core_op *op = residual_push(steep);
    struct ps_error e;

    expect_push(1);
    ck_assert_int_eq(core_push(h.core, 1, &w, &g, NULL, &options, &op, &e), PS_ERR_NONFINITE);
    ck_assert(strstr(e.text, "'w'") != NULL);
    bad[3] = NAN;
    ck_assert_int_eq(core_push(h.core, 1, &w, &g, NULL, &options, &op, &e), PS_ERR_NONFINITE);
    harness_perform(&h);
    expect_nothing(&h, 0);
    expect_left((float[LEN]){1, 2, 3, 4, 5, 6, 0, 0});
}
END_TEST

START_TEST(compression_that_makes_no_sense_is_refused)
{
    static const struct ps_compress bad[] = {
        {.kind = (enum ps_compress_kind)9}, {PS_COMPRESS_TOP_K, 1.5}, {PS_COMPRESS_TOP_K, -0.1}};
    const float *g = steep;
    struct core_op *op;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct ps_push_options options = {.compress = &bad[i]};

        ck_assert_int_eq(core_push(h.core, 1, &w, &g, NULL, &options, &op, NULL), PS_ERR_INVALID);
    }
    ck_assert(w->residual == NULL);
}
END_TEST

START_TEST(copied_gradient_may_change_at_once_and_is_taken_back_all_the_same)
{
    float mine[LEN];
    struct core_op *op;

    memcpy(mine, steep, sizeof mine);
    op = push_with(mine, &top, PS_PUSH_COPY);
    memset(mine, 0, sizeof mine);
    expect_push(1);
    tell_ack(&h, 0, 1, PS_ERR_FULL);
    end_op(&h, op, PS_ERR_FULL);
    expect_left((float[LEN]){0});
}
END_TEST

START_TEST(client_that_fails_takes_back_what_was_not_sent)
{
    struct core_op *first = residual_push(steep), *second;

    expect_push(1);
    h.core->links[0].gates = true;
    h.core->links[0].gated_through = UINT64_MAX;
    h.core->links[0].slowest = 0;
    h.core->clock = 1;
    second = residual_push(flat); /* encoded, and held back */
    expect_left((float[LEN]){2, 3, 4, 5, 0, 0, 1, 1});
    tell_error(&h, 0, 0, PS_ERR_FENCED, "another one came");
    end_op(&h, first, PS_ERR_FENCED);
    end_op(&h, second, PS_ERR_FENCED);
    expect_left((float[LEN]){1, 2, 3, 4, 5, 6, 0, 0});
}
END_TEST

START_TEST(shard_that_lost_its_data_gets_the_same_bytes_under_new_numbers)
{
    struct core_op *first = residual_push(steep), *second;

    expect_push(1);
    tell_ack(&h, 0, 1, PS_OK);
    end_op(&h, first, PS_OK);
    second = residual_push(flat);
    expect_push(2);
    harness_cut(&h, 0);
    harness_pass(&h, 1000);
    core_expect(&h, 0, MSG_HELLO);
    tell_welcome(&h, 0, (struct welcome){.boot = 9});
    {
        Psd__Declared d = PSD__DECLARED__INIT;

        d.var = 4;
        to_client(&h, 0, MSG_DECLARED, core_expect(&h, 0, MSG_DECLARE).request, &d.base, NULL, 0);
    }
    expect_floats(expect_push(1), (float[LEN]){0, 0, 0, 0, 6, 7, 0, 0}, "sent again");
    tell_ack(&h, 0, 1, PS_OK);
    end_op(&h, second, PS_OK);
    expect_left((float[LEN]){2, 3, 4, 5, 0, 0, 1, 1});
}
END_TEST

/* ---- At random ---- */

#define MANY 70000 /* blocks of all sizes */

static const struct ps_compress codecs[] = {{.kind = PS_COMPRESS_NONE},
                                            {.kind = PS_COMPRESS_FLOAT16},
                                            {.kind = PS_COMPRESS_BFLOAT16},
                                            {.kind = PS_COMPRESS_TOP_K, .fraction = 0.02}};

/* Honest shards that are cut off now and then; pushes that are cancelled before they were sent. The arrived values and
 * the residual are the sum of all that was not cancelled. */
START_TEST(nothing_is_lost_and_nothing_counts_twice)
{
    static float sum[MANY], grads[4][MANY];
    struct core_op *ops[4] = {NULL};
    struct test_rng r = {test_seed() + (uint64_t)_i};
    struct core_var *v;

    harness_stop(&h);
    harness_start(&h, 3, PS_ASYNC);
    v = harness_var(&h, "many", MANY);
    memset(sum, 0, sizeof sum);
    for (int step = 0; step < 40; step++) {
        int slot = (int)test_below(&r, ARRAY_LEN(ops));
        float *g = grads[slot];
        struct ps_push_options options = {.compress = &codecs[test_below(&r, ARRAY_LEN(codecs))]};
        bool cancel = test_below(&r, 5) == 0;

        if (ops[slot] != NULL) {
            harness_run(&h);
            end_op(&h, ops[slot], PS_OK);
        }
        for (int i = 0; i < MANY; i++)
            g[i] = (float)((int)test_below(&r, 257) - 128) / 16;
        if (cancel) {
            harness_run(&h);
            for (uint32_t s = 0; s < 3; s++)
                harness_cut(&h, s);
        }
        ck_assert_int_eq(core_push(h.core, 1, &v, &(const float *){g}, NULL, &options, &ops[slot], NULL), PS_OK);
        harness_perform(&h);
        if (cancel) {
            cancel_op(&h, ops[slot], PS_ERR_CANCELLED);
            ops[slot] = NULL;
            continue;
        }
        for (int i = 0; i < MANY; i++)
            sum[i] += g[i];
        for (uint64_t n = test_below(&r, 6); n > 0; n--)
            model_step(&h, (uint32_t)test_below(&r, 3));
        if (test_below(&r, 3) == 0)
            harness_cut(&h, (uint32_t)test_below(&r, 3));
    }
    harness_run(&h);
    for (size_t i = 0; i < ARRAY_LEN(ops); i++)
        if (ops[i] != NULL)
            end_op(&h, ops[i], PS_OK);
    for (uint64_t b = 0; b < v->layout.blocks; b++) {
        struct layout_block block = layout_block(&v->layout, b);
        const struct core_model *m = &h.model[placement_shard(v->start, b, 3)];

        for (uint64_t i = block.first; i < block.first + block.len; i++)
            if (m->var[0].value[i] + v->residual[i] != sum[i])
                ck_abort_msg("element %llu: %g arrived, %g is left, of %g", (unsigned long long)i,
                             (double)m->var[0].value[i], (double)v->residual[i], (double)sum[i]);
    }
}
END_TEST

/* ---- Encoded by the caller ---- */

static const struct ps_compress halves = {.kind = PS_COMPRESS_BFLOAT16};
static int residual_noted; /* of the one block: 1, it is on its way; -1: it does not count; 0: nothing was said */

static void
residual_note_block(void *arg, size_t var, uint64_t block, bool counts)
{
    ck_assert(arg == &h && var == 0 && block == 0);
    residual_noted = counts ? 1 : -1;
}

static struct core_op *
push_encoded(uint8_t encoding[2 * LEN])
{
    const uint8_t *data[] = {encoding};
    static const size_t begin[] = {0};
    static const size_t *const offset[] = {begin};
    struct core_encoded encoded = {data, offset, residual_note_block, &h};
    struct ps_push_options options = {.compress = &halves};
    struct core_op *op;
    struct ps_error e = {0};

    residual_noted = 0;
    codec_encode(&halves, LEN, steep, NULL, encoding);
    ck_assert_msg(core_push_encoded(h.core, 1, &w, &encoded, &options, &op, &e) == PS_OK, "%s", e.text);
    harness_perform(&h);
    return op;
}

START_TEST(what_the_caller_encoded_goes_as_it_is_and_keeps_no_residual_here)
{
    uint8_t encoding[2 * LEN] __attribute__((aligned(4)));
    struct core_op *op = push_encoded(encoding);

    memset(encoding, 0xee, sizeof encoding); /* the request has a copy */
    expect_floats(expect_push(1), steep, "sent");
    ck_assert_ptr_null(w->residual);
    ck_assert_int_eq(residual_noted, 1);
    tell_ack(&h, 0, 1, PS_OK);
    end_op(&h, op, PS_OK);
    ck_assert_int_eq(residual_noted, 1);
    ck_assert_uint_eq(core_stats(h.core)->bytes_pushed, 2 * LEN);
}
END_TEST

START_TEST(the_caller_learns_which_of_its_encodings_do_not_count)
{
    uint8_t encoding[2 * LEN] __attribute__((aligned(4)));
    struct core_op *op = push_encoded(encoding);

    expect_push(1);
    tell_ack(&h, 0, 1, not_counted[_i]);
    end_op(&h, op, not_counted[_i]);
    ck_assert_int_eq(residual_noted, -1);
}
END_TEST

START_TEST(an_encoding_that_was_sent_and_given_up_is_not_taken_back)
{
    uint8_t encoding[2 * LEN] __attribute__((aligned(4)));
    struct core_op *op = push_encoded(encoding);

    expect_push(1);
    core_op_free(h.core, op);
    harness_perform(&h);
    ck_assert_int_eq(residual_noted, 1);
    tell_ack(&h, 0, 1, PS_ERR_STALE); /* its caller has left */
    ck_assert_int_eq(residual_noted, 1);
}
END_TEST

static Suite *
residual_suite(void)
{
    Suite *s = suite_create("residual");
    TCase *t = tcase_create("residual");

    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, residual_setup, residual_teardown);
    tcase_add_test(t, what_is_left_out_comes_with_the_next_push);
    tcase_add_test(t, bytes_that_travel_are_counted_beside_those_of_the_gradient);
    tcase_add_test(t, push_that_is_not_compressed_leaves_alone_what_is_kept);
    tcase_add_loop_test(t, push_that_did_not_count_was_never_there, 0, ARRAY_LEN(not_counted));
    tcase_add_loop_test(t, push_that_counted_or_may_have_is_not_taken_back, 0, ARRAY_LEN(counted));
    tcase_add_test(t, refusal_is_taken_back_behind_a_push_that_was_encoded_since);
    tcase_add_test(t, blocks_that_were_dropped_are_taken_back_and_the_others_are_not);
    tcase_add_test(t, push_that_is_cancelled_before_it_was_sent_was_never_there);
    tcase_add_test(t, push_that_waits_at_a_gate_is_taken_back_when_it_is_cancelled);
    tcase_add_test(t, push_that_is_cancelled_once_it_was_sent_is_not_taken_back);
    tcase_add_test(t, push_that_is_sent_again_is_the_same_bytes);
    tcase_add_test(t, push_that_is_answered_before_it_was_written_keeps_its_bytes_until_then);
    tcase_add_test(t, gradient_that_is_not_finite_is_refused_and_changes_nothing);
    tcase_add_test(t, compression_that_makes_no_sense_is_refused);
    tcase_add_test(t, copied_gradient_may_change_at_once_and_is_taken_back_all_the_same);
    tcase_add_test(t, client_that_fails_takes_back_what_was_not_sent);
    tcase_add_test(t, shard_that_lost_its_data_gets_the_same_bytes_under_new_numbers);
    tcase_add_test(t, what_the_caller_encoded_goes_as_it_is_and_keeps_no_residual_here);
    tcase_add_loop_test(t, the_caller_learns_which_of_its_encodings_do_not_count, 0, ARRAY_LEN(not_counted));
    tcase_add_test(t, an_encoding_that_was_sent_and_given_up_is_not_taken_back);
    tcase_add_loop_test(t, nothing_is_lost_and_nothing_counts_twice, 0, 5);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(residual_suite)
