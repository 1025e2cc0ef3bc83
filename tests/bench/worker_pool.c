#include "tests/bench/worker_pool.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "tests/bench/server.h"
#include "tests/bench/worker.h"
#include "tests/now.h"

enum order_kind { ORDER_READY, ORDER_WORK, ORDER_COUNT, ORDER_END };

struct pool_order {
    enum order_kind kind;
    struct bench_load load;
    double seconds;
};

struct pool_answer {
    uint64_t count; /* messages done; of ORDER_COUNT: the sum of the blocks' versions */
    double seconds;
};

/* ---- In a worker's process ---- */

static uint64_t
sum_of_versions(struct bench_worker *w, struct var_set *v)
{
    float *out = load_memory(v->size);
    uint64_t sum = 0;
    struct ps_error e;

    for (uint32_t i = 0; i < v->count; i++) {
        uint64_t lowest, highest;

        if (ps_client_pull(w->client, 1, &v->vars[i], &out, NULL, &e) != PS_OK)
            bench_die("pull", &e);
        ps_var_versions(v->vars[i], &lowest, &highest);
        ps_assert(lowest == highest);
        sum += lowest;
    }
    free(out);
    return sum;
}

static struct pool_answer
carry_out(struct bench_worker *w, struct var_set *v, const struct pool_order *o)
{
    struct pool_answer a = {0};
    double start = now_s();

    if (o->kind == ORDER_WORK) {
        uint64_t before = w->done;

        (void)worker_run(w, v, &o->load, NULL, o->seconds);
        a.seconds = now_s() - start;
        a.count = w->done - before;
    } else if (o->kind == ORDER_COUNT) {
        a.count = sum_of_versions(w, v);
    }
    return a;
}

static _Noreturn void
pool_serve(const struct worker_pool *c, const struct bench_options *s, const char *shards, uint32_t task,
           struct bench_load declared, int orders, int answers)
{
    struct ps_client_options o = {.job = c->name};
    struct bench_worker w;
    struct var_set v;
    struct pool_order order;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    worker_open(&w, s, shards, &o, c->count, task);
    var_set_declare(&v, &w, c->name, declared.size, declared.blocks);
    while (read(orders, &order, sizeof order) == (ssize_t)sizeof order && order.kind != ORDER_END) {
        struct pool_answer a = carry_out(&w, &v, &order);

        if (write(answers, &a, sizeof a) != (ssize_t)sizeof a)
            bench_die("answer", NULL);
    }
    var_set_free(&v);
    worker_close(&w);
    _exit(EXIT_SUCCESS);
}

/* ---- Here ---- */

static void
pool_write(struct worker_pool *c, uint32_t i, const struct pool_order *o)
{
    if (write(c->orders[i], o, sizeof *o) != (ssize_t)sizeof *o)
        bench_die("order", NULL);
}

static struct pool_answer
pool_read(struct worker_pool *c, uint32_t i)
{
    struct pool_answer a;

    if (read(c->answers[i], &a, sizeof a) != (ssize_t)sizeof a)
        bench_die("a worker ended", NULL);
    return a;
}

void
worker_pool_start(struct worker_pool *c, const struct bench_options *s, const char *shards, const char *name,
                  uint32_t count, size_t size, uint32_t blocks)
{
    ps_assert(count <= WORKERS_MAX);
    *c = (struct worker_pool){.name = name, .count = count};
    fflush(NULL);
    for (uint32_t i = 0; i < count; i++) {
        int orders[2], answers[2];

        if (pipe2(orders, O_CLOEXEC) < 0 || pipe2(answers, O_CLOEXEC) < 0 || (c->pids[i] = fork()) < 0)
            bench_die("fork", NULL);
        if (c->pids[i] == 0) {
            close(answers[0]);
            pool_serve(c, s, shards, i, (struct bench_load){.size = size, .blocks = blocks}, orders[0], answers[1]);
        }
        close(orders[0]);
        close(answers[1]);
        c->orders[i] = orders[1];
        c->answers[i] = answers[0];
    }
    for (uint32_t i = 0; i < count; i++)
        pool_write(c, i, &(struct pool_order){.kind = ORDER_READY});
    for (uint32_t i = 0; i < count; i++)
        (void)pool_read(c, i);
}

double
worker_pool_run(struct worker_pool *c, const struct bench_load *l, double seconds)
{
    double rate = 0;

    for (uint32_t i = 0; i < c->count; i++)
        pool_write(c, i, &(struct pool_order){ORDER_WORK, *l, seconds});
    for (uint32_t i = 0; i < c->count; i++) {
        struct pool_answer a = pool_read(c, i);

        rate += (double)a.count / a.seconds;
        c->pushed += l->kind != LOAD_PULL ? a.count * l->batch : 0;
    }
    return rate;
}

void
worker_pool_stop(struct worker_pool *c)
{
    uint64_t sum;

    pool_write(c, 0, &(struct pool_order){.kind = ORDER_COUNT});
    sum = pool_read(c, 0).count;
    if (sum != c->pushed) {
        fprintf(stderr, "bench: %s: blocks took %llu pushes of %llu\n", c->name, (unsigned long long)sum,
                (unsigned long long)c->pushed);
        exit(EXIT_FAILURE);
    }
    for (uint32_t i = 0; i < c->count; i++)
        pool_write(c, i, &(struct pool_order){.kind = ORDER_END});
    for (uint32_t i = 0; i < c->count; i++) {
        waitpid(c->pids[i], NULL, 0);
        close(c->orders[i]);
        close(c->answers[i]);
    }
}
