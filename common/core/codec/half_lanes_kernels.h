/* Floats of 16 bits by the vector, KERNEL_LANES of them: for the kernels of half.h, and for others that compute on such
 * floats. A file that includes this defines KERNEL_LANES first and is compiled once for each instruction set.
 *
 * float16 has instructions of its own in F16C and AVX-512F: rounded as the mode in them says and not as MXCSR does,
 * subnormals kept whatever MXCSR says. Elsewhere it is made of integers and one sum of floats that does the rounding
 * (after F. Giesen's float_to_half_fast3_rtne): x + 0.5 has its last bit at 2^-24, float16's least subnormal. */
#ifndef COMMON_CORE_CODEC_HALF_LANES_KERNELS_H
#define COMMON_CORE_CODEC_HALF_LANES_KERNELS_H

#ifndef KERNEL_LANES
#error "define KERNEL_LANES first"
#endif

#include <stdint.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#define KERNEL_INLINE static inline __attribute__((always_inline))

typedef float floats __attribute__((vector_size(KERNEL_LANES * 4), may_alias));
typedef uint32_t words __attribute__((vector_size(KERNEL_LANES * 4), may_alias));
typedef uint16_t shorts __attribute__((vector_size(KERNEL_LANES * 2)));
typedef uint16_t shorts_anywhere __attribute__((vector_size(KERNEL_LANES * 2), may_alias, aligned(2)));

/* Between 16 and 32 bits, each lane below 2^16. Compilers make a detour through scalars of some of these. */
KERNEL_INLINE words
widen(const uint16_t *h)
{
#if defined(__AVX512F__) && KERNEL_LANES == 16
    return (words)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)h));
#elif defined(__AVX2__) && KERNEL_LANES == 8
    return (words)_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)h));
#elif defined(__SSE2__) && KERNEL_LANES == 4
    return (words)_mm_unpacklo_epi16(_mm_loadl_epi64((const void *)h), _mm_setzero_si128());
#else
    return __builtin_convertvector(*(const shorts_anywhere *)h, words);
#endif
}

KERNEL_INLINE void
narrow(uint16_t *h, words x)
{
#if defined(__AVX512F__) && KERNEL_LANES == 16
    _mm256_storeu_si256((void *)h, _mm512_cvtepi32_epi16((__m512i)x));
#elif defined(__AVX2__) && KERNEL_LANES == 8
    __m256i pairs = _mm256_packus_epi32((__m256i)x, (__m256i)x); /* within each half of the vector */

    _mm_storeu_si128((void *)h, _mm256_castsi256_si128(_mm256_permute4x64_epi64(pairs, 0x08)));
#elif defined(__SSE2__) && KERNEL_LANES == 4
    __m128i as_signed = _mm_srai_epi32(_mm_slli_epi32((__m128i)x, 16), 16); /* SSE2 packs signed numbers only */

    _mm_storel_epi64((void *)h, _mm_packs_epi32(as_signed, as_signed));
#else
    *(shorts_anywhere *)h = __builtin_convertvector(x, shorts);
#endif
}

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

/* KERNEL_LANES of them from h, at any address of a uint16_t. */
KERNEL_INLINE floats
half_load(const uint16_t *h)
{
#if defined(__AVX512F__) && KERNEL_LANES == 16
    return (floats)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)h));
#elif defined(__F16C__) && KERNEL_LANES == 8
    return (floats)_mm256_cvtph_ps(_mm_loadu_si128((const void *)h));
#else
    return (floats)half_to_words(widen(h));
#endif
}

KERNEL_INLINE void
half_store(uint16_t *h, floats x)
{
#if defined(__AVX512F__) && KERNEL_LANES == 16
    _mm256_storeu_si256((void *)h, _mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__) && KERNEL_LANES == 8
    _mm_storeu_si128((void *)h, _mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT));
#else
    narrow(h, half_from_words((words)x));
#endif
}

KERNEL_INLINE floats
bfloat_load(const uint16_t *h)
{
    return (floats)(widen(h) << 16);
}

KERNEL_INLINE void
bfloat_store(uint16_t *h, floats x)
{
    narrow(h, bfloat_from_words((words)x));
}

#endif
