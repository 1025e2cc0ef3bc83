/* The loops around the rules in rules/, written once over vectors of KERNEL_LANES floats and compiled by each of
 * optimizer_plain.c, optimizer_avx2.c and optimizer_avx512.c with its own -m flags:
 *
 *     #define KERNEL_LANES 8
 *     #define KERNEL_ISA   "avx2"
 *     #define KERNEL_TABLE optimizer_kernels_avx2
 *     #include "optimizer_kernels.h"
 *
 * A rule computes the elements of one vector; run_loop() is the loop: load, check, shape (scale, and optionally
 * clipping and penalties), rule, store, and once more through small buffers for the rest. The rule, the shaping, the
 * gradient's type (float32, or float16 that is decoded on the way) and the way to store are constants where run_loop()
 * is called, so that each kernel becomes straight loops without the cost of unused features.
 *
 * Same bits everywhere: + - * / and sqrt are rounded exactly by IEEE 754, each element goes through the same operations
 * in the same order whatever the width, and no product may be fused with a sum. The language cannot promise the last:
 * clang obeys the pragma below, gcc only -ffp-contract=off, so all files that include this one must be built with that
 * flag (AVX-512 and arm64 have fused instructions without further flags). test_optimizer.c fails without it.
 *
 * Range checks: an element's bits without the sign, as a whole number, rise with its magnitude, and those of NaN and
 * Inf are the highest. In an update the largest of them is kept and tested once, after the loop. It is the results that
 * are checked: a gradient that is NaN or Inf makes one so, unless it is clipped before. Where elements are only looked
 * at, adding a constant to these bits carries into the sign bit from a limit on (optimizer_isa.h); the sums are or-ed.
 */
#ifndef KERNEL_TABLE
#error "define KERNEL_LANES, KERNEL_ISA and KERNEL_TABLE first"
#endif

#include <math.h>
#include <string.h>
#ifdef __aarch64__
#include <arm_neon.h>
#endif

#include "common/core/codec/half_lanes_kernels.h"
#include "common/core/model/elementary.h"
#include "common/core/optimizer/optimizer_isa.h"

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

#define KERNEL_AHEAD_BYTES 256

typedef float floats_anywhere __attribute__((vector_size(KERNEL_LANES * 4), may_alias, aligned(4)));
typedef int32_t signed_words __attribute__((vector_size(KERNEL_LANES * 4)));

static_assert(LAYOUT_ALIGN % sizeof(floats) == 0, "arrays of a block are aligned for whole vectors");

/* One vector of each array. */
struct lanes {
    floats weights;
    floats slot[LAYOUT_SLOTS_MAX];
};

typedef void (*kernel_rule)(const struct optimizer_step *s, uint32_t slots, floats grad, struct lanes *x);

KERNEL_INLINE floats
load(const float *p)
{
    return *(const floats *)p;
}

KERNEL_INLINE floats
load_anywhere(const float *p)
{
    return *(const floats_anywhere *)p;
}

/* Of a gradient, which is [n] f32 or float16. */
KERNEL_INLINE floats
load_grad(const void *grad, bool half, size_t i)
{
    return half ? half_load((const uint16_t *)grad + i) : load_anywhere((const float *)grad + i);
}

/* Its n < KERNEL_LANES elements from i on, and zeros. */
KERNEL_INLINE floats
load_grad_rest(const void *grad, bool half, size_t i, size_t n)
{
    size_t size = half ? sizeof(uint16_t) : sizeof(float);
    float rest[KERNEL_LANES] = {0};

    memcpy(rest, (const char *)grad + i * size, n * size);
    return load_grad(rest, half, 0);
}

/* How a result is stored. Two functions and no flag: where a flag chooses between two stores to one address, clang
 * makes them one ordinary store. */
typedef void (*kernel_store)(float *p, floats x);

KERNEL_INLINE void
store(float *p, floats x)
{
    *(floats *)p = x;
}

/* Non-temporal: past the caches, and without reading the line first. arm64 has none that gcc offers. */
KERNEL_INLINE void
store_streamed(float *p, floats x)
{
#if defined(__AVX512F__) && KERNEL_LANES == 16
    _mm512_stream_ps(p, (__m512)x);
#elif defined(__AVX2__) && KERNEL_LANES == 8
    _mm256_stream_ps(p, (__m256)x);
#elif defined(__SSE2__)
    _mm_stream_ps(p, (__m128)x);
#else
    *(floats *)p = x;
#endif
}

/* Streamed stores are ordered by nothing else. */
KERNEL_INLINE void
stream_done(void)
{
#ifdef __SSE2__
    _mm_sfence();
#endif
}

KERNEL_INLINE floats
square_root(floats x)
{
#if defined(__AVX512F__) && KERNEL_LANES == 16
    return (floats)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__) && KERNEL_LANES == 8
    return (floats)_mm256_sqrt_ps((__m256)x);
#elif defined(__SSE2__)
    return (floats)_mm_sqrt_ps((__m128)x);
#elif defined(__aarch64__)
    return (floats)vsqrtq_f32((float32x4_t)x);
#else
    for (int i = 0; i < KERNEL_LANES; i++)
        x[i] = sqrtf(x[i]);
    return x;
#endif
}

/* The sign bit of a lane is set when x is not below the limit that carry stands for. */
KERNEL_INLINE words
carry_lanes(floats x, uint32_t carry)
{
    return ((words)x & 0x7fffffffu) + carry;
}

KERNEL_INLINE bool
any_sign(words x)
{
    uint32_t all = 0;

    for (int i = 0; i < KERNEL_LANES; i++)
        all |= x[i];
    return all >> 31;
}

/* a where mask's lanes are all ones, b where they are 0. */
KERNEL_INLINE floats
choose_lanes(words mask, floats a, floats b)
{
    return (floats)(((words)a & mask) | ((words)b & ~mask));
}

/* To [-limit, limit]; NaN stays. */
KERNEL_INLINE floats
clamp(floats x, float limit)
{
    floats high = limit - (floats){0}, low = -high;

    x = choose_lanes((words)(x > high), high, x);
    return choose_lanes((words)(x < low), low, x);
}

/* x^power for x >= 0, in double. */
KERNEL_INLINE floats
raise_lanes(floats x, float power)
{
    for (int i = 0; i < KERNEL_LANES; i++)
        x[i] = (float)elementary_power((double)x[i], (double)power);
    return x;
}

#include "common/core/optimizer/optimizer_files.h"

KERNEL_INLINE void
load_lanes(struct lanes *x, const struct optimizer_arrays *from, uint32_t slots, size_t i)
{
    x->weights = load(from->weights + i);
    for (uint32_t k = 0; k < slots; k++)
        x->slot[k] = load(from->slot[k] + i);
}

/* Prefetches what will be read KERNEL_AHEAD_BYTES on; past the array's end that does no harm. Where results are
 * streamed, the processor does not prefetch early enough by itself. A gradient has mostly just been written. */
KERNEL_INLINE void
ask_ahead(const struct optimizer_arrays *from, uint32_t slots, size_t i)
{
    __builtin_prefetch((const void *)((uintptr_t)(from->weights + i) + KERNEL_AHEAD_BYTES));
    for (uint32_t k = 0; k < slots; k++)
        __builtin_prefetch((const void *)((uintptr_t)(from->slot[k] + i) + KERNEL_AHEAD_BYTES));
}

KERNEL_INLINE void
store_lanes(const struct lanes *x, const struct optimizer_arrays *to, uint32_t slots, size_t i, kernel_store put)
{
    put(to->weights + i, x->weights);
    for (uint32_t k = 0; k < slots; k++)
        put(to->slot[k] + i, x->slot[k]);
}

/* The gradient as the rule gets it. Clipping and both penalties come before every rule, in this order. */
KERNEL_INLINE floats
shape(const struct optimizer_step *s, bool shaped, floats g, struct lanes *x)
{
    g *= s->scale;
    if (shaped) {
        g = clamp(g, s->limit) + x->weights * s->l2;
        x->weights -= x->weights * s->decay;
    }
    return g;
}

/* In each lane the larger of a number and x's bits without the sign. */
KERNEL_INLINE words
larger_lanes(words most, floats x)
{
    words bits = (words)x & 0x7fffffffu;

#if defined(__AVX512F__) && KERNEL_LANES == 16
    return (words)_mm512_max_epu32((__m512i)most, (__m512i)bits);
#elif defined(__AVX2__) && KERNEL_LANES == 8
    return (words)_mm256_max_epu32((__m256i)most, (__m256i)bits);
#else
    words mask = (words)((signed_words)most > (signed_words)bits); /* neither has the sign bit */

    return (most & mask) | (bits & ~mask);
#endif
}

KERNEL_INLINE words
largest_lanes(words most, const struct lanes *x, uint32_t slots)
{
    most = larger_lanes(most, x->weights);
    for (uint32_t k = 0; k < slots; k++)
        most = larger_lanes(most, x->slot[k]);
    return most;
}

/* The last n < KERNEL_LANES elements from i on. Nothing past them is read or written; the lanes without an element
 * compute on zeros. */
KERNEL_INLINE words
run_rest(const struct optimizer_step *s, size_t i, size_t n, const void *grad, bool half,
         const struct optimizer_arrays *from, const struct optimizer_arrays *to, uint32_t slots, bool shaped,
         kernel_rule rule, words most)
{
    struct lanes x = {0};
    floats g = load_grad_rest(grad, half, i, n);

    memcpy(&x.weights, from->weights + i, n * sizeof(float));
    for (uint32_t k = 0; k < slots; k++)
        memcpy(&x.slot[k], from->slot[k] + i, n * sizeof(float));
    if (shaped)
        most = larger_lanes(most, g);
    rule(s, slots, shape(s, shaped, g, &x), &x);
    memcpy(to->weights + i, &x.weights, n * sizeof(float));
    memset((float *)&x.weights + n, 0, (KERNEL_LANES - n) * sizeof(float));
    for (uint32_t k = 0; k < slots; k++) {
        memcpy(to->slot[k] + i, &x.slot[k], n * sizeof(float));
        memset((float *)&x.slot[k] + n, 0, (KERNEL_LANES - n) * sizeof(float));
    }
    return largest_lanes(most, &x, slots);
}

KERNEL_INLINE bool
run_loop(const struct optimizer_step *step, size_t n, const void *grad, bool half,
         const struct optimizer_arrays *from_arrays, const struct optimizer_arrays *to_arrays, uint32_t slots,
         bool shaped, kernel_rule rule, kernel_store put)
{
    /* Copies that no store through a float pointer can change: they stay in registers. */
    const struct optimizer_step s = *step;
    const struct optimizer_arrays from = *from_arrays, to = *to_arrays;
    words most = {0};
    size_t i;

    for (i = 0; i + KERNEL_LANES <= n; i += KERNEL_LANES) {
        floats g = load_grad(grad, half, i);
        struct lanes x;

        if (shaped)
            most = larger_lanes(most, g);
        if (put == store_streamed) /* known where this is inlined */
            ask_ahead(&from, slots, i);
        load_lanes(&x, &from, slots, i);
        rule(&s, slots, shape(&s, shaped, g, &x), &x);
        store_lanes(&x, &to, slots, i, put);
        most = largest_lanes(most, &x, slots);
    }
    if (i < n)
        most = run_rest(&s, i, n - i, grad, half, &from, &to, slots, shaped, rule, most);
    return !any_sign(most + OPTIMIZER_CARRY_STATE);
}

/* Whether anything is shaped and how to store become constants here, and so the loop is straight. */
KERNEL_INLINE bool
run(const struct optimizer_step *s, size_t n, const void *grad, bool half, const struct optimizer_arrays *from,
    const struct optimizer_arrays *to, uint32_t slots, kernel_rule rule, bool stream)
{
    bool calm;

    if (!stream)
        return s->shaped ? run_loop(s, n, grad, half, from, to, slots, true, rule, store)
                         : run_loop(s, n, grad, half, from, to, slots, false, rule, store);
    calm = s->shaped ? run_loop(s, n, grad, half, from, to, slots, true, rule, store_streamed)
                     : run_loop(s, n, grad, half, from, to, slots, false, rule, store_streamed);
    stream_done();
    return calm;
}

#define KERNEL(NAME, name, number)                                                                                     \
    KERNEL_INLINE void name##_lanes(const struct optimizer_step *s, uint32_t slots, floats g, struct lanes *x)         \
    {                                                                                                                  \
        struct name##_step own;                                                                                        \
        memcpy(&own, s->own, sizeof own);                                                                              \
        name##_rule(&own, slots, g, x);                                                                                \
    }                                                                                                                  \
    KERNEL_INLINE bool name##_run(const struct optimizer_step *s, size_t n, const void *grad, bool half,               \
                                  const struct optimizer_arrays *from, const struct optimizer_arrays *to, bool stream) \
    {                                                                                                                  \
        if (NAME##_SLOTS_MIN < NAME##_SLOTS_MAX && s->slots == NAME##_SLOTS_MIN)                                       \
            return run(s, n, grad, half, from, to, NAME##_SLOTS_MIN, name##_lanes, stream);                            \
        return run(s, n, grad, half, from, to, NAME##_SLOTS_MAX, name##_lanes, stream);                                \
    }                                                                                                                  \
    static bool name##_kernel(const struct optimizer_step *s, size_t n, const void *grad,                              \
                              const struct optimizer_arrays *from, const struct optimizer_arrays *to, bool stream)     \
    {                                                                                                                  \
        return name##_run(s, n, grad, false, from, to, stream);                                                        \
    }                                                                                                                  \
    static bool name##_half_kernel(const struct optimizer_step *s, size_t n, const void *grad,                         \
                                   const struct optimizer_arrays *from, const struct optimizer_arrays *to,             \
                                   bool stream)                                                                        \
    {                                                                                                                  \
        return name##_run(s, n, grad, true, from, to, stream);                                                         \
    }

PS_OPTIMIZER_LIST(KERNEL)

static bool
all_below(size_t n, const float *x, uint32_t carry)
{
    words bad = {0}, more = {0}; /* two chains: two loads a cycle */
    floats rest = {0};
    size_t i;

    for (i = 0; i + 2 * KERNEL_LANES <= n; i += 2 * KERNEL_LANES) {
        bad |= carry_lanes(load_anywhere(x + i), carry);
        more |= carry_lanes(load_anywhere(x + i + KERNEL_LANES), carry);
    }
    if (i + KERNEL_LANES <= n) {
        bad |= carry_lanes(load_anywhere(x + i), carry);
        i += KERNEL_LANES;
    }
    memcpy(&rest, x + i, (n - i) * sizeof(float));
    return !any_sign(bad | more | carry_lanes(rest, carry));
}

/* The sum of squares in double: element i goes into partial sum i mod 16, and those are added in order, so that all
 * widths give the same bits. (Products of two floats are exact in double.) */
#define PARTIAL_SUMS 16
#define PAIR_LANES   (KERNEL_LANES / 2)

typedef float half_floats __attribute__((vector_size(PAIR_LANES * 4), may_alias, aligned(4)));
typedef double wide_doubles __attribute__((vector_size(PAIR_LANES * 8)));

static double
square_sum(size_t n, const float *x)
{
    wide_doubles sums[PARTIAL_SUMS / PAIR_LANES] = {{0}};
    double partial[PARTIAL_SUMS], total = 0;
    size_t i;

    for (i = 0; i + PARTIAL_SUMS <= n; i += PARTIAL_SUMS)
        for (size_t k = 0; k < ARRAY_LEN(sums); k++) {
            wide_doubles v = __builtin_convertvector(*(const half_floats *)(x + i + k * PAIR_LANES), wide_doubles);

            sums[k] += v * v;
        }
    memcpy(partial, sums, sizeof partial);
    for (size_t k = 0; i + k < n; k++)
        partial[k] += (double)x[i + k] * (double)x[i + k];
    for (size_t k = 0; k < PARTIAL_SUMS; k++)
        total += partial[k];
    return total;
}

/* Elements of a tile: the running sum stays in the first-level cache while the k arrays pass by, each in a long enough
 * run for the hardware's prefetcher, however many they are. */
#define SUM_TILE 2048

/* sum[i] += x[i] */
KERNEL_INLINE void
add_to(size_t n, const float *x, float *sum)
{
    size_t i;

    for (i = 0; i + KERNEL_LANES <= n; i += KERNEL_LANES)
        *(floats_anywhere *)(sum + i) = load_anywhere(sum + i) + load_anywhere(x + i);
    for (; i < n; i++)
        sum[i] += x[i];
}

static void
sum_arrays(size_t n, size_t k, const float *const x[], float *sum)
{
    for (size_t i = 0; i < n; i += SUM_TILE) {
        size_t tile = MIN(n - i, (size_t)SUM_TILE);

        if (sum != x[0])
            memcpy(sum + i, x[0] + i, tile * sizeof(float));
        for (size_t j = 1; j < k; j++)
            add_to(tile, x[j] + i, sum + i);
    }
}

const struct optimizer_kernels KERNEL_TABLE = {
    .name = KERNEL_ISA,
    .update =
        {
#define KERNEL_ROW(NAME, name, number) [number] = name##_kernel,
            PS_OPTIMIZER_LIST(KERNEL_ROW)
#undef KERNEL_ROW
        },
    .update_half =
        {
#define KERNEL_ROW(NAME, name, number) [number] = name##_half_kernel,
            PS_OPTIMIZER_LIST(KERNEL_ROW)
#undef KERNEL_ROW
        },
    .below = all_below,
    .square_sum = square_sum,
    .sum = sum_arrays,
};
