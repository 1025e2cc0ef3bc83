/* How fast the optimizers' kernels are, beside memcpy and the triad a = b + s * c over the same memory.
 *
 *     bench_optimizer [MB] [rounds]
 *
 * Two places: one block of 1 MiB over and over ("cache"), and MB (400) of blocks, weights and slots together, one pass
 * ("memory"). Three ways: in place, to another block ("copy"), and the same with non-temporal stores ("stream"). All
 * combinations take turns within a round, so that a busy machine slows all alike; a figure is the median of the rounds.
 * Bytes are those that the program reads and writes; lines that the cache reads before they are written are not
 * counted, for anyone. Ratios: GB/s over memcpy's and over the triad's in the same place. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base.h"
#include "common/layout.h"
#include "common/optimizer_isa.h"
#include "tests/now.h"

#define BLOCK_BYTES  ((size_t)1 << 20) /* arrays of one largest block */
#define CACHE_PASSES 40
#define ROUNDS_MAX   99
#define CASES_MAX    512

enum work { WORK_COPY, WORK_TRIAD, WORK_UPDATE, WORK_FINITE, WORK_SUM };
enum way { IN_PLACE, COPY, STREAM };
static const char *const way_names[] = {"in place", "copy", "stream"};

struct memory {
    char *from, *to, *grad;
    size_t blocks;
};

struct bench_case {
    enum work work;
    const struct optimizer_kernels *kernels;
    struct ps_optimizer optimizer;
    enum way way;
    bool cache;
    double bytes, parameters; /* of one run */
    double seconds[ROUNDS_MAX];
};

static struct bench_case cases[CASES_MAX];
static size_t case_count;

/* Pages are touched here, so that no case pays for it. */
static char *
allocate(size_t size)
{
    float *p = aligned_alloc(LAYOUT_PAGE, size);

    if (p == NULL) {
        fprintf(stderr, "bench_optimizer: no %zu MB of memory\n", size >> 20);
        exit(1);
    }
    for (size_t i = 0; i < size / sizeof *p; i++)
        p[i] = 1e-3f + 1e-6f * (float)(i % 1000);
    return (char *)p;
}

/* The arrays of block i: weights and slots in one MiB. */
static struct optimizer_arrays
arrays_at(char *memory, size_t i, size_t n)
{
    float *p = (float *)(void *)(memory + i * BLOCK_BYTES);

    return (struct optimizer_arrays){p, {p + n, p + 2 * n, p + 3 * n}};
}

static void
triad(size_t n, float scale, const float *restrict b, const float *restrict c, float *restrict a)
{
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] + scale * c[i];
}

static void
update(const struct bench_case *c, const struct memory *m, size_t i)
{
    size_t n = layout_capacity(LAYOUT_CLASSES - 1, optimizer_slots(&c->optimizer));
    struct optimizer_arrays from = arrays_at(m->from, i, n), to = arrays_at(m->to, i, n);
    struct optimizer_step s;

    optimizer_prepare(&c->optimizer, &(struct optimizer_when){.version = 100}, 1, &s);
    if (!c->kernels->update[c->optimizer.kind](&s, n, (const float *)(void *)(m->grad + i * n * sizeof(float)), &from,
                                               c->way == IN_PLACE ? &from : &to, c->way == STREAM))
        abort();
}

static void
run_block(const struct bench_case *c, const struct memory *m, size_t i)
{
    size_t n = BLOCK_BYTES / sizeof(float);
    float *from = (float *)(void *)(m->from + i * BLOCK_BYTES), *to = (float *)(void *)(m->to + i * BLOCK_BYTES);
    const float *grad = (const float *)(void *)(m->grad + i * BLOCK_BYTES);

    switch (c->work) {
    case WORK_COPY:
        memcpy(to, from, BLOCK_BYTES);
        break;
    case WORK_TRIAD:
        triad(n, 1e-6f, from, grad, to);
        break;
    case WORK_UPDATE:
        update(c, m, i);
        break;
    case WORK_FINITE:
        if (!c->kernels->finite(n, grad))
            abort();
        break;
    case WORK_SUM:
        c->kernels->sum(n, 3, (const float *const[]){from, grad, to}, from);
        break;
    }
}

static void
run_case(struct bench_case *c, const struct memory *m, size_t round)
{
    size_t count = c->cache ? CACHE_PASSES : m->blocks;
    double start = now_s();

    for (size_t i = 0; i < count; i++)
        run_block(c, m, c->cache ? 0 : i);
    c->seconds[round] = now_s() - start;
}

static void
add(struct bench_case c, double block_bytes, double block_parameters, size_t blocks)
{
    size_t count = c.cache ? CACHE_PASSES : blocks;

    ps_assert(case_count < CASES_MAX);
    c.bytes = block_bytes * (double)count;
    c.parameters = block_parameters * (double)count;
    cases[case_count++] = c;
}

static void
add_updates(const struct optimizer_kernels *k, bool cache, size_t blocks)
{
    for (int kind = 0; kind < PS_OPTIMIZER_KINDS; kind++)
        for (enum way way = IN_PLACE; way <= STREAM; way++) {
            struct bench_case c = {.work = WORK_UPDATE, .kernels = k, .way = way, .cache = cache};
            uint32_t slots;
            double n;

            if (ps_optimizer_by_name(ps_optimizer_name((enum ps_optimizer_kind)kind), &c.optimizer, NULL) != PS_OK)
                abort();
            slots = optimizer_slots(&c.optimizer);
            n = layout_capacity(LAYOUT_CLASSES - 1, slots);

            add(c, n * 4 * (2 * (slots + 1) + 1), n, blocks);
        }
}

static void
add_place(bool cache, size_t blocks)
{
    const struct optimizer_kernels *k;
    double n = BLOCK_BYTES / 4.0;

    add((struct bench_case){.work = WORK_COPY, .cache = cache}, 2 * BLOCK_BYTES, n, blocks);
    add((struct bench_case){.work = WORK_TRIAD, .cache = cache}, 3 * BLOCK_BYTES, n, blocks);
    for (size_t i = 0; (k = optimizer_kernels_at(i)) != NULL; i++) {
        add_updates(k, cache, blocks);
        add((struct bench_case){.work = WORK_FINITE, .kernels = k, .cache = cache}, BLOCK_BYTES, n, blocks);
        add((struct bench_case){.work = WORK_SUM, .kernels = k, .cache = cache}, 4 * BLOCK_BYTES, n, blocks);
    }
}

static int
compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double
gigabytes_per_second(const struct bench_case *c, size_t rounds)
{
    double sorted[ROUNDS_MAX];

    memcpy(sorted, c->seconds, rounds * sizeof *sorted);
    qsort(sorted, rounds, sizeof *sorted, compare);
    return c->bytes / sorted[rounds / 2] * 1e-9;
}

static void
print_case(const struct bench_case *c, double speed, double copy, double triad_speed)
{
    static const char *const works[] = {"memcpy", "triad", "", "finite", "sum of 3"};
    const char *name = c->work == WORK_UPDATE ? ps_optimizer_name(c->optimizer.kind) : works[c->work];

    printf("%-7s %-9s %-7s %-9s %7.1f %9.0f %8.2f %8.2f\n", c->cache ? "cache" : "memory", name,
           c->kernels != NULL ? c->kernels->name : "", c->work == WORK_UPDATE ? way_names[c->way] : "", speed,
           speed / c->bytes * c->parameters * 1e3, speed / copy, speed / triad_speed);
}

static void
print_all(size_t rounds)
{
    double copy = 0, triad_speed = 0;

    printf("%-7s %-9s %-7s %-9s %7s %9s %8s %8s\n", "place", "work", "isa", "way", "GB/s", "Mparam/s", "/memcpy",
           "/triad");
    for (size_t i = 0; i < case_count; i++) {
        double speed = gigabytes_per_second(&cases[i], rounds);

        if (cases[i].work == WORK_COPY) { /* each place starts with memcpy and triad */
            copy = speed;
            triad_speed = gigabytes_per_second(&cases[i + 1], rounds);
        }
        print_case(&cases[i], speed, copy, triad_speed);
    }
}

int
main(int argc, char **argv)
{
    size_t mb = argc > 1 ? strtoul(argv[1], NULL, 10) : 400;
    size_t rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 5;
    struct memory m = {.blocks = mb * 1000000 / BLOCK_BYTES};

    if (m.blocks < 1 || rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: bench_optimizer [MB >= 2] [rounds, 1 to %d]\n", ROUNDS_MAX);
        return 2;
    }
    m.from = allocate(m.blocks * BLOCK_BYTES);
    m.to = allocate(m.blocks * BLOCK_BYTES);
    m.grad = allocate(m.blocks * BLOCK_BYTES);
    add_place(true, m.blocks);
    add_place(false, m.blocks);
    for (size_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < case_count; i++)
            run_case(&cases[i], &m, round);
    print_all(rounds);
    free(m.from);
    free(m.to);
    free(m.grad);
    return 0;
}
