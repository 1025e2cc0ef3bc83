/* By the size of the model: blocks of 1 MiB, used one after the other, of a model that the cache holds, of 400 MB and
 * of 4 GB, in short the first two. The pump has as many bytes on its heap. */
#include <stdio.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "tests/bench/area.h"
#include "tests/bench/transports.h"

static const uint64_t model_bytes[] = {16 * MIB, 400 * MIB, 4096 * MIB};

/* psd's, the pump's, and some room. */
static bool
has_room(uint64_t bytes)
{
    return 2 * bytes + bytes / 2 < (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static size_t
models_run(const struct bench_options *s, struct bench_report *r)
{
    size_t n = (size_t)bench_options_pick(s, 1, 2, ARRAY_LEN(model_bytes));

    while (n > 1 && !has_room(model_bytes[n - 1])) {
        char text[LOAD_SIZE_TEXT];

        report_left_out(r, "models: no memory for %s twice", load_size(model_bytes[--n], text));
    }
    return n;
}

/* With a psd and a pump that hold nothing else. */
static void
models_measure(const struct bench_options *s, struct bench_report *r, struct bench_table **table, enum load_kind kind,
               uint64_t bytes)
{
    static struct transports links;
    struct bench_load load = {kind, MIB, (uint32_t)(bytes / MIB), 1, 4};
    char title[64], text[LOAD_SIZE_TEXT];
    struct table_spec spec = {.title = title, .unit = "GB/s", .axis = "bytes of the model"};
    struct bench_variant ways[WAYS_MAX];

    transports_open(&links, s, r, bytes, TRANSPORTS_TCP | TRANSPORTS_NO_REDIS);
    snprintf(title, sizeof title, "%s of 1 MiB", load_names[kind]);
    if (*table == NULL)
        *table = report_table(r, &spec, ways, transports_rates(&links, ways));
    transports_load(&links, "w", &load);
    transports_row(&links, *table, load_size(bytes, text), (double)bytes, (double)MIB * 1e-9);
    transports_close(&links);
}

void
area_models(const struct bench_options *s, struct bench_report *r)
{
    size_t most = models_run(s, r);

    for (enum load_kind kind = 0; kind < LOAD_KINDS; kind++) {
        struct bench_table *table = NULL;

        for (size_t i = 0; i < most; i++)
            models_measure(s, r, &table, kind, model_bytes[i]);
    }
}
