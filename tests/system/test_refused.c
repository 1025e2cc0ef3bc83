/* Steps of parameter_server and local_sgd whose exchange with real shards fails: the run ends with the error, and since
 * the tick was already sent, the next one goes on behind that step, with the values that the shards have.
 *
 * Gradients are ones and rates powers of two, so that a variable's expected value is exact. */
#include <math.h>

#include "client/api/client_state.h"
#include "client/include/psclient/ps_strategy.h"
#include "common/core/base/base.h"
#include "common/core/cluster/placement.h"
#include "tests/system/fine.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/kits/check_main.h"

enum { WIDTH = 8, ROWS = 64, BATCH = 4, VARIABLES = 2, STEPS = 8, BAD_STEP = 3, WAIT_MS = 100 };

static struct shards shards;
static struct ps_error error;

static void
refused_setup(void)
{
    shards_start(&shards, 2);
}

static void
refused_teardown(void)
{
    shards_stop(&shards);
}

/* ---- Training ---- */

struct refused_way {
    const char *strategy;
    enum ps_mode mode;
    const char *clip; /* of the variables' optimizers, or "" */
    enum ps_compress_kind compress;
    uint32_t local_steps;
    bool seen_here;    /* the client itself refuses the gradient, and so pushes nothing */
    const char *outer; /* local_sgd: the variables' optimizer; NULL: sgd with a rate of 1 */
};

struct refused_worker {
    ps_strategy *strategy;
    float gradient;
    float bad;                 /* variable 0's gradient instead, */
    uint64_t bad_from, bad_to; /* in these steps */
    uint64_t after;            /* steps that were reported */
};

static enum ps_err
refused_step(void *arg, struct ps_replica *r, struct ps_error *e)
{
    const struct refused_worker *w = arg;
    bool bad = r->step >= w->bad_from && r->step < w->bad_to;

    (void)e;
    for (size_t i = 0; i < VARIABLES; i++)
        for (size_t k = 0; k < WIDTH; k++)
            r->gradients[i][k] = w->gradient;
    if (bad)
        r->gradients[0][WIDTH - 1] = w->bad;
    r->metrics[0] += 1;
    return PS_OK;
}

static enum ps_err
refused_after(void *arg, const struct ps_step_done *done, struct ps_error *e)
{
    struct refused_worker *w = arg;

    (void)done;
    (void)e;
    w->after++;
    return PS_OK;
}

static enum ps_err
refused_run(struct refused_worker *w, uint64_t until)
{
    return ps_strategy_run(w->strategy, until, &(struct ps_strategy_calls){refused_step, refused_after, w}, &error);
}

/* A refusal on one shard does not affect the other. */
static void
assert_apart(const char *a, const char *b)
{
    ck_assert_uint_ne(placement_start("refused", a, 2) % 2, placement_start("refused", b, 2) % 2);
}

/* Two variables, so that both shards have one. */
static void
refused_create(ps_strategy *s, const struct refused_way *way)
{
    static const char *const names[VARIABLES] = {"v", "w"};
    struct ps_var_spec spec = {.rank = 1, .dims = {WIDTH}};
    char optimizer[64];

    snprintf(optimizer, sizeof optimizer, "sgd:learning_rate=1%s", way->clip);
    assert_apart(names[0], names[1]);
    FINE(ps_optimizer_parse(optimizer, &spec.optimizer, &error));
    for (size_t i = 0; i < VARIABLES; i++) {
        spec.name = names[i];
        FINE(ps_strategy_variable(s, &spec, &error));
    }
    FINE(ps_strategy_start(s, &error));
}

static struct refused_worker
refused_begin(const struct refused_way *way, uint32_t workers, uint32_t task)
{
    struct refused_worker w = {.gradient = 1};
    struct ps_strategy_options options = {
        .client = {.job = "refused", .mode = way->mode, .compress = {.kind = way->compress}},
        .local = {.steps = way->local_steps},
        .threads = 1,
        .rows = ROWS,
        .batch = BATCH,
        .metrics = 1};
    ps_cluster *cluster;

    FINE(ps_optimizer_parse(way->outer != NULL ? way->outer : "sgd:learning_rate=1", &options.local.outer, &error));
    FINE(ps_cluster_from_list(shards.addresses, workers, task, &cluster, &error));
    FINE(ps_cluster_set_name(cluster, SHARDS_CLUSTER, &error));
    options.cluster = cluster;
    FINE(ps_strategy_open(way->strategy, &options, &w.strategy, &error));
    ps_cluster_free(cluster);
    refused_create(w.strategy, way);
    return w;
}

static void
assert_values(const struct refused_worker *w, float v, float x)
{
    for (size_t k = 0; k < WIDTH - 1; k++) {
        ck_assert_float_eq(ps_strategy_values(w->strategy, 0)[0][k], v);
        ck_assert_float_eq(ps_strategy_values(w->strategy, 0)[1][k], x);
    }
}

/* All meet, each in a call of its own: so this is for one worker alone. */
static void
assert_totals(const struct refused_worker *w, uint64_t steps)
{
    uint64_t rows;
    double metric;

    FINE(ps_strategy_meet(w->strategy, &error));
    ps_strategy_totals(w->strategy, &rows, &metric);
    ck_assert_uint_eq(rows, steps * BATCH);
    ck_assert_double_eq(metric, (double)steps);
}

static void
assert_given_over(const struct refused_worker *w, uint64_t given_over, uint64_t resumed)
{
    struct ps_strategy_stats stats;

    ps_strategy_stats(w->strategy, &stats);
    ck_assert_uint_eq(stats.given_over, given_over);
    ck_assert_uint_eq(stats.resumed, resumed);
}

/* ---- A gradient that is refused ---- */

static const struct refused_way ways[] = {
    {"parameter_server", PS_ASYNC, "", PS_COMPRESS_NONE, 0, false, NULL},
    {"parameter_server", PS_SSP, "", PS_COMPRESS_NONE, 0, false, NULL},
    {"parameter_server", PS_SYNC, "", PS_COMPRESS_NONE, 0, false, NULL},
    {"parameter_server", PS_SYNC, "", PS_COMPRESS_FLOAT16, 0, true, NULL},
    {"parameter_server", PS_ASYNC, ",clip=given_norm,limit=64", PS_COMPRESS_NONE, 0, true, NULL},
};

START_TEST(a_step_that_is_refused_is_over_and_the_next_run_goes_on_behind_it)
{
    const struct refused_way *way = &ways[_i];
    struct refused_worker w = refused_begin(way, 1, 0);
    float other = way->seen_here ? 0 : 1; /* the step's change of the variable that was not refused */

    w.bad = NAN;
    w.bad_from = BAD_STEP;
    w.bad_to = BAD_STEP + 1;
    ck_assert_int_eq(refused_run(&w, STEPS), PS_ERR_NONFINITE);
    ck_assert_uint_eq(ps_strategy_step(w.strategy), BAD_STEP + 1);
    ck_assert_uint_eq(w.after, BAD_STEP);
    assert_values(&w, -BAD_STEP, -BAD_STEP - other);
    FINE(refused_run(&w, STEPS));
    ck_assert_uint_eq(ps_strategy_step(w.strategy), STEPS);
    ck_assert_uint_eq(w.after, STEPS - 1);
    assert_values(&w, 1 - STEPS, 1 - STEPS - other);
    assert_totals(&w, STEPS);
    assert_given_over(&w, 1, 0); /* the values came along with the error */
    ps_strategy_close(w.strategy);
}
END_TEST

/* Each gradient is finite, and so is what the worker's own optimizer makes of them; the shard's optimizer overflows. */
START_TEST(a_round_that_is_refused_is_over_and_the_next_one_begins_with_the_shards_values)
{
    const struct refused_way way = {"local_sgd", PS_SYNC, "", PS_COMPRESS_NONE, 2, false, "sgd:learning_rate=2"};
    struct refused_worker w = refused_begin(&way, 1, 0);

    w.bad = 3e38F;
    w.bad_from = 2;
    w.bad_to = 3;
    ck_assert_int_eq(refused_run(&w, STEPS), PS_ERR_NONFINITE);
    ck_assert_uint_eq(ps_strategy_step(w.strategy), 4);
    assert_values(&w, -4, -8);
    FINE(refused_run(&w, STEPS));
    assert_values(&w, 4 - 2 * STEPS, -2 * STEPS);
    assert_totals(&w, STEPS);
    assert_given_over(&w, 1, 0); /* the values came along with the error */
    ps_strategy_close(w.strategy);
}
END_TEST

/* ---- An exchange that is not answered in time ---- */

static const struct refused_way slow[] = {
    {"parameter_server", PS_SSP, "", PS_COMPRESS_NONE, 0, false, NULL}, /* of bound 0: the pull waits */
    {"parameter_server", PS_SYNC, "", PS_COMPRESS_NONE, 0, false, NULL},
    {"local_sgd", PS_SYNC, "", PS_COMPRESS_NONE, 1, false, NULL},
};

/* Worker 0 does not wait for long, and comes back for the values when the other has done its step. */
START_TEST(a_step_that_is_not_answered_in_time_is_over_and_its_values_come_later)
{
    const struct refused_way *way = &slow[_i];
    struct refused_worker w = refused_begin(way, 2, 0), other = refused_begin(way, 2, 1);
    ps_client *c = ps_strategy_client(w.strategy);
    int patience = c->options.timeout_ms;
    float a_step = way->mode == PS_SYNC ? 2 : 4; /* the mean, or the sum */

    other.gradient = 3;
    for (uint64_t n = 1; n <= 2; n++) {
        c->options.timeout_ms = WAIT_MS;
        ck_assert_int_eq(refused_run(&w, n), PS_ERR_TIMEOUT);
        ck_assert_uint_eq(ps_strategy_step(w.strategy), n);
        ck_assert_int_eq(refused_run(&w, n), PS_ERR_TIMEOUT);
        c->options.timeout_ms = patience;
        FINE(refused_run(&other, n));
        FINE(refused_run(&w, n));
        assert_given_over(&w, n, n); /* the second run of each step waited for values alone */
        assert_given_over(&other, 0, 0);
        assert_values(&w, -a_step * (float)n, -a_step * (float)n);
        assert_values(&other, -a_step * (float)n, -a_step * (float)n);
    }
    ps_strategy_abandon(w.strategy);
    ps_strategy_abandon(other.strategy);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("refused");
    TCase *tc = tcase_create("refused");

    tcase_add_checked_fixture(tc, refused_setup, refused_teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, a_step_that_is_refused_is_over_and_the_next_run_goes_on_behind_it, 0, ARRAY_LEN(ways));
    tcase_add_test(tc, a_round_that_is_refused_is_over_and_the_next_one_begins_with_the_shards_values);
    tcase_add_loop_test(tc, a_step_that_is_not_answered_in_time_is_over_and_its_values_come_later, 0, ARRAY_LEN(slow));
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
