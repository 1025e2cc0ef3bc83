#include "tests/bench/worker.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/base/base.h"
#include "tests/bench/server.h"
#include "tests/now.h"

#define RATE        1e-6
#define DECLARE_MAX 256 /* under way at once */

void
worker_open(struct bench_worker *w, const struct bench_options *s, const char *shards,
            const struct ps_client_options *options, uint32_t workers, uint32_t task)
{
    struct ps_client_options o = options != NULL ? *options : (struct ps_client_options){0};
    struct ps_error e;
    ps_cluster *cluster;

    *w = (struct bench_worker){0};
    o.congestion = s->congestion;
    if (ps_cluster_from_list(shards, workers, task, &cluster, &e) != PS_OK ||
        ps_cluster_set_name(cluster, BENCH_CLUSTER, &e) != PS_OK ||
        ps_client_open(cluster, &o, &w->client, &e) != PS_OK)
        bench_die("open", &e);
    ps_cluster_free(cluster);
}

void
worker_close(struct bench_worker *w)
{
    ps_client_close(w->client);
    free(w->out);
    *w = (struct bench_worker){0};
}

/* ---- Variables ---- */

static ps_op *
declare_start(struct var_set *v, struct bench_worker *w, const char *name, uint32_t i)
{
    char full[PS_NAME_MAX];
    struct ps_var_spec spec = {.name = full, .rank = 1, .dims = {v->size / sizeof(float)}};
    struct ps_error e;
    ps_op *op;

    snprintf(full, sizeof full, "%s/%u", name, i);
    spec.optimizer = (struct ps_optimizer){.kind = PS_SGD, .learning_rate = RATE};
    if (ps_client_declare_start(w->client, &spec, &v->vars[i], &op, &e) != PS_OK)
        bench_die("declare", &e);
    return op;
}

static void
worker_finish(ps_op *op, const char *what)
{
    struct ps_error e;

    if (ps_op_wait(op, 60000, &e) != PS_OK)
        bench_die(what, &e);
    ps_op_free(op);
}

void
var_set_declare(struct var_set *v, struct bench_worker *w, const char *name, size_t size, uint32_t count)
{
    ps_op *ops[DECLARE_MAX];

    *v = (struct var_set){.count = count, .size = size};
    v->vars = load_memory(count * sizeof *v->vars);
    v->pushed = load_memory(count * sizeof *v->pushed);
    for (uint32_t i = 0; i < count + DECLARE_MAX; i++) {
        if (i >= DECLARE_MAX && i - DECLARE_MAX < count)
            worker_finish(ops[i % DECLARE_MAX], "declare");
        if (i < count)
            ops[i % DECLARE_MAX] = declare_start(v, w, name, i);
    }
}

void
var_set_free(struct var_set *v)
{
    free(v->vars);
    free(v->pushed);
    *v = (struct var_set){0};
}

/* ---- Loads ---- */

static void
make_room(struct bench_worker *w, size_t size)
{
    if (size <= w->out_size)
        return;
    free(w->out);
    w->out = load_memory(size);
    w->out_size = size;
}

static ps_op *
worker_begin(struct bench_worker *w, struct var_set *v, const struct bench_load *l, const struct ps_push_options *push,
             uint64_t i)
{
    static ps_var *vars[LOAD_BATCH_MAX];
    static const float *grads[LOAD_BATCH_MAX];
    static float *outs[LOAD_BATCH_MAX];
    uint8_t *out = w->out + i % l->window * l->batch * l->size;
    uint32_t first = (uint32_t)(i * l->batch % l->blocks);
    struct ps_error e;
    ps_op *op;
    enum ps_err err;

    for (uint32_t j = 0; j < l->batch; j++) {
        uint32_t at = first + j < l->blocks ? first + j : first + j - l->blocks;

        vars[j] = v->vars[at];
        grads[j] = (const float *)(const void *)(load_gradients() + j * l->size);
        outs[j] = (float *)(void *)(out + j * l->size);
        v->pushed[at] += l->kind != LOAD_PULL;
    }
    if (l->kind == LOAD_PUSH)
        err = ps_client_push_start(w->client, l->batch, vars, grads, push, &op, &e);
    else if (l->kind == LOAD_PULL)
        err = ps_client_pull_start(w->client, l->batch, vars, outs, NULL, &op, &e);
    else
        err = ps_client_push_pull_start(w->client, l->batch, vars, grads, outs, push, &op, &e);
    if (err != PS_OK)
        bench_die(load_names[l->kind], &e);
    return op;
}

static void
check_load(const struct var_set *v, const struct bench_load *l)
{
    ps_assert(l->size == v->size && l->blocks <= v->count && l->batch <= MIN(l->blocks, LOAD_BATCH_MAX) &&
              l->window <= LOAD_WINDOW_MAX && l->batch * l->size <= LOAD_BYTES_MAX);
}

static bool
is_over(const struct bench_worker *w, double start, double seconds)
{
    return now_s() - start >= seconds || (w->over != NULL && atomic_load(w->over));
}

double
worker_run(struct bench_worker *w, struct var_set *v, const struct bench_load *l, const struct ps_push_options *push,
           double seconds)
{
    static ps_op *ops[LOAD_WINDOW_MAX];
    uint64_t begun = 0, ended = 0;
    double start;

    check_load(v, l);
    make_room(w, l->window * l->batch * l->size);
    start = now_s();
    while (ended < begun || !is_over(w, start, seconds)) {
        while (begun - ended < l->window && (begun % 16 != 0 || begun == 0 || !is_over(w, start, seconds))) {
            ops[begun % l->window] = worker_begin(w, v, l, push, begun);
            begun++;
        }
        worker_finish(ops[ended++ % l->window], load_names[l->kind]);
    }
    w->done += ended;
    return (now_s() - start) / (double)ended;
}

size_t
worker_round_trips(struct bench_worker *w, struct var_set *v, const struct bench_load *l, double seconds, double *times,
                   size_t most)
{
    double start = now_s();
    size_t n = 0;

    check_load(v, l);
    make_room(w, l->batch * l->size);
    while (n < most && (n == 0 || now_s() - start < seconds)) {
        double before = now_s();

        worker_finish(worker_begin(w, v, &(struct bench_load){l->kind, l->size, l->blocks, l->batch, 1}, NULL, n),
                      "round trip");
        times[n++] = now_s() - before;
    }
    return n;
}

/* ---- What came of it ---- */

static _Noreturn void
worker_wrong(const struct var_set *v, uint32_t i, const char *what, double got, double expected)
{
    fprintf(stderr, "bench: %s: %s is %.9g, not %.9g\n", ps_var_name(v->vars[i]), what, got, expected);
    exit(EXIT_FAILURE);
}

/* Every push rounds, by at most half of the last place of the sum so far. */
static void
check_values(const struct var_set *v, uint32_t i, const float *grad, const float *out)
{
    double n = (double)v->pushed[i], part = 1e-5 + n * 0x1p-24;

    for (size_t k = 0; k < v->size / sizeof *out; k++) {
        double expected = -RATE * n * (double)grad[k];

        if (!(fabs((double)out[k] - expected) <= part * fabs(expected) + 1e-12))
            worker_wrong(v, i, "a value", (double)out[k], expected);
    }
}

/* The variable's values, in w->out; every push of it has counted once. */
static const float *
check_count(struct bench_worker *w, struct var_set *v, uint32_t i)
{
    float *out = (float *)(void *)w->out;
    uint64_t lowest, highest;
    struct ps_error e;

    if (ps_client_pull(w->client, 1, &v->vars[i], &out, NULL, &e) != PS_OK)
        bench_die("pull", &e);
    ps_var_versions(v->vars[i], &lowest, &highest);
    if (lowest != v->pushed[i] || highest != v->pushed[i])
        worker_wrong(v, i, "its version", (double)lowest, (double)v->pushed[i]);
    return out;
}

void
worker_check_counts(struct bench_worker *w, struct var_set *v, const struct bench_load *l)
{
    make_room(w, v->size);
    for (uint32_t i = 0; i < l->blocks; i++)
        (void)check_count(w, v, i);
}

void
worker_check(struct bench_worker *w, struct var_set *v, const struct bench_load *l)
{
    make_room(w, v->size);
    for (uint32_t i = 0; i < l->blocks; i++)
        check_values(v, i, (const float *)(const void *)(load_gradients() + i % l->batch * v->size),
                     check_count(w, v, i));
}
