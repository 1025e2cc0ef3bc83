/* The cost of saves for training. One shard with variables of 4 MiB, of which a worker keeps four in flight over TCP:
 * alone, and while a save writes all of them at each rate; before each save all have changed. Beside it the save's own
 * rate. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/core/base/base.h"
#include "tests/bench/area.h"
#include "tests/bench/interleave.h"
#include "tests/bench/server.h"
#include "tests/bench/worker.h"

#define VAR_BYTES (4 * MIB)
#define RATES_MAX 8
#define LONG_S    600 /* no save takes longer */

static const uint64_t all_rates[] = {64, 256, 500, 0}, few_rates[] = {256, 0};

static struct {
    struct bench_server psd;
    char durable[BENCH_PATH_MAX], config[BENCH_PATH_MAX];
    struct bench_worker worker, observer; /* the one that trains, and the one that asks for saves */
    struct var_set vars;
    struct bench_load load;
    atomic_bool over; /* the save */
    struct ps_save_report saved;
} b;

/* Mebibytes a second, 0 as fast as it can. */
static void
set_rate(uint64_t rate)
{
    FILE *f = fopen(b.config, "w");

    if (f == NULL || fprintf(f, "save-rate = %llu\n", (unsigned long long)(rate * MIB)) < 0 || fclose(f) != 0)
        bench_die(b.config, NULL);
    if (b.psd.pid != 0)
        kill(b.psd.pid, SIGHUP);
}

static void *
save_run(void *arg)
{
    struct ps_error e;

    (void)arg;
    if (ps_client_save(b.observer.client, 0, LONG_S * 1000, &b.saved, &e) != PS_OK)
        bench_die("save", &e);
    atomic_store(&b.over, true);
    return NULL;
}

static double
save_train(double seconds)
{
    return (double)VAR_BYTES * 1e-9 / worker_run(&b.worker, &b.vars, &b.load, NULL, seconds);
}

static void
sample_alone(void *arg, double seconds, double *figures)
{
    (void)arg;
    figures[0] = save_train(seconds);
    figures[1] = 0;
}

static void
change_all(void)
{
    const float *gradient = (const float *)(const void *)load_gradients();
    struct ps_error e;

    for (uint32_t i = 0; i < b.vars.count; i++) {
        if (ps_client_push(b.worker.client, 1, &b.vars.vars[i], &gradient, NULL, &e) != PS_OK)
            bench_die("push", &e);
        b.vars.pushed[i]++;
    }
}

static void
sample_saving(void *arg, double seconds, double *figures)
{
    const uint64_t *rate = arg;
    pthread_t thread;

    (void)seconds;
    change_all();
    set_rate(*rate);
    atomic_store(&b.over, false);
    if ((errno = pthread_create(&thread, NULL, save_run, NULL)) != 0)
        bench_die("thread", NULL);
    b.worker.over = &b.over;
    figures[0] = save_train(LONG_S);
    b.worker.over = NULL;
    pthread_join(thread, NULL);
    figures[1] = (double)b.saved.bytes / (double)MIB / ((double)MAX(b.saved.ms, 1u) / 1e3);
}

static void
open_all(const struct bench_options *s)
{
    static const char *more[] = {
        "--durable-dir", NULL, "--save-interval", "0", "--save-on-stop", "0", "--config", NULL, NULL};
    uint64_t size = (uint64_t)bench_options_pick(s, 8, 256, 256) * MIB;

    bench_path(b.durable, false, "durable");
    bench_path(b.config, true, "config");
    more[1] = b.durable;
    more[7] = b.config;
    b.psd.pid = 0;
    set_rate(0);
    bench_server_start(&b.psd, s, more);
    worker_open(&b.worker, s, b.psd.address, NULL, 1, 0);
    worker_open(&b.observer, s, b.psd.address, &(struct ps_client_options){.observer = 1}, 1, 0);
    var_set_declare(&b.vars, &b.worker, "w", VAR_BYTES, (uint32_t)(size / VAR_BYTES));
}

static void
save_measure(const struct bench_options *s, struct bench_report *r, enum load_kind kind,
             const struct bench_variant *ways, size_t n)
{
    static struct interleave turns;
    char title[64];
    struct bench_table *t;

    b.load = (struct bench_load){kind, VAR_BYTES, b.vars.count, 1, 4};
    snprintf(title, sizeof title, "%s of 4 MiB while the shard saves", load_names[kind]);
    t = report_table(r, &(struct table_spec){.title = title, .unit = "GB/s"}, ways, n);
    interleave_run(s, ways, n, 2, &turns);
    table_row(t, load_names[kind], 0, turns.series[0]);
    worker_check(&b.worker, &b.vars, &b.load);
    turns.series[1][0].n = 0;
    snprintf(title, sizeof title, "written meanwhile, %s", load_names[kind]);
    t = report_table(r, &(struct table_spec){.title = title, .unit = "MiB/s"}, ways, n);
    table_row(t, "save", 0, turns.series[1]);
}

void
area_save(const struct bench_options *s, struct bench_report *r)
{
    static char names[RATES_MAX][32];
    static uint64_t rates[RATES_MAX];
    bool full = s->extent == EXTENT_FULL;
    size_t rates_n = bench_options_numbers(s->rates, full ? all_rates : few_rates,
                                           full ? ARRAY_LEN(all_rates) : ARRAY_LEN(few_rates), rates, RATES_MAX);
    struct bench_variant ways[RATES_MAX + 1] = {{.name = "alone", .sample = sample_alone}};

    for (size_t i = 0; i < rates_n; i++) {
        if (rates[i] > 0)
            snprintf(names[i], sizeof names[i], "at %llu MiB/s", (unsigned long long)rates[i]);
        else
            snprintf(names[i], sizeof names[i], "unlimited");
        ways[i + 1] =
            (struct bench_variant){.name = names[i], .against = {"alone"}, .sample = sample_saving, .arg = &rates[i]};
    }
    open_all(s);
    save_measure(s, r, LOAD_PUSH, ways, rates_n + 1);
    save_measure(s, r, LOAD_PULL, ways, rates_n + 1);
    var_set_free(&b.vars);
    worker_close(&b.observer);
    worker_close(&b.worker);
    bench_server_stop(&b.psd);
    bench_remove(b.durable);
    bench_remove(b.config);
}
