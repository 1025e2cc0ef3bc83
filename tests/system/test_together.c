/* Workers of a job begin together, at real psd processes: one that starts late holds the others back, in the job's
 * first round and in the next ones. */
#include <string.h>

#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"
#include "tests/system/fine.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/kits/check_main.h"

#define SHARDS  2
#define BLOCKS  3000 /* elements: some blocks on each shard */
#define SOON_MS 400  /* by then no answer has come that waits for a worker */

static struct shards shards;
static struct ps_error error;

static void
together_setup(void)
{
    shards_start(&shards, SHARDS);
}

static void
together_teardown(void)
{
    shards_stop(&shards);
}

struct together_worker {
    ps_client *client;
    ps_var *var;
    ps_op *push;
    float weights[BLOCKS], gradient[BLOCKS];
};

static struct together_worker workers[2];

static void
together_start(uint32_t task, const struct ps_client_options *options)
{
    struct ps_var_spec spec = {.name = "w", .rank = 1, .dims = {BLOCKS}, .optimizer = {.learning_rate = 1}};
    struct together_worker *w = &workers[task];
    ps_cluster *cluster;

    FINE(ps_cluster_from_list(shards.addresses, 2, task, &cluster, &error));
    FINE(ps_cluster_set_name(cluster, SHARDS_CLUSTER, &error));
    FINE(ps_client_open(cluster, options, &w->client, &error));
    ps_cluster_free(cluster);
    FINE(ps_client_declare(w->client, &spec, &w->var, &error));
}

static enum ps_err
together_pull(uint32_t task, int timeout_ms)
{
    struct together_worker *w = &workers[task];

    return ps_client_pull(w->client, 1, &w->var, (float *[]){w->weights},
                          &(struct ps_pull_options){.timeout_ms = timeout_ms}, &error);
}

static void
start_push(uint32_t task, float g)
{
    struct together_worker *w = &workers[task];

    for (int i = 0; i < BLOCKS; i++)
        w->gradient[i] = g;
    FINE(ps_client_push_start(w->client, 1, &w->var, (const float *[]){w->gradient}, NULL, &w->push, &error));
}

static void
end_push(uint32_t task)
{
    FINE(ps_op_wait(workers[task].push, -1, &error));
    ps_op_free(workers[task].push);
    FINE(ps_client_tick(workers[task].client, &error));
}

START_TEST(late_starter_in_ssp_is_waited_for_from_clock_0)
{
    struct ps_client_options ssp = {.mode = PS_SSP, .bound = 1};

    together_start(0, &ssp);
    for (int step = 0; step < 2; step++) {
        FINE(together_pull(0, -1));
        start_push(0, 1);
        end_push(0);
    }
    ck_assert_int_eq(together_pull(0, SOON_MS), PS_ERR_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(error.text, "it waits for worker 1"));
    together_start(1, &ssp);
    ck_assert_uint_eq(ps_client_clock(workers[1].client), 0);
    ck_assert_int_eq(together_pull(0, SOON_MS), PS_ERR_TIMEOUT);
    start_push(1, 1);
    end_push(1);
    FINE(together_pull(0, -1));
    ck_assert_float_eq(workers[0].weights[0], -3);
    ps_client_close(workers[0].client);
    ps_client_close(workers[1].client);
}
END_TEST

/* _i: the worker that starts first in the second round. */
START_TEST(job_that_runs_again_waits_for_all_again_whatever_is_killed)
{
    struct ps_client_options sync = {.mode = PS_SYNC};
    uint32_t first = (uint32_t)_i, second = 1 - first;

    together_start(0, &sync);
    together_start(1, &sync);
    start_push(0, 1);
    start_push(1, 3);
    end_push(0);
    end_push(1);
    ps_client_close(workers[0].client);
    ps_client_close(workers[1].client);
    shards_kill(&shards, 0);
    shards_restart(&shards, 0);
    together_start(first, &sync);
    ck_assert_uint_eq(ps_client_clock(workers[first].client), 1);
    start_push(first, 2);
    ck_assert_int_eq(ps_op_wait(workers[first].push, SOON_MS, &error), PS_ERR_TIMEOUT);
    ck_assert_msg(strstr(error.text, second == 0 ? "it waits for worker 0" : "it waits for worker 1") != NULL, "%s",
                  error.text);
    shards_kill(&shards, 1);
    shards_restart(&shards, 1);
    together_start(second, &sync);
    ck_assert_uint_eq(ps_client_clock(workers[second].client), 1);
    start_push(second, 4);
    end_push(first);
    end_push(second);
    FINE(together_pull(first, -1));
    for (int i = 0; i < BLOCKS; i++)
        ck_assert_float_eq(workers[first].weights[i], -5); /* the means of 1 and 3, of 2 and 4 */
    ps_client_close(workers[0].client);
    ps_client_close(workers[1].client);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("together");
    TCase *t = tcase_create("together");

    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, together_setup, together_teardown);
    tcase_add_test(t, late_starter_in_ssp_is_waited_for_from_clock_0);
    tcase_add_loop_test(t, job_that_runs_again_waits_for_all_again_whatever_is_killed, 0, 2);
    suite_add_tcase(suite, t);
    return suite;
}

CHECK_MAIN(make_suite)
