/* local_sgd through real shards with real worker processes: bit by bit what one process computes alone, the accuracy of
 * the synchronous run, and workers that are killed, sleep, or come too late.
 *
 * With rounds of one step, plain SGD inside and the mean outside, it is synchronous SGD but for rounding, within the
 * bound that is given here. */
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/core/shards/local_optimizer.h"
#include "client/examples/digits/model.h"
#include "client/examples/digits/train.h"
#include "common/core/optimizer/optimizer.h"
#include "tests/system/digits_fixture.h"
#include "tests/unit/kits/check_main.h"

enum { WORKERS = 3, REPLICAS_MAX = 2, PARAMS_MAX = 8, FLOATS_MAX = 20000, ROWS_MAX = 1500, LEASE_MS = 1000 };

/* The workers' results, for the test to check. */
static struct local_sgd_shared {
    float weights[FLOATS_MAX]; /* pulled by worker 0 after the last step */
    uint64_t clock[WORKERS], steps[WORKERS], rejoins[WORKERS];
    struct ps_network_result held_out;
} * shared;

static void
local_sgd_setup(void)
{
    digits_setup(2);
    ck_assert_uint_le(data.rows, ROWS_MAX);
    shared = digits_share(sizeof *shared);
}

static void
local_sgd_teardown(void)
{
    munmap(shared, sizeof *shared);
    digits_teardown();
}

static struct digits_options
options_for(const char *arguments)
{
    return digits_options_for("--threads=1", arguments, 30000);
}

/* ---- A worker ---- */

/* The fate of a worker in the middle of a round. */
enum local_sgd_fate {
    LIVES,
    CRASHES, /* exits without goodbye, with status CRASHED */
    SLEEPS   /* stops until the test continues it */
};
enum { FATE_STEP = 50, CRASHED = 77 };

struct local_sgd_worker {
    struct digits_options options;
    struct train train;
    ps_cluster *cluster;
};

static enum ps_err
open_worker(struct local_sgd_worker *w, uint32_t task, struct ps_error *e)
{
    enum ps_err err;

    w->train.options = &w->options;
    w->train.data = &data;
    w->train.held_out = &held_out;
    w->train.silent = true;
    if ((err = digits_cluster(WORKERS, task, &w->cluster, e)) != PS_OK)
        return err;
    return train_open(&w->train, w->cluster, e);
}

static enum ps_err
meet_fate(struct train *t, enum local_sgd_fate fate, struct ps_error *e)
{
    uint64_t steps = t->steps;
    enum ps_err err = PS_OK;

    t->steps = FATE_STEP;
    if (fate != LIVES && (err = train_run(t, e)) != PS_OK)
        return err;
    t->steps = steps;
    if (fate == CRASHES)
        _exit(CRASHED);
    if (fate == SLEEPS)
        raise(SIGSTOP);
    return PS_OK;
}

static enum ps_err
local_sgd_work(struct train *t, struct ps_error *e)
{
    struct ps_strategy_stats stats;
    enum ps_err err;

    if ((err = train_run(t, e)) != PS_OK || (err = train_meet(t, e)) != PS_OK)
        return err;
    ps_strategy_stats(t->strategy, &stats);
    shared->clock[t->task] = ps_client_clock(ps_strategy_client(t->strategy));
    shared->steps[t->task] = stats.steps;
    shared->rejoins[t->task] = stats.rejoins;
    if (t->task != 0)
        return PS_OK;
    if ((err = train_evaluate(t, &shared->held_out, e)) == PS_OK)
        (void)digits_weights(t->replica[0].network, FLOATS_MAX, shared->weights);
    return err;
}

static pid_t
start_worker(const struct digits_options *o, uint32_t task, enum local_sgd_fate fate)
{
    struct local_sgd_worker w = {.options = *o};
    struct ps_error e = {0};
    enum ps_err err;
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    w.options.lease_ms = fate == SLEEPS ? LEASE_MS : 0;
    if ((err = open_worker(&w, task, &e)) == PS_OK && (err = meet_fate(&w.train, fate, &e)) == PS_OK)
        err = local_sgd_work(&w.train, &e);
    if (err != PS_OK)
        fprintf(stderr, "worker %u: %s: %s (%s)\n", task, ps_err_name(err), e.text, e.peer);
    else
        train_close(&w.train, true);
    _exit(err == PS_OK ? 0 : 1);
}

static void
await_worker(pid_t pid, int want)
{
    int status = 0;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == want, "a worker ended with status %x", (unsigned)status);
}

static void
train_through_psd(const struct digits_options *o)
{
    pid_t pids[WORKERS];

    for (uint32_t i = 0; i < WORKERS; i++)
        pids[i] = start_worker(o, i, LIVES);
    for (uint32_t i = 0; i < WORKERS; i++)
        await_worker(pids[i], 0);
}

/* ---- One process, no shards ---- */

struct alone {
    const struct digits_options *options;
    ps_device *device;
    ps_network *network; /* its values are those of the worker that computes */
    ps_sampler *sampler;
    uint64_t steps_each;
    uint32_t replicas; /* of each worker */
    size_t params;
    struct local_optimizer inner[WORKERS][PARAMS_MAX], outer[PARAMS_MAX];
    float *base[PARAMS_MAX], *sum[PARAMS_MAX];
    float *difference[WORKERS][PARAMS_MAX], *gradient[REPLICAS_MAX][PARAMS_MAX];
};

static float *
new_floats(size_t n)
{
    float *x = aligned_alloc(64, round_up(n * sizeof *x, 64));

    ck_assert_ptr_nonnull(x);
    return x;
}

static void
alone_init_param(struct alone *a, size_t i)
{
    size_t n = param_elements(a->network, i);

    a->base[i] = new_floats(n);
    a->sum[i] = new_floats(n);
    for (uint32_t r = 0; r < a->replicas; r++)
        a->gradient[r][i] = new_floats(n);
    for (uint32_t w = 0; w < WORKERS; w++) {
        a->difference[w][i] = new_floats(n);
        ck_assert_int_eq(local_optimizer_init(&a->inner[w][i], &a->options->optimizer, n, NULL), PS_OK);
    }
    ck_assert_int_eq(local_optimizer_init(&a->outer[i], &a->options->local.outer, n, NULL), PS_OK);
    memcpy(a->base[i], ps_network_values(a->network)[i], n * sizeof(float));
}

static void
alone_init(struct alone *a, const struct digits_options *o)
{
    struct ps_device_options one_thread = {.threads = 1};

    *a = (struct alone){.options = o, .replicas = (uint32_t)MAX(o->replicas, 1)};
    ck_assert_int_eq(ps_device_open("cpu", &one_thread, &a->device, NULL), PS_OK);
    ck_assert_int_eq(
        model_new(a->device, o->layers, &data, data.classes, (size_t)MAX(o->batch, 64), o->seed, &a->network, NULL),
        PS_OK);
    ck_assert_int_eq(ps_sampler_new(data.rows, o->batch, 1, 0, o->seed, &a->sampler, NULL), PS_OK);
    a->steps_each = ps_sampler_steps(a->sampler);
    ps_network_initialize(a->network);
    a->params = ps_network_params(a->network);
    ck_assert_uint_le(a->params, PARAMS_MAX);
    for (size_t i = 0; i < a->params; i++)
        alone_init_param(a, i);
}

static void
alone_finish(struct alone *a)
{
    for (size_t i = 0; i < a->params; i++) {
        free(a->base[i]);
        free(a->sum[i]);
        for (uint32_t r = 0; r < a->replicas; r++)
            free(a->gradient[r][i]);
        for (uint32_t w = 0; w < WORKERS; w++) {
            free(a->difference[w][i]);
            local_optimizer_finish(&a->inner[w][i]);
        }
        local_optimizer_finish(&a->outer[i]);
    }
    ps_sampler_free(a->sampler);
    ps_network_free(a->network);
    ps_device_close(a->device);
}

/* The sum of worker w's replicas' gradients of this step at the network's values. */
static void
alone_gradient(struct alone *a, uint32_t w, uint64_t step)
{
    static float x[ROWS_MAX * 64];
    static uint32_t labels[ROWS_MAX];
    struct ps_slice all = ps_sampler_slice(a->sampler, step / a->steps_each, step % a->steps_each);
    uint32_t count = WORKERS * a->replicas;
    const float *gradients[REPLICAS_MAX];

    for (uint32_t r = 0; r < a->replicas; r++) {
        struct ps_batch batch = {.x = x, .labels = labels};
        uint64_t first, rows;

        ps_shard_range(all.count, count, w * a->replicas + r, &first, &rows);
        batch.rows = (size_t)rows;
        ps_dataset_gather(&data, batch.rows, all.index + first, x, labels);
        ps_network_place(a->network, NULL, a->gradient[r]);
        ck_assert_int_eq(ps_network_gradient(a->network, &batch, (float)count / (float)all.count,
                                             step * count + w * a->replicas + r, NULL, NULL),
                         PS_OK);
    }
    for (size_t i = 0; i < a->params; i++) {
        for (uint32_t r = 0; r < a->replicas; r++)
            gradients[r] = a->gradient[r][i];
        optimizer_sum(param_elements(a->network, i), a->replicas, gradients, a->sum[i]);
    }
}

static void
alone_update(struct alone *a, struct local_optimizer *l, float scale, uint64_t clock)
{
    struct local_step step = {.clock = clock, .scale = scale};

    for (size_t i = 0; i < a->params; i++) {
        struct local_optimizer *list[1] = {&l[i]};

        ck_assert_int_eq(local_optimizer_step(1, list, &step, &ps_network_values(a->network)[i],
                                              (const float *const *)&a->sum[i], NULL),
                         PS_OK);
    }
}

static void
go_to_base(struct alone *a)
{
    for (size_t i = 0; i < a->params; i++)
        memcpy(ps_network_values(a->network)[i], a->base[i], param_elements(a->network, i) * sizeof(float));
}

/* The mean of three lists, in the order of workers, is the outer gradient. */
static void
outer_update(struct alone *a, float *from[WORKERS][PARAMS_MAX], uint64_t clock)
{
    go_to_base(a);
    for (size_t i = 0; i < a->params; i++) {
        const float *each[WORKERS] = {from[0][i], from[1][i], from[2][i]};

        optimizer_sum(param_elements(a->network, i), WORKERS, each, a->sum[i]);
    }
    alone_update(a, a->outer, 1.0f / WORKERS, clock);
    for (size_t i = 0; i < a->params; i++)
        memcpy(a->base[i], ps_network_values(a->network)[i], param_elements(a->network, i) * sizeof(float));
}

/* Steps first to end - 1 of all workers, and the exchange. */
static void
alone_round(struct alone *a, uint64_t first, uint64_t end, uint64_t clock)
{
    for (uint32_t w = 0; w < WORKERS; w++) {
        go_to_base(a);
        for (uint64_t step = first; step < end; step++) {
            alone_gradient(a, w, step);
            alone_update(a, a->inner[w], 1.0f / (float)a->replicas, step);
        }
        for (size_t i = 0; i < a->params; i++)
            for (size_t k = 0; k < param_elements(a->network, i); k++)
                a->difference[w][i][k] = a->base[i][k] - ps_network_values(a->network)[i][k];
    }
    outer_update(a, a->difference, clock);
}

/* Returns how many weights there are. */
static size_t
train_alone(const struct digits_options *o, float *weights)
{
    struct alone a;
    uint64_t steps, clock = 0;
    size_t n;

    alone_init(&a, o);
    steps = o->epochs * a.steps_each;
    for (uint64_t step = 0; step < steps; step += o->local.steps)
        alone_round(&a, step, MIN(step + o->local.steps, steps), clock++);
    n = digits_weights(a.network, FLOATS_MAX, weights);
    alone_finish(&a);
    return n;
}

/* ---- The same bits ---- */

static const char *const exact[] = {
    "--strategy local_sgd --epochs 3 --seed 7",
    "--strategy local_sgd --epochs 3 --local-steps 7 --optimizer momentum --batch 100", /* the last round has 3 */
    "--strategy local_sgd --epochs 2 --local-steps 5 --optimizer sgd --outer sgd:learning_rate=1 --replicas 2",
    "--strategy local_sgd --epochs 2 --local-steps 40 --outer momentum:learning_rate=0.5", /* more than there are */
    "--strategy local_sgd --epochs 1 --local-steps 1 --outer sgd:learning_rate=1 --optimizer sgd --batch 115",
    "--strategy local_sgd --epochs 1 --local-steps 4 --model conv",
};

START_TEST(it_has_the_bits_of_one_process)
{
    static float alone[FLOATS_MAX];
    struct digits_options o = options_for(exact[_i]);
    size_t n = train_alone(&o, alone);

    train_through_psd(&o);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(memcmp(&alone[i], &shared->weights[i], sizeof alone[i]) == 0,
                      "%s: weight %zu is %.9g alone and %.9g through psd", exact[_i], i, (double)alone[i],
                      (double)shared->weights[i]);
}
END_TEST

/* ---- Rounds of one step ---- */

/* One step, with u = 2^-24, w a weight before it, g[i] worker i's gradient and r the rate. In sync the weight becomes
 * w - r mean(g). Here worker i rounds its own w[i] = w - r g[i], at most u |w[i]| away from the true value, and again
 * in r g[i]; the difference w - w[i] is exact, or u of itself away; the sum of three, a third of it, and the last
 * subtraction round in both. Altogether they are at most 4 u max(|w|, |w[i]|, both results) + 12 u max(|w - w[i]|)
 * apart. */
START_TEST(rounds_of_one_step_are_synchronous_sgd_but_for_rounding)
{
    static float local[FLOATS_MAX], sync[FLOATS_MAX], before[FLOATS_MAX], away[FLOATS_MAX];
    struct digits_options o = options_for("--strategy local_sgd --local-steps 1 --optimizer sgd:learning_rate=0.5 "
                                          "--outer sgd:learning_rate=1 --batch 96");
    double u = 0x1p-24, farthest = 0;
    struct alone a, b;
    size_t n, at = 0;

    alone_init(&a, &o);
    o.local.outer = o.optimizer; /* on the shards, in sync */
    alone_init(&b, &o);
    (void)digits_weights(a.network, FLOATS_MAX, before);
    for (uint64_t step = 0; step < 48; step++) {
        alone_round(&a, step, step + 1, step);
        for (uint32_t w = 0; w < WORKERS; w++) {
            go_to_base(&b);
            alone_gradient(&b, w, step);
            for (size_t i = 0; i < b.params; i++)
                memcpy(b.difference[w][i], b.sum[i], param_elements(b.network, i) * sizeof(float));
        }
        outer_update(&b, b.difference, step);
        n = digits_weights(a.network, FLOATS_MAX, local);
        ck_assert_uint_eq(digits_weights(b.network, FLOATS_MAX, sync), n);
        for (size_t i = 0; step == 0 && i < a.params; at += param_elements(a.network, i++))
            for (size_t k = 0; k < param_elements(a.network, i); k++)
                away[at + k] = fmaxf(fmaxf(fabsf(a.difference[0][i][k]), fabsf(a.difference[1][i][k])),
                                     fabsf(a.difference[2][i][k]));
        for (size_t i = 0; i < n; i++) {
            double apart = fabs((double)local[i] - (double)sync[i]);
            double most = 4 * u * (fabs((double)before[i]) + (double)away[i]) + 12 * u * (double)away[i];

            ck_assert_msg(step > 0 || apart <= most, "weight %zu is %g in rounds of one step and %g in sync", i,
                          (double)local[i], (double)sync[i]);
            farthest = fmax(apart, farthest);
        }
    }
    ck_assert_msg(farthest <= 1e-4, "after 48 steps they are %g apart", farthest); /* 100 times that measured */
    alone_finish(&a);
    alone_finish(&b);
}
END_TEST

/* ---- Accuracy ---- */

enum { MARGIN = 9 }; /* of 300 held-out images: 3 points */

static const char *const learning[] = {
    "--strategy local_sgd --local-steps 8",
    "--strategy local_sgd --local-steps 8 --outer sgd:learning_rate=1",
    "--strategy local_sgd --local-steps 16 --replicas 2",
    "--strategy local_sgd --local-steps 8 --model conv --epochs 12",
};

START_TEST(it_reaches_the_accuracy_of_the_synchronous_run)
{
    char arguments[160];
    struct digits_options o;
    size_t sync;

    snprintf(arguments, sizeof arguments, "--job sync --strategy sync %s",
             strstr(learning[_i], "conv") != NULL ? "--model conv --epochs 12" : "--epochs 30");
    o = options_for(arguments);
    train_through_psd(&o);
    sync = shared->held_out.correct;
    snprintf(arguments, sizeof arguments, "%s%s", learning[_i],
             strstr(learning[_i], "--epochs") != NULL ? "" : " --epochs 30");
    o = options_for(arguments);
    train_through_psd(&o);
    for (uint32_t w = 0; w < WORKERS; w++) {
        /* A worker that has waited for long at the end ticks once more, to let the others pass. */
        ck_assert_uint_ge(shared->clock[w], 16 * o.epochs / o.local.steps);
        ck_assert_uint_eq(shared->steps[w], 16 * o.epochs);
    }
    ck_assert_uint_ge(sync, 285);
    ck_assert_msg(shared->held_out.correct + MARGIN >= sync, "%s: %zu of 300 held-out images, in sync %zu",
                  learning[_i], shared->held_out.correct, sync);
}
END_TEST

/* ---- Workers that are lost, or late ---- */

START_TEST(a_worker_that_crashed_in_a_round_is_replaced)
{
    struct digits_options o = options_for("--strategy local_sgd --epochs 30");
    pid_t pids[WORKERS];
    uint64_t again;

    for (uint32_t i = 0; i < WORKERS; i++)
        pids[i] = start_worker(&o, i, i == 2 ? CRASHES : LIVES);
    await_worker(pids[2], CRASHED);
    pids[2] = start_worker(&o, 2, LIVES);
    for (uint32_t i = 0; i < WORKERS; i++)
        await_worker(pids[i], 0);
    /* The round that it was in, again; and, where its tick came before the others' differences
     * (server/core/sessions/data_steps.h), the one before that, which the shards skip. */
    again = shared->steps[2] - (16 * o.epochs - FATE_STEP / 8 * 8);
    ck_assert_msg(again == 0 || again == 8, "%" PRIu64 " steps, %" PRIu64 " of them again", shared->steps[2], again);
    ck_assert_uint_ge(shared->clock[2], 16 * o.epochs / 8); /* more when the others went on without it */
    ck_assert_uint_ge(shared->held_out.correct, 285 - MARGIN);
}
END_TEST

START_TEST(a_worker_whose_lease_lapsed_joins_again)
{
    struct digits_options o = options_for("--strategy local_sgd --epochs 30");
    pid_t pids[WORKERS];
    int status;

    for (uint32_t i = 0; i < WORKERS; i++)
        pids[i] = start_worker(&o, i, i == 2 ? SLEEPS : LIVES);
    ck_assert_int_eq(waitpid(pids[2], &status, WUNTRACED), pids[2]);
    ck_assert(WIFSTOPPED(status));
    await_worker(pids[0], 0);
    await_worker(pids[1], 0);
    ck_assert_uint_ge(shared->held_out.correct, 285 - MARGIN);
    ck_assert_int_eq(kill(pids[2], SIGCONT), 0);
    await_worker(pids[2], 0);
    /* More often where a busy machine holds it up for longer than its lease, which is short. */
    ck_assert_uint_ge(shared->rejoins[2], 1);
    ck_assert_uint_ge(shared->clock[2], 16 * o.epochs / 8);
}
END_TEST

START_TEST(with_a_quorum_it_learns_although_differences_come_too_late)
{
    struct digits_options o = options_for("--strategy local_sgd --quorum 2 --epochs 30 --local-steps 4");

    train_through_psd(&o);
    ck_assert_uint_ge(shared->held_out.correct, 285 - MARGIN);
}
END_TEST

/* ---- The API ---- */

static enum ps_err
try_options(const struct ps_strategy_options *given, struct ps_error *e)
{
    struct ps_strategy_options options = *given;
    ps_strategy *strategy = NULL;
    ps_cluster *cluster = NULL;
    enum ps_err err;

    ck_assert_int_eq(digits_cluster(1, 0, &cluster, NULL), PS_OK);
    options.cluster = cluster;
    options.rows = options.batch = 8;
    err = ps_strategy_open("local_sgd", &options, &strategy, e);
    ps_strategy_close(strategy);
    ps_cluster_free(cluster);
    return err;
}

START_TEST(what_does_not_fit_is_refused)
{
    struct ps_strategy_options options = {.local.outer = {.kind = PS_NESTEROV, .learning_rate = 1, .momentum = 1}};
    struct ps_strategy_options alone = {.rows = 1, .batch = 1};
    ps_strategy *strategy;
    struct ps_error e;

    ck_assert_int_eq(try_options(&options, &e), PS_ERR_INVALID);
    ck_assert_msg(strstr(e.text, "outer") != NULL && strstr(e.text, "momentum") != NULL, "%s", e.text);
    ck_assert_int_eq(ps_strategy_open("local_sgd", &alone, &strategy, &e), PS_ERR_CONFIG);
    options = (struct ps_strategy_options){.client.mode = PS_SSP};
    ck_assert_int_eq(try_options(&options, &e), PS_OK);
}
END_TEST

/* w falls by 1 in every step; there is nothing else. */
static enum ps_err
local_sgd_fall(void *arg, struct ps_replica *r, struct ps_error *e)
{
    (void)arg;
    (void)e;
    r->gradients[0][0] = 1;
    return PS_OK;
}

START_TEST(values_are_a_workers_own_within_a_round_and_pushed_at_the_meeting)
{
    struct ps_strategy_options options = {
        .rows = 8, .batch = 1, .local = {.steps = 4, .outer = {.kind = PS_SGD, .learning_rate = 0.5}}};
    struct ps_var_spec spec = {.name = "w", .rank = 0, .optimizer = {.kind = PS_SGD, .learning_rate = 1}};
    const struct ps_strategy_calls calls = {.step = local_sgd_fall};
    ps_strategy *strategy;
    ps_cluster *cluster;
    const float *w;
    char text[128];

    ck_assert_int_eq(digits_cluster(1, 0, &cluster, NULL), PS_OK);
    options.cluster = cluster;
    ck_assert_int_eq(ps_strategy_open("local_sgd", &options, &strategy, NULL), PS_OK);
    ck_assert_str_eq(ps_strategy_describe(strategy, text, sizeof text),
                     "local_sgd sync(1 of 1), rounds of 4 steps, outer sgd");
    ck_assert_int_eq(ps_strategy_variable(strategy, &spec, NULL), PS_OK);
    ck_assert_int_eq(ps_strategy_start(strategy, NULL), PS_OK);
    w = ps_strategy_values(strategy, 0)[0];
    ck_assert_int_eq(ps_strategy_run(strategy, 3, &calls, NULL), PS_OK);
    ck_assert_float_eq(w[0], -3);
    ck_assert_int_eq(ps_strategy_refresh(strategy, NULL), PS_OK);
    ck_assert_float_eq(w[0], -3);
    ck_assert_int_eq(ps_strategy_run(strategy, 4, &calls, NULL), PS_OK);
    ck_assert_float_eq(w[0], -2); /* half of the way */
    ck_assert_int_eq(ps_strategy_run(strategy, 6, &calls, NULL), PS_OK);
    ck_assert_float_eq(w[0], -4);
    ck_assert_int_eq(ps_strategy_meet(strategy, NULL), PS_OK);
    ck_assert_float_eq(w[0], -3);
    ck_assert_uint_eq(ps_client_clock(ps_strategy_client(strategy)), 2);
    ck_assert_int_eq(ps_strategy_run(strategy, 10, &calls, NULL), PS_OK); /* a whole round from there */
    ck_assert_float_eq(w[0], -5);
    ck_assert_int_eq(ps_strategy_refresh(strategy, NULL), PS_OK);
    ck_assert_float_eq(w[0], -5);
    ps_strategy_close(strategy);
    ps_cluster_free(cluster);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("local_sgd");
    TCase *tc = tcase_create("local_sgd");

    tcase_add_checked_fixture(tc, local_sgd_setup, local_sgd_teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, it_has_the_bits_of_one_process, 0, ARRAY_LEN(exact));
    tcase_add_test(tc, rounds_of_one_step_are_synchronous_sgd_but_for_rounding);
    tcase_add_loop_test(tc, it_reaches_the_accuracy_of_the_synchronous_run, 0, ARRAY_LEN(learning));
    tcase_add_test(tc, a_worker_that_crashed_in_a_round_is_replaced);
    tcase_add_test(tc, a_worker_whose_lease_lapsed_joins_again);
    tcase_add_test(tc, with_a_quorum_it_learns_although_differences_come_too_late);
    tcase_add_test(tc, what_does_not_fit_is_refused);
    tcase_add_test(tc, values_are_a_workers_own_within_a_round_and_pushed_at_the_meeting);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
