/* Groups of real processes over loopback: every operation, type and size gives what it must, in and out of place, many
 * at once. Failures are in test_group_failure.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/base/base.h"
#include "tests/system/far_loopback.h"
#include "tests/system/ranks.h"
#include "tests/unit/kits/check_main.h"

/* ---- What must come out: every rank knows every rank's input ---- */

/* Small whole numbers: exact in all types, and so are their sums and products over 8 ranks. */
static int
input_at(uint32_t rank, size_t i, enum ps_reduce reduce)
{
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u ^ (rank + 1) * 0xbf58476d1ce4e5b9u;

    z = (z ^ z >> 29) * 0x94d049bb133111ebu;
    return reduce == PS_PRODUCT ? 1 + (int)(z >> 63) : (int)(z >> 60) - (reduce == PS_MEAN ? 0 : 4);
}

static void
group_put(void *to, size_t i, enum ps_dtype dtype, double value)
{
    float f = (float)value;
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    switch (dtype) {
    case PS_F32:
        ((float *)to)[i] = f;
        return;
    case PS_F64:
        ((double *)to)[i] = value;
        return;
    case PS_F16: { /* whole numbers below 2048, and their halves and quarters */
        uint32_t exponent = bits >> 23 & 0xff;

        ((uint16_t *)to)[i] =
            exponent == 0 ? 0
                          : (uint16_t)(bits >> 16 & 0x8000) | (uint16_t)((exponent - 112) << 10 | (bits >> 13 & 0x3ff));
        return;
    }
    case PS_BF16:
        ((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
        return;
    case PS_I32:
        ((int32_t *)to)[i] = (int32_t)value;
        return;
    default:
        ((int64_t *)to)[i] = (int64_t)value;
        return;
    }
}

static void
group_fill(void *to, size_t n, size_t from, uint32_t rank, enum ps_dtype dtype, enum ps_reduce reduce)
{
    for (size_t i = 0; i < n; i++)
        group_put(to, i, dtype, input_at(rank, from + i, reduce));
}

/* MEAN is not asked of halves: it is rounded with each rank. */
static void
fill_reduced(void *to, size_t n, size_t from, uint32_t ranks, enum ps_dtype dtype, enum ps_reduce reduce)
{
    for (size_t i = 0; i < n; i++) {
        double value = input_at(0, from + i, reduce);

        for (uint32_t r = 1; r < ranks; r++) {
            double x = input_at(r, from + i, reduce);

            value = reduce == PS_PRODUCT ? value * x
                    : reduce == PS_MIN   ? (x < value ? x : value)
                    : reduce == PS_MAX   ? (x > value ? x : value)
                                         : value + x;
        }
        if (reduce == PS_MEAN && dtype == PS_F32)
            value = (double)((float)value / (float)ranks);
        else if (reduce == PS_MEAN)
            value /= ranks; /* integers toward zero, by group_put() */
        group_put(to, i, dtype, value);
    }
}

/* ---- One operation ---- */

enum group_what { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, REDUCE, WHATS };

struct one {
    enum group_what what;
    size_t count;
    enum ps_dtype dtype;
    enum ps_reduce reduce;
    uint32_t root;
    bool in_place;

    uint8_t *in, *out, *expected;
    size_t in_len, out_len, check_at, check_len; /* elements; check: what of out is compared */
    ps_work *work;
};

static uint8_t *
group_buffer(size_t elements, size_t size)
{
    uint8_t *p = aligned_alloc(64, (elements * size + 127) / 64 * 64);

    need(p != NULL);
    memset(p, 0xa5, (elements * size + 127) / 64 * 64);
    return p;
}

static void
one_prepare(struct one *o, uint32_t rank, uint32_t ranks)
{
    size_t size = ps_dtype_size(o->dtype), part = ps_group_part(o->count, ranks, rank);
    size_t at = ps_group_part_offset(o->count, ranks, rank);
    bool gives = o->what != BROADCAST || rank == o->root, gets = o->what != REDUCE || rank == o->root;

    o->in_len = o->what == ALL_GATHER ? part : o->count;
    o->out_len = o->what == REDUCE_SCATTER ? part : o->count;
    o->in = group_buffer(o->count, size);
    o->out = o->in_place || o->what == BROADCAST ? o->in : group_buffer(o->count, size);
    o->expected = group_buffer(o->count, size);
    if (o->in_place && o->what == REDUCE_SCATTER)
        o->out = o->in + at * size;
    if (o->in_place && o->what == ALL_GATHER) {
        o->out = o->in;
        o->in += at * size;
    }
    if (gives)
        group_fill(o->in, o->in_len, o->what == ALL_GATHER ? at : 0,
                   o->what == ALL_GATHER || o->what == BROADCAST ? 0 : rank, o->dtype, o->reduce);
    if (o->what == ALL_GATHER || o->what == BROADCAST)
        group_fill(o->expected, o->count, 0, 0, o->dtype, o->reduce);
    else
        fill_reduced(o->expected, o->out_len, o->what == REDUCE_SCATTER ? at : 0, ranks, o->dtype, o->reduce);
    o->check_len = gets ? o->out_len : 0;
}

static void
one_start(struct one *o, ps_group *g, bool wait)
{
    ps_work **work = wait ? NULL : &o->work;
    struct ps_error error = {0};

    switch (o->what) {
    case ALL_REDUCE:
        need_ok(ps_group_all_reduce(g, o->in, o->out, o->count, o->dtype, o->reduce, work, &error));
        return;
    case REDUCE_SCATTER:
        need_ok(ps_group_reduce_scatter(g, o->in, o->out, o->count, o->dtype, o->reduce, work, &error));
        return;
    case ALL_GATHER:
        need_ok(ps_group_all_gather(g, o->in, o->out, o->count, o->dtype, work, &error));
        return;
    case BROADCAST:
        need_ok(ps_group_broadcast(g, o->in, o->count, o->dtype, o->root, work, &error));
        return;
    default:
        need_ok(ps_group_reduce(g, o->in, ps_group_rank(g) == o->root ? o->out : NULL, o->count, o->dtype, o->reduce,
                                o->root, work, &error));
    }
}

static void
one_check(struct one *o, ps_group *g)
{
    size_t size = ps_dtype_size(o->dtype);

    if (memcmp(o->out, o->expected, o->check_len * size) != 0) {
        size_t at = 0;

        while (o->out[at] == o->expected[at])
            at++;
        fprintf(stderr, "rank %u: %d of %zu %s, reduction %d, root %u%s: element %zu of %zu differs\n",
                ps_group_rank(g), (int)o->what, o->count, ps_dtype_name(o->dtype), (int)o->reduce, o->root,
                o->in_place ? ", in place" : "", at / size, o->check_len);
        _exit(1);
    }
    free(o->in_place && o->what == ALL_GATHER ? o->out : o->in);
    if (!o->in_place && o->what != BROADCAST)
        free(o->out);
    free(o->expected);
}

static void
one_run(ps_group *g, struct one o)
{
    one_prepare(&o, ps_group_rank(g), ps_group_ranks(g));
    one_start(&o, g, true);
    one_check(&o, g);
}

/* ---- Bodies ---- */

/* Every operation, type, reduction, small and odd sizes, in and out of place. */
static void
all_kinds(ps_group *g, void *arg)
{
    static const size_t counts[] = {0, 1, 2, 7, 64, 1000, 4099, 20011};
    uint32_t ranks = ps_group_ranks(g), root = 0;

    (void)arg;
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
        for (int what = 0; what < WHATS; what++)
            for (int dtype = 0; dtype < PS_DTYPES; dtype++)
                for (int in_place = 0; in_place < 2; in_place++) {
                    struct one o = {.what = (enum group_what)what,
                                    .count = counts[c],
                                    .dtype = (enum ps_dtype)dtype,
                                    .reduce = (enum ps_reduce)((c + (size_t)what + (size_t)dtype) % 5),
                                    .root = root++ % ranks,
                                    .in_place = in_place};

                    if (o.reduce == PS_MEAN && (o.dtype == PS_F16 || o.dtype == PS_BF16))
                        o.reduce = PS_SUM; /* rounded once for each rank: not the same as at once */
                    one_run(g, o);
                }
}

/* Large ones, by every algorithm that is asked for. */
static void
group_large(ps_group *g, void *arg)
{
    (void)arg;
    one_run(g, (struct one){.what = ALL_REDUCE, .count = 600011, .dtype = PS_F32});
    one_run(g, (struct one){.what = ALL_REDUCE, .count = 300007, .dtype = PS_F64, .in_place = true});
    one_run(g, (struct one){.what = ALL_REDUCE, .count = 900001, .dtype = PS_F16, .reduce = PS_MAX, .in_place = true});
    one_run(g, (struct one){.what = REDUCE_SCATTER, .count = 400009, .dtype = PS_I64});
    one_run(g, (struct one){.what = ALL_GATHER, .count = 600011, .dtype = PS_I32, .in_place = true});
    one_run(g, (struct one){.what = BROADCAST, .count = 600011, .dtype = PS_F32, .root = 1});
    one_run(g, (struct one){.what = REDUCE, .count = 400009, .dtype = PS_F32, .root = 1, .reduce = PS_MIN});
}

/* ---- Means whose sum is too large ---- */

/* Near the largest of each type, as bits of it: 60000, 3e38, 1.5e308, 2e9, 9e18. */
static void
put_large(enum ps_dtype dtype, int sign, void *to, size_t i)
{
    switch (dtype) {
    case PS_F32:
        ((float *)to)[i] = (float)sign * 3e38f;
        return;
    case PS_F64:
        ((double *)to)[i] = sign * 1.5e308;
        return;
    case PS_F16:
        ((uint16_t *)to)[i] = sign < 0 ? 0xfb53 : 0x7b53;
        return;
    case PS_BF16:
        ((uint16_t *)to)[i] = sign < 0 ? 0xff62 : 0x7f62;
        return;
    case PS_I32:
        ((int32_t *)to)[i] = sign * 2000000000;
        return;
    default:
        ((int64_t *)to)[i] = sign * INT64_C(9000000000000000000);
    }
}

/* Equal elements are their own mean; of float32 and float64 within what the sums of scaled ones are rounded by. */
static void
need_large(enum ps_dtype dtype, const void *is, const void *want, size_t n)
{
    for (size_t i = 0; dtype == PS_F32 && i < n; i++)
        need(fabsf(((const float *)is)[i] / ((const float *)want)[i] - 1) < 1e-6f);
    for (size_t i = 0; dtype == PS_F64 && i < n; i++)
        need(fabs(((const double *)is)[i] / ((const double *)want)[i] - 1) < 1e-14);
    need(dtype == PS_F32 || dtype == PS_F64 || memcmp(is, want, n * ps_dtype_size(dtype)) == 0);
}

static void
large_means(ps_group *g, void *arg)
{
    static const size_t counts[] = {1, 5, 3000, 70001};
    uint32_t ranks = ps_group_ranks(g), rank = ps_group_rank(g);
    struct ps_error error;

    (void)arg;
    for (size_t c = 0; c < ARRAY_LEN(counts); c++)
        for (int k = 0; k < 3 * PS_DTYPES; k++) {
            enum ps_dtype dtype = (enum ps_dtype)(k / 3);
            size_t n = counts[c], part = ps_group_part(n, ranks, rank);
            uint8_t *in = group_buffer(n, 8), *out = group_buffer(n, 8);

            for (size_t i = 0; i < n; i++)
                put_large(dtype, k % 2 == 0 ? 1 : -1, in, i);
            if (k % 3 == 0)
                need_ok(ps_group_all_reduce(g, in, out, n, dtype, PS_MEAN, NULL, &error));
            else if (k % 3 == 1)
                need_ok(ps_group_reduce_scatter(g, in, out, n, dtype, PS_MEAN, NULL, &error));
            else
                need_ok(ps_group_reduce(g, in, out, n, dtype, PS_MEAN, ranks - 1, NULL, &error));
            if (k % 3 != 2 || rank == ranks - 1)
                need_large(dtype, out, in, k % 3 == 1 ? part : n);
            free(in);
            free(out);
        }
}

/* Toward zero, of ranks that give 0, 1, 2 ... and -1, -2, ... */
static void
means_of_integers(ps_group *g, void *arg)
{
    int64_t ranks = ps_group_ranks(g), rank = ps_group_rank(g), sum = ranks * (ranks - 1) / 2;
    int32_t x[2] = {(int32_t)rank, (int32_t)-rank - 1};
    int64_t y[2] = {INT64_MAX - rank, INT64_MIN + rank};
    struct ps_error error;

    (void)arg;
    need_ok(ps_group_all_reduce(g, x, x, 2, PS_I32, PS_MEAN, NULL, &error));
    need(x[0] == sum / ranks && x[1] == -(sum + ranks) / ranks);
    need_ok(ps_group_all_reduce(g, y, y, 2, PS_I64, PS_MEAN, NULL, &error));
    need(y[0] == INT64_MAX - (sum + ranks - 1) / ranks && y[1] == INT64_MIN + (sum + ranks - 1) / ranks);
}

#define FLIGHT 60

/* Many in flight, of all sizes, waited for in another order on each rank. */
static void
in_flight(ps_group *g, void *arg)
{
    struct test_rng plan = {*(uint64_t *)arg}, own = {*(uint64_t *)arg + ps_group_rank(g) + 1};
    struct one one[FLIGHT];
    uint32_t order[FLIGHT];
    struct ps_error error = {0};

    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < FLIGHT; i++) {
            size_t count = test_below(&plan, 10) == 0 ? test_below(&plan, 400000) : test_below(&plan, 9000);

            one[i] = (struct one){.what = (enum group_what)test_below(&plan, WHATS),
                                  .count = count,
                                  .dtype = (enum ps_dtype)test_below(&plan, PS_DTYPES),
                                  .reduce = test_below(&plan, 2) == 0 ? PS_SUM : PS_MAX,
                                  .root = (uint32_t)test_below(&plan, ps_group_ranks(g)),
                                  .in_place = test_below(&plan, 2) == 0};
            one_prepare(&one[i], ps_group_rank(g), ps_group_ranks(g));
            order[i] = i;
        }
        for (uint32_t i = 0; i < FLIGHT; i++) {
            one_start(&one[i], g, false);
            if (test_below(&own, 4) == 0)
                (void)ps_work_test(one[test_below(&own, i + 1)].work);
        }
        for (uint32_t i = FLIGHT; i > 1; i--) {
            uint32_t k = (uint32_t)test_below(&own, i), t = order[i - 1];

            order[i - 1] = order[k];
            order[k] = t;
        }
        for (uint32_t i = 0; i < FLIGHT; i++) {
            struct one *o = &one[order[i]];

            need_ok(ps_work_wait(o->work, -1, &error));
            ps_work_free(o->work);
            one_check(o, g);
        }
    }
    need_ok(ps_group_barrier(g, NULL, &error));
}

/* Every pair sends to each other, while an all-reduce is under way. */
static void
group_pairs(ps_group *g, void *arg)
{
    static const size_t counts[] = {0, 1, 5000, 700001};
    uint32_t ranks = ps_group_ranks(g), rank = ps_group_rank(g);
    size_t n = sizeof counts / sizeof counts[0];
    struct ps_error error = {0};
    ps_work *work[RANKS_MAX][8];
    int32_t *out[RANKS_MAX][4], *in[RANKS_MAX][4];
    struct one o = {.what = ALL_REDUCE, .count = 500001, .dtype = PS_F32};

    (void)arg;
    one_prepare(&o, rank, ranks);
    for (uint32_t r = 0; r < ranks; r++)
        for (size_t k = 0; k < n && r != rank; k++) {
            out[r][k] = (void *)group_buffer(counts[k], 4);
            in[r][k] = (void *)group_buffer(counts[k], 4);
            group_fill(out[r][k], counts[k], rank * 1000 + r, (uint32_t)k, PS_I32, PS_SUM);
            need_ok(ps_group_send(g, out[r][k], counts[k], PS_I32, r, &work[r][k], &error));
            if (k == 2)
                need_ok(ps_group_receive(g, in[r][0], counts[0], PS_I32, r, &work[r][4], &error));
        }
    one_start(&o, g, false);
    for (uint32_t r = 0; r < ranks; r++)
        for (size_t k = 1; k < n && r != rank; k++)
            need_ok(ps_group_receive(g, in[r][k], counts[k], PS_I32, r, &work[r][4 + k], &error));
    for (uint32_t r = ranks; r-- > 0;)
        for (size_t k = 0; k < 2 * n && r != rank; k++) {
            need_ok(ps_work_wait(work[r][k], -1, &error));
            ps_work_free(work[r][k]);
        }
    for (uint32_t r = 0; r < ranks; r++)
        for (size_t k = 0; k < n && r != rank; k++) {
            group_fill(out[r][k], counts[k], r * 1000 + rank, (uint32_t)k, PS_I32, PS_SUM);
            need(memcmp(in[r][k], out[r][k], counts[k] * 4) == 0);
            free(in[r][k]);
            free(out[r][k]);
        }
    need_ok(ps_work_wait(o.work, -1, &error));
    ps_work_free(o.work);
    one_check(&o, g);
}

/* ---- Tests ---- */

/* Through shared memory where the ranks claim to be on one machine, then by TCP. */
static enum ps_transport
transport_of(int i)
{
    return i == 0 ? PS_TRANSPORT_AUTO : PS_TRANSPORT_TCP;
}

static const uint32_t sizes[] = {1, 2, 3, 4, 7};

static void
group_run_ranks(uint32_t ranks, uint32_t hosts, const struct ps_group_options *options, rank_body body, void *arg)
{
    struct ranks r;

    ranks_start(&r, ranks, hosts, options, body, arg);
    ranks_end(&r);
}

START_TEST(every_operation_and_type_gives_what_it_must)
{
    struct ps_group_options options = {.transport = transport_of(_i / 5)};

    group_run_ranks(sizes[_i % 5], 0, &options, all_kinds, NULL);
}
END_TEST

static const struct ps_group_options by_algorithm[] = {
    {.algorithm = PS_ALGORITHM_RING},
    {.algorithm = PS_ALGORITHM_HALVING, .spin_us = 50},
    {.algorithm = PS_ALGORITHM_DIRECT},
    {.algorithm = PS_ALGORITHM_HIERARCHICAL},
    {.algorithm = PS_ALGORITHM_RING, .segment_bytes = 4096, .progress_thread = 1},
};

START_TEST(every_algorithm_carries_large_ones)
{
    group_run_ranks(4, 2, &by_algorithm[_i], group_large, NULL);
    group_run_ranks(3, 2, &by_algorithm[_i], group_large, NULL);
}
END_TEST

START_TEST(a_mean_of_large_numbers_is_right_though_their_sum_is_none)
{
    struct ps_group_options options = by_algorithm[_i % 5];

    options.transport = transport_of(_i % 2);
    group_run_ranks(2 + (uint32_t)_i % 4, _i % 3, &options, large_means, NULL);
}
END_TEST

START_TEST(means_of_integers_are_exact_and_rounded_toward_zero)
{
    group_run_ranks(2 + (uint32_t)_i, 0, NULL, means_of_integers, NULL);
}
END_TEST

START_TEST(many_are_in_flight_and_waited_for_in_any_order)
{
    uint64_t seed = test_seed() + (uint64_t)_i;
    struct ps_group_options options = {
        .progress_thread = _i % 2, .spin_us = _i % 3 == 2 ? 100 : 0, .transport = transport_of(_i / 3)};

    group_run_ranks(2 + (uint32_t)_i % 3, 2, &options, in_flight, &seed);
}
END_TEST

/* Two machines, by the ranks' claim: memory is shared only within each. */
static void
group_ways(ps_group *g, void *arg)
{
    const enum ps_transport *wanted = arg;
    uint32_t own = ps_group_rank(g);
    struct ps_error error;

    need_ok(ps_group_barrier(g, NULL, &error));
    for (uint32_t r = 0; r < ps_group_ranks(g); r++) {
        bool shared = *wanted == PS_TRANSPORT_AUTO && r % 2 == own % 2;

        need(strcmp(ps_group_transport(g, r), r == own ? "self" : shared ? "shm" : "tcp") == 0);
    }
    need_ok(ps_group_barrier(g, NULL, &error)); /* a rank that leaves closes its links */
}

START_TEST(ranks_of_one_machine_share_memory_unless_told_otherwise)
{
    struct ps_group_options options = {.transport = transport_of(_i)};

    group_run_ranks(4, 2, &options, group_ways, &options.transport);
}
END_TEST

static void
group_apart(ps_group *g, void *arg)
{
    struct ps_error error;

    (void)arg;
    need_ok(ps_group_barrier(g, NULL, &error));
    for (uint32_t r = 0; r < ps_group_ranks(g); r++)
        need(strcmp(ps_group_transport(g, r), r == ps_group_rank(g) ? "self" : "tcp") == 0);
    need_ok(ps_group_barrier(g, NULL, &error));
}

/* They claim to be on one machine, but their connections come from another one. */
START_TEST(ranks_whose_connections_come_from_elsewhere_share_no_memory)
{
    if (far_loopback_enter())
        group_run_ranks(3, 0, NULL, group_apart, NULL);
    else
        fprintf(stderr, "# skipped: no network namespace here\n");
}
END_TEST

START_TEST(pairs_send_to_each_other_beside_an_all_reduce)
{
    struct ps_group_options options = {.progress_thread = _i % 2, .transport = transport_of(_i / 3)};

    group_run_ranks(2 + (uint32_t)_i % 3, 0, &options, group_pairs, NULL);
}
END_TEST

/* 256 MB in small messages take at least some hundred milliseconds, in which there is always something to be polled. */
static void
short_waits(ps_group *g, void *arg)
{
    size_t n = (size_t)64 << 20;
    float *x = calloc(n, sizeof *x);
    struct ps_error error;
    unsigned timeouts = 0;
    enum ps_err err;
    ps_work *work;

    (void)arg;
    need(x != NULL);
    need_ok(ps_group_all_reduce(g, x, x, n, PS_F32, PS_SUM, &work, &error));
    while ((err = ps_work_wait(work, 1, &error)) == PS_ERR_TIMEOUT)
        timeouts++;
    need(err == PS_OK);
    need(timeouts >= 10);
    ps_work_free(work);
    free(x);
}

START_TEST(a_wait_ends_in_time_while_much_comes)
{
    struct ps_group_options options = {
        .segment_bytes = 4096, .algorithm = PS_ALGORITHM_RING, .transport = transport_of(_i)};

    group_run_ranks(2, 1, &options, short_waits, NULL);
}
END_TEST

static Suite *
group_make(void)
{
    Suite *s = suite_create("group");
    TCase *t = tcase_create("group");

    tcase_set_timeout(t, 280);
    tcase_add_loop_test(t, every_operation_and_type_gives_what_it_must, 0, 10);
    tcase_add_loop_test(t, every_algorithm_carries_large_ones, 0, 5);
    tcase_add_loop_test(t, a_mean_of_large_numbers_is_right_though_their_sum_is_none, 0, 20);
    tcase_add_loop_test(t, means_of_integers_are_exact_and_rounded_toward_zero, 0, 4);
    tcase_add_loop_test(t, many_are_in_flight_and_waited_for_in_any_order, 0, 6);
    tcase_add_loop_test(t, ranks_of_one_machine_share_memory_unless_told_otherwise, 0, 2);
    tcase_add_test(t, ranks_whose_connections_come_from_elsewhere_share_no_memory);
    tcase_add_loop_test(t, pairs_send_to_each_other_beside_an_all_reduce, 0, 6);
    tcase_add_loop_test(t, a_wait_ends_in_time_while_much_comes, 0, 2);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(group_make)
