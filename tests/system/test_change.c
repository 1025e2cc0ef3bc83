/* Changing a running cluster of real psd processes through libpsclient: it affects every worker, a kill -9 does not
 * undo it, and a drained shard ends as after TERM. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"
#include "tests/system/fine.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/kits/check_main.h"

#define SHARDS 2
#define BIG    1500000 /* elements: blocks on every shard */

static struct shards shards;
static struct ps_error error;

static void
change_setup(void)
{
    shards_start(&shards, SHARDS);
}

static void
change_teardown(void)
{
    shards_stop(&shards);
}

static ps_client *
open_client(uint32_t workers, uint32_t task, const struct ps_client_options *o)
{
    ps_cluster *cluster;
    ps_client *c;

    FINE(ps_cluster_from_list(shards.addresses, workers, task, &cluster, &error));
    FINE(ps_cluster_set_name(cluster, SHARDS_CLUSTER, &error));
    FINE(ps_client_open(cluster, o, &c, &error));
    ps_cluster_free(cluster);
    return c;
}

/* A client in psctl's place. */
static ps_client *
change_observe(void)
{
    return open_client(1, 0, &(struct ps_client_options){.observer = 1});
}

static ps_var *
change_declare(ps_client *c, const char *name, uint64_t n, enum ps_clip_kind clip)
{
    struct ps_var_spec spec = {
        .name = name, .rank = 1, .dims = {n}, .optimizer = {.learning_rate = 1, .clip = {clip, clip != PS_CLIP_NONE}}};
    ps_var *v;

    FINE(ps_client_declare(c, &spec, &v, &error));
    return v;
}

/* Push ones (or `g`s); every element is then this value. */
static float
push_value(ps_client *c, ps_var *v, float g)
{
    size_t n = ps_var_elements(v);
    float *grad = malloc(n * sizeof *grad), *out = malloc(n * sizeof *out), value;

    for (size_t i = 0; i < n; i++)
        grad[i] = g;
    FINE(ps_client_push_pull(c, 1, &v, (const float *const[]){grad}, (float *const[]){out}, NULL, &error));
    value = out[0];
    for (size_t i = 1; i < n; i++)
        if (out[i] != value) /* an assertion for each would write to Check's pipe each time */
            ck_abort_msg("element %zu is %g, element 0 is %g", i, (double)out[i], (double)value);
    free(grad);
    free(out);
    return value;
}

static enum ps_err
set_rate(ps_client *c, const char *variables, double rate, uint64_t *named)
{
    struct ps_parameter p = {"learning_rate", rate};

    return ps_client_set(c, &(struct ps_setting){.variables = variables, .parameters = 1, .parameter = &p}, 20000,
                         named, &error);
}

static json_t *
change_ask(ps_client *c, uint32_t shard, enum ps_query query)
{
    char *text;
    json_t *json;

    FINE(ps_client_query(c, shard, query, NULL, -1, &text, &error));
    json = json_loads(text, 0, NULL);
    ck_assert_ptr_nonnull(json);
    ps_free(text);
    return json;
}

START_TEST(a_set_holds_on_all_shards_and_outlives_kill_9)
{
    ps_client *worker = open_client(1, 0, NULL), *other, *watcher = change_observe();
    ps_var *big = change_declare(worker, "big", BIG, PS_CLIP_NONE),
           *small = change_declare(worker, "small", 10, PS_CLIP_NONE);
    json_t *report;
    uint64_t named;

    ck_assert_float_eq(push_value(worker, big, 1), -1);
    FINE(set_rate(watcher, "b?g", 0.5, &named));
    ck_assert_uint_eq(named, 1);
    ck_assert_float_eq(push_value(worker, big, 1), -1.5f);
    ck_assert_float_eq(push_value(worker, small, 1), -1);
    FINE(set_rate(watcher, "*", 0.25, &named));
    ck_assert_uint_eq(named, 2);
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        shards_kill(&shards, shard);
        shards_restart(&shards, shard);
    }
    ck_assert_float_eq(push_value(worker, big, 1), -1.75f);
    ck_assert_float_eq(push_value(worker, small, 1), -1.25f);
    report = change_ask(watcher, 0, PS_QUERY_VARIABLES);
    ck_assert_double_eq(
        json_real_value(json_object_get(json_array_get(json_object_get(report, "variable"), 0), "learning_rate")),
        0.25);
    json_decref(report);
    ps_client_close(worker);
    other = open_client(1, 0, NULL); /* it opens and declares as it did the first time */
    ck_assert_float_eq(push_value(other, change_declare(other, "big", BIG, PS_CLIP_NONE), 1), -2);
    ps_client_close(other);
    ps_client_close(watcher);
}
END_TEST

START_TEST(bound_and_age_change_for_a_running_job)
{
    struct ps_client_options ssp = {.mode = PS_SSP, .bound = 1};
    ps_client *fast = open_client(2, 0, &ssp), *slow = open_client(2, 1, &ssp), *watcher = change_observe();
    ps_var *v = change_declare(fast, "w", 10, PS_CLIP_NONE);
    struct ps_age_policy age = {PS_AGE_INVERSE, 0};
    float out[10];
    uint32_t bound = 3;
    json_t *report, *job;
    ps_op *pull;

    for (int i = 0; i < 3; i++)
        FINE(ps_client_tick(fast, &error));
    FINE(ps_client_pull_start(fast, 1, &v, (float *const[]){out}, NULL, &pull, &error));
    ck_assert_int_eq(ps_op_wait(pull, 50, &error), PS_ERR_TIMEOUT); /* the slow one is three behind */
    FINE(ps_client_set(watcher, &(struct ps_setting){.bound = &bound, .age = &age}, -1, NULL, &error));
    FINE(ps_op_wait(pull, -1, &error));
    ps_op_free(pull);
    report = change_ask(watcher, 1, PS_QUERY_JOBS);
    job = json_array_get(json_object_get(report, "job"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(job, "name")), "train");
    ck_assert_str_eq(json_string_value(json_object_get(job, "options")),
                     "ssp(bound 3), 2 workers, lapse shrink, age inverse");
    ck_assert_int_eq(json_integer_value(json_object_get(job, "live")), 2);
    ck_assert_int_eq(json_integer_value(json_object_get(job, "fastest_clock")), 3);
    json_decref(report);
    ps_client_close(fast);
    ps_client_close(slow);
    ps_client_close(watcher);
}
END_TEST

START_TEST(what_cannot_be_set_is_refused_with_the_reason)
{
    ps_client *worker = open_client(1, 0, NULL), *watcher = change_observe();
    struct ps_clip norm = {PS_CLIP_GIVEN_NORM, 1};
    struct ps_parameter beta = {"beta1", 0.5};
    uint32_t bound = 3;

    change_declare(worker, "w", BIG, PS_CLIP_NONE);
    ck_assert_int_eq(set_rate(watcher, "v*", 0.5, NULL), PS_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "v*"));
    ck_assert_int_eq(set_rate(watcher, "w", -0.5, NULL), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "variable 'w'"));
    ck_assert_int_eq(ps_client_set(watcher, &(struct ps_setting){.variables = "w", .parameters = 1, .parameter = &beta},
                                   -1, NULL, &error),
                     PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_set(watcher, &(struct ps_setting){.variables = "w", .clip = &norm}, -1, NULL, &error),
                     PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_set(watcher, &(struct ps_setting){.bound = &bound}, -1, NULL, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_set(watcher, &(struct ps_setting){.job = "no", .bound = &bound}, -1, NULL, &error),
                     PS_ERR_NOT_FOUND);
    ps_client_close(worker);
    ps_client_close(watcher);
}
END_TEST

START_TEST(a_set_that_reaches_only_some_says_which)
{
    ps_client *worker = open_client(1, 0, NULL), *watcher = change_observe();
    struct ps_parameter p = {"learning_rate", 0.5};
    struct ps_setting s = {.variables = "w", .parameters = 1, .parameter = &p};

    change_declare(worker, "w", BIG, PS_CLIP_NONE);
    shards_kill(&shards, 1);
    ck_assert_int_eq(ps_client_set(watcher, &s, 300, NULL, &error), PS_ERR_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(error.text, "shard 1"));
    ck_assert_ptr_nonnull(strstr(error.text, "changed on shard 0 so far"));
    shards_restart(&shards, 1);
    FINE(ps_client_set(watcher, &s, 20000, NULL, &error));
    ps_client_close(worker);
    ps_client_close(watcher);
}
END_TEST

/* Two workers' gradients of norm 5 and 50 are clipped to 1 by what the library computes. */
START_TEST(gradients_are_clipped_by_the_norm_of_the_call)
{
    ps_client *c = open_client(1, 0, NULL);
    ps_var *v[2] = {change_declare(c, "a", 4, PS_CLIP_GIVEN_NORM), change_declare(c, "b", 12, PS_CLIP_GIVEN_NORM)};
    float a[4], b[12], out_a[4], out_b[12];
    struct ps_clip none = {PS_CLIP_NONE, 0};

    for (size_t i = 0; i < 12; i++)
        a[i % 4] = b[i] = 2; /* 16 elements: norm 8 */
    FINE(ps_client_push_pull(c, 2, v, (const float *const[]){a, b}, (float *const[]){out_a, out_b}, NULL, &error));
    ck_assert_float_eq(out_a[0], -0.25f);
    ck_assert_float_eq(out_b[11], -0.25f);
    FINE(ps_client_push_pull(c, 1, v, (const float *const[]){a}, (float *const[]){out_a},
                             &(struct ps_push_options){.norm = 16}, &error));
    ck_assert_float_eq(out_a[0], -0.25f - 0.125f);
    FINE(ps_client_set(c, &(struct ps_setting){.variables = "*", .clip = &none}, -1, NULL, &error));
    FINE(ps_client_push_pull(c, 1, v, (const float *const[]){a}, (float *const[]){out_a}, NULL, &error));
    ck_assert_float_eq(out_a[0], -2.375f);
    a[2] = NAN;
    ck_assert_int_eq(ps_client_push(c, 1, v, (const float *const[]){a}, NULL, &error), PS_ERR_NONFINITE);
    ps_client_close(c);
}
END_TEST

START_TEST(a_drained_shard_ends_well_and_goes_on_when_started_again)
{
    ps_client *worker = open_client(1, 0, NULL), *watcher = change_observe();
    ps_var *v = change_declare(worker, "w", BIG, PS_CLIP_NONE);

    ck_assert_float_eq(push_value(worker, v, 1), -1);
    ck_assert_int_eq(ps_client_drain(watcher, SHARDS, -1, &error), PS_ERR_INVALID);
    FINE(ps_client_drain(_i == 0 ? watcher : worker, 1, 20000, &error));
    shards_wait(&shards, 1);
    shards_restart(&shards, 1);
    ck_assert_float_eq(push_value(worker, v, 1), -2);
    ps_client_close(worker);
    ps_client_close(watcher);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("change");
    TCase *tc = tcase_create("change");

    tcase_add_checked_fixture(tc, change_setup, change_teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_set_holds_on_all_shards_and_outlives_kill_9);
    tcase_add_test(tc, bound_and_age_change_for_a_running_job);
    tcase_add_test(tc, what_cannot_be_set_is_refused_with_the_reason);
    tcase_add_test(tc, a_set_that_reaches_only_some_says_which);
    tcase_add_test(tc, gradients_are_clipped_by_the_norm_of_the_call);
    tcase_add_loop_test(tc, a_drained_shard_ends_well_and_goes_on_when_started_again, 0, 2);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
