/* One worker's variables of 4 MiB over 1, 2 and 4 shards: what lies on several is cut into their blocks and moves to
 * and from all of them at once. Shards are processes; where there are as many cores they add up, where not this is what
 * it costs to have more of them. */
#include <stdio.h>
#include <string.h>

#include "common/core/base/base.h"
#include "tests/bench/area.h"
#include "tests/bench/interleave.h"
#include "tests/bench/server.h"
#include "tests/bench/worker.h"

#define VAR_BYTES (4 * MIB)

enum { COUNTS = 3, SHARDS_MAX = 4 };
static const uint32_t counts[COUNTS] = {1, 2, 4};
static const char *const names[COUNTS] = {"1 shard", "2 shards", "4 shards"};

static struct cluster {
    struct bench_server psd[SHARDS_MAX];
    char words[SHARDS_MAX][2][16];
    const char *more[SHARDS_MAX][5];
    struct bench_worker worker;
    struct var_set vars;
} clusters[COUNTS];

static struct bench_load load;

static void
open_cluster(struct cluster *c, const struct bench_options *s, uint32_t shards)
{
    char list[SHARDS_MAX * 64] = "";

    for (uint32_t i = 0; i < shards; i++) {
        snprintf(c->words[i][0], sizeof c->words[i][0], "%u", i);
        snprintf(c->words[i][1], sizeof c->words[i][1], "%u", shards);
        c->more[i][0] = "--shard";
        c->more[i][1] = c->words[i][0];
        c->more[i][2] = "--shards";
        c->more[i][3] = c->words[i][1];
        bench_server_start(&c->psd[i], s, c->more[i]);
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i > 0 ? "," : "", c->psd[i].address);
    }
    worker_open(&c->worker, s, list, NULL, 1, 0);
    var_set_declare(&c->vars, &c->worker, "w", VAR_BYTES, load.blocks);
}

static void
close_cluster(struct cluster *c, uint32_t shards)
{
    worker_check(&c->worker, &c->vars, &load);
    var_set_free(&c->vars);
    worker_close(&c->worker);
    for (uint32_t i = 0; i < shards; i++)
        bench_server_stop(&c->psd[i]);
}

static void
shards_sample(void *arg, double seconds, double *figures)
{
    struct cluster *c = arg;

    figures[0] = (double)VAR_BYTES * 1e-9 / worker_run(&c->worker, &c->vars, &load, NULL, seconds);
}

void
area_shards(const struct bench_options *s, struct bench_report *r)
{
    static struct interleave turns;
    struct table_spec spec = {.title = "variables of 4 MiB", .unit = "GB/s", .axis = "shards", .of_ways = true};
    struct bench_variant ways[COUNTS];
    struct bench_table *t;

    load = (struct bench_load){LOAD_PUSH, VAR_BYTES, 4, 1, 4};
    for (size_t i = 0; i < COUNTS; i++) {
        open_cluster(&clusters[i], s, counts[i]);
        ways[i] =
            (struct bench_variant){names[i], {i > 0 ? names[0] : NULL}, counts[i], shards_sample, &clusters[i], 0};
    }
    t = report_table(r, &spec, ways, COUNTS);
    for (enum load_kind kind = 0; kind < LOAD_KINDS; kind++) {
        load.kind = kind;
        interleave_run(s, ways, COUNTS, 1, &turns);
        table_row(t, load_names[kind], 0, turns.series[0]);
    }
    for (size_t i = 0; i < COUNTS; i++)
        close_cluster(&clusters[i], counts[i]);
}
