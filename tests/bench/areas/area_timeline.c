/* The cost of timelines: pushes of 64 bytes, one at a time and a thousand in flight, and a training step of the digits'
 * network, with workers and shards that keep their timelines beside such that do not. Two psds, each with clients of
 * its own; one thread computes. */
#include <stdlib.h>

#include "client/include/psclient/ps_network.h"
#include "client/include/psclient/ps_strategy.h"
#include "client/include/psclient/ps_timeline.h"
#include "common/core/base/base.h"
#include "tests/bench/area.h"
#include "tests/bench/interleave.h"
#include "tests/bench/server.h"
#include "tests/bench/worker.h"
#include "tests/now.h"

enum { OFF, KEPT, SIDES };
#define ROWS 96

static const char *const names[SIDES] = {"off", "kept"};

/* One psd, and its clients. */
struct timeline_side {
    bool kept;
    struct bench_server psd;
    struct bench_worker worker;
    struct var_set vars;
    struct bench_load load;
    ps_cluster *cluster;
    ps_strategy *strategy;
    ps_network *network;
    float *x;
    uint32_t labels[ROWS];
};

static void
timeline_check(enum ps_err err, const char *what, const struct ps_error *e)
{
    if (err != PS_OK)
        bench_die(what, e);
}

static void
open_training(struct timeline_side *d, const struct bench_options *s)
{
    struct ps_strategy_options o = {
        .client = {.job = "digits", .congestion = s->congestion}, .threads = 1, .rows = ROWS * 1000, .batch = ROWS};
    struct ps_layer layers[PS_LAYERS_MAX];
    struct ps_network_spec spec = {.rank = 1, .dims = {64}, .layer = layers, .rows_max = ROWS, .seed = 1};
    struct ps_optimizer sgd;
    struct ps_error e;

    timeline_check(ps_optimizer_parse("sgd:learning_rate=0.001", &sgd, &e), "sgd", &e);
    timeline_check(ps_cluster_from_list(d->psd.address, 1, 0, &d->cluster, &e), "cluster", &e);
    timeline_check(ps_cluster_set_name(d->cluster, BENCH_CLUSTER, &e), "cluster", &e);
    o.cluster = d->cluster;
    timeline_check(ps_strategy_open("parameter_server", &o, &d->strategy, &e), "strategy", &e);
    timeline_check(ps_network_parse("dense 48, relu, dense 10", layers, &spec.layers, &e), "network", &e);
    timeline_check(ps_network_new(ps_strategy_device(d->strategy, 0), &spec, &d->network, &e), "network", &e);
    timeline_check(ps_strategy_networks(d->strategy, &d->network, NULL, &sgd, &e), "network", &e);
    timeline_check(ps_strategy_start(d->strategy, &e), "start", &e);
    d->x = load_memory(ROWS * 64 * sizeof *d->x);
    for (uint32_t i = 0; i < ROWS; i++) {
        d->labels[i] = i % 10;
        d->x[i * 64 + d->labels[i]] = 1;
    }
}

static void
side_open(struct timeline_side *d, const struct bench_options *s, bool kept)
{
    static const char *const without[] = {"--timeline", "0", NULL};

    *d = (struct timeline_side){.kept = kept};
    bench_server_start(&d->psd, s, kept ? NULL : without);
    worker_open(&d->worker, s, d->psd.address, NULL, 1, 0);
    var_set_declare(&d->vars, &d->worker, "small", 64, 100);
    open_training(d, s);
}

static void
side_close(struct timeline_side *d)
{
    ps_network_free(d->network);
    ps_strategy_close(d->strategy);
    ps_cluster_free(d->cluster);
    free(d->x);
    var_set_free(&d->vars);
    worker_close(&d->worker);
    bench_server_stop(&d->psd);
}

static void
sample_pushes(void *arg, double seconds, double *figures)
{
    struct timeline_side *d = arg;

    ps_timeline_keep(d->kept);
    figures[0] = worker_run(&d->worker, &d->vars, &d->load, NULL, seconds) * 1e6;
}

static enum ps_err
timeline_step(void *arg, struct ps_replica *r, struct ps_error *e)
{
    struct timeline_side *d = arg;
    struct ps_batch batch = {.rows = ROWS, .x = d->x, .labels = d->labels};
    struct ps_network_result result;

    return ps_replica_gradient(r, &batch, &result, e);
}

static void
sample_steps(void *arg, double seconds, double *figures)
{
    struct timeline_side *d = arg;
    struct ps_strategy_calls calls = {.step = timeline_step, .arg = d};
    uint64_t first = ps_strategy_step(d->strategy), n = 0;
    double start = now_s();
    struct ps_error e;

    ps_timeline_keep(d->kept);
    do {
        n += 64;
        timeline_check(ps_strategy_run(d->strategy, first + n, &calls, &e), "steps", &e);
    } while (now_s() - start < seconds);
    figures[0] = (now_s() - start) * 1e6 / (double)n;
}

void
area_timeline(const struct bench_options *s, struct bench_report *r)
{
    static const struct bench_load loads[] = {{LOAD_PUSH, 64, 100, 1, 1}, {LOAD_PUSH, 64, 100, 1, 1024}};
    static const char *const labels[] = {"push of 64 B, one at a time", "push of 64 B, 1024 in flight",
                                         "training step, digits 64-48-10"};
    static struct timeline_side sides[SIDES];
    static struct interleave turns;
    struct bench_variant ways[SIDES];
    struct bench_table *t;

    for (int i = 0; i < SIDES; i++) {
        side_open(&sides[i], s, i == KEPT);
        ways[i] = (struct bench_variant){.name = names[i],
                                         .against = {i == KEPT ? names[OFF] : NULL},
                                         .sample = sample_pushes,
                                         .arg = &sides[i],
                                         .server = sides[i].psd.pid};
    }
    t = report_table(r, &(struct table_spec){.title = "with a timeline", .unit = "us", .less = true}, ways, SIDES);
    for (size_t k = 0; k < ARRAY_LEN(labels); k++) {
        for (int i = 0; i < SIDES; i++) {
            sides[i].load = loads[MIN(k, ARRAY_LEN(loads) - 1)];
            ways[i].sample = k < ARRAY_LEN(loads) ? sample_pushes : sample_steps;
        }
        interleave_run(s, ways, SIDES, 1, &turns);
        table_row(t, labels[k], 0, turns.series[0]);
    }
    ps_timeline_keep(1);
    for (int i = 0; i < SIDES; i++)
        side_close(&sides[i]);
}
