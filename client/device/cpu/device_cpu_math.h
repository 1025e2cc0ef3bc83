/* Functions of one number for the CPU's loops, made of + - * / so that compilers compute several at a time, and sums in
 * an order of their own. No result depends on the last bit of a C library's function. NaN goes through all of them.
 *
 * Relative errors are below 2^-22 unless said otherwise (tests/unit/client/device/cpu/test_device_math.c). */
#ifndef CLIENT_DEVICE_CPU_DEVICE_CPU_MATH_H
#define CLIENT_DEVICE_CPU_DEVICE_CPU_MATH_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/core/base/base.h"

/* Before a loop whose output may be its input, element by element: nothing else overlaps. */
#ifdef __clang__
#define ELEMENTWISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define ELEMENTWISE _Pragma("GCC ivdep")
#endif

/* 2^k, k in -126..127; other k give any number. */
static inline float
math_power_of_two(int32_t k)
{
    uint32_t bits = ((uint32_t)k + 127) << 23;
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* e^x = e^r 2^k, for x in -104..89: x = k ln 2 + r with |r| <= ln 2 / 2; ln 2 in two pieces of which k times the first
 * is exact (Cody and Waite, 1980). Returns e^r by Taylor's series, whose rest is below 2^-27. */
static inline float
math_exp_parts(float x, int32_t *k)
{
    const float round = 0x1.8p23f; /* adding it leaves an integer in the low bits */
    float shifted = x * 1.44269504f + round, n = shifted - round;
    float r = x - n * 0.693359375f - n * -2.12194440e-4f, series;

    memcpy(k, &shifted, sizeof *k);
    *k -= 0x4b400000; /* the bits of `round` */
    series = 1.0f / 720 + r * (1.0f / 5040);
    series = 1.0f / 120 + r * series;
    series = 1.0f / 24 + r * series;
    series = 1.0f / 6 + r * series;
    series = 1.0f / 2 + r * series;
    return 1.0f + r * (1.0f + r * series);
}

/* e^x with its limits: 0 far below, infinity far above, 1 at 0. 2^k in two factors, for results that are subnormal. */
static inline float
math_exp(float x)
{
    int32_t k, half;
    float series = math_exp_parts(x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x, &k);

    half = k >> 1;
    return series * math_power_of_two(half) * math_power_of_two(k - half);
}

/* The same bits for x that are not above 0, by fewer steps. */
static inline float
math_exp_below(float x)
{
    int32_t k;
    float series = math_exp_parts(x < -104.0f ? -104.0f : x, &k);

    return series * math_power_of_two(k + 64) * 0x1p-64f; /* rounded once, where it becomes subnormal */
}

/* ln(1 + x) for 0 <= x <= 1: 2 atanh(s), s = x / (2 + x) <= 1/3. */
static inline float
math_log1p(float x)
{
    float s = x / (2.0f + x), q = s * s;
    float series = 1.0f / 13 + q * (1.0f / 15);

    series = 1.0f / 11 + q * series;
    series = 1.0f / 9 + q * series;
    series = 1.0f / 7 + q * series;
    series = 1.0f / 5 + q * series;
    series = 1.0f / 3 + q * series;
    return 2.0f * s * (1.0f + q * series);
}

/* 1 / (1 + e^-x), by the power that cannot overflow. */
static inline float
math_sigmoid(float x)
{
    float power = math_exp_below(-fabsf(x));

    return (x < 0 ? power : 1.0f) / (1.0f + power);
}

/* By the exponential where |x| is not small; near 0, where that would cancel, x (1 + x^2 P(x^2)), P fitted by Remez'
 * exchange to 2^-27. */
static inline float
math_tanh(float x)
{
    float power = math_exp_below(-2.0f * fabsf(x)), far = (1.0f - power) / (1.0f + power);
    float q = x * x, series = 0.0205909909f + q * -0.00565999144f;

    series = -0.053721069f + q * series;
    series = 0.133311276f + q * series;
    series = -0.333332605f + q * series;
    return fabsf(x) < 0.625f ? x * (1.0f + q * series) : copysignf(far, x);
}

/* The standard normal distribution: its density, and the probability of less than x. The tail beyond a = |x| is
 * e^(-a^2 / 2) t P(t) with t = 1 / (1 + 0.35 a), the form of Hastings ("Approximations for digital computers", 1955); P
 * was fitted by Remez' exchange to a relative error of 2^-24 for a <= 14. Relative error: 2^-21 + 2^-24 x^2. */
static inline void
math_normal(float x, float *density, float *below)
{
    float a = fabsf(x), power = math_exp_below(-0.5f * x * x), t = 1.0f / (1.0f + 0.35f * a);
    float p = 0.143971468f + t * -0.0291458778f, tail;

    *density = power * 0.398942280f; /* 1 / sqrt(2 pi) */
    p = -0.255713833f + t * p;
    p = 0.15917374f + t * p;
    p = -0.0231095868f + t * p;
    p = 0.105507915f + t * p;
    p = 0.119832887f + t * p;
    p = 0.139861868f + t * p;
    p = 0.139621404f + t * p;
    tail = power * t * p;
    *below = x > 0 ? 1.0f - tail : tail;
}

/* ---- Sums: in MATH_LANES interleaved parts, which are then added in pairs ---- */

#define MATH_LANES 16

static inline float
math_add_lanes(const float lane[MATH_LANES])
{
    float sum[MATH_LANES];

    memcpy(sum, lane, sizeof sum);
    for (size_t half = MATH_LANES / 2; half > 0; half /= 2)
        for (size_t k = 0; k < half; k++)
            sum[k] += sum[k + half];
    return sum[0];
}

static inline float
math_sum(size_t n, const float *x)
{
    float lane[MATH_LANES] = {0};
    size_t i = 0;

    for (; n - i >= MATH_LANES; i += MATH_LANES)
        for (size_t k = 0; k < MATH_LANES; k++)
            lane[k] += x[i + k];
    for (size_t k = 0; i + k < n; k++)
        lane[k] += x[i + k];
    return math_add_lanes(lane);
}

#endif
