/* Many variables of 64 bytes, of which a shard makes blocks of a page each: a hundred in every call, and each with a
 * call of its own, without waiting before the next. Over a hundred distinct ones, and over so many that their pages are
 * not in the cache. Figures are blocks applied, or read, a second. */
#include <stdio.h>

#include "common/core/base/base.h"
#include "tests/bench/area.h"
#include "tests/bench/transports.h"

#define SIZE 64

static const struct {
    const char *title;
    enum load_kind kind;
    uint32_t batch, window;
} tables[] = {
    {"push of 64 B, 100 in a call", LOAD_PUSH, 100, 16},
    {"push of 64 B, one in a call", LOAD_PUSH, 1, 1024},
    {"pull of 64 B, 100 in a call", LOAD_PULL, 100, 16},
    {"pull of 64 B, one in a call", LOAD_PULL, 1, 1024},
};

void
area_small(const struct bench_options *s, struct bench_report *r)
{
    static struct transports links;
    uint32_t counts[] = {100, (uint32_t)bench_options_pick(s, 1000, 20000, 20000)};
    struct bench_variant ways[WAYS_MAX];
    size_t n;

    transports_open(&links, s, r, (size_t)counts[1] * SIZE, 0);
    n = transports_rates(&links, ways);
    for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
        struct table_spec spec = {.title = tables[i].title, .unit = "M/s", .axis = "distinct blocks"};
        struct bench_table *table = report_table(r, &spec, ways, n);

        for (size_t k = 0; k < ARRAY_LEN(counts); k++) {
            struct bench_load load = {tables[i].kind, SIZE, counts[k], tables[i].batch, tables[i].window};
            char label[32], name[64];

            snprintf(label, sizeof label, "%u distinct", counts[k]);
            snprintf(name, sizeof name, "%s %u", tables[i].title, counts[k]);
            transports_load(&links, name, &load);
            transports_row(&links, table, label, counts[k], load.batch * 1e-6);
        }
    }
    transports_close(&links);
}
