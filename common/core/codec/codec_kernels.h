/* The loops of codec_isa.h, compiled by each of codec_plain.c, codec_avx2.c and codec_avx512.c with its own -m flags,
 * which define KERNEL_LANES and KERNEL_TABLE first. Every element by itself, or a largest one, whose order does not
 * matter; so compilers make vectors of them, and the bits are the same. For halves the vectors are written out: no
 * compiler finds them. */
#ifndef KERNEL_TABLE
#error "define KERNEL_LANES and KERNEL_TABLE first"
#endif

#include "common/core/codec/codec_isa.h"
#include "common/core/codec/half.h"
#include "common/core/codec/half_lanes_kernels.h"

typedef float floats_anywhere __attribute__((vector_size(KERNEL_LANES * 4), may_alias, aligned(4)));

/* x, brought to [-most, most]; NaN stays. */
static inline float
codec_clamp(float x, float most)
{
    x = x > most ? most : x;
    return x < -most ? -most : x;
}

static void
codec_add(size_t n, const float *restrict gradient, const float *restrict residual, float *restrict e)
{
    for (size_t i = 0; i < n; i++)
        e[i] = half_one_nan(codec_clamp(gradient[i] + residual[i], 0x1p127f));
}

static void
codec_limit(size_t n, const float *restrict x, float most, float *restrict y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = half_one_nan(codec_clamp(x[i], most));
}

static void
codec_residual(size_t n, const float *restrict e, const float *restrict decoded, float *restrict residual)
{
    for (size_t i = 0; i < n; i++)
        residual[i] = half_one_nan(e[i] - decoded[i]);
}

static void
codec_undo_residual(size_t n, const float *restrict decoded, const float *restrict gradient, float *restrict residual)
{
    for (size_t i = 0; i < n; i++)
        residual[i] = half_one_nan(codec_clamp(residual[i] + (decoded[i] - gradient[i]), 0x1p127f));
}

/* Magnitudes compare as their bits do. */
static float
codec_largest(size_t n, const float *x)
{
    int32_t most = 0;

    for (size_t i = 0; i < n; i++) {
        int32_t size = (int32_t)(half_bits(x[i]) & 0x7fffffff);

        most = size > most ? size : most;
    }
    return half_float((uint32_t)most);
}

/* 1.5 * 2^23 + x has no digits behind the point: adding it rounds x to nearest even. */
static void
codec_quantize(size_t n, const float *restrict x, float scale, int8_t *restrict q)
{
    for (size_t i = 0; i < n; i++) {
        float steps = x[i] / scale;

        steps = steps > 127 ? 127 : steps;
        steps = steps >= -127 ? steps : -127; /* NaN as well: it is no integer */
        q[i] = (int8_t)(int32_t)(steps + 0x1.8p23f - 0x1.8p23f);
    }
}

static void
codec_expand(size_t n, const int8_t *restrict q, float scale, float *restrict x)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)q[i] * scale;
}

/* The same as codec_clamp(). Both instructions give their second operand when one is NaN. */
KERNEL_INLINE floats
lanes_within(floats x, float most)
{
    floats high = most - (floats){0};

#if defined(__AVX512F__) && KERNEL_LANES == 16
    return (floats)_mm512_max_ps((__m512)-high, _mm512_min_ps((__m512)high, (__m512)x));
#elif defined(__AVX2__) && KERNEL_LANES == 8
    return (floats)_mm256_max_ps((__m256)-high, _mm256_min_ps((__m256)high, (__m256)x));
#elif defined(__SSE2__) && KERNEL_LANES == 4
    return (floats)_mm_max_ps((__m128)-high, _mm_min_ps((__m128)high, (__m128)x));
#endif
    x = (floats)choose((words)(x > high), (words)high, (words)x);
    return (floats)choose((words)(x < -high), (words)-high, (words)x);
}

KERNEL_INLINE floats
lanes_one_nan(floats x)
{
    return (floats)choose((words)(x == x), (words)x, HALF_NAN - (words){0});
}

/* The residual of a model lies in no near cache: it is asked for some lines ahead. (Past its end that does nothing.) */
#define FEED_AHEAD 512

KERNEL_INLINE floats
lanes_feed(const float *gradient, const float *residual)
{
    __builtin_prefetch(residual + FEED_AHEAD);
    return lanes_one_nan(
        lanes_within(*(const floats_anywhere *)gradient + *(const floats_anywhere *)residual, 0x1p127f));
}

static void
half_encode(size_t n, const float *gradient, const float *residual, float *left, uint16_t *h)
{
    size_t i = 0;

    for (; i + KERNEL_LANES <= n; i += KERNEL_LANES) {
        floats e = lanes_feed(gradient + i, residual + i);

        half_store(h + i, lanes_within(e, HALF_MOST));
        *(floats_anywhere *)(left + i) = lanes_one_nan(e - half_load(h + i));
    }
    for (; i < n; i++) {
        float e = half_one_nan(codec_clamp(gradient[i] + residual[i], 0x1p127f));

        h[i] = half_from_float(codec_clamp(e, HALF_MOST));
        left[i] = half_one_nan(e - half_to_float(h[i]));
    }
}

static void
bfloat_encode(size_t n, const float *gradient, const float *residual, float *left, uint16_t *h)
{
    size_t i = 0;

    for (; i + KERNEL_LANES <= n; i += KERNEL_LANES) {
        floats e = lanes_feed(gradient + i, residual + i);

        bfloat_store(h + i, e);
        *(floats_anywhere *)(left + i) = lanes_one_nan(e - bfloat_load(h + i));
    }
    for (; i < n; i++) {
        float e = half_one_nan(codec_clamp(gradient[i] + residual[i], 0x1p127f));

        h[i] = bfloat_from_float(e);
        left[i] = half_one_nan(e - bfloat_to_float(h[i]));
    }
}

const struct codec_kernels KERNEL_TABLE = {codec_add,           codec_limit,   codec_residual,
                                           codec_undo_residual, codec_largest, codec_quantize,
                                           codec_expand,        half_encode,   bfloat_encode};
