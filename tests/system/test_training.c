/* Training through real shards with real worker processes: the loop of the digits example under every strategy.
 *
 * In sync with all workers the model must be, bit by bit, what one process computes alone: the gradients of the same
 * slices, summed in worker order, divided by their number, and the optimizer's kernel. Elsewhere it must converge. */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/examples/digits/model.h"
#include "client/examples/digits/train.h"
#include "common/core/base/base.h"
#include "common/core/optimizer/optimizer.h"
#include "tests/system/digits_fixture.h"
#include "tests/unit/kits/check_main.h"

enum { WORKERS = 3, PARAMS_MAX = PS_LAYERS_MAX * PS_LAYER_PARAMS_MAX, FLOATS_MAX = 20000, LEASE_MS = 1000 };

/* The workers' results, for the test to check. */
struct training_shared {
    float weights[FLOATS_MAX]; /* pulled by worker 0 after the last step */
    uint64_t clock[WORKERS], rejoins[WORKERS];
    uint64_t updates; /* of the first block, at the end */
    struct ps_network_result held_out;
    float evaluated[FLOATS_MAX]; /* what the evaluator read after the end */
    uint64_t evaluations;        /* before the end, at different versions of the model */
};
static struct training_shared *shared;

static void
training_setup(void)
{
    digits_setup(2);
    shared = digits_share(sizeof *shared);
}

static void
training_teardown(void)
{
    munmap(shared, sizeof *shared);
    digits_teardown();
}

static struct digits_options
options_for(const char *arguments)
{
    return digits_options_for("--epochs=30", arguments, 60000);
}

/* ---- A worker ---- */

struct training_job {
    struct digits_options options;
    struct train train;
    ps_cluster *cluster;
};

static enum ps_err
new_network(ps_device *device, const struct digits_options *o, ps_network **out, struct ps_error *e)
{
    return model_new(device, o->layers, &data, data.classes, 128, o->seed, out, e);
}

/* One computing thread: the same bits in every process, whatever the machine. */
static enum ps_err
open_worker(struct training_job *j, const struct digits_options *o, uint32_t task, uint32_t lease_ms,
            struct ps_error *e)
{
    struct train *t = &j->train;
    enum ps_err err;

    j->options = *o;
    j->options.threads = 1;
    j->options.lease_ms = lease_ms;
    t->options = &j->options;
    t->data = &data;
    t->held_out = &held_out;
    t->silent = true;
    if ((err = digits_cluster(WORKERS, task, &j->cluster, e)) != PS_OK)
        return err;
    return train_open(t, j->cluster, e);
}

static enum ps_err
training_work(struct training_job *j, struct ps_error *e)
{
    struct train *t = &j->train;
    struct ps_strategy_stats stats;
    enum ps_err err;

    if ((err = train_run(t, e)) != PS_OK)
        return err;
    ps_strategy_stats(t->strategy, &stats);
    shared->clock[t->task] = ps_client_clock(ps_strategy_client(t->strategy));
    shared->rejoins[t->task] = stats.rejoins;
    if ((err = train_meet(t, e)) != PS_OK)
        return err;
    if (t->task != 0)
        return PS_OK;
    if ((err = train_evaluate(t, &shared->held_out, e)) != PS_OK)
        return err;
    ps_var_versions(ps_strategy_var(t->strategy, 0), &shared->updates, NULL);
    (void)digits_weights(t->replica[0].network, FLOATS_MAX, shared->weights);
    return PS_OK;
}

/* The fate of a worker in mid-training. */
enum training_fate {
    LIVES,
    CRASHES, /* exits without goodbye, with status CRASHED */
    SLEEPS   /* stops until the test continues it */
};
enum { FATE_CLOCK = 100, CRASHED = 77 };

static enum ps_err
meet_fate(struct train *t, enum training_fate fate, struct ps_error *e)
{
    uint64_t steps = t->steps;
    enum ps_err err;

    t->steps = FATE_CLOCK;
    if ((err = train_run(t, e)) != PS_OK)
        return err;
    t->steps = steps;
    if (fate == CRASHES)
        _exit(CRASHED);
    raise(SIGSTOP);
    return PS_OK;
}

/* The worker's process from its fork on. */
static _Noreturn void
worker_main(const struct digits_options *o, uint32_t task, enum training_fate fate)
{
    struct training_job j = {0};
    struct ps_error e = {0};
    enum ps_err err;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    err = open_worker(&j, o, task, fate == SLEEPS ? LEASE_MS : 0, &e);
    if (err == PS_OK && fate != LIVES)
        err = meet_fate(&j.train, fate, &e);
    if (err == PS_OK)
        err = training_work(&j, &e);
    if (err != PS_OK)
        fprintf(stderr, "worker %u: %s: %s (%s)\n", task, ps_err_name(err), e.text, e.peer);
    if (err == PS_OK)
        train_close(&j.train, true);
    _exit(err == PS_OK ? 0 : 1);
}

static pid_t
start_worker(const struct digits_options *o, uint32_t task, enum training_fate fate)
{
    pid_t pid = fork();

    if (pid == 0)
        worker_main(o, task, fate);
    ck_assert_int_gt(pid, 0);
    return pid;
}

static void
await_worker(pid_t pid, int want)
{
    int status = 0;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == want, "a worker ended with status %x", (unsigned)status);
}

/* ---- The evaluator ---- */

/* What it writes into the pipe. */
enum { LOOKED = 'l', SAW_THE_END = 'e' };

static void
evaluator_attach(ps_client *client, const ps_network *network, ps_var *vars[], bool first)
{
    struct ps_var_spec spec;
    struct ps_error e = {0};
    enum ps_err err;

    for (size_t i = 0; i < ps_network_params(network); i++) {
        ps_network_var_spec(network, i, &spec);
        do
            err = ps_client_attach(client, spec.name, &vars[i], &e);
        while (err == PS_ERR_NOT_FOUND && first); /* the workers are only starting */
        if (err != PS_OK || ps_var_elements(vars[i]) != param_elements(network, i) ||
            ps_var_rank(vars[i]) != spec.rank || ps_var_dim(vars[i], 0) != spec.dims[0]) {
            fprintf(stderr, "evaluator: %s: %s (%s)\n", spec.name, e.text, e.peer);
            _exit(1);
        }
    }
}

/* The present model, on the held-out data. */
static void
evaluate_now(ps_client *client, ps_network *network, ps_var *vars[])
{
    struct ps_batch all = {.rows = held_out.rows, .x = held_out.features, .labels = held_out.labels};
    struct ps_network_result result;
    struct ps_error e = {0};

    if (ps_client_pull(client, ps_network_params(network), vars, ps_network_values(network), NULL, &e) != PS_OK ||
        ps_network_evaluate(network, &all, &result, &e) != PS_OK) {
        fprintf(stderr, "evaluator: %s (%s)\n", e.text, e.peer);
        _exit(1);
    }
}

static void
evaluator_says(int fd, char word)
{
    if (write(fd, &word, 1) != 1)
        _exit(1);
}

/* Its process: TF_CONFIG gives its role, and nothing about the job but its name. It reads the model again and again
 * until a byte comes, and then once more. */
static _Noreturn void
evaluator_main(const struct digits_options *o, int say, int hear)
{
    struct ps_client_options options = {.job = o->job, .timeout_ms = 60000};
    struct ps_device_options one_thread = {.threads = 1};
    struct pollfd end = {.fd = hear, .events = POLLIN};
    char config[256], *comma, last;
    ps_network *network;
    ps_cluster *cluster;
    ps_client *client;
    ps_device *device;
    ps_var *vars[PARAMS_MAX];
    uint64_t version, before = UINT64_MAX;
    struct ps_error e = {0};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    comma = strchr(shards.addresses, ',');
    snprintf(config, sizeof config,
             "{\"cluster\": {\"worker\": [\"w:1\"], \"ps\": [\"%.*s\", \"%s\"]},"
             " \"task\": {\"type\": \"evaluator\", \"index\": 0}}",
             (int)(comma - shards.addresses), shards.addresses, comma + 1);
    if (ps_device_open("cpu", &one_thread, &device, &e) || new_network(device, o, &network, &e) ||
        ps_cluster_from_json(config, &cluster, &e) || ps_cluster_set_name(cluster, SHARDS_CLUSTER, &e) ||
        ps_client_open(cluster, &options, &client, &e)) {
        fprintf(stderr, "evaluator: %s (%s)\n", e.text, e.peer);
        _exit(1);
    }
    evaluator_attach(client, network, vars, true);
    if (ps_client_tick(client, &e) != PS_ERR_INVALID)
        _exit(1);
    while (poll(&end, 1, 0) == 0) {
        evaluate_now(client, network, vars);
        ps_var_versions(vars[0], NULL, &version);
        shared->evaluations += version != before;
        before = version;
        evaluator_says(say, LOOKED);
    }
    if (read(hear, &last, 1) != 1)
        _exit(1);
    evaluator_attach(client, network, vars, false);
    evaluate_now(client, network, vars);
    (void)digits_weights(network, FLOATS_MAX, shared->evaluated);
    evaluator_says(say, SAW_THE_END);
    ps_client_close(client);
    _exit(0);
}

struct evaluator {
    pid_t pid;
    int hear, tell;
};

static void
start_evaluator(struct evaluator *v, const struct digits_options *o)
{
    int says[2], hears[2];

    ck_assert(pipe(says) == 0 && pipe(hears) == 0);
    if ((v->pid = fork()) == 0) {
        close(says[0]);
        close(hears[1]);
        evaluator_main(o, says[1], hears[0]);
    }
    ck_assert_int_gt(v->pid, 0);
    close(says[1]);
    close(hears[0]);
    v->hear = says[0];
    v->tell = hears[1];
}

static char
evaluator_word(struct evaluator *v)
{
    char word;

    ck_assert_msg(read(v->hear, &word, 1) == 1, "the evaluator has ended");
    return word;
}

static void
end_evaluator(struct evaluator *v)
{
    ck_assert_int_eq(write(v->tell, "e", 1), 1);
    while (evaluator_word(v) != SAW_THE_END)
        ;
    await_worker(v->pid, 0);
    close(v->hear);
    close(v->tell);
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

struct training_reference {
    ps_network *network;
    ps_sampler *samplers[WORKERS];
    struct ps_optimizer optimizer;
    float *gradient[WORKERS][PARAMS_MAX], *sum[PARAMS_MAX], *slot[PARAMS_MAX][LAYOUT_SLOTS_MAX];
};

static float *
new_floats(size_t n)
{
    float *x = aligned_alloc(64, round_up(n * sizeof *x, 64));

    ck_assert_ptr_nonnull(x);
    return x;
}

static void
reference_init(struct training_reference *r, const struct digits_options *o, ps_device *device)
{
    ck_assert_int_eq(new_network(device, o, &r->network, NULL), PS_OK);
    ps_network_initialize(r->network);
    r->optimizer = o->optimizer;
    for (uint32_t w = 0; w < WORKERS; w++)
        ck_assert_int_eq(ps_sampler_new(data.rows, o->batch, WORKERS, w, o->seed, &r->samplers[w], NULL), PS_OK);
    for (size_t i = 0; i < ps_network_params(r->network); i++) {
        struct optimizer_arrays arrays = {.weights = ps_network_values(r->network)[i]};

        for (uint32_t w = 0; w < WORKERS; w++)
            r->gradient[w][i] = new_floats(param_elements(r->network, i));
        r->sum[i] = new_floats(param_elements(r->network, i));
        for (size_t k = 0; k < LAYOUT_SLOTS_MAX; k++)
            arrays.slot[k] = r->slot[i][k] = new_floats(param_elements(r->network, i));
        optimizer_start(&r->optimizer, param_elements(r->network, i), &arrays);
    }
}

static void
reference_finish(struct training_reference *r)
{
    for (size_t i = 0; i < ps_network_params(r->network); i++) {
        for (uint32_t w = 0; w < WORKERS; w++)
            free(r->gradient[w][i]);
        free(r->sum[i]);
        for (size_t k = 0; k < LAYOUT_SLOTS_MAX; k++)
            free(r->slot[i][k]);
    }
    for (uint32_t w = 0; w < WORKERS; w++)
        ps_sampler_free(r->samplers[w]);
    ps_network_free(r->network);
}

/* The gradients that worker w would push in this step. */
static void
reference_gradient(struct training_reference *r, uint32_t w, uint64_t epoch, uint64_t step)
{
    static float x[128 * 64];
    uint32_t labels[128];
    struct ps_slice slice = ps_sampler_slice(r->samplers[w], epoch, step);
    struct ps_batch batch = {.rows = slice.count, .x = x, .labels = labels};
    uint64_t draw = (epoch * ps_sampler_steps(r->samplers[w]) + step) * WORKERS + w;

    ps_dataset_gather(&data, slice.count, slice.index, x, labels);
    ck_assert_int_eq(ps_network_gradient(r->network, &batch, ps_slice_scale_mean(&slice, WORKERS), draw, NULL, NULL),
                     PS_OK);
    for (size_t i = 0; i < ps_network_params(r->network); i++)
        memcpy(r->gradient[w][i], ps_network_gradients(r->network)[i], param_elements(r->network, i) * sizeof(float));
}

static void
reference_update(struct training_reference *r, uint64_t version)
{
    for (size_t i = 0; i < ps_network_params(r->network); i++) {
        struct optimizer_arrays arrays = {.weights = ps_network_values(r->network)[i]};
        const float *gradients[WORKERS];

        for (uint32_t w = 0; w < WORKERS; w++)
            gradients[w] = r->gradient[w][i];
        memcpy(arrays.slot, r->slot[i], sizeof arrays.slot);
        optimizer_sum(param_elements(r->network, i), WORKERS, gradients, r->sum[i]);
        ck_assert(optimizer_apply(&r->optimizer, &(struct optimizer_when){version, version - 1}, 1.0f / WORKERS,
                                  param_elements(r->network, i), r->sum[i], &arrays, &arrays, false));
    }
}

/* Returns how many weights there are. */
static uint64_t
train_alone(const struct digits_options *o, float *weights)
{
    struct ps_device_options one_thread = {.threads = 1};
    struct training_reference r = {0};
    ps_device *device;
    uint64_t version = 0, elements;

    ck_assert_int_eq(ps_device_open("cpu", &one_thread, &device, NULL), PS_OK);
    reference_init(&r, o, device);
    for (uint64_t epoch = 0; epoch < o->epochs; epoch++)
        for (uint64_t step = 0; step < ps_sampler_steps(r.samplers[0]); step++) {
            for (uint32_t w = 0; w < WORKERS; w++)
                reference_gradient(&r, w, epoch, step);
            reference_update(&r, ++version);
        }
    (void)digits_weights(r.network, FLOATS_MAX, weights);
    elements = ps_network_elements(r.network);
    reference_finish(&r);
    ps_device_close(device);
    return elements;
}

/* ---- Tests ---- */

static void
assert_same_bits(const char *arguments)
{
    static float alone[FLOATS_MAX];
    struct digits_options o = options_for(arguments);
    uint64_t elements;

    elements = train_alone(&o, alone);
    train_through_psd(&o);
    for (uint64_t i = 0; i < elements; i++)
        ck_assert_msg(memcmp(&alone[i], &shared->weights[i], sizeof alone[i]) == 0,
                      "%s: weight %d is %.9g alone and %.9g through psd", arguments, (int)i, (double)alone[i],
                      (double)shared->weights[i]);
}

/* Batches of 100 over 3 workers: slices of 34, 33 and 33, and a last batch of 97. */
START_TEST(sync_training_has_the_bits_of_one_process)
{
    char arguments[160];

    snprintf(arguments, sizeof arguments, "--strategy sync --optimizer %s --epochs 3 --batch 100 --seed 7",
             ps_optimizer_name((enum ps_optimizer_kind)_i));
    assert_same_bits(arguments);
}
END_TEST

/* 2 images in the last batch of an epoch: the third worker has none, and pushes a gradient of zero. */
START_TEST(sync_training_has_the_same_bits_with_an_empty_slice)
{
    assert_same_bits("--strategy sync --epochs 2 --batch 115 --optimizer momentum");
}
END_TEST

START_TEST(sync_training_of_a_convolutional_network_has_the_bits_of_one_process)
{
    assert_same_bits("--strategy sync --epochs 2 --model conv --seed 7");
}
END_TEST

static const struct {
    const char *arguments;
    size_t correct; /* of 300 at least */
} strategies[] = {
    {"--strategy async", 285},
    {"--strategy async --age inverse", 285},
    {"--strategy async --optimizer sgd --age cutoff:8", 285},
    {"--strategy ssp --bound 2", 285},
    {"--strategy ssp --bound 0 --optimizer adagrad", 285},
    {"--strategy sync", 285},
    {"--strategy sync --quorum 2 --optimizer momentum", 285},
    {"--strategy async --model conv", 291},
    {"--strategy ssp --bound 2 --model conv", 291},
    {"--strategy sync --model conv", 291},
};

START_TEST(every_strategy_learns_the_digits)
{
    struct digits_options o = options_for(strategies[_i].arguments);

    train_through_psd(&o);
    for (uint32_t w = 0; w < WORKERS; w++)
        ck_assert_uint_eq(shared->clock[w], 16 * o.epochs);
    ck_assert_uint_eq(shared->held_out.rows, 300);
    ck_assert_msg(shared->held_out.correct >= strategies[_i].correct, "%s: %zu of 300 held-out images",
                  strategies[_i].arguments, shared->held_out.correct);
}
END_TEST

/* It stops without goodbye in the middle; the one that takes its place goes on at the others' clock, with its data. */
START_TEST(a_worker_that_crashed_is_replaced_in_mid_training)
{
    struct digits_options o = options_for(_i == 0 ? "--strategy sync" : "--strategy ssp --bound 3");
    pid_t pids[WORKERS];

    for (uint32_t i = 0; i < WORKERS; i++)
        pids[i] = start_worker(&o, i, i == 2 ? CRASHES : LIVES);
    await_worker(pids[2], CRASHED);
    pids[2] = start_worker(&o, 2, LIVES);
    for (uint32_t i = 0; i < WORKERS; i++)
        await_worker(pids[i], 0);
    /* More when the others went on without it; in ssp less when it was ahead of them: a joining worker's clock begins
     * at the slowest one, its data where that of the process before ended. */
    ck_assert_uint_ge(shared->clock[2] + (_i == 1 ? 3 : 0), 16 * o.epochs);
    if (_i == 1)
        ck_assert_uint_eq(shared->updates, WORKERS * 16 * o.epochs); /* every slice counted once */
    ck_assert_msg(shared->held_out.correct >= 285, "%zu of 300 held-out images", shared->held_out.correct);
}
END_TEST

/* Silent past its lease, it no longer holds the others up; when it wakes it is notified, joins again, and goes on. */
START_TEST(a_worker_whose_lease_lapsed_joins_again)
{
    struct digits_options o = options_for(_i == 0 ? "--strategy sync" : "--strategy ssp --bound 3");
    pid_t pids[WORKERS];
    int status;

    for (uint32_t i = 0; i < WORKERS; i++)
        pids[i] = start_worker(&o, i, i == 2 ? SLEEPS : LIVES);
    ck_assert_int_eq(waitpid(pids[2], &status, WUNTRACED), pids[2]);
    ck_assert(WIFSTOPPED(status));
    await_worker(pids[0], 0);
    await_worker(pids[1], 0);
    ck_assert_msg(shared->held_out.correct >= 285, "%zu of 300 held-out images", shared->held_out.correct);
    ck_assert_int_eq(kill(pids[2], SIGCONT), 0);
    await_worker(pids[2], 0);
    ck_assert_uint_ge(shared->clock[2], 16 * o.epochs); /* more when the others went on without it */
    ck_assert_uint_ge(shared->rejoins[2], 1);           /* on a busy machine its lease may lapse again */
}
END_TEST

/* It reads while workers train and after they have finished, through a shard's crash in either; what it reads last is,
 * bit by bit, the model. */
START_TEST(an_evaluator_reads_while_others_train_and_afterwards)
{
    static float alone[FLOATS_MAX];
    struct digits_options o = options_for("--strategy sync --seed 7");
    uint64_t elements = train_alone(&o, alone);
    struct evaluator evaluator;
    pid_t pids[WORKERS];

    start_evaluator(&evaluator, &o);
    for (uint32_t i = 0; i < WORKERS; i++)
        pids[i] = start_worker(&o, i, LIVES);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(evaluator_word(&evaluator), LOOKED);
    shards_kill(&shards, 1);
    shards_restart(&shards, 1);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(evaluator_word(&evaluator), LOOKED);
    for (uint32_t i = 0; i < WORKERS; i++)
        await_worker(pids[i], 0);
    shards_kill(&shards, 0);
    shards_restart(&shards, 0);
    end_evaluator(&evaluator);
    ck_assert_uint_gt(shared->evaluations, 2);
    for (uint64_t i = 0; i < elements; i++)
        ck_assert_msg(memcmp(&alone[i], &shared->evaluated[i], sizeof alone[i]) == 0,
                      "weight %d is %.9g alone and %.9g for the evaluator", (int)i, (double)alone[i],
                      (double)shared->evaluated[i]);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("training");
    TCase *tc = tcase_create("training"), *evaluator = tcase_create("evaluator");

    tcase_add_checked_fixture(tc, training_setup, training_teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, sync_training_has_the_bits_of_one_process, 0, PS_OPTIMIZER_KINDS);
    tcase_add_test(tc, sync_training_has_the_same_bits_with_an_empty_slice);
    tcase_add_test(tc, sync_training_of_a_convolutional_network_has_the_bits_of_one_process);
    tcase_add_loop_test(tc, every_strategy_learns_the_digits, 0, ARRAY_LEN(strategies));
    tcase_add_loop_test(tc, a_worker_that_crashed_is_replaced_in_mid_training, 0, 2);
    tcase_add_loop_test(tc, a_worker_whose_lease_lapsed_joins_again, 0, 2);
    suite_add_tcase(suite, tc);
    tcase_add_checked_fixture(evaluator, training_setup, training_teardown);
    tcase_set_timeout(evaluator, 120);
    tcase_add_test(evaluator, an_evaluator_reads_while_others_train_and_afterwards);
    suite_add_tcase(suite, evaluator);
    return suite;
}

CHECK_MAIN(make_suite)
