/* psd beside the bare socket pump: the same bytes, the same two processes, the same optimizer, in turns.
 *
 *     bench_wire [--psd PATH] [--rounds N] [--seconds S] [--congestion NAME] [--unix] [--json FILE]
 *
 * For every size it pushes, pulls and push-and-pulls with several operations in flight through psd and through the pump
 * (pump.h), one after the other, `rounds` times, and prints medians, spreads and the median of the rounds' ratios. Then
 * round trips of one block, blocking and spinning at both ends. Rates are payload bytes per second, one direction
 * counted for push-and-pull. Nothing is asserted: it reports. */
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "client/psclient.h"
#include "common/base.h"
#include "pump.h"
#include "series.h"
#include "server.h"
#include "tests/now.h"

#define BLOCKS_MAX 1024
#define WINDOW_MAX 64

#define ROUND_TRIPS_MAX 100000

struct scenario {
    const char *name;
    size_t size; /* bytes of one variable */
    uint32_t blocks, batch, window;
};

/* 4,032 bytes are what the smallest block holds of SGD weights: one page with its headers. */
static const struct scenario scenarios[] = {
    {"1 MiB", 1 << 20, 16, 1, 4},
    {"256 KiB", 1 << 18, 64, 1, 8},
    {"4032 B", 4032, 1024, 64, 8},
    {"64 B", 64, 100, 100, 16},
};

static const char *const kind_names[PUMP_KINDS] = {"push", "pull", "push-and-pull"};

static struct {
    const char *psd;
    int rounds;
    double seconds;
    const char *congestion;
    bool is_unix;
    const char *json;
} options = {.psd = NULL, .rounds = 7, .seconds = 0.25, .congestion = "reno"};

struct psd {
    struct bench_server server;
    char dir[64];
    ps_client *client;
    ps_var *vars[ARRAY_LEN(scenarios)][BLOCKS_MAX];
    const uint8_t *grad;
    uint8_t *out[WINDOW_MAX];
};

static uint8_t *
floats(size_t size)
{
    float *p = aligned_alloc(64, round_up(size, 64));

    if (p == NULL)
        bench_die("memory", NULL);
    for (size_t i = 0; i < round_up(size, 64) / sizeof *p; i++)
        p[i] = (float)(i % 1000) * 1e-3f - 0.5f;
    return (uint8_t *)p;
}

/* ---- psd ---- */

static void
psd_launch(struct psd *p, bool spin)
{
    char unix_path[96];
    const char *argv[32] = {options.psd, "--cluster", "bench", "--live-dir", p->dir, "--log-level", "warning"};
    int n = 7;

    snprintf(unix_path, sizeof unix_path, "%s.sock", p->dir);
    argv[n++] = "--listen";
    argv[n++] = "127.0.0.1:0";
    if (options.is_unix) {
        argv[n++] = "--unix";
        argv[n++] = unix_path;
    }
    argv[n++] = "--tcp-congestion";
    argv[n++] = options.congestion;
    argv[n++] = "--spin-us";
    argv[n++] = spin ? "1000000" : "0";
    bench_server_start(&p->server, argv, options.is_unix);
}

static void
psd_declare(struct psd *p, size_t which)
{
    const struct scenario *s = &scenarios[which];
    struct ps_error e;

    for (uint32_t i = 0; i < s->blocks; i++) {
        char name[64];
        struct ps_var_spec spec = {.name = name, .rank = 1, .dims = {s->size / sizeof(float)}};

        snprintf(name, sizeof name, "%s/%u", s->name, i);
        spec.optimizer = (struct ps_optimizer){.kind = PS_SGD, .learning_rate = 1e-6};
        if (ps_client_declare(p->client, &spec, &p->vars[which][i], &e) != PS_OK)
            bench_die("declare", &e);
    }
}

static void
psd_start(struct psd *p, bool spin)
{
    struct ps_client_options o = {.job = "bench", .congestion = options.congestion, .spin_us = spin ? 1000000 : 0};
    struct ps_error e;
    ps_cluster *cluster;

    snprintf(p->dir, sizeof p->dir, "/dev/shm/psd-bench-%d-%d", (int)getpid(), spin);
    psd_launch(p, spin);
    if (ps_cluster_from_list(p->server.address, 1, 0, &cluster, &e) != PS_OK ||
        ps_cluster_set_name(cluster, "bench", &e) != PS_OK || ps_client_open(cluster, &o, &p->client, &e) != PS_OK)
        bench_die("open", &e);
    ps_cluster_free(cluster);
    for (size_t i = 0; i < ARRAY_LEN(scenarios); i++)
        psd_declare(p, i);
}

static void
psd_stop(struct psd *p)
{
    ps_client_close(p->client);
    bench_server_end(&p->server, SIGTERM);
    bench_remove_dir(p->dir);
}

static ps_op *
psd_begin(struct psd *p, enum pump_kind kind, size_t which, uint64_t i)
{
    const struct scenario *s = &scenarios[which];
    ps_var *vars[BLOCKS_MAX];
    const float *grads[BLOCKS_MAX];
    float *outs[BLOCKS_MAX];
    struct ps_error e;
    ps_op *op;
    enum ps_err err;

    for (uint32_t j = 0; j < s->batch; j++) {
        vars[j] = p->vars[which][(i * s->batch + j) % s->blocks];
        grads[j] = (const float *)(const void *)(p->grad + j * s->size);
        outs[j] = (float *)(void *)(p->out[i % s->window] + j * s->size);
    }
    if (kind == PUMP_PUSH)
        err = ps_client_push_start(p->client, s->batch, vars, grads, NULL, &op, &e);
    else if (kind == PUMP_PULL)
        err = ps_client_pull_start(p->client, s->batch, vars, outs, NULL, &op, &e);
    else
        err = ps_client_push_pull_start(p->client, s->batch, vars, grads, outs, NULL, &op, &e);
    if (err != PS_OK)
        bench_die(kind_names[kind], &e);
    return op;
}

/* Keep `window` operations in flight for `seconds`. Returns seconds per operation. */
static double
psd_run(struct psd *p, enum pump_kind kind, size_t which, uint32_t window, double seconds)
{
    ps_op *ops[WINDOW_MAX] = {0};
    struct ps_error e;
    uint64_t begun = 0, ended = 0;
    double start = now_s();

    while (ended < begun || now_s() - start < seconds) {
        while (begun - ended < window && (begun == 0 || now_s() - start < seconds)) {
            ops[begun % window] = psd_begin(p, kind, which, begun);
            begun++;
        }
        if (ps_op_wait(ops[ended % window], 60000, &e) != PS_OK)
            bench_die(kind_names[kind], &e);
        ps_op_free(ops[ended++ % window]);
    }
    return (now_s() - start) / (double)ended;
}

/* Only the one that is measured may use the processor: a server that spins would take a core from the other. */
static void
hold(pid_t server, bool stop)
{
    if (kill(server, stop ? SIGSTOP : SIGCONT) < 0)
        bench_die("kill", NULL);
}

/* ---- Figures ---- */

static json_t *results;

static void
report(const char *what, const char *size, const char *unit, double to_unit, bool rate, const struct series *psd,
       const struct series *pump)
{
    double a = series_quantile(psd, 0.5), b = series_quantile(pump, 0.5);
    double ratio = rate ? series_ratio(pump, psd) : series_ratio(psd, pump);
    double x = rate ? to_unit / a : a * to_unit, y = rate ? to_unit / b : b * to_unit;

    printf("%-14s %-8s psd %9.3f %-5s (%4.1f %%)   pump %9.3f %-5s (%4.1f %%)   ratio %.2f\n", what, size, x, unit,
           100 * series_spread(psd), y, unit, 100 * series_spread(pump), ratio);
    fflush(stdout);
    json_array_append_new(results, json_pack("{s:s,s:s,s:s,s:f,s:f,s:f}", "what", what, "size", size, "unit", unit,
                                             "psd", x, "pump", y, "ratio", ratio));
}

static void
rates(struct psd *psd, struct pump *pump)
{
    for (size_t i = 0; i < ARRAY_LEN(scenarios); i++)
        for (int kind = 0; kind < PUMP_KINDS; kind++) {
            const struct scenario *s = &scenarios[i];
            struct pump_load load = {(enum pump_kind)kind, s->size, s->blocks, s->batch, s->window, psd->grad};
            struct series a = {.n = 0}, b = {.n = 0};

            for (int r = -1; r < options.rounds; r++) {
                double x, y;

                hold(pump->server, true);
                x = psd_run(psd, (enum pump_kind)kind, i, s->window, r < 0 ? 0.1 : options.seconds);
                hold(pump->server, false);
                hold(psd->server.pid, true);
                y = pump_run(pump, &load, r < 0 ? 0.1 : options.seconds);
                hold(psd->server.pid, false);
                if (r < 0)
                    continue; /* warm-up */
                a.value[a.n++] = x;
                b.value[b.n++] = y;
            }
            report(kind_names[kind], s->name, "GB/s", (double)(s->size * s->batch) * 1e-9, true, &a, &b);
            if (s->size < 1024)
                report(kind_names[kind], s->name, "M/s", (double)s->batch * 1e-6, true, &a, &b);
        }
}

static size_t
psd_round_trips(struct psd *p, ps_var *var, double seconds, double *times, size_t most)
{
    const float *grad = (const float *)(const void *)p->grad;
    float *out = (float *)(void *)p->out[0];
    double start = now_s();
    struct ps_error e;
    size_t n = 0;

    while (n < most && now_s() - start < seconds) {
        double before = now_s();

        if (ps_client_push_pull(p->client, 1, &var, &grad, &out, NULL, &e) != PS_OK)
            bench_die("round trip", &e);
        times[n++] = now_s() - before;
    }
    return n;
}

/* Sorts times and adds their q-th part to the series. */
static void
series_add(struct series *s, double *times, size_t n, double q)
{
    qsort(times, n, sizeof *times, series_compare);
    s->value[s->n++] = times[(size_t)((double)(n - 1) * q + 0.5)];
}

/* Push-and-pull of one page, one at a time: the median and the 99th percentile of each round. */
static void
round_trips(const char *how, struct psd *psd, struct pump *pump)
{
    static double times[ROUND_TRIPS_MAX];
    const size_t which = 2;
    const struct scenario *s = &scenarios[which];
    struct pump_load load = {PUMP_PUSH_PULL, s->size, 1, 1, 1, psd->grad};
    struct series half[2] = {{.n = 0}, {.n = 0}}, most[2] = {{.n = 0}, {.n = 0}};
    char title[64];

    for (int r = 0; r < options.rounds; r++) {
        size_t n;

        hold(pump->server, true);
        n = psd_round_trips(psd, psd->vars[which][0], options.seconds, times, ROUND_TRIPS_MAX);
        series_add(&half[0], times, n, 0.5);
        series_add(&most[0], times, n, 0.99);
        hold(pump->server, false);
        hold(psd->server.pid, true);
        n = pump_round_trips(pump, &load, options.seconds, times, ROUND_TRIPS_MAX);
        series_add(&half[1], times, n, 0.5);
        series_add(&most[1], times, n, 0.99);
        hold(psd->server.pid, false);
    }
    snprintf(title, sizeof title, "%s p50", how);
    report(title, s->name, "us", 1e6, false, &half[0], &half[1]);
    snprintf(title, sizeof title, "%s p99", how);
    report(title, s->name, "us", 1e6, false, &most[0], &most[1]);
}

static void
parse(int argc, char **argv)
{
    static const struct option known[] = {
        {"psd", required_argument, NULL, 'p'},     {"rounds", required_argument, NULL, 'r'},
        {"seconds", required_argument, NULL, 's'}, {"congestion", required_argument, NULL, 'c'},
        {"unix", no_argument, NULL, 'u'},          {"json", required_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
    };
    int c;

    options.psd = getenv("PSD_BIN");
    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1)
        switch (c) {
        case 'p':
            options.psd = optarg;
            break;
        case 'r':
            options.rounds = MIN(MAX(atoi(optarg), 1), SERIES_MAX);
            break;
        case 's':
            options.seconds = atof(optarg);
            break;
        case 'c':
            options.congestion = optarg;
            break;
        case 'u':
            options.is_unix = true;
            break;
        case 'j':
            options.json = optarg;
            break;
        default:
            fprintf(stderr, "usage: bench_wire [--psd PATH] [--rounds N (7)] [--seconds S (0.25)] [--congestion NAME "
                            "(reno)] [--unix] [--json FILE]\n");
            exit(c == 'h' ? 0 : 2);
        }
    if (options.psd == NULL) {
        fprintf(stderr, "bench_wire: say where psd is: --psd PATH or PSD_BIN\n");
        exit(2);
    }
}

int
main(int argc, char **argv)
{
    static struct psd psd, spinning;
    struct pump pump, pump_spinning;
    struct pump_options po;
    uint8_t *grad;

    parse(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    results = json_array();
    psd.grad = spinning.grad = grad = floats(1 << 20);
    for (size_t i = 0; i < WINDOW_MAX; i++)
        psd.out[i] = spinning.out[i] = floats(1 << 20);
    po = (struct pump_options){
        .congestion = options.congestion, .is_unix = options.is_unix, .bytes_max = 1 << 20, .model_bytes = 16 << 20};
    printf("transport %s, congestion control %s, %d rounds of %.2f s, medians (spread: middle half)\n",
           options.is_unix ? "Unix socket" : "TCP loopback", options.is_unix ? "-" : options.congestion, options.rounds,
           options.seconds);
    pump_start(&pump, &po);
    psd_start(&psd, false);
    rates(&psd, &pump);
    round_trips("blocking", &psd, &pump);
    psd_stop(&psd);
    pump_stop(&pump);
    po.spin = true;
    pump_start(&pump_spinning, &po);
    psd_start(&spinning, true);
    round_trips("spinning", &spinning, &pump_spinning);
    psd_stop(&spinning);
    pump_stop(&pump_spinning);
    if (options.json != NULL && json_dump_file(results, options.json, JSON_INDENT(2)) < 0)
        bench_die(options.json, NULL);
    return 0;
}
