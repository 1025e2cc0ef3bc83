/* Pushes that travel compressed, beside the same as float32: elements a second. The bytes that an encoding saves cost
 * time at both ends: the worker encodes and keeps what was left out, the shard decodes. */
#include <stdio.h>

#include "common/core/base/base.h"
#include "tests/bench/area.h"
#include "tests/bench/interleave.h"
#include "tests/bench/server.h"
#include "tests/bench/worker.h"

#define MODEL_BYTES ((size_t)16 << 20)

static const uint64_t sizes[] = {64 * KIB, 256 * KIB, MIB, 4 * MIB};

static struct {
    struct bench_server psd;
    struct bench_worker worker;
    struct var_set vars;
    struct bench_load load;
} b;

static void
compress_sample(void *arg, double seconds, double *figures)
{
    struct ps_push_options o = {.compress = arg};

    figures[0] = (double)(b.load.size / sizeof(float)) * 1e-9 / worker_run(&b.worker, &b.vars, &b.load, &o, seconds);
}

void
area_compress(const struct bench_options *s, struct bench_report *r)
{
    static struct ps_compress kinds[] = {{PS_COMPRESS_NONE, 0},
                                         {PS_COMPRESS_FLOAT16, 0},
                                         {PS_COMPRESS_BFLOAT16, 0},
                                         {PS_COMPRESS_INT8, 0},
                                         {PS_COMPRESS_TOP_K, 0.01}};
    static const struct bench_variant ways[] = {
        {.name = "float32", .sample = compress_sample, .arg = &kinds[0]},
        {.name = "float16", .against = {"float32"}, .sample = compress_sample, .arg = &kinds[1]},
        {.name = "bfloat16", .against = {"float32"}, .sample = compress_sample, .arg = &kinds[2]},
        {.name = "int8", .against = {"float32"}, .sample = compress_sample, .arg = &kinds[3]},
        {.name = "top_k 0.01", .against = {"float32"}, .sample = compress_sample, .arg = &kinds[4]}};
    static struct interleave turns;
    struct table_spec spec = {
        .title = "push by what it travels as", .unit = "G elements/s", .axis = "bytes of a block as float32"};
    struct bench_table *t = report_table(r, &spec, ways, ARRAY_LEN(ways));

    bench_server_start(&b.psd, s, NULL);
    worker_open(&b.worker, s, b.psd.address, NULL, 1, 0);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        char text[LOAD_SIZE_TEXT];

        b.load =
            (struct bench_load){LOAD_PUSH, sizes[i], (uint32_t)(MODEL_BYTES / sizes[i]), 1, sizes[i] < MIB ? 8 : 4};
        var_set_declare(&b.vars, &b.worker, load_size(sizes[i], text), sizes[i], b.load.blocks);
        interleave_run(s, ways, ARRAY_LEN(ways), 1, &turns);
        worker_check_counts(&b.worker, &b.vars, &b.load);
        table_row(t, text, (double)sizes[i], turns.series[0]);
        var_set_free(&b.vars);
    }
    worker_close(&b.worker);
    bench_server_stop(&b.psd);
}
