/* What kernels share with the rest of the project, so that both compute the same: functions of one number, random
 * words, floats of 16 bits. These headers are plain C and know nothing of GPUs: nvcc compiles their functions for both
 * sides. */
#ifndef CLIENT_CUDA_SHARED_H
#define CLIENT_CUDA_SHARED_H

/* Before the word "inline" means more: what those headers include. */
#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/param.h>

#include "client/device/cuda/lanes.h"
#include "common/core/base/base.h"

#ifdef __CUDACC__
#pragma push_macro("inline")
#define inline __host__ __device__ inline
#endif

#include "client/device/cpu/device_cpu_math.h"
#include "client/device/dropout.h"
#include "common/core/codec/half.h"
#include "common/core/model/philox.h"

#ifdef __CUDACC__
#pragma pop_macro("inline")
#endif

/* ---- common/core/model/elementary.h, one number at a time: it computes in pairs, which nvcc does not know. The same
 * bits. ----
 */

/* Natural logarithm of x > 0, infinite too; NaN stays. */
EVERYWHERE double
shared_log(double x)
{
    double shift = x < 0x1p-1022 ? 54 : 0, normal = shift > 0 ? x * 0x1p54 : x, m, s, q, series;
    int64_t bits, raised;

    if (!(x < INFINITY))
        return x;
    memcpy(&bits, &normal, sizeof bits);
    raised = (bits + 0x00095f6200000000) & 0x7ff0000000000000;
    bits = bits - raised + 0x3ff0000000000000;
    memcpy(&m, &bits, sizeof m);
    s = (m - 1) / (m + 1);
    q = s * s;
    series = 1.0 / 15 + q * (1.0 / 17);
    series = 1.0 / 13 + q * series;
    series = 1.0 / 11 + q * series;
    series = 1.0 / 9 + q * series;
    series = 1.0 / 7 + q * series;
    series = 1.0 / 5 + q * series;
    series = 1.0 / 3 + q * series;
    series = 1.0 + q * series;
    return ((double)((raised >> 52) - 1023) - shift) * 0.69314718055994530942 + 2 * (s * series);
}

EVERYWHERE double
shared_two_to(int64_t k)
{
    int64_t bits = (k + 1023) << 52;
    double x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

EVERYWHERE double
shared_exp(double x)
{
    double k, r, series = 1.0 / 6227020800;

    if (!(x > -745.2)) /* below the least subnormal; NaN ends here, too */
        return x != x ? x : 0;
    if (x > 709.79)
        return INFINITY;
    k = (x * 1.44269504088896340736 + 0x1.8p52) - 0x1.8p52; /* rounds to a whole number */
    r = (x - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33;
    series = 1.0 / 479001600 + r * series;
    series = 1.0 / 39916800 + r * series;
    series = 1.0 / 3628800 + r * series;
    series = 1.0 / 362880 + r * series;
    series = 1.0 / 40320 + r * series;
    series = 1.0 / 5040 + r * series;
    series = 1.0 / 720 + r * series;
    series = 1.0 / 120 + r * series;
    series = 1.0 / 24 + r * series;
    series = 1.0 / 6 + r * series;
    series = 1.0 / 2 + r * series;
    series = 1.0 + r * series;
    series = 1.0 + r * series;
    return series * shared_two_to((int64_t)k / 2) * shared_two_to((int64_t)k - (int64_t)k / 2);
}

/* base^exponent for base >= 0; 0^0 is 1. */
EVERYWHERE double
shared_power(double base, double exponent)
{
    if (exponent == 0)
        return 1;
    if (base == 0)
        return exponent > 0 ? 0 : INFINITY;
    return shared_exp(exponent * shared_log(base));
}

#endif
