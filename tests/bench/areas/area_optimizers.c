/* How fast the optimizers' kernels are, beside memcpy and the triad a = b + s * c over the same memory.
 *
 * Two places: one block of 256 KiB over and over ("in the cache"), and --memory of blocks, weights and slots together,
 * from the first to the last ("in memory"). Three ways: in place, to another block ("copy"), and the same with
 * non-temporal stores ("stream"). Bytes are those that the program reads and writes; lines that the cache reads before
 * they are written are not counted, for anyone. Full measures every instruction set that the processor has, short the
 * best. The parameters a second of the best one have a table of their own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/model/layout.h"
#include "common/core/optimizer/optimizer_isa.h"
#include "tests/bench/area.h"
#include "tests/bench/interleave.h"
#include "tests/bench/load.h"
#include "tests/now.h"

#define BLOCK_BYTES    ((size_t)256 << 10) /* arrays of one largest block */
#define MEMORY_DEFAULT 400000000

enum { WAY_MEMCPY, WAY_TRIAD, WAY_IN_PLACE, WAY_COPY, WAY_STREAM, KERNEL_WAYS };

struct memory {
    char *from, *to, *grad;
    size_t blocks;
};

struct work {
    struct kernels_bench *bench;
    int way;
};

/* What is measured now. */
struct kernels_bench {
    struct memory memory;
    size_t blocks; /* that are gone through: 1 or all */
    const struct optimizer_kernels *kernels;
    enum { WORK_UPDATE, WORK_FINITE, WORK_SUM } work;
    struct ps_optimizer optimizer;
    size_t next; /* block */
    struct work works[KERNEL_WAYS];
};

/* Pages are touched here, so that no way pays for it. */
static char *
optimizers_allocate(size_t size)
{
    float *p = load_memory(size);

    for (size_t i = 0; i < size / sizeof *p; i++)
        p[i] = 1e-3f + 1e-6f * (float)(i % 1000);
    return (char *)p;
}

/* The arrays of block i: weights and slots in one block. */
static struct optimizer_arrays
arrays_at(char *memory, size_t i, size_t n)
{
    float *p = (float *)(void *)(memory + i * BLOCK_BYTES);

    return (struct optimizer_arrays){p, {p + n, p + 2 * n, p + 3 * n}};
}

static size_t
optimizers_parameters(const struct kernels_bench *b)
{
    return layout_capacity(LAYOUT_CLASSES - 1, optimizer_slots(&b->optimizer));
}

static void
optimizers_triad(size_t n, float scale, const float *restrict b, const float *restrict c, float *restrict a)
{
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] + scale * c[i];
}

static void
optimizers_update(const struct kernels_bench *b, int way, size_t i)
{
    const struct memory *m = &b->memory;
    size_t n = optimizers_parameters(b);
    struct optimizer_arrays from = arrays_at(m->from, i, n), to = arrays_at(m->to, i, n);
    struct optimizer_step s;

    optimizer_prepare(&b->optimizer, &(struct optimizer_when){.version = 100}, 1, &s);
    (void)b->kernels->update[b->optimizer.kind](&s, n, (const float *)(void *)(m->grad + i * n * sizeof(float)), &from,
                                                way == WAY_IN_PLACE ? &from : &to, way == WAY_STREAM);
}

/* Returns the bytes that were read and written. */
static double
run_block(const struct kernels_bench *b, int way, size_t i)
{
    size_t n = BLOCK_BYTES / sizeof(float), slots = optimizer_slots(&b->optimizer);
    float *from = (float *)(void *)(b->memory.from + i * BLOCK_BYTES),
          *to = (float *)(void *)(b->memory.to + i * BLOCK_BYTES);
    const float *grad = (const float *)(void *)(b->memory.grad + i * BLOCK_BYTES);

    if (way == WAY_MEMCPY) {
        memcpy(to, from, BLOCK_BYTES);
        return 2.0 * BLOCK_BYTES;
    }
    if (way == WAY_TRIAD) {
        optimizers_triad(n, 1e-6f, from, grad, to);
        return 3.0 * BLOCK_BYTES;
    }
    if (b->work == WORK_FINITE) {
        ps_assert(b->kernels->below(n, grad, OPTIMIZER_CARRY_INF));
        return BLOCK_BYTES;
    }
    if (b->work == WORK_SUM) {
        b->kernels->sum(n, 3, (const float *const[]){from, grad, to}, from);
        return 4.0 * BLOCK_BYTES;
    }
    optimizers_update(b, way, i);
    return (double)(optimizers_parameters(b) * sizeof(float) * (2 * (slots + 1) + 1));
}

static void
optimizers_sample(void *arg, double seconds, double *figures)
{
    const struct work *w = arg;
    struct kernels_bench *b = w->bench;
    double start = now_s(), bytes = 0, took;

    do {
        for (int i = 0; i < 8; i++) { /* so that the clock's cost does not show in the figure */
            bytes += run_block(b, w->way, b->next % b->blocks);
            b->next++;
        }
        took = now_s() - start;
    } while (took < seconds);
    figures[0] = bytes * 1e-9 / took;
}

static size_t
make_ways(struct kernels_bench *b, struct bench_variant *ways)
{
    static const char *const names[KERNEL_WAYS] = {"memcpy", "triad", "in place", "copy", "stream"};

    for (int i = 0; i < KERNEL_WAYS; i++) {
        b->works[i] = (struct work){b, i};
        ways[i] = (struct bench_variant){.name = names[i], .sample = optimizers_sample, .arg = &b->works[i]};
        if (i >= WAY_IN_PLACE) {
            ways[i].against[0] = names[WAY_MEMCPY];
            ways[i].against[1] = names[WAY_TRIAD];
        }
    }
    return KERNEL_WAYS;
}

/* The same samples as parameters a second, of the ways that have any. */
static void
row_of_parameters(struct bench_table *t, const struct kernels_bench *b, const char *label,
                  const struct interleave *turns)
{
    static struct series s[KERNEL_WAYS];
    double bytes = (double)(sizeof(float) * (2 * (optimizer_slots(&b->optimizer) + 1) + 1));

    memcpy(s, turns->series[0], sizeof s);
    s[WAY_MEMCPY].n = s[WAY_TRIAD].n = 0;
    for (int w = WAY_IN_PLACE; w < KERNEL_WAYS; w++)
        for (int i = 0; i < s[w].n; i++)
            s[w].value[i] /= bytes;
    table_row(t, label, 0, s);
}

static void
optimizers_measure(const struct bench_options *s, struct bench_report *r, struct kernels_bench *b, const char *place,
                   bool best)
{
    static struct interleave turns[PS_OPTIMIZER_KINDS];
    struct bench_variant ways[WAYS_MAX];
    char title[96];
    struct table_spec spec = {.title = title, .unit = "GB/s"};
    size_t n = make_ways(b, ways);
    struct bench_table *t;

    snprintf(title, sizeof title, "updates %s, %s", place, b->kernels->name);
    t = report_table(r, &spec, ways, n);
    b->work = WORK_UPDATE;
    for (int kind = 0; kind < PS_OPTIMIZER_KINDS; kind++) {
        const char *name = ps_optimizer_name((enum ps_optimizer_kind)kind);

        ps_assert(ps_optimizer_by_name(name, &b->optimizer, NULL) == PS_OK);
        interleave_run(s, ways, n, 1, &turns[kind]);
        table_row(t, name, 0, turns[kind].series[0]);
    }
    ways[WAY_COPY].sample = ways[WAY_STREAM].sample = NULL;
    for (int work = WORK_FINITE; work <= WORK_SUM; work++) {
        static struct interleave other;

        b->work = work;
        interleave_run(s, ways, n, 1, &other);
        table_row(t, work == WORK_FINITE ? "is it finite" : "sum of three", 0, other.series[0]);
    }
    if (!best)
        return;
    snprintf(title, sizeof title, "parameters updated %s, %s", place, b->kernels->name);
    spec.unit = "G/s";
    t = report_table(r, &spec, ways, n);
    for (int kind = 0; kind < PS_OPTIMIZER_KINDS; kind++) {
        const char *name = ps_optimizer_name((enum ps_optimizer_kind)kind);

        ps_assert(ps_optimizer_by_name(name, &b->optimizer, NULL) == PS_OK);
        row_of_parameters(t, b, name, &turns[kind]);
    }
}

void
area_optimizers(const struct bench_options *s, struct bench_report *r)
{
    static struct kernels_bench b;
    uint64_t bytes =
        s->memory != 0 ? (uint64_t)s->memory : (uint64_t)bench_options_pick(s, 4 * MIB, MEMORY_DEFAULT, MEMORY_DEFAULT);

    b.memory.blocks = MAX(bytes / BLOCK_BYTES, (uint64_t)2);
    b.memory.from = optimizers_allocate(b.memory.blocks * BLOCK_BYTES);
    b.memory.to = optimizers_allocate(b.memory.blocks * BLOCK_BYTES);
    b.memory.grad = optimizers_allocate(b.memory.blocks * BLOCK_BYTES);
    for (size_t i = 0; (b.kernels = optimizer_kernels_at(i)) != NULL && (i == 0 || s->extent == EXTENT_FULL); i++) {
        b.blocks = 1; /* the widest first */
        optimizers_measure(s, r, &b, "in the cache", i == 0);
        b.blocks = b.memory.blocks;
        optimizers_measure(s, r, &b, "in memory", i == 0);
    }
    free(b.memory.from);
    free(b.memory.to);
    free(b.memory.grad);
}
