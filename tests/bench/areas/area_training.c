/* The time of a training step through a shard, beside the same step in one process: the digits' networks, and one of
 * 100 million parameters, with sgd. A step is the gradient of a batch, and the exchange: in one_device an update in
 * place, in parameter_server a push of all gradients and a pull of all values, over TCP or a Unix socket. Everything
 * computes with one thread, so that a shard has the other core. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/include/psclient/ps_network.h"
#include "client/include/psclient/ps_strategy.h"
#include "common/core/base/base.h"
#include "tests/bench/area.h"
#include "tests/bench/interleave.h"
#include "tests/bench/load.h"
#include "tests/bench/server.h"
#include "tests/now.h"

enum { ALONE, TCP, UNIX, TRAINERS };
#define CLASSES   10
#define EPOCH_LEN 1000000 /* batches */

static const struct training_model {
    const char *label, *layers;
    size_t rank, dims[3], rows;
} models[] = {
    {"digits, 64-48-10", "dense 48, relu, dense 10", 1, {64}, 96},
    {"digits, convolutional",
     "conv 16 3x3 same, relu, maxpool 2, conv 32 3x3 same, relu, maxpool 2, dense 10",
     3,
     {8, 8, 1},
     96},
    {"100 M parameters", "dense 8192, relu, dense 8192, relu, dense 10", 1, {4096}, 32},
};

/* One trainer of a model. */
struct trainer {
    const struct training_model *model;
    ps_cluster *cluster;
    ps_strategy *strategy;
    ps_network *network;
    struct ps_batch batch;
    float *x;
    uint32_t *labels;
    char job[64];
    double loss; /* of the last step, of a row */
};

static const char *const names[TRAINERS] = {"one_device", "parameter_server", "parameter_server-unix"};

static void
training_check(enum ps_err err, const char *what, const struct ps_error *e)
{
    if (err != PS_OK)
        bench_die(what, e);
}

/* Rows of noise with a label that can be learned from them. */
static void
make_batch(struct trainer *t)
{
    size_t inputs = ps_network_inputs(t->network), rows = t->model->rows;
    uint32_t state = 1;

    t->x = load_memory(rows * inputs * sizeof *t->x);
    t->labels = load_memory(rows * sizeof *t->labels);
    for (size_t i = 0; i < rows; i++) {
        t->labels[i] = (uint32_t)(i % CLASSES);
        for (size_t k = 0; k < inputs; k++) {
            state = state * 1664525 + 1013904223;
            t->x[i * inputs + k] = (float)(state >> 8) * 0x1p-24f * (k % CLASSES == t->labels[i] ? 1.0f : 0.5f);
        }
    }
    t->batch = (struct ps_batch){.rows = rows, .x = t->x, .labels = t->labels};
}

static void
open_trainer(struct trainer *t, const struct training_model *m, int which, const char *address,
             const struct bench_options *s)
{
    struct ps_strategy_options o = {.client = {.job = t->job, .congestion = s->congestion},
                                    .threads = 1,
                                    .rows = m->rows * (uint64_t)EPOCH_LEN,
                                    .batch = m->rows,
                                    .metrics = 1};
    struct ps_layer layers[PS_LAYERS_MAX];
    struct ps_network_spec spec = {.rank = (uint32_t)m->rank,
                                   .dims = {m->dims[0], m->dims[1], m->dims[2]},
                                   .layer = layers,
                                   .rows_max = m->rows,
                                   .seed = 1};
    struct ps_optimizer sgd;
    struct ps_error e;

    *t = (struct trainer){.model = m};
    snprintf(t->job, sizeof t->job, "%s, %s", names[which], m->label);
    training_check(ps_optimizer_parse("sgd:learning_rate=0.001", &sgd, &e), "sgd", &e);
    if (which != ALONE) {
        training_check(ps_cluster_from_list(address, 1, 0, &t->cluster, &e), "cluster", &e);
        training_check(ps_cluster_set_name(t->cluster, BENCH_CLUSTER, &e), "cluster", &e);
        o.cluster = t->cluster;
    }
    training_check(ps_strategy_open(which == ALONE ? names[ALONE] : names[TCP], &o, &t->strategy, &e), m->label, &e);
    training_check(ps_network_parse(m->layers, layers, &spec.layers, &e), m->label, &e);
    training_check(ps_network_new(ps_strategy_device(t->strategy, 0), &spec, &t->network, &e), m->label, &e);
    training_check(ps_strategy_networks(t->strategy, &t->network, NULL, &sgd, &e), m->label, &e);
    training_check(ps_strategy_start(t->strategy, &e), m->label, &e);
    make_batch(t);
}

static void
close_trainer(struct trainer *t)
{
    ps_network_free(t->network);
    ps_strategy_close(t->strategy);
    ps_cluster_free(t->cluster);
    free(t->x);
    free(t->labels);
}

static enum ps_err
training_step(void *arg, struct ps_replica *r, struct ps_error *e)
{
    struct trainer *t = arg;
    struct ps_network_result result;
    enum ps_err err = ps_replica_gradient(r, &t->batch, &result, e);

    r->metrics[0] += result.loss;
    return err;
}

static enum ps_err
training_after_step(void *arg, const struct ps_step_done *done, struct ps_error *e)
{
    struct trainer *t = arg;

    (void)e;
    t->loss = done->metrics[0] / (double)done->rows;
    return PS_OK;
}

static void
training_sample(void *arg, double seconds, double *figures)
{
    struct trainer *t = arg;
    struct ps_strategy_calls calls = {training_step, training_after_step, t};
    uint64_t first = ps_strategy_step(t->strategy), n = 0;
    double start = now_s();
    struct ps_error e;

    do {
        n += n < 8 ? 1 : n / 8;
        training_check(ps_strategy_run(t->strategy, first + n, &calls, &e), t->model->label, &e);
    } while (now_s() - start < seconds);
    figures[0] = (now_s() - start) * 1e3 / (double)n;
}

/* An untrained model has a loss of log(CLASSES); an exchange that mixes values up is soon far above it. */
static void
check_loss(const struct trainer *t)
{
    if (isfinite(t->loss) && t->loss < 3 * log(CLASSES))
        return;
    fprintf(stderr, "bench: %s: a loss of %g\n", t->model->label, t->loss);
    exit(EXIT_FAILURE);
}

static void
training_measure(const struct bench_options *s, struct bench_table *table, const struct training_model *m,
                 const struct bench_server *psd, struct bench_variant *ways)
{
    static struct trainer trainers[TRAINERS];
    static struct interleave turns;

    for (int i = 0; i < TRAINERS; i++) {
        open_trainer(&trainers[i], m, i, i == UNIX ? psd->unix_address : psd->address, s);
        ways[i].arg = &trainers[i];
    }
    interleave_run(s, ways, TRAINERS, 1, &turns);
    for (int i = 0; i < TRAINERS; i++) {
        if (bench_options_want(s, names[i]))
            check_loss(&trainers[i]);
        close_trainer(&trainers[i]);
    }
    table_row(table, m->label, 0, turns.series[0]);
}

void
area_training(const struct bench_options *s, struct bench_report *r)
{
    struct bench_variant ways[TRAINERS];
    struct bench_server psd;
    struct bench_table *t;

    for (int i = 0; i < TRAINERS; i++)
        ways[i] = (struct bench_variant){
            .name = names[i], .against = {i != ALONE ? names[ALONE] : NULL}, .sample = training_sample};
    t = report_table(r, &(struct table_spec){.title = "a training step", .unit = "ms", .less = true}, ways, TRAINERS);
    bench_server_start(&psd, s, NULL);
    for (size_t i = 0; i < (size_t)bench_options_pick(s, 2, 2, ARRAY_LEN(models)); i++)
        training_measure(s, t, &models[i], &psd, ways);
    bench_server_stop(&psd);
}
