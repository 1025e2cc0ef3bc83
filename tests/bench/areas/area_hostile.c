/* The cost of hostile peers (tests/system/hostile.h) for the others: pulls a second of one worker, of a small block and
 * of the largest, alone and beside each kind of hostile peer.
 *
 * Whether psd divides its time well is another question than how much of it there is. So two shares have a table of
 * their own: what of psd's processor time went to the worker (its pulls, at what one costs alone), and what would be
 * fair: its part among all connections, if all of them sent as much as they can. A share below that is psd's fault; a
 * low rate with a fair share is the price of so many connections, and of the processor that the peers themselves take.
 */
#include <stdio.h>

#include "common/core/base/base.h"
#include "tests/bench/area.h"
#include "tests/bench/interleave.h"
#include "tests/bench/server.h"
#include "tests/bench/worker.h"
#include "tests/now.h"
#include "tests/system/hostile.h"

enum { ALONE, BESIDE, SIDES };

static const size_t sizes[] = {MIB, 4032};

static struct {
    struct bench_server psd;
    struct bench_worker worker;
    struct var_set vars[ARRAY_LEN(sizes)];
    clockid_t psd_time; /* its processor time */
    size_t size;
    enum hostile_kind kind;
} b;

/* Pulls a second, and psd's processor time for one. */
static void
hostile_pulls(double seconds, double *figures)
{
    struct bench_load load = {LOAD_PULL, sizes[b.size], 1, 1, 1};
    double busy = clock_s(b.psd_time), begin = now_s(), each;

    each = worker_run(&b.worker, &b.vars[b.size], &load, NULL, seconds);
    figures[0] = 1 / each;
    figures[1] = (clock_s(b.psd_time) - busy) * each / (now_s() - begin);
}

static void
sample_alone(void *arg, double seconds, double *figures)
{
    (void)arg;
    hostile_pulls(seconds, figures);
}

static void
sample_beside(void *arg, double seconds, double *figures)
{
    pid_t pid = hostile_start(b.kind, b.psd.address, BENCH_CLUSTER);

    (void)arg;
    if (pid < 0)
        bench_die("fork", NULL);
    hostile_pulls(seconds, figures);
    hostile_stop(pid);
}

/* Of psd's time, rounds by rounds, and what would be fair. */
static void
shares_of(const struct interleave *t, struct series out[2])
{
    double fair = 1.0 / (1 + hostile_connections[b.kind]);

    out[0].n = out[1].n = 0;
    for (int i = 0; i < t->series[1][BESIDE].n && i < t->series[1][ALONE].n; i++) {
        series_add(&out[0], MIN(t->series[1][ALONE].value[i] / t->series[1][BESIDE].value[i], 1));
        series_add(&out[1], fair);
    }
}

static void
open_all(const struct bench_options *s)
{
    static const char *const more[] = {"--memory", "64MiB", NULL};

    bench_server_start(&b.psd, s, more);
    worker_open(&b.worker, s, b.psd.address, NULL, 1, 0);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        char name[LOAD_SIZE_TEXT];

        var_set_declare(&b.vars[i], &b.worker, load_size(sizes[i], name), sizes[i], 1);
    }
    if (clock_getcpuclockid(b.psd.pid, &b.psd_time) != 0)
        bench_die("psd's processor time", NULL);
}

void
area_hostile(const struct bench_options *s, struct bench_report *r)
{
    static const struct bench_variant ways[SIDES] = {{.name = "alone", .sample = sample_alone},
                                                     {.name = "beside", .against = {"alone"}, .sample = sample_beside}};
    static const struct bench_variant share_ways[2] = {{.name = "share", .against = {"fair"}}, {.name = "fair"}};
    static struct series shares[ARRAY_LEN(sizes)][HOSTILE_KINDS][2];
    static struct interleave turns;
    char title[64], text[LOAD_SIZE_TEXT];
    struct bench_table *t;

    open_all(s);
    for (b.size = 0; b.size < ARRAY_LEN(sizes); b.size++) {
        snprintf(title, sizeof title, "pulls of %s beside hostile peers", load_size(sizes[b.size], text));
        t = report_table(r, &(struct table_spec){.title = title, .unit = "1/s"}, ways, SIDES);
        for (b.kind = 0; b.kind < HOSTILE_KINDS; b.kind++) {
            interleave_run(s, ways, SIDES, 2, &turns);
            table_row(t, hostile_names[b.kind], 0, turns.series[0]);
            shares_of(&turns, shares[b.size][b.kind]);
        }
    }
    for (b.size = 0; b.size < ARRAY_LEN(sizes); b.size++) {
        snprintf(title, sizeof title, "psd's time for pulls of %s", load_size(sizes[b.size], text));
        t = report_table(r, &(struct table_spec){.title = title, .unit = "of all"}, share_ways, 2);
        for (b.kind = 0; b.kind < HOSTILE_KINDS; b.kind++)
            table_row(t, hostile_names[b.kind], 0, shares[b.size][b.kind]);
    }
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        var_set_free(&b.vars[i]);
    worker_close(&b.worker);
    bench_server_stop(&b.psd);
}
