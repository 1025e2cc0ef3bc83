/* Many variables of 64 bytes, each a block of a page in the shard, by how many there are: what each adds to declaring,
 * listing, checkpointing, saving, exporting and starting again, by the clock and of the processes' processor time, and
 * to the heap of both; and how long single pushes of a worker take meanwhile. What costs the same for each, however
 * many there are, is linear. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "tests/bench/area.h"
#include "tests/bench/server.h"
#include "tests/bench/worker.h"
#include "tests/now.h"

#define SIZE       64
#define PUSHED     1000 /* variables that the worker pushes, one after the other */
#define WORDS_MAX  24
#define PUSHES_MAX ((size_t)1 << 21)
#define COUNTS_MAX 8

enum { DECLARE, LIST, JOBS, CHECKPOINT, SAVE, EXPORT, KEPT, REBUILT, COSTS };
static const struct bench_variant costs[COSTS] = {
    [DECLARE] = {.name = "declare"},    [LIST] = {.name = "psctl variables"},
    [JOBS] = {.name = "psctl jobs"},    [CHECKPOINT] = {.name = "checkpoint"},
    [SAVE] = {.name = "save"},          [EXPORT] = {.name = "psctl export"},
    [KEPT] = {.name = "restart, kept"}, [REBUILT] = {.name = "restart, rebuilt"},
};

enum { HEAP_PSD, HEAP_CLIENT, HEAP_AGAIN, HEAPS };
static const struct bench_variant heaps[HEAPS] = {
    [HEAP_PSD] = {.name = "psd"}, [HEAP_CLIENT] = {.name = "its client"}, [HEAP_AGAIN] = {.name = "psd, restarted"}};

enum { ALONE, WHILE_LIST, WHILE_JOBS, WHILE_CHECKPOINT, WHILE_SAVE, WHILE_EXPORT, WHILES };
static const struct bench_variant whiles[WHILES] = {
    [ALONE] = {.name = "alone"},
    [WHILE_LIST] = {.name = "psctl variables", .against = {"alone"}},
    [WHILE_JOBS] = {.name = "psctl jobs", .against = {"alone"}},
    [WHILE_CHECKPOINT] = {.name = "checkpoint", .against = {"alone"}},
    [WHILE_SAVE] = {.name = "save", .against = {"alone"}},
    [WHILE_EXPORT] = {.name = "psctl export", .against = {"alone"}},
};

/* What was measured with so many variables; seconds and bytes of all of them, but seconds of one push. */
struct variables_figures {
    uint32_t count;
    double took[COSTS], psd[COSTS], psctl[COSTS];
    double p99[WHILES];
    double heap[HEAPS];
};

static struct {
    const struct bench_options *settings;
    struct bench_server psd;
    struct bench_worker worker;
    struct var_set vars;
    char durable[BENCH_PATH_MAX], exported[BENCH_PATH_MAX], checkpoints[BENCH_PATH_MAX];
    double *pushes; /* seconds that each took */
} b;

/* ---- psctl ---- */

static _Noreturn void
psctl_become(const char *const *words)
{
    const char *all[WORDS_MAX] = {b.settings->psctl, "--shards", b.psd.address, "--timeout", "10m"};
    int n = 5, null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    while (*words != NULL && n < WORDS_MAX - 1)
        all[n++] = *words++;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (null < 0 || dup2(null, STDOUT_FILENO) < 0)
        _exit(127);
    execv(all[0], (char *const *)(uintptr_t)all);
    perror(all[0]);
    _exit(127);
}

static double
seconds_of(const struct timeval *t)
{
    return (double)t->tv_sec + (double)t->tv_usec * 1e-6;
}

/* options: of wait4(). True: it has ended, and well. *cpu: its processor time. */
static bool
psctl_ended(pid_t pid, const char *what, int options, double *cpu)
{
    struct rusage usage;
    int status;
    pid_t got = wait4(pid, &status, options, &usage);

    if (got == 0)
        return false;
    if (got < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS) {
        fprintf(stderr, "bench: psctl %s ended with status %d\n", what, status);
        exit(EXIT_FAILURE);
    }
    *cpu = seconds_of(&usage.ru_utime) + seconds_of(&usage.ru_stime);
    return true;
}

/* ---- Pushes ---- */

/* Some, one after the other. Returns how many there are then. */
static size_t
push_some(size_t n)
{
    struct bench_load load = {LOAD_PUSH, SIZE, MIN(b.vars.count, PUSHED), 1, 1};

    return n + worker_round_trips(&b.worker, &b.vars, &load, 0.005, b.pushes + n, MIN(PUSHES_MAX - n, (size_t)10000));
}

static double
push_alone(double seconds)
{
    double start = now_s();
    size_t n = push_some(0);

    while (now_s() - start < seconds)
        n = push_some(n);
    return quantile(b.pushes, n, 0.99);
}

static pid_t
psctl_start(const char *const *words)
{
    pid_t pid;

    fflush(NULL);
    if ((pid = fork()) < 0)
        bench_die("fork", NULL);
    if (pid == 0)
        psctl_become(words);
    return pid;
}

/* What it takes alone. */
static void
psctl_cost(struct variables_figures *f, size_t cost, const char *const *words)
{
    double start = now_s(), cpu = bench_cpu(b.psd.pid);
    pid_t pid = psctl_start(words);

    (void)psctl_ended(pid, words[0], 0, &f->psctl[cost]);
    f->took[cost] = now_s() - start;
    f->psd[cost] = bench_cpu(b.psd.pid) - cpu;
}

/* Once more, while the worker pushes; returns the 99th percentile of the pushes. */
static double
psctl_beside(const char *const *words)
{
    pid_t pid = psctl_start(words);
    size_t n = 0;
    double cpu;

    do
        n = push_some(n);
    while (!psctl_ended(pid, words[0], WNOHANG, &cpu));
    return quantile(b.pushes, n, 0.99);
}

/* ---- One count ---- */

/* A psd with so many variables. */
static void
variables_open(struct variables_figures *f)
{
    static const char *more[] = {
        "--durable-dir", NULL, "--save-interval", "0", "--save-on-stop", "0", "--save-rate", "0", NULL};
    double before[2], start;

    bench_path(b.durable, false, "durable");
    bench_path(b.exported, false, "weights");
    bench_path(b.checkpoints, false, "checkpoints");
    more[1] = b.durable;
    bench_server_start(&b.psd, b.settings, more);
    worker_open(&b.worker, b.settings, b.psd.address, &(struct ps_client_options){.job = "bench"}, 1, 0);
    before[0] = bench_heap(b.psd.pid);
    before[1] = bench_heap(getpid());
    start = now_s();
    f->psd[DECLARE] = bench_cpu(b.psd.pid);
    var_set_declare(&b.vars, &b.worker, "layer/weights", SIZE, f->count);
    f->took[DECLARE] = now_s() - start;
    f->psd[DECLARE] = bench_cpu(b.psd.pid) - f->psd[DECLARE];
    f->heap[HEAP_PSD] = MAX(bench_heap(b.psd.pid) - before[0], 0);
    f->heap[HEAP_CLIENT] = MAX(bench_heap(getpid()) - before[1], 0);
}

static void
variables_ask(struct variables_figures *f)
{
    static const char *list[] = {"variables", "--json", NULL}, *jobs[] = {"jobs", NULL}, *save[] = {"save", NULL};
    const char *export[] = {"export", b.exported, NULL}, *checkpoint[] = {"checkpoint", b.checkpoints, NULL};
    const char *const *const words[] = {
        [LIST] = list, [JOBS] = jobs, [CHECKPOINT] = checkpoint, [SAVE] = save, [EXPORT] = export};

    f->p99[ALONE] = push_alone(b.settings->extent == EXTENT_TINY ? 0.01 : 2);
    for (size_t cost = LIST; cost <= EXPORT; cost++) {
        psctl_cost(f, cost, words[cost]);
        f->p99[ALONE + 1 + cost - LIST] = psctl_beside(words[cost]);
    }
}

/* Killed, and started on what it has left. */
static void
variables_again(struct variables_figures *f, size_t cost, bool keep)
{
    double start;

    bench_server_end(&b.psd, SIGKILL);
    if (!keep)
        bench_remove(b.psd.live);
    start = now_s();
    bench_server_again(&b.psd);
    f->took[cost] = now_s() - start;
    f->psd[cost] = bench_cpu(b.psd.pid);
}

static void
variables_measure(struct variables_figures *f)
{
    variables_open(f);
    variables_ask(f);
    var_set_free(&b.vars);
    worker_close(&b.worker);
    variables_again(f, KEPT, true);
    f->heap[HEAP_AGAIN] = bench_heap(b.psd.pid);
    variables_again(f, REBUILT, false);
    bench_server_stop(&b.psd);
    bench_remove(b.durable);
    bench_remove(b.checkpoints);
    (void)unlink(b.exported);
}

/* ---- Tables ---- */

/* figures: [n], where those of the first ways are, in struct variables_figures. */
static void
variables_table(struct bench_report *r, const char *title, const char *unit, const struct bench_variant *ways, size_t n,
                const struct variables_figures *rows, size_t rows_len, size_t offset, double scale, bool each)
{
    struct table_spec spec = {.title = title, .unit = unit, .less = true, .axis = "variables", .once = true};
    struct bench_table *t = report_table(r, &spec, ways, n);
    static struct series series[WAYS_MAX];
    char label[32];

    for (size_t i = 0; i < rows_len; i++) {
        const double *figures = (const double *)(const void *)((const char *)&rows[i] + offset);

        for (size_t w = 0; w < n; w++) {
            series[w].n = 0;
            series_add(&series[w], figures[w] * scale / (each ? rows[i].count : 1));
        }
        snprintf(label, sizeof label, "%u", rows[i].count);
        table_row(t, label, rows[i].count, series);
    }
}

void
area_variables(const struct bench_options *s, struct bench_report *r)
{
    static const uint64_t few[] = {300}, some[] = {10000, 100000}, many[] = {100000, 300000, 1000000};
    static struct variables_figures f[COUNTS_MAX];
    const uint64_t *usual = s->extent == EXTENT_TINY ? few : s->extent == EXTENT_SHORT ? some : many;
    size_t usual_len = (size_t)bench_options_pick(s, ARRAY_LEN(few), ARRAY_LEN(some), ARRAY_LEN(many));
    uint64_t counts[COUNTS_MAX];
    size_t n = bench_options_numbers(s->sizes, usual, usual_len, counts, ARRAY_LEN(counts));

    b.settings = s;
    b.pushes = load_memory(PUSHES_MAX * sizeof *b.pushes);
    for (size_t i = 0; i < n; i++) {
        f[i] = (struct variables_figures){.count = (uint32_t)counts[i]};
        variables_measure(&f[i]);
    }
    free(b.pushes);
    variables_table(r, "what each of many variables takes", "us", costs, COSTS, f, n,
                    offsetof(struct variables_figures, took), 1e6, true);
    variables_table(r, "the same, of psd's processor time", "us", costs, COSTS, f, n,
                    offsetof(struct variables_figures, psd), 1e6, true);
    variables_table(r, "the same, of psctl's processor time", "us", costs + LIST, EXPORT - LIST + 1, f, n,
                    offsetof(struct variables_figures, psctl) + LIST * sizeof(double), 1e6, true);
    variables_table(r, "heap of each variable", "B", heaps, HEAPS, f, n, offsetof(struct variables_figures, heap), 1,
                    true);
    variables_table(r, "a push of 64 B meanwhile, 99th percentile", "us", whiles, WHILES, f, n,
                    offsetof(struct variables_figures, p99), 1e6, false);
}
