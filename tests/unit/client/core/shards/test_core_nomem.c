/* The client core when memory runs out: the nth allocation fails, for every n of a run with all operations. Started
 * operations succeed or end with PS_ERR_NOMEM, the connection may be lost and made again, and nothing leaks or is
 * counted twice. The core is compiled into this test with allocations that can fail. */
#include "tests/unit/client/core/shards/core_harness.h"

static uint64_t allocations, fail_at; /* 0: none fails */

static bool
core_nomem_fails(void)
{
    return ++allocations == fail_at;
}

static void *
test_malloc(size_t size)
{
    return core_nomem_fails() ? NULL : malloc(size);
}

static void *
test_calloc(size_t n, size_t size)
{
    return core_nomem_fails() ? NULL : calloc(n, size);
}

static void *
test_realloc(void *old, size_t size)
{
    return core_nomem_fails() ? NULL : realloc(old, size);
}

#define malloc  test_malloc
#define calloc  test_calloc
#define realloc test_realloc
/* clang-format off: in the order of dependence */
#include "client/core/shards/core.c"
#include "client/core/shards/inbox.c"
#include "client/core/shards/op.c"
#include "client/core/shards/op_ask.c"
#include "client/core/shards/op_train.c"
#include "client/core/shards/op_wait.c"
#include "client/core/shards/outbox.c"
#include "client/core/shards/request.c"
#include "client/core/shards/request_pool.c"
#include "client/core/shards/resync.c"
#include "client/core/shards/scatter.c"
#include "client/core/shards/setting.c"
#include "client/core/shards/shard_link.c"
#include "client/core/shards/step_cursor.c"
#include "client/core/shards/variable.c"
/* clang-format on */
#undef malloc
#undef calloc
#undef realloc

enum { ELEMENTS = 20000, OPS = 8 };

static struct harness h;
static float grad[ELEMENTS], out[ELEMENTS];

static bool
fine_or_starved(enum ps_err err)
{
    if (err != PS_OK && err != PS_ERR_NOMEM)
        ck_abort_msg("%s", ps_err_name(err));
    return err == PS_OK;
}

/* Declare, waiting for memory. */
static struct core_var *
declare_somehow(const char *name, uint64_t n)
{
    struct ps_var_spec spec = {.name = name, .rank = 1, .dims = {n}, .optimizer = {.learning_rate = 1}};
    struct core_op *op;
    struct core_var *v;
    bool fine = false;

    while (!fine) {
        if (!fine_or_starved(core_declare(h.core, &spec, &v, &op, NULL)))
            continue;
        harness_run(&h);
        ck_assert(core_op_done(op));
        fine = fine_or_starved(core_op_result(op, NULL));
        core_op_free(h.core, op);
    }
    return v;
}

/* Another worker has declared it; attach, waiting for memory. */
static struct core_var *
attach_somehow(const char *name, uint64_t n)
{
    Psd__Declare d = PSD__DECLARE__INIT;
    Psd__Initializer init = PSD__INITIALIZER__INIT;
    Psd__Optimizer sgd = PSD__OPTIMIZER__INIT;
    struct core_var *v = NULL;
    struct core_op *op;

    d.name = (char *)name;
    d.n_dims = 1;
    d.dims = &n;
    d.init = &init;
    d.optimizer = &sgd;
    for (uint32_t i = 0; i < 2; i++)
        model_make_var(&h, i, &d);
    while (v == NULL) {
        if (!fine_or_starved(core_attach(h.core, name, &op, NULL)))
            continue;
        harness_run(&h);
        ck_assert(core_op_done(op));
        if (fine_or_starved(core_op_result(op, NULL)))
            v = core_op_variable(op);
        core_op_free(h.core, op);
    }
    return v;
}

static size_t
start_all(struct core_var *vars[3], struct core_op *ops[OPS])
{
    const float *grads[2] = {grad, grad};
    float *outs[3] = {out, out, out};
    struct ps_pull_options changed = {.only_changed = 1};
    struct ps_parameter rate = {"learning_rate", 0.5};
    struct ps_setting setting = {.variables = "*", .parameters = 1, .parameter = &rate};
    size_t n = 0;

    n += fine_or_starved(core_pull(h.core, 3, vars, outs, NULL, &ops[n], NULL));
    n += fine_or_starved(core_push(h.core, 2, vars, grads, NULL, NULL, &ops[n], NULL));
    n += fine_or_starved(core_tick(h.core, &ops[n], NULL));
    n += fine_or_starved(core_push(h.core, 1, &vars[1], grads, outs, &copied, &ops[n], NULL));
    n += fine_or_starved(core_barrier(h.core, "b", &ops[n], NULL));
    n += fine_or_starved(core_pull(h.core, 2, vars, outs, &changed, &ops[n], NULL));
    n += fine_or_starved(core_ping(h.core, 0, &ops[n], NULL));
    n += fine_or_starved(core_set(h.core, &setting, &ops[n], NULL));
    return n;
}

/* Returns false when the failing allocation was not reached. */
static bool
run_failing(uint64_t nth, bool crash)
{
    struct core_op *ops[OPS];
    struct core_var *vars[3];
    size_t n, i;

    allocations = 0;
    fail_at = nth;
    memset(&h, 0, sizeof(h));
    if (!harness_try_init(&h, 2, PS_ASYNC))
        return true; /* core_new() reported it */
    harness_run(&h);
    ck_assert(core_joined(h.core));
    h.by_meta = nth % 2 == 0;
    vars[0] = declare_somehow("a", ELEMENTS);
    vars[1] = declare_somehow("b", 100);
    vars[2] = attach_somehow("c", ELEMENTS);
    n = start_all(vars, ops);
    harness_perform(&h);
    model_step(&h, 0);
    harness_cut(&h, 0);
    if (crash)
        model_forget(&h.model[1]);
    harness_cut(&h, 1);
    harness_run(&h);
    for (i = 0; i < n; i++) {
        ck_assert(core_op_done(ops[i]));
        fine_or_starved(core_op_result(ops[i], NULL));
        core_op_free(h.core, ops[i]);
    }
    harness_run(&h);
    ck_assert(core_quiet(h.core));
    ck_assert_int_eq(core_fatal(h.core, NULL), PS_OK);
    ck_assert_uint_eq(h.core->copies.used, 0);
    harness_stop(&h);
    return allocations >= nth;
}

START_TEST(any_failing_allocation_is_survived)
{
    uint64_t n = 1;

    while (run_failing(n, _i == 1))
        n++;
    ck_assert_uint_ge(n, 30);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("core_nomem");
    TCase *t = tcase_create("core_nomem");

    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, any_failing_allocation_is_survived, 0, 2);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
