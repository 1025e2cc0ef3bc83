/* Compressed all-reduce between real processes: all ranks end with the same bits, nothing is lost and nothing counts
 * twice, and the bytes that travel are counted. Gradients are of few digits, so that sums are exact. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/include/psclient/ps_compressor.h"
#include "common/core/base/base.h"
#include "tests/system/ranks.h"
#include "tests/unit/kits/check_main.h"

#define COUNT_MAX 200000

struct compressor_run {
    struct ps_compress how;
    size_t count;
    int steps, flushes; /* steps with gradients of 0: the elements that were left out come in them */
    float within;       /* the amount that may be left then */
    double saves;       /* how many times less must travel */
};

static float
gradient_at(uint32_t rank, int step, size_t i)
{
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u ^ ((uint64_t)step * 977 + rank + 1) * 0xbf58476d1ce4e5b9u;

    z = (z ^ z >> 29) * 0x94d049bb133111ebu;
    return (float)((int)(z >> 55) - 256) / 16;
}

static void
compressor_fill(uint32_t rank, int step, size_t n, float *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] = gradient_at(rank, step, i);
}

static uint64_t
compressor_hash(const void *data, size_t len)
{
    const uint8_t *p = data;
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < len; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

/* Every rank has these bytes. */
static void
need_same(ps_group *g, const void *data, size_t len)
{
    int64_t mine = (int64_t)compressor_hash(data, len), least, most;
    struct ps_error error;

    need_ok(ps_group_all_reduce(g, &mine, &least, 1, PS_I64, PS_MIN, NULL, &error));
    need_ok(ps_group_all_reduce(g, &mine, &most, 1, PS_I64, PS_MAX, NULL, &error));
    need(least == most);
}

static void
add_all(uint32_t ranks, int step, size_t n, double *sum)
{
    for (uint32_t r = 0; r < ranks; r++)
        for (size_t i = 0; i < n; i++)
            sum[i] += (double)gradient_at(r, step, i);
}

/* Sums in even steps, means in odd ones; every third in place. */
static void
one_step(ps_group *g, ps_compressor *c, int step, size_t n, float *x, double *arrived)
{
    static float other[COUNT_MAX];
    enum ps_reduce reduce = step % 2 == 0 ? PS_SUM : PS_MEAN;
    float *out = step % 3 == 0 ? x : other;
    uint32_t ranks = ps_group_ranks(g);
    struct ps_error error;

    need_ok(ps_compressor_all_reduce(c, x, out, reduce, &error));
    need_same(g, out, n * sizeof *out);
    for (size_t i = 0; i < n; i++)
        arrived[i] += (double)out[i] * (reduce == PS_MEAN ? ranks : 1);
}

static void
reduce_all(ps_group *g, void *arg)
{
    static float x[COUNT_MAX];
    static double sum[COUNT_MAX], arrived[COUNT_MAX];
    const struct compressor_run *run = arg;
    uint64_t sent, plain;
    struct ps_error error;
    ps_compressor *c;

    need_ok(ps_compressor_new(g, run->count, &run->how, &c, &error));
    for (int step = 0; step < run->steps + run->flushes; step++) {
        if (step < run->steps) {
            compressor_fill(ps_group_rank(g), step, run->count, x);
            add_all(ps_group_ranks(g), step, run->count, sum);
        } else {
            memset(x, 0, run->count * sizeof *x);
        }
        one_step(g, c, step, run->count, x, arrived);
    }
    for (size_t i = 0; i < run->count; i++)
        if (!(fabs(arrived[i] - sum[i]) <= (double)run->within)) {
            fprintf(stderr, "element %zu of %zu: %.9g, not %.9g\n", i, run->count, arrived[i], sum[i]);
            need(false);
        }
    ps_compressor_bytes(c, &sent, &plain);
    need(ps_group_ranks(g) == 1 ? sent == 0 : (double)sent * run->saves <= (double)plain);
    ps_compressor_free(c);
}

static void
run_ranks(uint32_t n, rank_body body, void *arg)
{
    struct ps_group_options options = {.timeout_ms = 60000};
    struct ranks r;

    ranks_start(&r, n, 0, &options, body, arg);
    ranks_end(&r);
}

/* Means are divided: of 3 and 5 ranks their sums are not exact. Elements that top-k leaves out go in as many steps as
 * it takes to send all, twice: by each rank, and by the rank that owns the part. */
#define ROUNDED 1e-3f
static const struct compressor_run runs[] = {
    {{.kind = PS_COMPRESS_FLOAT16}, 1000, 5, 4, ROUNDED, 1.9},
    {{.kind = PS_COMPRESS_BFLOAT16}, 1000, 5, 4, ROUNDED, 1.9},
    {{.kind = PS_COMPRESS_INT8}, 5000, 5, 8, ROUNDED, 3.5},
    {{PS_COMPRESS_TOP_K, 0.1}, 2000, 5, 40, ROUNDED, 3},
    {{.kind = PS_COMPRESS_INT8}, COUNT_MAX, 2, 6, ROUNDED, 3.8}, /* several pieces in a part of two */
    {{PS_COMPRESS_TOP_K, 0.2}, COUNT_MAX, 2, 16, ROUNDED, 2.4},  /* the same */
    {{.kind = PS_COMPRESS_FLOAT16}, 1, 3, 3, ROUNDED, 0},        /* ranks without a part */
    {{PS_COMPRESS_TOP_K, 1}, 3, 3, 3, ROUNDED, 0},
    {{.kind = PS_COMPRESS_INT8}, 0, 2, 0, 0, 0},
};

static const uint32_t sizes[] = {1, 2, 3, 5};

START_TEST(all_ranks_end_with_the_same_bits_and_nothing_is_lost)
{
    for (size_t i = 0; i < ARRAY_LEN(runs); i++)
        run_ranks(sizes[_i], reduce_all, (void *)(uintptr_t)&runs[i]);
}
END_TEST

/* In step 1 rank 2 has an infinite element: the step counts for no rank, and the group goes on. */
static void
one_is_infinite(ps_group *g, void *arg)
{
    enum { COUNT = 700 };
    struct ps_compress how = {PS_COMPRESS_TOP_K, 0.2};
    static float x[COUNT], out[COUNT];
    static double sum[COUNT], arrived[COUNT];
    struct ps_error error;
    ps_compressor *c;

    (void)arg;
    need_ok(ps_compressor_new(g, COUNT, &how, &c, &error));
    for (int step = 0; step < 24; step++) {
        memset(x, 0, sizeof x);
        if (step < 3)
            compressor_fill(ps_group_rank(g), step, COUNT, x);
        if (step == 1) {
            x[300] = ps_group_rank(g) == 2 ? INFINITY : x[300];
            need(ps_compressor_all_reduce(c, x, out, PS_SUM, &error) == PS_ERR_NONFINITE);
            need(strncmp(error.text, "rank 2 ", 7) == 0);
            continue;
        }
        if (step < 3)
            add_all(ps_group_ranks(g), step, COUNT, sum);
        one_step(g, c, 2 * step, COUNT, x, arrived); /* sums alone: exact */
    }
    for (int i = 0; i < COUNT; i++)
        need(arrived[i] == sum[i]);
    ps_compressor_free(c);
}

START_TEST(gradient_that_is_not_finite_is_refused_on_every_rank)
{
    run_ranks(3, one_is_infinite, NULL);
}
END_TEST

static void
one_differs(ps_group *g, void *arg)
{
    struct ps_compress how = {.kind = ps_group_rank(g) == 1 ? PS_COMPRESS_BFLOAT16 : PS_COMPRESS_FLOAT16};
    float x[100] = {1};
    struct ps_error error;
    ps_compressor *c;

    (void)arg;
    need_ok(ps_compressor_new(g, 100, &how, &c, &error));
    need(ps_compressor_all_reduce(c, x, x, PS_MEAN, &error) == PS_ERR_MISMATCH);
    need(x[0] == 1); /* in place, and still there */
    ps_compressor_free(c);
}

START_TEST(ranks_that_compress_otherwise_are_told)
{
    run_ranks(3, one_differs, NULL);
}
END_TEST

static void
bad_calls(ps_group *g, void *arg)
{
    struct ps_compress none = {.kind = PS_COMPRESS_NONE}, bad = {PS_COMPRESS_TOP_K, 2}, half = {PS_COMPRESS_FLOAT16, 0};
    float x[4] = {0};
    struct ps_error error;
    ps_compressor *c;

    (void)arg;
    need(ps_compressor_new(g, 4, &none, &c, &error) == PS_ERR_INVALID);
    need(ps_compressor_new(g, 4, &bad, &c, &error) == PS_ERR_INVALID);
    need_ok(ps_compressor_new(g, 4, &half, &c, &error));
    need(ps_compressor_all_reduce(c, x, x, PS_MAX, &error) == PS_ERR_INVALID);
    need_ok(ps_compressor_all_reduce(c, x, x, PS_SUM, &error));
    ps_compressor_free(c);
    ps_compressor_free(NULL);
}

START_TEST(what_makes_no_sense_is_refused_and_the_group_goes_on)
{
    run_ranks(2, bad_calls, NULL);
}
END_TEST

static Suite *
compressor_suite(void)
{
    Suite *s = suite_create("compressor");
    TCase *t = tcase_create("compressor");

    tcase_set_timeout(t, 250);
    tcase_add_loop_test(t, all_ranks_end_with_the_same_bits_and_nothing_is_lost, 0, ARRAY_LEN(sizes));
    tcase_add_test(t, gradient_that_is_not_finite_is_refused_on_every_rank);
    tcase_add_test(t, ranks_that_compress_otherwise_are_told);
    tcase_add_test(t, what_makes_no_sense_is_refused_and_the_group_goes_on);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(compressor_suite)
