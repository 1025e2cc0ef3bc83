/* The loops of codec_isa.h, compiled by each of codec_plain.c, codec_avx2.c and codec_avx512.c with its own -m flags,
 * which define KERNEL_TABLE first. Every element by itself, or a largest one, whose order does not matter; so compilers
 * make vectors of them, and the bits are the same. */
#ifndef KERNEL_TABLE
#error "define KERNEL_TABLE first"
#endif

#include "codec_isa.h"
#include "half.h"

/* x, brought to [-most, most]; NaN stays. */
static inline float
within(float x, float most)
{
    x = x > most ? most : x;
    return x < -most ? -most : x;
}

static void
feed(size_t n, const float *restrict gradient, const float *restrict residual, float *restrict e)
{
    for (size_t i = 0; i < n; i++)
        e[i] = within(gradient[i] + residual[i], 0x1p127f);
}

static void
limit(size_t n, const float *restrict x, float most, float *restrict y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = within(x[i], most);
}

static void
rest(size_t n, const float *restrict e, const float *restrict decoded, float *restrict residual)
{
    for (size_t i = 0; i < n; i++)
        residual[i] = e[i] - decoded[i];
}

static void
undo(size_t n, const float *restrict decoded, const float *restrict gradient, float *restrict residual)
{
    for (size_t i = 0; i < n; i++)
        residual[i] = within(residual[i] + (decoded[i] - gradient[i]), 0x1p127f);
}

/* Magnitudes compare as their bits do. */
static float
largest(size_t n, const float *x)
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
quantize(size_t n, const float *restrict x, float scale, int8_t *restrict q)
{
    for (size_t i = 0; i < n; i++) {
        float steps = x[i] / scale;

        steps = steps > 127 ? 127 : steps;
        steps = steps >= -127 ? steps : -127; /* NaN as well: it is no integer */
        q[i] = (int8_t)(int32_t)(steps + 0x1.8p23f - 0x1.8p23f);
    }
}

static void
expand(size_t n, const int8_t *restrict q, float scale, float *restrict x)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)q[i] * scale;
}

const struct codec_kernels KERNEL_TABLE = {feed, limit, rest, undo, largest, quantize, expand};
