/* Workers of libpsclient through a shard's loss of power: it comes back from its last save and the durable pushes
 * since, each worker is told exactly how many of its pushes are gone, and training goes on in every mode: no call
 * hangs, none fails. The blocks at the end agree with these reports. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"
#include "common/core/cluster/placement.h"
#include "tests/system/fine.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/kits/check_main.h"

enum { SHARDS = 2, WORKERS = 2, ELEMENTS = 2000 /* a block for each shard */, STEPS = 240, CALL_MS = 60000 };

static const char *const by_hand[] = {"--save-interval", "0", NULL}; /* saves when asked only */
static struct shards shards;
static struct ps_error error;

struct rollback_worker {
    pthread_t thread;
    uint32_t task;
    enum ps_mode mode;
    bool durable, threaded;
    uint64_t step;    /* within the mutex */
    atomic_uint told; /* times ROLLED_BACK */
    uint64_t rolled_back[SHARDS];
    enum ps_err err;
    struct ps_error error;
};
static struct rollback_worker workers[WORKERS];

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static uint64_t limit; /* steps that they may do */

/* ---- Workers ---- */

/* The worker has come to this step; it goes on when it may. */
static void
come_to(struct rollback_worker *w, uint64_t step)
{
    pthread_mutex_lock(&mutex);
    w->step = step;
    pthread_cond_broadcast(&moved);
    while (step >= limit && step < STEPS)
        pthread_cond_wait(&moved, &mutex);
    pthread_mutex_unlock(&mutex);
}

static void
set_limit(uint64_t to)
{
    pthread_mutex_lock(&mutex);
    limit = to;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&mutex);
}

/* All have come there, or failed. */
static void
await_step(uint64_t step)
{
    pthread_mutex_lock(&mutex);
    for (uint32_t i = 0; i < WORKERS; i++)
        while (workers[i].step < step)
            pthread_cond_wait(&moved, &mutex);
    pthread_mutex_unlock(&mutex);
}

static void
note_event(void *arg, const struct ps_error *event)
{
    struct rollback_worker *w = arg;

    if (event->code == PS_ERR_ROLLED_BACK)
        atomic_fetch_add(&w->told, 1);
}

static enum ps_err
open_worker(struct rollback_worker *w, ps_client **client, ps_var **var)
{
    struct ps_client_options o = {.mode = w->mode,
                                  .bound = 2,
                                  .durable = w->durable,
                                  .timeout_ms = CALL_MS,
                                  .progress_thread = w->threaded,
                                  .on_event = note_event,
                                  .on_event_arg = w};
    struct ps_var_spec spec = {.name = "w", .rank = 1, .dims = {ELEMENTS}, .optimizer = {.learning_rate = 1}};
    ps_cluster *cluster;
    enum ps_err err;

    if ((err = ps_cluster_from_list(shards.addresses, WORKERS, w->task, &cluster, &w->error)) != PS_OK)
        return err;
    if ((err = ps_cluster_set_name(cluster, SHARDS_CLUSTER, &w->error)) == PS_OK)
        err = ps_client_open(cluster, &o, client, &w->error);
    ps_cluster_free(cluster);
    return err == PS_OK ? ps_client_declare(*client, &spec, var, &w->error) : err;
}

static enum ps_err
run_worker(struct rollback_worker *w, ps_client *client, ps_var *var)
{
    static const float ones[ELEMENTS] = {[0 ... ELEMENTS - 1] = 1};
    const float *gradient = ones;
    float *values = calloc(ELEMENTS, sizeof *values);
    enum ps_err err = PS_OK;
    uint64_t step;

    while (err == PS_OK && (step = ps_client_clock(client)) < STEPS) {
        come_to(w, step);
        if ((err = ps_client_pull(client, 1, &var, &values, NULL, &w->error)) == PS_OK &&
            (err = ps_client_push(client, 1, &var, &gradient, NULL, &w->error)) == PS_OK)
            err = ps_client_tick(client, &w->error);
    }
    come_to(w, STEPS);
    if (err == PS_OK)
        err = ps_client_barrier(client, "done", CALL_MS, &w->error);
    free(values);
    for (uint32_t i = 0; i < SHARDS; i++)
        w->rolled_back[i] = ps_client_rolled_back(client, i);
    return err;
}

static void *
worker_main(void *arg)
{
    struct rollback_worker *w = arg;
    ps_client *client = NULL;
    ps_var *var;

    if ((w->err = open_worker(w, &client, &var)) == PS_OK)
        w->err = run_worker(w, client, var);
    if (w->err != PS_OK)
        come_to(w, STEPS); /* no worker needs to wait for it */
    ps_client_close(client);
    return NULL;
}

/* ---- The world ---- */

static ps_client *
rollback_observe(void)
{
    struct ps_client_options o = {.observer = 1, .timeout_ms = CALL_MS};
    ps_cluster *cluster;
    ps_client *c;

    FINE(ps_cluster_from_list(shards.addresses, 1, 0, &cluster, &error));
    FINE(ps_cluster_set_name(cluster, SHARDS_CLUSTER, &error));
    FINE(ps_client_open(cluster, &o, &c, &error));
    ps_cluster_free(cluster);
    return c;
}

static void
save_all(void)
{
    ps_client *c = rollback_observe();

    for (uint32_t i = 0; i < SHARDS; i++)
        FINE(ps_client_save(c, i, CALL_MS, NULL, &error));
    ps_client_close(c);
}

/* The values in the blocks of each shard: the same in all elements. */
static void
read_shards(float values[SHARDS])
{
    uint32_t start = placement_start("train", "w", SHARDS);
    float *all = calloc(ELEMENTS, sizeof *all);
    ps_client *c = rollback_observe();
    ps_var *v;

    FINE(ps_client_attach(c, "w", &v, &error));
    FINE(ps_client_pull(c, 1, &v, &all, NULL, &error));
    values[placement_shard(start, 0, SHARDS)] = all[0];
    values[placement_shard(start, 1, SHARDS)] = all[ELEMENTS - 1];
    for (size_t i = 1; i < ELEMENTS; i++)
        ck_assert(all[i] == all[0] || all[i] == all[ELEMENTS - 1]);
    ps_client_close(c);
    free(all);
}

/* Memory is gone, the disk is there. */
static void
lose_power(uint32_t shard)
{
    char command[sizeof shards.directory + 32];

    shards_kill(&shards, shard);
    snprintf(command, sizeof command, "rm -r %s/%u", shards.directory, shard);
    ck_assert_int_eq(system(command), 0);
    shards_restart(&shards, shard);
}

static void
rollback_setup(void)
{
    shards_start_with(&shards, SHARDS, &(struct shards_options){.more = by_hand, .durable = true});
}

static void
rollback_teardown(void)
{
    shards_stop(&shards);
}

/* ---- Tests ---- */

static const struct {
    enum ps_mode mode;
    bool durable[WORKERS], threaded;
} runs[] = {
    {PS_ASYNC, {false, true}, false}, {PS_SSP, {true, false}, false},  {PS_SYNC, {false, false}, false},
    {PS_SYNC, {true, false}, false},  {PS_SYNC, {false, false}, true}, {PS_ASYNC, {false, false}, true},
};

static void
rollback_train(int run)
{
    set_limit(40);
    for (uint32_t i = 0; i < WORKERS; i++) {
        workers[i] = (struct rollback_worker){
            .task = i, .mode = runs[run].mode, .durable = runs[run].durable[i], .threaded = runs[run].threaded};
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]), 0);
    }
    await_step(40);
    save_all();
    set_limit(UINT64_MAX);
    await_step(70);
    lose_power(1);
    await_step(120);
    lose_power(1); /* once more from the same save */
    await_step(160);
    save_all();
    await_step(190);
    lose_power(1);
    for (uint32_t i = 0; i < WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        ck_assert_msg(workers[i].err == PS_OK, "worker %u: %s: %s (%s)", i, ps_err_name(workers[i].err),
                      workers[i].error.text, workers[i].error.peer);
    }
}

START_TEST(training_goes_on_and_what_is_gone_is_told)
{
    float values[SHARDS];
    uint64_t gone = 0;

    rollback_train(_i);
    read_shards(values);
    for (uint32_t i = 0; i < WORKERS; i++) {
        ck_assert_uint_le(atomic_load(&workers[i].told), 3); /* the last may come when it has ended */
        ck_assert_uint_ge(atomic_load(&workers[i].told), 2);
        ck_assert_uint_eq(workers[i].rolled_back[0], 0);
        if (runs[_i].durable[i])
            ck_assert_uint_eq(workers[i].rolled_back[1], 0);
        else if (runs[_i].mode != PS_SYNC)
            ck_assert_uint_gt(workers[i].rolled_back[1], 0);
        gone += workers[i].rolled_back[1];
    }
    if (runs[_i].mode == PS_SYNC) { /* the mean of ones is one: a step's worth */
        ck_assert_float_eq(values[0], -STEPS);
        ck_assert_msg((double)(STEPS + values[1]) * WORKERS <= (double)gone + WORKERS * 3 &&
                          (double)gone <= (double)(STEPS + values[1]) * WORKERS + WORKERS * 3,
                      "%g steps are gone, %llu pushes were told", (double)(STEPS + values[1]),
                      (unsigned long long)gone);
    } else {
        ck_assert_float_eq(values[0], -(float)(WORKERS * STEPS));
        ck_assert_float_eq(values[1], -(float)(WORKERS * STEPS) + (float)gone);
    }
}
END_TEST

/* ---- Cursors ---- */

/* A worker that dies again and again in the midst of a step, its push done on some shards only; the next one goes on
 * where its data ended. (One that dies leaves without goodbye.) */
static void
live_once(struct test_rng *rng, uint64_t *done)
{
    static float ones[ELEMENTS] = {[0 ... ELEMENTS - 1] = 1};
    struct rollback_worker w = {.mode = PS_ASYNC};
    uint64_t lives_for = test_below(rng, 8);
    const float *gradient = ones;
    struct ps_cursor at;
    ps_client *c;
    ps_var *v;
    ps_op *op;

    ck_assert_msg(open_worker(&w, &c, &v) == PS_OK, "%s", w.error.text);
    ps_client_cursor(c, &at);
    for (*done = at.position; *done < STEPS; (*done)++) {
        struct ps_cursor ends = {0, *done + 1};

        FINE(ps_client_push_start(c, 1, &v, &gradient, &(struct ps_push_options){.cursor = &ends}, &op, &error));
        for (uint64_t i = test_below(rng, 3); lives_for == 0 && i > 0; i--)
            (void)ps_op_test(op);
        if (lives_for-- == 0) {
            ps_client_abandon(c);
            return;
        }
        FINE(ps_op_wait(op, -1, &error));
        ps_op_free(op);
        FINE(ps_client_tick(c, &error));
    }
    ps_client_close(c);
}

START_TEST(every_step_counts_once_although_the_worker_dies_again_and_again)
{
    struct test_rng rng = {test_seed()};
    float values[SHARDS];
    uint64_t done = 0, lives = 0;

    while (done < STEPS) {
        live_once(&rng, &done);
        if (lives++ % 8 == 7) {
            shards_kill(&shards, (uint32_t)(lives / 8 % SHARDS)); /* memory stays */
            shards_restart(&shards, (uint32_t)(lives / 8 % SHARDS));
        }
    }
    ck_assert_uint_gt(lives, STEPS / 8);
    read_shards(values);
    for (uint32_t i = 0; i < SHARDS; i++)
        ck_assert_float_eq(values[i], -STEPS);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("rollback");
    TCase *tc = tcase_create("rollback");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, rollback_setup, rollback_teardown);
    tcase_add_loop_test(tc, training_goes_on_and_what_is_gone_is_told, 0, (int)ARRAY_LEN(runs));
    tcase_add_test(tc, every_step_counts_once_although_the_worker_dies_again_and_again);
    suite_add_tcase(s, tc);
    return s;
}

CHECK_MAIN(make_suite)
