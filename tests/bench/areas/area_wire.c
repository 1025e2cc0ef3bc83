/* One worker and one shard, by the size of a block: several messages in flight, each as large as the work is done with
 * anyway. The pump moves the same bytes between two processes and applies the same optimizer to heap memory, once in
 * place and once beside what it read, as psd does; Redis stores them and does no arithmetic. Rates are payload bytes in
 * one direction a second, also of push-and-pull, which moves as many in the other.
 *
 * 4032 bytes are what the smallest block holds of weights of sgd: one page with its headers. */
#include <stdio.h>

#include "common/core/base/base.h"
#include "tests/bench/area.h"
#include "tests/bench/transports.h"

#define MODEL_BYTES ((size_t)16 << 20)
#define SIZES_MAX   16

static const uint64_t all_sizes[] = {64, 4032, 64 * KIB, 256 * KIB, MIB, 4 * MIB};
static const uint64_t few_sizes[] = {64, 4032, 256 * KIB, MIB};

/* Small blocks travel many in a message; what is in flight is some MiB at most. */
static struct bench_load
load_of(size_t size)
{
    struct bench_load l = {.size = size, .batch = 1, .window = 4};

    if (size <= 1024) {
        l.batch = l.blocks = 100;
        l.window = 16;
    } else if (size < 64 * KIB) {
        l.batch = 64;
        l.blocks = 1024;
        l.window = 8;
    } else {
        l.blocks = (uint32_t)(MODEL_BYTES / size);
        l.window = size < MIB ? 8 : 4;
    }
    return l;
}

/* With a psd, a pump and a Redis that hold nothing else. */
static void
wire_measure(const struct bench_options *s, struct bench_report *r, struct bench_table **table, enum load_kind kind,
             uint64_t size)
{
    static struct transports links;
    struct table_spec spec = {.title = load_names[kind], .unit = "GB/s", .axis = "bytes of a block"};
    struct bench_load load = load_of(size);
    struct bench_variant ways[WAYS_MAX];
    char text[LOAD_SIZE_TEXT];

    load.kind = kind;
    transports_open(&links, s, r, MODEL_BYTES, 0);
    if (*table == NULL)
        *table = report_table(r, &spec, ways, transports_rates(&links, ways));
    transports_load(&links, "w", &load);
    transports_row(&links, *table, load_size(size, text), (double)size, (double)(load.size * load.batch) * 1e-9);
    transports_close(&links);
}

static size_t
sizes_of(const struct bench_options *s, struct bench_report *r, uint64_t sizes[SIZES_MAX])
{
    bool full = s->extent == EXTENT_FULL;
    size_t kept = 0, n = bench_options_numbers(s->sizes, full ? all_sizes : few_sizes,
                                               full ? ARRAY_LEN(all_sizes) : ARRAY_LEN(few_sizes), sizes, SIZES_MAX);

    for (size_t i = 0; i < n; i++) {
        if (sizes[i] >= LOAD_SIZE_MIN && sizes[i] <= 4 * MIB && sizes[i] % 64 == 0)
            sizes[kept++] = sizes[i];
        else
            report_left_out(r, "wire: blocks of %llu bytes, which are not 64 B to 4 MiB in whole cache lines",
                            (unsigned long long)sizes[i]);
    }
    return kept;
}

void
area_wire(const struct bench_options *s, struct bench_report *r)
{
    uint64_t sizes[SIZES_MAX];
    size_t sizes_n = sizes_of(s, r, sizes);

    for (enum load_kind kind = 0; kind < LOAD_KINDS; kind++) {
        struct bench_table *table = NULL;

        for (size_t i = 0; i < sizes_n; i++)
            wire_measure(s, r, &table, kind, sizes[i]);
    }
}
