/* Limits of the client core: bytes handed out, pulls outstanding, numbers unacknowledged; how an operation is cut into
 * frames; versions that messages carry. */
#include "tests/unit/client/core/shards/core_harness.h"

#define LARGE      (256 * KIB) /* bytes of the largest block */
#define MIB_FLOATS (MIB / sizeof(float))

static struct harness h;

static void
core_window_setup(void)
{
    harness_start(&h, 1, PS_ASYNC);
}

static void
core_window_teardown(void)
{
    harness_stop(&h);
}

START_TEST(bytes_handed_out_are_bounded)
{
    struct core_var *v = harness_var(&h, "w", 16 * MIB_FLOATS);
    float *grad = calloc(16 * MIB_FLOATS, sizeof(float));
    struct core_op *op;
    uint64_t total = 0, held;

    h.hold = true;
    op = start_push(&h, v, grad);
    held = h.link[0].unsent.n;
    ck_assert_uint_ge(held, SHARD_LINK_SEND_BYTES / LARGE);
    ck_assert_uint_le(held, SHARD_LINK_SEND_BYTES / LARGE + 1);
    while (h.link[0].unsent.n > 0) {
        ck_assert_uint_le(h.link[0].unsent.n, held);
        harness_release(&h, 0, 1);
        flights_drop(&h.link[0].up);
        total++;
    }
    ck_assert_uint_eq(total, core_var_blocks(v));
    core_op_free(h.core, op);
    free(grad);
}
END_TEST

START_TEST(pulls_outstanding_are_bounded)
{
    struct core_var *v = harness_var(&h, "w", 40 * MIB_FLOATS);
    float *out = malloc((size_t)40 * MIB_FLOATS * sizeof(float));
    struct core_op *op = start_pull(&h, v, out);

    ck_assert_uint_eq(h.link[0].up.n, SHARD_LINK_PULL_BYTES / LARGE);
    model_step(&h, 0);
    harness_deliver(&h, 0);
    ck_assert_uint_eq(h.link[0].up.n, SHARD_LINK_PULL_BYTES / LARGE);
    harness_run(&h);
    end_op(&h, op, PS_OK);
    free(out);
}
END_TEST

START_TEST(unacknowledged_pushes_are_bounded_by_count_alone)
{
    struct core_var *v = harness_var(&h, "w", 1);
    static struct core_op *ops[SHARD_LINK_UNACKED_MAX + 3];
    float grad[1] = {1};
    uint64_t sent = 0;
    uint32_t i;

    for (i = 0; i < ARRAY_LEN(ops); i++) {
        if (core_push(h.core, 1, &v, &(const float *){grad}, NULL, NULL, &ops[i], NULL) != PS_OK)
            ck_abort_msg("push %u was refused", i);
        for (struct core_action a; core_next_action(h.core, &a);) {
            if (a.kind != CORE_SEND)
                ck_abort_msg("action %d", (int)a.kind);
            core_sent(h.core, a.send, PS_OK);
            sent++;
        }
    }
    ck_assert_uint_eq(sent, SHARD_LINK_UNACKED_MAX);
    tell_ack(&h, 0, 2, PS_OK); /* not the oldest: nothing moves */
    expect_nothing(&h, 0);
    tell_ack(&h, 0, 1, PS_OK);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->seq, SHARD_LINK_UNACKED_MAX + 1);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->seq, SHARD_LINK_UNACKED_MAX + 2);
    expect_nothing(&h, 0);
    for (i = 0; i < ARRAY_LEN(ops); i++)
        ops[i]->owned = false; /* freed with the core */
}
END_TEST

START_TEST(large_blocks_go_alone_and_small_ones_together)
{
    /* One block of 256 KiB, one of 64 KiB, two of a page. */
    struct core_var *v = harness_var(&h, "w", LARGE / sizeof(float) + 16384 + 1008 + 10);
    float *grad = calloc(LARGE / sizeof(float) + 20000, sizeof(float));
    struct core_op *op;
    struct wire_msg m;

    ck_assert_uint_eq(core_var_blocks(v), 4);
    op = start_push(&h, v, grad);
    m = core_expect(&h, 0, MSG_PUSH);
    ck_assert_uint_eq(m.u.push->n_block, 1);
    ck_assert_uint_eq(m.payload_len, LARGE);
    m = core_expect(&h, 0, MSG_PUSH);
    ck_assert_uint_eq(m.u.push->n_block, 3);
    ck_assert_uint_eq(m.payload_len, (16384 + 1008 + 10) * sizeof(float));
    expect_nothing(&h, 0);
    core_op_free(h.core, op);
    harness_perform(&h);
    free(grad);
}
END_TEST

START_TEST(variables_of_one_operation_share_frames)
{
    struct core_var *vars[3] = {harness_var(&h, "a", 3), harness_var(&h, "b", 5), harness_var(&h, "c", 7)};
    float a[3] = {1, 2, 3}, b[5] = {4, 5}, c[7] = {6};
    float *out[3] = {a, b, c};
    const float *grads[3] = {a, b, c};
    struct core_op *op;
    struct core_flight *f;
    float want[15] = {1, 2, 3, 4, 5, 0, 0, 0, 6};

    ck_assert_int_eq(core_push(h.core, 3, vars, grads, NULL, NULL, &op, NULL), PS_OK);
    harness_perform(&h);
    ck_assert_uint_eq(h.link[0].up.n, 1);
    f = h.link[0].up.first;
    ck_assert_uint_eq(f->head.payload_len, sizeof(want));
    ck_assert_mem_eq(f->payload, want, sizeof(want));
    harness_run(&h);
    end_op(&h, op, PS_OK);
    memset(c, 0, sizeof(c));
    ck_assert_int_eq(core_pull(h.core, 3, vars, out, NULL, &op, NULL), PS_OK);
    harness_run(&h);
    end_op(&h, op, PS_OK);
    ck_assert_float_eq(c[0], 6);
}
END_TEST

START_TEST(a_frame_holds_a_bounded_number_of_blocks)
{
    static struct core_var *vars[REQUEST_BLOCKS_MAX + 1];
    static float *out[REQUEST_BLOCKS_MAX + 1];
    struct core_var *v = harness_var(&h, "w", 1);
    float room[1];
    struct core_op *op;
    uint32_t i;

    for (i = 0; i < ARRAY_LEN(vars); i++) {
        vars[i] = v;
        out[i] = room;
    }
    ck_assert_int_eq(core_pull(h.core, ARRAY_LEN(vars), vars, out, NULL, &op, NULL), PS_OK);
    harness_perform(&h);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PULL).u.pull->n_block, REQUEST_BLOCKS_MAX);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PULL).u.pull->n_block, 1);
    core_op_free(h.core, op);
    harness_perform(&h);
}
END_TEST

START_TEST(known_and_unknown_versions_do_not_share_a_push)
{
    struct core_var *vars[2] = {harness_var(&h, "a", 3), harness_var(&h, "b", 3)};
    float a[3] = {0}, b[3] = {0};
    const float *grads[2] = {a, b};
    struct core_op *op;
    struct wire_msg m;

    op = start_pull(&h, vars[1], b);
    harness_run(&h);
    end_op(&h, op, PS_OK);
    ck_assert_int_eq(core_push(h.core, 2, vars, grads, NULL, NULL, &op, NULL), PS_OK);
    harness_perform(&h);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_PUSH).u.push->n_from_version, 0);
    m = core_expect(&h, 0, MSG_PUSH);
    ck_assert_uint_eq(m.u.push->n_from_version, 1);
    ck_assert_uint_eq(m.u.push->from_version[0], 0);
    core_op_free(h.core, op);
    harness_perform(&h);
}
END_TEST

START_TEST(each_block_carries_the_version_it_was_pulled_at)
{
    struct core_var *vars[3] = {harness_var(&h, "a", 1), harness_var(&h, "b", 1), harness_var(&h, "c", 1)};
    float x[3] = {0};
    float *out[3] = {&x[0], &x[1], &x[2]};
    const float *grads[3] = {&x[0], &x[1], &x[2]};
    struct core_op *op;
    struct wire_msg m;
    uint32_t i;

    for (i = 0; i < 3; i++)
        h.model[0].var[i].version[0] = 5 + i / 2; /* 5 5 6 */
    ck_assert_int_eq(core_pull(h.core, 3, vars, out, NULL, &op, NULL), PS_OK);
    harness_run(&h);
    end_op(&h, op, PS_OK);
    ck_assert_int_eq(core_push(h.core, 3, vars, grads, NULL, NULL, &op, NULL), PS_OK);
    harness_perform(&h);
    m = core_expect(&h, 0, MSG_PUSH);
    ck_assert_uint_eq(m.u.push->n_from_version, 3);
    for (i = 0; i < 3; i++)
        ck_assert_uint_eq(m.u.push->from_version[i], 5 + i / 2);
    core_op_free(h.core, op);
    harness_perform(&h);
}
END_TEST

START_TEST(only_changed_blocks_are_transferred)
{
    struct core_var *v = harness_var(&h, "w", 3000); /* three small blocks */
    struct ps_pull_options o = {.only_changed = 1};
    float out[3000];
    float *outs[1] = {out};
    struct core_op *op;
    uint64_t low, high;

    h.by_meta = true;
    ck_assert_int_eq(core_pull(h.core, 1, &v, outs, &o, &op, NULL), PS_OK);
    harness_run(&h);
    ck_assert_uint_eq(core_op_blocks(op), 3); /* no versions are known: all */
    end_op(&h, op, PS_OK);
    h.model[0].var[0].version[1] = 4;
    h.model[0].var[0].value[1008] = 8;
    h.model[0].var[0].value[0] = 9; /* unchanged by its version: not sent */
    ck_assert_int_eq(core_pull(h.core, 1, &v, outs, &o, &op, NULL), PS_OK);
    harness_run(&h);
    ck_assert_uint_eq(core_op_blocks(op), 1);
    end_op(&h, op, PS_OK);
    ck_assert_float_eq(out[1008], 8);
    ck_assert_float_eq(out[0], 0);
    core_var_versions(v, &low, &high);
    ck_assert_uint_eq(low, 0);
    ck_assert_uint_eq(high, 4);
    ck_assert_int_eq(core_pull(h.core, 1, &v, outs, &o, &op, NULL), PS_OK);
    harness_run(&h);
    ck_assert_uint_eq(core_op_blocks(op), 0);
    end_op(&h, op, PS_OK);
}
END_TEST

START_TEST(newer_than_is_one_version_for_all)
{
    struct core_var *v = harness_var(&h, "w", 3000);
    struct ps_pull_options o = {.newer_than = 2};
    float out[3000];
    float *outs[1] = {out};
    struct core_op *op;

    h.model[0].var[0].version[2] = 3;
    ck_assert_int_eq(core_pull(h.core, 1, &v, outs, &o, &op, NULL), PS_OK);
    harness_run(&h);
    ck_assert_uint_eq(core_op_blocks(op), 1);
    end_op(&h, op, PS_OK);
}
END_TEST

START_TEST(data_stays_what_was_asked_for_when_another_pull_was_faster)
{
    /* Two pulls of changed blocks, asked at once: the first's answer makes the versions known, the second's answer must
     * still be read by the versions that it asked with. */
    struct core_var *v = harness_var(&h, "w", 3000);
    struct ps_pull_options o = {.only_changed = 1};
    float a[3000], b[3000];
    float *outs[2] = {a, b};
    struct core_op *op, *first, *second;

    h.by_meta = true;
    ck_assert_int_eq(core_pull(h.core, 1, &v, outs, &o, &op, NULL), PS_OK);
    harness_run(&h);
    end_op(&h, op, PS_OK);
    h.model[0].var[0].version[1] = 4;
    ck_assert_int_eq(core_pull(h.core, 1, &v, &outs[0], &o, &first, NULL), PS_OK);
    ck_assert_int_eq(core_pull(h.core, 1, &v, &outs[1], &o, &second, NULL), PS_OK);
    harness_run(&h);
    ck_assert_uint_eq(core_op_blocks(first), 1);
    ck_assert_uint_eq(core_op_blocks(second), 1);
    end_op(&h, first, PS_OK);
    end_op(&h, second, PS_OK);
}
END_TEST

START_TEST(copied_gradients_are_free_at_once_and_counted)
{
    struct core_var *v = harness_var(&h, "w", 100);
    float grad[100] = {3};
    const float *grads[1] = {grad};
    struct core_op *op, *other;
    struct ps_error e;

    h.core->copies.max = 150 * sizeof(float);
    ck_assert_int_eq(core_push(h.core, 1, &v, grads, NULL, &copied, &op, &e), PS_OK);
    grad[0] = 99;
    ck_assert_int_eq(core_push(h.core, 1, &v, grads, NULL, &copied, &other, &e), PS_ERR_LIMIT);
    harness_run(&h);
    end_op(&h, op, PS_OK);
    ck_assert_float_eq(h.model[0].var[0].value[0], 3);
    ck_assert_int_eq(core_push(h.core, 1, &v, grads, NULL, &copied, &op, &e), PS_OK);
    harness_run(&h);
    end_op(&h, op, PS_OK);
}
END_TEST

static size_t
longest_chain(const struct core_var *vars)
{
    size_t longest = 0;

    for (unsigned i = 0; i < vars->hh.tbl->num_buckets; i++)
        longest = MAX(longest, vars->hh.tbl->buckets[i].count);
    return longest;
}

/* Each is looked at when it goes out and never again, and its name is found among a few. */
START_TEST(thousands_of_declarations_under_way_are_no_work_for_each_other)
{
    enum { MANY = 4000 };
    struct shard_link *l = &h.core->links[0];
    struct core_op **ops = calloc(MANY, sizeof(struct core_op *));

    for (uint32_t i = 0; i < MANY; i++) {
        char name[32];
        struct ps_var_spec spec = {.name = name, .rank = 1, .dims = {16}, .optimizer = {.learning_rate = 1}};
        struct core_var *v;

        snprintf(name, sizeof(name), "layer/%u/weights", i);
        ck_assert_int_eq(core_declare(h.core, &spec, &v, &ops[i], NULL), PS_OK);
        harness_perform(&h);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        Psd__Declared answer = PSD__DECLARED__INIT;

        answer.var = i;
        answer.created = true;
        to_client(&h, 0, MSG_DECLARED, core_expect(&h, 0, MSG_DECLARE).request, &answer.base, NULL, 0);
        end_op(&h, ops[i], PS_OK);
    }
    ck_assert_uint_le(l->asked_past, MANY);
    ck_assert_uint_le(longest_chain(h.core->vars.first), 20);
    free(ops);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("core_window");
    TCase *t = tcase_create("window");

    tcase_add_checked_fixture(t, core_window_setup, core_window_teardown);
    tcase_set_timeout(t, 30);
    tcase_add_test(t, bytes_handed_out_are_bounded);
    tcase_add_test(t, pulls_outstanding_are_bounded);
    tcase_add_test(t, unacknowledged_pushes_are_bounded_by_count_alone);
    tcase_add_test(t, large_blocks_go_alone_and_small_ones_together);
    tcase_add_test(t, variables_of_one_operation_share_frames);
    tcase_add_test(t, a_frame_holds_a_bounded_number_of_blocks);
    tcase_add_test(t, known_and_unknown_versions_do_not_share_a_push);
    tcase_add_test(t, each_block_carries_the_version_it_was_pulled_at);
    tcase_add_test(t, only_changed_blocks_are_transferred);
    tcase_add_test(t, newer_than_is_one_version_for_all);
    tcase_add_test(t, data_stays_what_was_asked_for_when_another_pull_was_faster);
    tcase_add_test(t, copied_gradients_are_free_at_once_and_counted);
    tcase_add_test(t, thousands_of_declarations_under_way_are_no_work_for_each_other);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
