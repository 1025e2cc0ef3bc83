/* multi_worker_mirrored whose devices reduce by themselves, on devices whose memory the host cannot touch
 * (tests/unit/client/device/fake_module.c): the bits of gradients that the hosts reduce, and workers that are killed,
 * come again, or have a device that breaks. Workers are processes; they meet at a shard. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "client/include/psclient/ps_strategy.h"
#include "common/core/base/base.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/client/device/fake_device.h"
#include "tests/unit/client/network/network_kit.h"
#include "tests/unit/kits/check_main.h"

enum { WORKERS = 3, ROWS = 40, BATCH = 12, INPUTS = 12, CLASSES = 5, REPLICAS_MAX = 2, FLOATS_MAX = 4096, STEPS = 30 };
enum { FATE_STEP = 10, BROKE = 7 };
enum device_reduce_fate { LIVES, DIES, BREAKS };

static const struct kit_spec spec = {
    .layers = "dense 31, relu, dense 17 no-bias, tanh, dense 5", .dims = {INPUTS}, .rows_max = BATCH, .seed = 3};
static struct shards shards;
static float x[ROWS * INPUTS];
static uint32_t labels[ROWS];

/* The workers' results, for the test to check. */
static struct device_reduce_shared {
    float values[WORKERS][FLOATS_MAX];
    size_t len[WORKERS];
    struct ps_strategy_stats stats[WORKERS];
    uint64_t step[WORKERS];
    uint64_t until; /* set by a worker that has come again, before its first step */
} * shared;

static void
device_reduce_setup(void)
{
    struct test_rng rng = {test_seed()};

    use_module(fake_module_path());
    for (size_t i = 0; i < ARRAY_LEN(x); i++)
        x[i] = test_float(&rng);
    for (size_t i = 0; i < ROWS; i++)
        labels[i] = (uint32_t)test_below(&rng, CLASSES);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(shared != MAP_FAILED);
    shards_start(&shards, 1);
}

static void
device_reduce_teardown(void)
{
    shards_stop(&shards);
    munmap(shared, sizeof *shared);
}

/* ---- A worker ---- */

struct device_reduce_worker {
    uint32_t task, workers;
    const char *job, *devices;
    int direct;
    struct ps_compress compress;
    enum device_reduce_fate fate;
    bool again, awaits; /* it came again; it goes on until that one is there */
    ps_strategy *strategy;
    ps_network *network[REPLICAS_MAX];
};

static enum ps_err
device_reduce_step(void *arg, struct ps_replica *r, struct ps_error *e)
{
    struct device_reduce_worker *w = arg;
    uint64_t first = r->batch * BATCH + r->first;
    struct ps_batch batch = {.rows = r->rows, .x = x + first * INPUTS, .labels = labels + first};
    enum ps_err err = ps_replica_gradient(r, &batch, NULL, e);

    if (r->step == FATE_STEP && r->local == 0 && w->fate == DIES)
        raise(SIGKILL);
    if (r->step == FATE_STEP && r->local == 0 && w->fate == BREAKS)
        fake_fails(1); /* with the gradient there: the sum is what fails */
    return err;
}

static enum ps_err
open_worker(struct device_reduce_worker *w, struct ps_error *e)
{
    struct ps_strategy_options o = {.client = {.job = w->job, .timeout_ms = 20000, .compress = w->compress},
                                    .devices = w->devices,
                                    .device_reduce = w->direct,
                                    .rows = ROWS,
                                    .batch = BATCH,
                                    .threads = 1};
    struct ps_optimizer optimizer;
    ps_cluster *cluster;
    enum ps_err err;

    if ((err = ps_cluster_from_list(shards.addresses, w->workers, w->task, &cluster, e)) != PS_OK ||
        (err = ps_cluster_set_name(cluster, SHARDS_CLUSTER, e)) != PS_OK ||
        (err = ps_optimizer_parse("adam:learning_rate=0.01", &optimizer, e)) != PS_OK)
        return err;
    o.cluster = cluster;
    err = ps_strategy_open("multi_worker_mirrored", &o, &w->strategy, e);
    ps_cluster_free(cluster);
    for (uint32_t k = 0; err == PS_OK && k < ps_strategy_replicas(w->strategy); k++)
        err = network_try(ps_strategy_device(w->strategy, k), &spec, &w->network[k], e);
    if (err == PS_OK)
        err = ps_strategy_networks(w->strategy, w->network, "", &optimizer, e);
    return err == PS_OK ? ps_strategy_start(w->strategy, e) : err;
}

/* All steps; or 20 more, all together, once the worker that was lost has come again. The others see it at the end of
 * the same step; the next one they cannot complete before it has begun its first. */
static enum ps_err
device_reduce_run(struct device_reduce_worker *w, struct ps_error *e)
{
    struct ps_strategy_calls calls = {.step = device_reduce_step, .arg = w};
    ps_strategy *s = w->strategy;
    enum ps_err err = PS_OK;

    if (w->again)
        shared->until = ps_strategy_step(s) + 20;
    if (w->awaits) {
        err = ps_strategy_run(s, FATE_STEP + 1, &calls, e);
        while (err == PS_OK && ps_strategy_workers(s) < WORKERS)
            err = ps_strategy_run(s, ps_strategy_step(s) + 1, &calls, e);
        if (err == PS_OK)
            err = ps_strategy_run(s, ps_strategy_step(s) + 1, &calls, e);
    }
    return err == PS_OK ? ps_strategy_run(s, w->again || w->awaits ? shared->until : STEPS, &calls, e) : err;
}

static enum ps_err
device_reduce_work(struct device_reduce_worker *w, struct ps_error *e)
{
    enum ps_err err;

    if ((err = open_worker(w, e)) != PS_OK || (err = device_reduce_run(w, e)) != PS_OK ||
        (err = ps_strategy_meet(w->strategy, e)) != PS_OK)
        return err;
    for (size_t i = 0; i < ps_network_params(w->network[0]); i++) {
        size_t n = param_elements(w->network[0], i);

        memcpy(shared->values[w->task] + shared->len[w->task], ps_strategy_values(w->strategy, 0)[i],
               n * sizeof(float));
        shared->len[w->task] += n;
    }
    shared->step[w->task] = ps_strategy_step(w->strategy);
    ps_strategy_stats(w->strategy, &shared->stats[w->task]);
    return PS_OK;
}

static void
close_worker(struct device_reduce_worker *w)
{
    for (uint32_t k = 0; k < REPLICAS_MAX; k++)
        ps_network_free(w->network[k]);
    ps_strategy_close(w->strategy);
}

static pid_t
device_reduce_start(const struct device_reduce_worker *as)
{
    struct device_reduce_worker w = *as;
    struct ps_error e = {0};
    enum ps_err err;
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    shared->len[w.task] = 0;
    err = device_reduce_work(&w, &e);
    if (w.fate == BREAKS && err == PS_ERR_IO && strstr(e.text, "it was told to fail") != NULL)
        _exit(BROKE);
    if (err != PS_OK) {
        fprintf(stderr, "worker %u: %s: %s (%s)\n", w.task, ps_err_name(err), e.text, e.peer);
        _exit(1);
    }
    close_worker(&w);
    _exit(0);
}

static int
device_reduce_await(pid_t pid)
{
    int status = 0;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

static void
device_reduce_train(const struct device_reduce_worker *as, uint32_t workers)
{
    struct device_reduce_worker w = *as;
    pid_t pids[WORKERS];

    w.workers = workers;
    for (w.task = 0; w.task < workers; w.task++)
        pids[w.task] = device_reduce_start(&w);
    for (uint32_t i = 0; i < workers; i++)
        ck_assert_int_eq(device_reduce_await(pids[i]), 0);
}

static void
assert_same(uint32_t a, uint32_t b)
{
    ck_assert_uint_gt(shared->len[a], 0);
    ck_assert_uint_eq(shared->len[a], shared->len[b]);
    ck_assert_uint_eq(shared->step[a], shared->step[b]);
    ck_assert_uint_ge(shared->step[b], STEPS);
    ck_assert_msg(memcmp(shared->values[a], shared->values[b], shared->len[a] * sizeof(float)) == 0,
                  "workers %u and %u have other values", a, b);
}

/* ---- What it does ---- */

/* Of two workers a sum has one order only, wherever it is computed. */
START_TEST(devices_that_reduce_have_the_bits_of_hosts_that_do)
{
    struct device_reduce_worker w = {.job = "host", .devices = _i == 0 ? "cuda" : "cuda,cuda:1"};
    static float want[FLOATS_MAX];

    device_reduce_train(&w, 2);
    memcpy(want, shared->values[0], sizeof want);
    w.job = "direct";
    w.direct = 1;
    device_reduce_train(&w, 2);
    assert_same(0, 1);
    ck_assert_int_eq(memcmp(want, shared->values[0], shared->len[0] * sizeof(float)), 0);
    ck_assert_uint_eq(shared->stats[0].gradient_sent,
                      shared->stats[0].steps * shared->len[0] * sizeof(float)); /* a ring of two */
    ck_assert_uint_eq(shared->stats[0].gradient_plain, shared->stats[0].gradient_sent);
}
END_TEST

/* _i 1: it comes again, and is given what the others have. */
START_TEST(a_worker_that_is_killed_is_done_without_or_comes_again)
{
    struct device_reduce_worker w = {.job = "train", .devices = "cuda", .direct = 1, .workers = WORKERS};
    pid_t pids[WORKERS];
    int status;

    for (w.task = 0; w.task < WORKERS; w.task++) {
        w.fate = w.task == 1 ? DIES : LIVES;
        w.awaits = _i == 1;
        pids[w.task] = device_reduce_start(&w);
    }
    status = device_reduce_await(pids[1]);
    ck_assert(WIFSIGNALED(status));
    w.task = 1;
    w.fate = LIVES;
    w.awaits = false;
    w.again = true;
    if (_i == 1)
        pids[1] = device_reduce_start(&w);
    ck_assert_int_eq(device_reduce_await(pids[0]), 0);
    ck_assert_int_eq(device_reduce_await(pids[2]), 0);
    assert_same(0, 2);
    ck_assert_uint_ge(shared->stats[0].reforms, 1);
    if (_i == 0)
        return;
    ck_assert_int_eq(device_reduce_await(pids[1]), 0);
    assert_same(0, 1);
}
END_TEST

START_TEST(a_worker_whose_device_breaks_ends_and_the_others_go_on)
{
    struct device_reduce_worker w = {.job = "train", .devices = "cuda", .direct = 1, .workers = WORKERS};
    pid_t pids[WORKERS];
    int status;

    for (w.task = 0; w.task < WORKERS; w.task++) {
        w.fate = w.task == (uint32_t)_i ? BREAKS : LIVES;
        pids[w.task] = device_reduce_start(&w);
    }
    status = device_reduce_await(pids[_i]);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == BROKE);
    for (int i = 0; i < WORKERS; i++)
        if (i != _i)
            ck_assert_int_eq(device_reduce_await(pids[i]), 0);
    assert_same(_i == 0 ? 1 : 0, _i == 2 ? 1 : 2);
}
END_TEST

START_TEST(what_cannot_reduce_by_itself_is_refused)
{
    struct device_reduce_worker w = {.job = "train", .devices = "cpu", .direct = 1, .workers = 1};
    struct ps_error e = {0};

    ck_assert_int_eq(open_worker(&w, &e), PS_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(e.text, "cpu") != NULL, "%s", e.text);
    close_worker(&w);
    w = (struct device_reduce_worker){
        .job = "train", .devices = "cuda", .direct = 1, .workers = 1, .compress = {.kind = PS_COMPRESS_INT8}};
    ck_assert_int_eq(open_worker(&w, &e), PS_ERR_INVALID);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("device_reduce");
    TCase *tc = tcase_create("workers");

    tcase_add_checked_fixture(tc, device_reduce_setup, device_reduce_teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, devices_that_reduce_have_the_bits_of_hosts_that_do, 0, 2);
    tcase_add_loop_test(tc, a_worker_that_is_killed_is_done_without_or_comes_again, 0, 2);
    tcase_add_loop_test(tc, a_worker_whose_device_breaks_ends_and_the_others_go_on, 0, 3);
    tcase_add_test(tc, what_cannot_reduce_by_itself_is_refused);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
