/* A strategy without memory for its variables: every allocation of creating the second one fails once, and leaves the
 * first as it was. Then it is created after all, and the training begins. */
#include "client/include/psclient/ps_strategy.h"
#include "common/core/base/base.h"
#include "tests/unit/kits/check_main.h"
#include "tests/unit/kits/counted_memory.h"

enum { WIDTH = 37, REPLICAS = 3 };

static const char *const names[] = {"one_device", "mirrored", "central_storage"};
static struct ps_error error;

/* *nth: the allocation that fails, 0: none; afterwards 0 if it has failed, or there was none. */
static enum ps_err
strategy_memory_create(ps_strategy *s, const char *name, const char *optimizer, size_t *nth)
{
    struct ps_var_spec spec = {.name = name, .rank = 1, .dims = {WIDTH}, .init = {PS_INIT_CONSTANT, 1, 0, 0}};
    enum ps_err err;

    ck_assert_int_eq(ps_optimizer_parse(optimizer, &spec.optimizer, &error), PS_OK);
    fail_in = *nth; /* Check allocates, too */
    err = ps_strategy_variable(s, &spec, &error);
    *nth = fail_in;
    fail_in = 0;
    return err;
}

/* The gradient of every value is 1. */
static enum ps_err
strategy_memory_step(void *arg, struct ps_replica *r, struct ps_error *e)
{
    (void)arg;
    (void)e;
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < WIDTH; k++)
            r->gradients[i][k] = 1;
    return PS_OK;
}

static void
train_one_step(ps_strategy *s)
{
    ck_assert_int_eq(ps_strategy_start(s, &error), PS_OK);
    ck_assert_int_eq(ps_strategy_run(s, 1, &(struct ps_strategy_calls){.step = strategy_memory_step}, &error), PS_OK);
    for (uint32_t r = 0; r < ps_strategy_replicas(s); r++)
        for (size_t i = 0; i < 2; i++)
            ck_assert(ps_strategy_values(s, r)[i][WIDTH - 1] < 1);
}

/* The nth allocation fails; false: there are not so many. */
static bool
create_without(const char *name, size_t nth)
{
    struct ps_strategy_options options = {.replicas = REPLICAS, .rows = 6, .batch = 6, .threads = 1};
    size_t left = nth, none = 0;
    ps_strategy *s;
    enum ps_err err;
    bool failed;

    ck_assert_int_eq(ps_strategy_open(name, &options, &s, &error), PS_OK);
    ck_assert_int_eq(strategy_memory_create(s, "a", "momentum", &none), PS_OK);
    err = strategy_memory_create(s, "b", "adam", &left);
    failed = left == 0;
    if (failed) {
        ck_assert_msg(err == PS_ERR_NOMEM, "allocation %zu: %s", nth, error.text);
        ck_assert_uint_eq(ps_strategy_variables(s), 1);
        ck_assert_int_eq(strategy_memory_create(s, "a", "sgd", &none), PS_ERR_INVALID); /* it is there */
        err = strategy_memory_create(s, "b", "adam", &none);
    }
    ck_assert_int_eq(err, PS_OK);
    ck_assert_uint_eq(ps_strategy_variables(s), 2);
    train_one_step(s);
    ps_strategy_close(s);
    return failed;
}

START_TEST(a_variable_without_memory_leaves_no_trace)
{
    size_t nth = 1;

    while (create_without(names[_i], nth))
        nth++;
#ifndef SANITIZED
    ck_assert_uint_gt(nth, 5); /* lists, the variable, its values, slots and gradients */
#endif
}
END_TEST

/* A program that gives up only has to close, and nothing is left behind. */
START_TEST(a_strategy_is_closed_after_it)
{
    struct ps_strategy_options options = {.replicas = REPLICAS, .rows = 6, .batch = 6, .threads = 1};
    ps_strategy *s;

    for (size_t nth = 1; nth < 8; nth++) {
        size_t left = nth, none = 0, held = taken - given;

        ck_assert_int_eq(ps_strategy_open(names[_i], &options, &s, &error), PS_OK);
        ck_assert_int_eq(strategy_memory_create(s, "a", "momentum", &none), PS_OK);
        (void)!strategy_memory_create(s, "b", "adam", &left);
        ps_strategy_close(s);
        ck_assert_msg(nth == 1 || taken - given == held, "allocation %zu: %zu are held", nth, taken - given - held);
    }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("strategy_memory");
    TCase *tc = tcase_create("strategy_memory");

    tcase_add_loop_test(tc, a_variable_without_memory_leaves_no_trace, 0, (int)ARRAY_LEN(names));
    tcase_add_loop_test(tc, a_strategy_is_closed_after_it, 0, (int)ARRAY_LEN(names));
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
