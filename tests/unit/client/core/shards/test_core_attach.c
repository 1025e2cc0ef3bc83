/* Attaching: a client that did not declare a variable gets its definition from its shards, and reads it. */
#include "tests/unit/client/core/shards/core_harness.h"

enum { SHARDS = 3, N = 300000 }; /* 9 blocks, 3 on each shard */

static struct harness h;
static float out[N];

static void
attach_observe(void)
{
    ck_assert(harness_try_init_as(&h, SHARDS, PS_ASYNC, true));
    harness_run(&h);
    ck_assert(core_joined(h.core));
}

static void
attach_teardown(void)
{
    harness_stop(&h);
}

/* Some worker has declared this, of two dimensions, on one shard. */
static void
make_on(uint32_t shard, const char *name, uint64_t rows)
{
    Psd__Declare d = PSD__DECLARE__INIT;
    Psd__Initializer init = PSD__INITIALIZER__INIT;
    Psd__Optimizer sgd = PSD__OPTIMIZER__INIT;
    uint64_t dims[2] = {rows, 3};
    struct core_model *m = &h.model[shard];

    d.name = (char *)name;
    d.n_dims = 2;
    d.dims = dims;
    d.init = &init;
    d.optimizer = &sgd;
    sgd.learning_rate = 0.5;
    model_make_var(&h, shard, &d);
    for (uint64_t i = 0; i < rows * 3; i++)
        m->var[m->vars - 1].value[i] = (float)i;
}

static void
attach_make(const char *name, uint64_t rows)
{
    for (uint32_t i = 0; i < SHARDS; i++)
        make_on(i, name, rows);
}

static struct core_op *
start_attach(const char *name)
{
    struct core_op *op;
    struct ps_error e = {0};

    ck_assert_msg(core_attach(h.core, name, &op, &e) == PS_OK, "%s", e.text);
    harness_perform(&h);
    return op;
}

static struct core_var *
attach_start(const char *name)
{
    struct core_op *op = start_attach(name);
    struct core_var *v;

    harness_run(&h);
    ck_assert(core_op_done(op));
    v = core_op_variable(op);
    end_op(&h, op, PS_OK);
    return v;
}

static uint32_t
first_shard(const char *name)
{
    return placement_shard(placement_start("job", name, SHARDS), 0, SHARDS);
}

static void
pull_all(struct core_var *v)
{
    struct core_op *op;

    memset(out, 0, sizeof out);
    op = start_pull(&h, v, out);
    harness_run(&h);
    end_op(&h, op, PS_OK);
    for (uint64_t i = 0; i < core_var_elements(v); i++)
        if (out[i] != (float)i)
            ck_abort_msg("element %llu is %g", (unsigned long long)i, (double)out[i]);
}

/* ---- What is there ---- */

START_TEST(observer_reads_what_others_declared)
{
    struct core_var *v;
    struct core_op *op;

    attach_observe();
    attach_make("w", N / 3);
    v = attach_start("w");
    ck_assert_str_eq(core_var_name(v), "w");
    ck_assert_uint_eq(core_var_elements(v), N);
    ck_assert_uint_eq(core_var_rank(v), 2);
    ck_assert_uint_eq(core_var_dim(v, 0), N / 3);
    ck_assert_uint_eq(core_var_dim(v, 1), 3);
    ck_assert_uint_eq(core_var_dim(v, 2), 0);
    ck_assert_ptr_eq(attach_start("w"), v);
    pull_all(v);
    op = start_pull(&h, v, out);
    ck_assert(core_expect(&h, 0, MSG_PULL).u.pull->now);
    cancel_op(&h, op, PS_ERR_CANCELLED);
}
END_TEST

START_TEST(only_shards_that_hold_blocks_are_asked)
{
    uint32_t first = first_shard("small");
    struct core_op *op;

    attach_observe();
    make_on(first, "small", 2);
    op = start_attach("small");
    for (uint32_t i = 0; i < SHARDS; i++)
        ck_assert_uint_eq(h.link[i].up.n, i == first);
    harness_run(&h);
    pull_all(core_op_variable(op));
    end_op(&h, op, PS_OK);
}
END_TEST

START_TEST(worker_attaches_and_pushes)
{
    static float grad[N];
    uint64_t pushed = 0;
    struct core_var *v;
    struct core_op *op;

    harness_start(&h, SHARDS, PS_ASYNC);
    attach_make("w", N / 3);
    v = attach_start("w");
    pull_all(v);
    op = start_push(&h, v, grad);
    harness_run(&h);
    end_op(&h, op, PS_OK);
    for (uint32_t i = 0; i < SHARDS; i++)
        for (uint64_t b = 0; b < core_var_blocks(v); b++)
            pushed += h.model[i].var[0].version[b];
    ck_assert_uint_eq(pushed, core_var_blocks(v));
}
END_TEST

START_TEST(what_this_client_declared_may_be_attached_to)
{
    struct core_var *v;

    harness_start(&h, SHARDS, PS_ASYNC);
    v = harness_var(&h, "w", N);
    ck_assert_ptr_eq(attach_start("w"), v);
}
END_TEST

/* ---- What is not ---- */

START_TEST(what_nobody_declared_is_not_found)
{
    struct core_op *op;
    struct ps_error e;
    char shard[16];

    attach_observe();
    op = start_attach("w");
    harness_run(&h);
    ck_assert_int_eq(core_op_result(op, &e), PS_ERR_NOT_FOUND);
    ck_assert_str_eq(e.text, "no such variable");
    snprintf(shard, sizeof shard, "shard %u ", first_shard("w"));
    ck_assert_ptr_nonnull(strstr(e.peer, shard));
    ck_assert_ptr_null(core_op_variable(op));
    core_op_free(h.core, op);
    attach_make("w", 2); /* and then a worker declares it */
    pull_all(attach_start("w"));
}
END_TEST

START_TEST(one_shard_that_does_not_know_it_yet_is_not_found)
{
    uint32_t first = first_shard("w");
    struct core_op *op;

    attach_observe();
    for (uint32_t i = 0; i < SHARDS; i++)
        if (i != (first + 1) % SHARDS)
            make_on(i, "w", N / 3);
    op = start_attach("w");
    harness_run(&h);
    end_op(&h, op, PS_ERR_NOT_FOUND);
    make_on((first + 1) % SHARDS, "w", N / 3);
    pull_all(attach_start("w"));
}
END_TEST

START_TEST(shards_that_disagree_are_a_mismatch)
{
    uint32_t first = first_shard("w");
    struct core_op *op;
    struct ps_error e;

    attach_observe();
    for (uint32_t i = 0; i < SHARDS; i++)
        make_on(i, "w", i == first ? N / 3 : N / 3 + 1);
    op = start_attach("w");
    harness_run(&h);
    ck_assert_int_eq(core_op_result(op, &e), PS_ERR_MISMATCH);
    ck_assert_ptr_nonnull(strstr(e.text, "100000,3"));
    ck_assert_ptr_nonnull(strstr(e.text, "100001,3"));
    end_op(&h, op, PS_ERR_MISMATCH);
}
END_TEST

START_TEST(an_answer_about_something_else_is_not_believed)
{
    Psd__Declare d = PSD__DECLARE__INIT;
    Psd__Declared answer = PSD__DECLARED__INIT;
    uint32_t first = first_shard("w");
    struct core_op *op;

    attach_observe();
    d.name = (char *)"v";
    answer.declare = _i == 0 ? NULL : &d;
    op = start_attach("w");
    to_client(&h, first, MSG_DECLARED, core_expect(&h, first, MSG_ATTACH).request, &answer.base, NULL, 0);
    end_op(&h, op, PS_ERR_PROTOCOL);
}
END_TEST

START_TEST(what_cannot_be_attached_to_is_refused_at_once)
{
    char name[PS_NAME_MAX + 2];
    struct core_op *op;

    attach_observe();
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    ck_assert_int_eq(core_attach(h.core, NULL, &op, NULL), PS_ERR_INVALID);
    ck_assert_int_eq(core_attach(h.core, "", &op, NULL), PS_ERR_INVALID);
    ck_assert_int_eq(core_attach(h.core, name, &op, NULL), PS_ERR_INVALID);
    ck_assert_int_eq(core_attach(h.core, "\xff", &op, NULL), PS_ERR_INVALID);
}
END_TEST

START_TEST(observer_only_reads)
{
    struct ps_var_spec spec = {.name = "v", .rank = 1, .dims = {4}, .optimizer = {.learning_rate = 1}};
    const float *grad = out;
    struct core_var *v, *none;
    struct core_op *op;
    struct ps_error e;

    attach_observe();
    attach_make("w", 2);
    v = attach_start("w");
    ck_assert_int_eq(core_declare(h.core, &spec, &none, &op, &e), PS_ERR_INVALID);
    ck_assert_int_eq(core_push(h.core, 1, &v, &grad, NULL, NULL, &op, &e), PS_ERR_INVALID);
    ck_assert_int_eq(core_tick(h.core, &op, &e), PS_ERR_INVALID);
    ck_assert_int_eq(core_barrier(h.core, "b", &op, &e), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(e.text, "observer"));
}
END_TEST

/* ---- Giving up ---- */

START_TEST(giving_up_in_either_round_leaves_no_trace)
{
    uint32_t first = first_shard("w");
    struct core_op *op;

    attach_observe();
    attach_make("w", N / 3);
    op = start_attach("w");
    if (_i > 0) { /* the first shard has answered, the others have been asked */
        ck_assert(model_step(&h, first) && harness_deliver(&h, first));
        ck_assert_uint_eq(h.link[(first + 1) % SHARDS].up.n, 1);
    }
    cancel_op(&h, op, PS_ERR_CANCELLED);
    harness_run(&h);
    pull_all(attach_start("w"));
}
END_TEST

/* ---- Lost connections and data ---- */

START_TEST(after_a_reconnect_ids_are_what_they_were)
{
    struct core_var *v;
    struct core_op *op;

    attach_observe();
    attach_make("w", N / 3);
    v = attach_start("w");
    op = start_pull(&h, v, out);
    harness_cut(&h, 1);
    harness_pass(&h, 1000);
    core_expect(&h, 1, MSG_HELLO);
    tell_welcome(&h, 1, (struct welcome){0});
    ck_assert_uint_eq(core_expect(&h, 1, MSG_PULL).u.pull->var[0], 0); /* no attach before it */
    core_op_free(h.core, op);
    harness_perform(&h);
}
END_TEST

/* All is gone, and the variable comes back under another number. */
START_TEST(a_shard_that_came_back_empty_is_asked_until_it_knows_the_variable)
{
    struct core_var *v;
    struct core_op *op;

    attach_observe();
    attach_make("w", N / 3);
    v = attach_start("w");
    model_forget(&h.model[1]);
    harness_cut(&h, 1);
    op = start_pull(&h, v, out);
    harness_run(&h);
    for (int i = 0; i < 3; i++) {
        ck_assert(!core_op_done(op));
        expect_nothing(&h, 1);
        harness_pass(&h, SHARD_LINK_ATTACH_MS);
        ck_assert_uint_eq(h.link[1].up.n, 1);
        harness_run(&h);
    }
    make_on(1, "other", 2);
    make_on(1, "w", N / 3);
    harness_pass(&h, SHARD_LINK_ATTACH_MS);
    harness_run(&h);
    end_op(&h, op, PS_OK);
    pull_all(v);
    ck_assert_uint_eq(v->shard[1].id, 1);
}
END_TEST

/* Nor is it the end when its disk fails while a worker declares it. */
START_TEST(an_observer_whose_variable_cannot_be_made_asks_again)
{
    struct core_var *v;
    struct core_op *op;

    attach_observe();
    attach_make("w", N / 3);
    v = attach_start("w");
    model_forget(&h.model[1]);
    harness_cut(&h, 1);
    op = start_pull(&h, v, out);
    harness_pass(&h, 1000);
    ck_assert(model_step(&h, 1) && harness_deliver(&h, 1)); /* its hello */
    tell_error(&h, 1, core_expect(&h, 1, MSG_ATTACH).request, PS_ERR_IO, "the disk");
    ck_assert_int_eq(h.last_event.code, PS_ERR_IO);
    make_on(1, "w", N / 3);
    harness_pass(&h, SHARD_LINK_ATTACH_MS);
    harness_run(&h);
    end_op(&h, op, PS_OK);
}
END_TEST

START_TEST(another_variable_in_its_place_is_final)
{
    struct core_var *v;
    struct core_op *op;

    attach_observe();
    attach_make("w", N / 3);
    v = attach_start("w");
    model_forget(&h.model[1]);
    make_on(1, "w", N / 3 + 1);
    op = start_pull(&h, v, out);
    harness_cut(&h, 1);
    harness_pass(&h, 1000);
    for (int i = 0; i < 3; i++)
        (void)(model_step(&h, 1) && harness_deliver(&h, 1));
    end_op(&h, op, PS_ERR_MISMATCH);
    ck_assert_int_eq(core_fatal(h.core, NULL), PS_ERR_MISMATCH);
}
END_TEST

/* One shard has answered and loses all; another has not: the operation ends when both know the variable. */
START_TEST(data_lost_while_others_are_asked_is_asked_for_again)
{
    struct ps_var_spec spec = {.name = "w", .rank = 1, .dims = {N}, .optimizer = {.learning_rate = 1}};
    bool attaching = _i > 0;
    uint32_t first = first_shard("w");
    struct core_var *v;
    struct core_op *op;

    if (attaching) {
        attach_observe();
        attach_make("w", N / 3);
        op = start_attach("w");
    } else {
        harness_start(&h, SHARDS, PS_ASYNC);
        ck_assert_int_eq(core_declare(h.core, &spec, &v, &op, NULL), PS_OK);
        harness_perform(&h);
    }
    ck_assert(model_step(&h, first) && harness_deliver(&h, first));
    model_forget(&h.model[first]);
    if (attaching)
        make_on(first, "w", N / 3);
    harness_cut(&h, first);
    harness_pass(&h, 1000);
    while (model_step(&h, first) && harness_deliver(&h, first)) /* it is back before the others answer */
        ;
    ck_assert(!core_op_done(op));
    harness_run(&h);
    v = attaching ? core_op_variable(op) : v;
    end_op(&h, op, PS_OK);
    op = start_pull(&h, v, out);
    harness_run(&h);
    end_op(&h, op, PS_OK);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("core_attach");
    TCase *t = tcase_create("core_attach");

    tcase_add_checked_fixture(t, NULL, attach_teardown);
    tcase_add_test(t, observer_reads_what_others_declared);
    tcase_add_test(t, only_shards_that_hold_blocks_are_asked);
    tcase_add_test(t, worker_attaches_and_pushes);
    tcase_add_test(t, what_this_client_declared_may_be_attached_to);
    tcase_add_test(t, what_nobody_declared_is_not_found);
    tcase_add_test(t, one_shard_that_does_not_know_it_yet_is_not_found);
    tcase_add_test(t, shards_that_disagree_are_a_mismatch);
    tcase_add_loop_test(t, an_answer_about_something_else_is_not_believed, 0, 2);
    tcase_add_test(t, what_cannot_be_attached_to_is_refused_at_once);
    tcase_add_test(t, observer_only_reads);
    tcase_add_loop_test(t, giving_up_in_either_round_leaves_no_trace, 0, 2);
    tcase_add_test(t, after_a_reconnect_ids_are_what_they_were);
    tcase_add_test(t, a_shard_that_came_back_empty_is_asked_until_it_knows_the_variable);
    tcase_add_test(t, an_observer_whose_variable_cannot_be_made_asks_again);
    tcase_add_test(t, another_variable_in_its_place_is_final);
    tcase_add_loop_test(t, data_lost_while_others_are_asked_is_asked_for_again, 0, 2);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
