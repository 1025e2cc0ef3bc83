/* The total rate of all workers of a shard, by their number, each in a process of its own with four messages in flight;
 * and the loss of one of them beside a thousand idle connections. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "tests/bench/area.h"
#include "tests/bench/interleave.h"
#include "tests/bench/server.h"
#include "tests/bench/worker.h"
#include "tests/bench/worker_pool.h"

static const struct {
    const char *label;
    struct bench_load load;
} loads[] = {
    {"push of 1 MiB", {LOAD_PUSH, MIB, 16, 1, 4}},
    {"pull of 1 MiB", {LOAD_PULL, MIB, 16, 1, 4}},
    {"push-and-pull of 1 MiB", {LOAD_PUSH_PULL, MIB, 16, 1, 4}},
    {"push of 64 x 4032 B", {LOAD_PUSH, 4032, 1024, 64, 4}},
    {"pull of 64 x 4032 B", {LOAD_PULL, 4032, 1024, 64, 4}},
};
enum { SIZES = 2, COUNTS = 4 };

/* ---- Many ---- */

static const char *const names[COUNTS] = {"1 worker", "2 workers", "8 workers", "64 workers"};
static const uint32_t counts[COUNTS] = {1, 2, 8, 64};

static struct {
    struct worker_pool workers[COUNTS][SIZES];
    const struct bench_load *load;
} many;

static struct worker_pool *
workers_of(size_t count, const struct bench_load *l)
{
    return &many.workers[count][l->size == MIB ? 0 : 1];
}

static void
sample_many(void *arg, double seconds, double *figures)
{
    struct worker_pool *all = workers_of(*(const size_t *)arg, many.load);

    figures[0] = worker_pool_run(all, many.load, seconds) * (double)(many.load->batch * many.load->size) * 1e-9;
}

static void
measure_many(const struct bench_options *s, struct bench_report *r)
{
    static const size_t index[COUNTS] = {0, 1, 2, 3};
    static char jobs[COUNTS][SIZES][32];
    static struct interleave turns;
    size_t most = (size_t)bench_options_pick(s, 2, COUNTS, COUNTS);
    struct bench_variant ways[COUNTS] = {{.name = NULL}};
    struct bench_server psd;
    struct bench_table *t;

    bench_server_start(&psd, s, NULL);
    for (size_t i = 0; i < most; i++) {
        ways[i] = (struct bench_variant){names[i],    {i != 1 ? names[1] : NULL},   counts[i],
                                         sample_many, (void *)(uintptr_t)&index[i], 0};
        for (size_t k = 0; k < SIZES; k++) {
            const struct bench_load *l = &loads[k == 0 ? 0 : 3].load;

            snprintf(jobs[i][k], sizeof jobs[i][k], "%u of %zu", counts[i], l->size);
            worker_pool_start(&many.workers[i][k], s, psd.address, jobs[i][k], counts[i], l->size, l->blocks);
        }
    }
    t = report_table(
        r, &(struct table_spec){.title = "all workers together", .unit = "GB/s", .axis = "workers", .of_ways = true},
        ways, most);
    for (size_t i = 0; i < ARRAY_LEN(loads); i++) {
        many.load = &loads[i].load;
        interleave_run(s, ways, most, 1, &turns);
        table_row(t, loads[i].label, 0, turns.series[0]);
    }
    for (size_t i = 0; i < most; i++)
        for (size_t k = 0; k < SIZES; k++)
            worker_pool_stop(&many.workers[i][k]);
    bench_server_stop(&psd);
}

/* ---- One beside idle ones ---- */

static struct {
    const struct bench_options *settings;
    struct bench_server psd;
    struct bench_worker worker;
    struct var_set vars[SIZES];
    uint32_t connections;
    const struct bench_load *load;
} idle;

static void
sample_alone(void *arg, double seconds, double *figures)
{
    struct var_set *v = &idle.vars[idle.load->size == MIB ? 0 : 1];

    (void)arg;
    figures[0] =
        (double)(idle.load->batch * idle.load->size) * 1e-9 / worker_run(&idle.worker, v, idle.load, NULL, seconds);
}

/* A process of clients that are connected and ask nothing. */
static pid_t
start_idle(void)
{
    int ready[2];
    char byte;
    pid_t pid;

    fflush(NULL);
    if (pipe(ready) < 0 || (pid = fork()) < 0)
        bench_die("fork", NULL);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (uint32_t i = 0; i < idle.connections; i++) {
            struct bench_worker w; /* never freed: it ends with the process */

            worker_open(&w, idle.settings, idle.psd.address, &(struct ps_client_options){.observer = 1}, 1, 0);
        }
        if (write(ready[1], "", 1) == 1)
            pause();
        _exit(EXIT_FAILURE);
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        bench_die("idle connections", NULL);
    close(ready[0]);
    return pid;
}

static void
sample_beside(void *arg, double seconds, double *figures)
{
    pid_t pid = start_idle();

    sample_alone(arg, seconds, figures);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void
measure_idle(const struct bench_options *s, struct bench_report *r)
{
    static struct interleave turns;
    static char name[32];
    struct bench_variant ways[] = {{.name = "alone", .sample = sample_alone},
                                   {.name = name, .against = {"alone"}, .sample = sample_beside}};
    struct bench_table *t;

    idle.settings = s;
    idle.connections = (uint32_t)bench_options_pick(s, 10, 1000, 1000);
    snprintf(name, sizeof name, "beside %u idle", idle.connections);
    bench_server_start(&idle.psd, s, NULL);
    worker_open(&idle.worker, s, idle.psd.address, NULL, 1, 0);
    for (size_t k = 0; k < SIZES; k++) {
        const struct bench_load *l = &loads[k == 0 ? 0 : 3].load;
        char text[LOAD_SIZE_TEXT];

        var_set_declare(&idle.vars[k], &idle.worker, load_size(l->size, text), l->size, l->blocks);
    }
    t = report_table(r, &(struct table_spec){.title = "one worker beside idle connections", .unit = "GB/s"}, ways, 2);
    for (size_t i = 0; i < ARRAY_LEN(loads); i++) {
        idle.load = &loads[i].load;
        interleave_run(s, ways, 2, 1, &turns);
        table_row(t, loads[i].label, 0, turns.series[0]);
    }
    for (size_t k = 0; k < SIZES; k++) {
        worker_check(&idle.worker, &idle.vars[k], &loads[k == 0 ? 0 : 3].load);
        var_set_free(&idle.vars[k]);
    }
    worker_close(&idle.worker);
    bench_server_stop(&idle.psd);
}

void
area_workers(const struct bench_options *s, struct bench_report *r)
{
    measure_many(s, r);
    measure_idle(s, r);
}
