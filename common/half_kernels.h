/* The loops of half.h over vectors of KERNEL_LANES floats, compiled by each of half_plain.c, half_avx2.c and
 * half_avx512.c with its own -m flags, which define KERNEL_LANES and KERNEL_TABLE first. What is left over goes one at
 * a time.
 *
 * float16 has instructions of its own in F16C and AVX-512F: rounded as the mode in them says and not as MXCSR does,
 * subnormals kept whatever MXCSR says. Elsewhere it is made of integers and one sum of floats that rounds for us (after
 * F. Giesen's float_to_half_fast3_rtne): x + 0.5 has its last bit at 2^-24, float16's least subnormal. */
#ifndef KERNEL_TABLE
#error "define KERNEL_LANES and KERNEL_TABLE first"
#endif

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "half_isa.h"

#define KERNEL_INLINE static inline __attribute__((always_inline))

typedef float floats __attribute__((vector_size(KERNEL_LANES * 4)));
typedef uint32_t words __attribute__((vector_size(KERNEL_LANES * 4)));
typedef uint16_t shorts __attribute__((vector_size(KERNEL_LANES * 2)));
typedef uint32_t words_anywhere __attribute__((vector_size(KERNEL_LANES * 4), may_alias, aligned(4)));
typedef uint16_t shorts_anywhere __attribute__((vector_size(KERNEL_LANES * 2), may_alias, aligned(2)));

/* yes where the condition's lanes are all ones, no where they are 0. */
KERNEL_INLINE words
choose(words condition, words yes, words no)
{
    return (condition & yes) | (~condition & no);
}

KERNEL_INLINE words
half_from_words(words bits)
{
    words sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    words normal = (size + 0xfff + (size >> 13 & 1) - (112u << 23)) >> 13;
    words subnormal = (words)((floats)size + 0.5f) - 0x3f000000; /* 0.5 */
    words nan = (size >> 13 & 0x3ff) | 0x7e00, infinite = nan - nan + 0x7c00;
    words result = choose((words)(size < 0x38800000), subnormal, normal);

    result = choose((words)(size >= 0x47800000), infinite, result);
    return sign | choose((words)(size > 0x7f800000), nan, result);
}

/* Where the exponent is 0 the fraction is put behind 2^-14, which then is taken away. */
KERNEL_INLINE words
half_to_words(words h)
{
    words sign = (h & 0x8000) << 16, size = (h & 0x7fff) << 13, exponent = size & (31u << 23);
    words normal = size + (112u << 23), odd = size | 0x7f800000;
    words subnormal = (words)((floats)(size + (113u << 23)) - 0x1p-14f);
    words quiet = (words)(size > 31u << 23) & 0x400000;
    words result = choose((words)(exponent == 0), subnormal, normal);

    return sign | choose((words)(exponent == 31u << 23), odd | quiet, result);
}

KERNEL_INLINE words
bfloat_from_words(words bits)
{
    words nan = (words)((bits & 0x7fffffff) > 0x7f800000);

    return choose(nan, bits >> 16 | 0x40, (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void
half_from(size_t n, const float *x, uint16_t *h)
{
    size_t i = 0;

    for (; i + KERNEL_LANES <= n; i += KERNEL_LANES) {
#if defined(__AVX512F__) && KERNEL_LANES == 16
        _mm256_storeu_si256((void *)(h + i), _mm512_cvtps_ph(_mm512_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__) && KERNEL_LANES == 8
        _mm_storeu_si128((void *)(h + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
#else
        *(shorts_anywhere *)(h + i) =
            __builtin_convertvector(half_from_words(*(const words_anywhere *)(x + i)), shorts);
#endif
    }
    for (; i < n; i++)
        h[i] = half_from_float(x[i]);
}

static void
half_to(size_t n, const uint16_t *h, float *x)
{
    size_t i = 0;

    for (; i + KERNEL_LANES <= n; i += KERNEL_LANES) {
#if defined(__AVX512F__) && KERNEL_LANES == 16
        _mm512_storeu_ps(x + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(h + i))));
#elif defined(__F16C__) && KERNEL_LANES == 8
        _mm256_storeu_ps(x + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(h + i))));
#else
        *(words_anywhere *)(x + i) = half_to_words(__builtin_convertvector(*(const shorts_anywhere *)(h + i), words));
#endif
    }
    for (; i < n; i++)
        x[i] = half_to_float(h[i]);
}

static void
bfloat_from(size_t n, const float *x, uint16_t *h)
{
    size_t i = 0;

    for (; i + KERNEL_LANES <= n; i += KERNEL_LANES)
        *(shorts_anywhere *)(h + i) =
            __builtin_convertvector(bfloat_from_words(*(const words_anywhere *)(x + i)), shorts);
    for (; i < n; i++)
        h[i] = bfloat_from_float(x[i]);
}

static void
bfloat_to(size_t n, const uint16_t *h, float *x)
{
    size_t i = 0;

    for (; i + KERNEL_LANES <= n; i += KERNEL_LANES)
        *(words_anywhere *)(x + i) = __builtin_convertvector(*(const shorts_anywhere *)(h + i), words) << 16;
    for (; i < n; i++)
        x[i] = bfloat_to_float(h[i]);
}

const struct half_kernels KERNEL_TABLE = {half_from, half_to, bfloat_from, bfloat_to};
