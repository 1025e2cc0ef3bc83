/* The loops of reduce.h over vectors of KERNEL_LANES floats (of 32 bits; half as many of 64), written once and compiled
 * by each of reduce_plain.c, reduce_avx2.c and reduce_avx512.c with its own -m flags, which define KERNEL_LANES and
 * KERNEL_TABLE first.
 *
 * A type says what a vector of it is, how it is loaded and stored; a family of types what each operation does with two
 * vectors. LOOP makes a function of both. Half types are computed as vectors of float32.
 *
 * The compiler may exchange the operands of a sum and the processor takes the NaN of the first, so results that are NaN
 * are all made the same one. */
#ifndef KERNEL_TABLE
#error "define KERNEL_LANES and KERNEL_TABLE first"
#endif

#include <float.h>
#include <string.h>

#include "client/core/reduce/reduce_isa.h"
#include "common/core/codec/half_lanes_kernels.h"

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

#define VECTOR_BYTES (KERNEL_LANES * 4)
#define VECTOR       __attribute__((vector_size(VECTOR_BYTES)))
#define ANYWHERE(n)  __attribute__((vector_size(VECTOR_BYTES), may_alias, aligned(n)))

typedef double doubles VECTOR;
typedef uint64_t longs VECTOR;
typedef int32_t signed_words VECTOR;
typedef int64_t signed_longs VECTOR;
typedef float floats_anywhere ANYWHERE(4);
typedef double doubles_anywhere ANYWHERE(8);
typedef uint32_t words_anywhere ANYWHERE(4);
typedef uint64_t longs_anywhere ANYWHERE(8);

/* ---- Types: element, vector, elements of one, load, store ---- */

#define ELEMENT_f32  float
#define ELEMENT_f64  double
#define ELEMENT_f16  uint16_t
#define ELEMENT_bf16 uint16_t
#define ELEMENT_i32  uint32_t
#define ELEMENT_i64  uint64_t

#define LANES_f32  KERNEL_LANES
#define LANES_f64  (KERNEL_LANES / 2)
#define LANES_f16  KERNEL_LANES
#define LANES_bf16 KERNEL_LANES
#define LANES_i32  KERNEL_LANES
#define LANES_i64  (KERNEL_LANES / 2)

#define LOAD_f32(p)  (*(const floats_anywhere *)(p))
#define LOAD_f64(p)  (*(const doubles_anywhere *)(p))
#define LOAD_f16(p)  half_load(p)
#define LOAD_bf16(p) bfloat_load(p)
#define LOAD_i32(p)  (*(const words_anywhere *)(p))
#define LOAD_i64(p)  (*(const longs_anywhere *)(p))

#define STORE_f32(p, x)  (*(floats_anywhere *)(p) = (x))
#define STORE_f64(p, x)  (*(doubles_anywhere *)(p) = (x))
#define STORE_f16(p, x)  half_store(p, x)
#define STORE_bf16(p, x) bfloat_store(p, x)
#define STORE_i32(p, x)  (*(words_anywhere *)(p) = (x))
#define STORE_i64(p, x)  (*(longs_anywhere *)(p) = (x))

/* Non-temporal: past the caches, and without reading the line first. arm64 has none that gcc offers. */
KERNEL_INLINE void
stream(void *p, words x)
{
#if defined(__AVX512F__) && KERNEL_LANES == 16
    _mm512_stream_si512(p, (__m512i)x);
#elif defined(__AVX2__) && KERNEL_LANES == 8
    _mm256_stream_si256(p, (__m256i)x);
#elif defined(__SSE2__) && KERNEL_LANES == 4
    _mm_stream_si128(p, (__m128i)x);
#else
    memcpy(p, &x, sizeof x);
#endif
}
#define STREAM(p, x) stream(p, (words)(x))

/* Streamed stores are ordered by nothing else. */
KERNEL_INLINE void
stream_done(void)
{
#ifdef __SSE2__
    _mm_sfence();
#endif
}

/* ---- Families: what an operation does with two vectors ---- */

/* Whether any bit of a comparison's result is set. */
KERNEL_INLINE bool
any_bit(words mask)
{
#if defined(__AVX512F__) && KERNEL_LANES == 16
    return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX2__) && KERNEL_LANES == 8
    return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#elif defined(__SSE2__) && KERNEL_LANES == 4
    return _mm_movemask_epi8((__m128i)mask) != 0;
#else
    uint32_t any = 0;

    for (int i = 0; i < KERNEL_LANES; i++)
        any |= mask[i];
    return any != 0;
#endif
}

/* min: of -0 and 0, which compare as equal, a | b is -0 and a & b is 0. What does not compare at all is NaN, and so is
 * a | b then. */
#define FLOAT_FAMILY(family, vector, bits, quiet, sign)                                                                \
    KERNEL_INLINE vector family##_one_nan(vector x)                                                                    \
    {                                                                                                                  \
        bits nan = (bits)(x != x);                                                                                     \
        return (vector)(((bits)x & ~nan) | (nan & (quiet)));                                                           \
    }                                                                                                                  \
    KERNEL_INLINE vector family##_sum(vector a, vector b)                                                              \
    {                                                                                                                  \
        return family##_one_nan(a + b);                                                                                \
    }                                                                                                                  \
    KERNEL_INLINE vector family##_product(vector a, vector b)                                                          \
    {                                                                                                                  \
        return family##_one_nan(a * b);                                                                                \
    }                                                                                                                  \
    KERNEL_INLINE vector family##_min(vector a, vector b)                                                              \
    {                                                                                                                  \
        bits less = (bits)(a < b), more = (bits)(a > b);                                                               \
        return family##_one_nan((vector)(((bits)a & ~more) | ((bits)b & ~less)));                                      \
    }                                                                                                                  \
    KERNEL_INLINE vector family##_max(vector a, vector b)                                                              \
    {                                                                                                                  \
        bits less = (bits)(a < b), more = (bits)(a > b), same = (bits)(a == b);                                        \
        bits picked = ((bits)a & ~less) | ((bits)b & ~more);                                                           \
        return family##_one_nan((vector)(picked & ~(same & ((bits)a ^ (bits)b))));                                     \
    }                                                                                                                  \
    KERNEL_INLINE vector family##_size(vector x)                                                                       \
    {                                                                                                                  \
        return (vector)((bits)x & ~(sign));                                                                            \
    }                                                                                                                  \
    /* What rounding made larger than the largest number is that number, where what it was made of is finite. Rare. */ \
    KERNEL_INLINE vector family##_at_most(vector x, vector most, bits finite)                                          \
    {                                                                                                                  \
        bits over = (bits)(family##_size(x) > most) & finite;                                                          \
        return (vector)(((bits)x & ~over) | (over & (((bits)x & (sign)) | (bits)most)));                               \
    }                                                                                                                  \
    KERNEL_INLINE vector family##_weigh(vector a, vector b, vector by_a, vector by_b, vector most)                     \
    {                                                                                                                  \
        vector x = a * by_a + b * by_b;                                                                                \
                                                                                                                       \
        if (__builtin_expect(any_bit((words)(family##_size(x) > most)), false))                                        \
            x = family##_at_most(x, most, (bits)(family##_size(a) <= most) & (bits)(family##_size(b) <= most));        \
        return family##_one_nan(x);                                                                                    \
    }                                                                                                                  \
    KERNEL_INLINE vector family##_divide(vector x, vector by, vector most)                                             \
    {                                                                                                                  \
        return family##_one_nan(family##_at_most(x / by, most, (bits)(family##_size(x) <= most)));                     \
    }

#define INTEGER_FAMILY(family, vector, signed_vector)                                                                  \
    KERNEL_INLINE vector family##_sum(vector a, vector b)                                                              \
    {                                                                                                                  \
        return a + b;                                                                                                  \
    }                                                                                                                  \
    KERNEL_INLINE vector family##_product(vector a, vector b)                                                          \
    {                                                                                                                  \
        return a * b;                                                                                                  \
    }                                                                                                                  \
    KERNEL_INLINE vector family##_min(vector a, vector b)                                                              \
    {                                                                                                                  \
        vector less = (vector)((signed_vector)a < (signed_vector)b);                                                   \
        return (a & less) | (b & ~less);                                                                               \
    }                                                                                                                  \
    KERNEL_INLINE vector family##_max(vector a, vector b)                                                              \
    {                                                                                                                  \
        vector more = (vector)((signed_vector)a > (signed_vector)b);                                                   \
        return (a & more) | (b & ~more);                                                                               \
    }

FLOAT_FAMILY(f32, floats, words, 0x7fc00000u, 0x80000000u)
FLOAT_FAMILY(f64, doubles, longs, 0x7ff8000000000000u, 0x8000000000000000u)
INTEGER_FAMILY(i32, words, signed_words)
INTEGER_FAMILY(i64, longs, signed_longs)

/* ---- Loops ---- */

/* What is left over goes through a vector of its own, of which nothing more is kept. */
#define LOOP(type, family, op)                                                                                         \
    static void type##_##op##_all(size_t n, void *out, const void *a, const void *b)                                   \
    {                                                                                                                  \
        const ELEMENT_##type *x = a, *y = b;                                                                           \
        ELEMENT_##type *z = out, rest[2][LANES_##type] = {{0}};                                                        \
        size_t i = 0;                                                                                                  \
                                                                                                                       \
        for (; i + LANES_##type <= n; i += LANES_##type)                                                               \
            STORE_##type(z + i, family##_##op(LOAD_##type(x + i), LOAD_##type(y + i)));                                \
        memcpy(rest[0], x + i, (n - i) * sizeof *x);                                                                   \
        memcpy(rest[1], y + i, (n - i) * sizeof *y);                                                                   \
        STORE_##type(rest[0], family##_##op(LOAD_##type(rest[0]), LOAD_##type(rest[1])));                              \
        memcpy(z + i, rest[0], (n - i) * sizeof *z);                                                                   \
    }

/* The first elements bring out to a vector's boundary. */
#define STREAM_LOOP(type, family, op)                                                                                  \
    static void type##_##op##_streamed(size_t n, void *out, const void *a, const void *b)                              \
    {                                                                                                                  \
        const ELEMENT_##type *x = a, *y = b;                                                                           \
        ELEMENT_##type *z = out;                                                                                       \
        size_t i = MIN(n, (0 - (uintptr_t)out) % VECTOR_BYTES / sizeof *z);                                            \
                                                                                                                       \
        type##_##op##_all(i, z, x, y);                                                                                 \
        for (; i + LANES_##type <= n; i += LANES_##type)                                                               \
            STREAM(z + i, family##_##op(LOAD_##type(x + i), LOAD_##type(y + i)));                                      \
        stream_done();                                                                                                 \
        type##_##op##_all(n - i, z + i, x + i, y + i);                                                                 \
    }

#define OPS(X, type, family)                                                                                           \
    X(type, family, sum)                                                                                               \
    X(type, family, min)                                                                                               \
    X(type, family, max)                                                                                               \
    X(type, family, product)

OPS(LOOP, f32, f32)
OPS(LOOP, f64, f64)
OPS(LOOP, f16, f32)
OPS(LOOP, bf16, f32)
OPS(LOOP, i32, i32)
OPS(LOOP, i64, i64)
OPS(STREAM_LOOP, f32, f32)
OPS(STREAM_LOOP, f64, f64)
OPS(STREAM_LOOP, i32, i32)
OPS(STREAM_LOOP, i64, i64)

/* The largest of a type, as its family has it. */
#define MOST_f32  FLT_MAX
#define MOST_f64  DBL_MAX
#define MOST_f16  65504.0f
#define MOST_bf16 0x1.fep127f

#define WEIGH_LOOP(type, family, vector)                                                                               \
    static void type##_weigh_all(size_t n, void *out, const void *a, const void *b, float by_a, float by_b)            \
    {                                                                                                                  \
        const ELEMENT_##type *x = a, *y = b;                                                                           \
        ELEMENT_##type *z = out, rest[2][LANES_##type] = {{0}};                                                        \
        vector p = by_a - (vector){0}, q = by_b - (vector){0}, most = MOST_##type - (vector){0};                       \
        size_t i = 0;                                                                                                  \
                                                                                                                       \
        for (; i + LANES_##type <= n; i += LANES_##type)                                                               \
            STORE_##type(z + i, family##_weigh(LOAD_##type(x + i), LOAD_##type(y + i), p, q, most));                   \
        memcpy(rest[0], x + i, (n - i) * sizeof *x);                                                                   \
        memcpy(rest[1], y + i, (n - i) * sizeof *y);                                                                   \
        STORE_##type(rest[0], family##_weigh(LOAD_##type(rest[0]), LOAD_##type(rest[1]), p, q, most));                 \
        memcpy(z + i, rest[0], (n - i) * sizeof *z);                                                                   \
    }

#define WEIGH_STREAM_LOOP(type, family, vector)                                                                        \
    static void type##_weigh_streamed(size_t n, void *out, const void *a, const void *b, float by_a, float by_b)       \
    {                                                                                                                  \
        const ELEMENT_##type *x = a, *y = b;                                                                           \
        ELEMENT_##type *z = out;                                                                                       \
        vector p = by_a - (vector){0}, q = by_b - (vector){0}, most = MOST_##type - (vector){0};                       \
        size_t i = MIN(n, (0 - (uintptr_t)out) % VECTOR_BYTES / sizeof *z);                                            \
                                                                                                                       \
        type##_weigh_all(i, z, x, y, by_a, by_b);                                                                      \
        for (; i + LANES_##type <= n; i += LANES_##type)                                                               \
            STREAM(z + i, family##_weigh(LOAD_##type(x + i), LOAD_##type(y + i), p, q, most));                         \
        stream_done();                                                                                                 \
        type##_weigh_all(n - i, z + i, x + i, y + i, by_a, by_b);                                                      \
    }

WEIGH_LOOP(f32, f32, floats)
WEIGH_LOOP(f64, f64, doubles)
WEIGH_LOOP(f16, f32, floats)
WEIGH_LOOP(bf16, f32, floats)
WEIGH_STREAM_LOOP(f32, f32, floats)
WEIGH_STREAM_LOOP(f64, f64, doubles)

#define DIVIDE_LOOP(type, family, vector)                                                                              \
    static void type##_divide_all(size_t n, void *array, float by)                                                     \
    {                                                                                                                  \
        ELEMENT_##type *x = array, rest[LANES_##type] = {0};                                                           \
        vector all = by - (vector){0}, most = MOST_##type - (vector){0};                                               \
        size_t i = 0;                                                                                                  \
                                                                                                                       \
        for (; i + LANES_##type <= n; i += LANES_##type)                                                               \
            STORE_##type(x + i, family##_divide(LOAD_##type(x + i), all, most));                                       \
        memcpy(rest, x + i, (n - i) * sizeof *x);                                                                      \
        STORE_##type(rest, family##_divide(LOAD_##type(rest), all, most));                                             \
        memcpy(x + i, rest, (n - i) * sizeof *x);                                                                      \
    }

DIVIDE_LOOP(f32, f32, floats)
DIVIDE_LOOP(f64, f64, doubles)

#define ROW(type)                                                                                                      \
    {                                                                                                                  \
        type##_sum_all, type##_sum_all, type##_min_all, type##_max_all, type##_product_all                             \
    }
#define STREAMED_ROW(type)                                                                                             \
    {                                                                                                                  \
        type##_sum_streamed, type##_sum_streamed, type##_min_streamed, type##_max_streamed, type##_product_streamed    \
    }

static_assert(PS_SUM == 0 && PS_MEAN == 1 && PS_MIN == 2 && PS_MAX == 3 && PS_PRODUCT == 4, "the order of ROW");

const struct reduce_kernels KERNEL_TABLE = {
    .reduce = {[PS_F32] = ROW(f32),
               [PS_F64] = ROW(f64),
               [PS_F16] = ROW(f16),
               [PS_BF16] = ROW(bf16),
               [PS_I32] = ROW(i32),
               [PS_I64] = ROW(i64)},
    .reduce_streamed = {[PS_F32] = STREAMED_ROW(f32),
                        [PS_F64] = STREAMED_ROW(f64),
                        [PS_I32] = STREAMED_ROW(i32),
                        [PS_I64] = STREAMED_ROW(i64)},
    .weigh = {[PS_F32] = f32_weigh_all, [PS_F64] = f64_weigh_all, [PS_F16] = f16_weigh_all, [PS_BF16] = bf16_weigh_all},
    .weigh_streamed = {[PS_F32] = f32_weigh_streamed, [PS_F64] = f64_weigh_streamed},
    .divide = {[PS_F32] = f32_divide_all, [PS_F64] = f64_divide_all},
};
