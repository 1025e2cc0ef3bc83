/* Logarithm, exponential and powers independent of the C library: + - * / alone, which IEEE 754 rounds exactly, so that
 * no C library's last bit is in a model. All in double, to within a few units in the last place. The compiler must not
 * fuse a product and a sum (-ffp-contract=off; clang: the pragma below; nvcc: -fmad=false), or machines with such an
 * instruction get other bits. Plain C over one number: nvcc compiles it for GPUs, too. */
#ifndef COMMON_CORE_MODEL_ELEMENTARY_SCALAR_H
#define COMMON_CORE_MODEL_ELEMENTARY_SCALAR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

/* atanh(s) / s for q = s * s: nine terms of its series, which reach 2^-52 for |s| < 0.172. Of numbers and of vectors.
 */
#define ELEMENTARY_ATANH_SERIES(q)                                                                                     \
    (1.0 + (q) * (1.0 / 3 +                                                                                            \
                  (q) * (1.0 / 5 +                                                                                     \
                         (q) * (1.0 / 7 +                                                                              \
                                (q) * (1.0 / 9 +                                                                       \
                                       (q) * (1.0 / 11 + (q) * (1.0 / 13 + (q) * (1.0 / 15 + (q) * (1.0 / 17)))))))))

/* Added to the bits of a double, it carries into the exponent just when the fraction is past that of sqrt(2). */
#define ELEMENTARY_PAST_SQRT2 0x00095f6200000000

/* Natural logarithm of x > 0, subnormal and infinite too; NaN stays. With x = m 2^k and m in [0.71, 1.42],
 * ln m = 2 atanh(s) for s = (m - 1) / (m + 1), |s| < 0.172. */
static inline double
elementary_log(double x)
{
    double shift = x < 0x1p-1022 ? 54 : 0, normal = shift > 0 ? x * 0x1p54 : x, m, s;
    int64_t bits, raised;

    if (!(x < INFINITY))
        return x;
    memcpy(&bits, &normal, sizeof bits);
    raised = (bits + ELEMENTARY_PAST_SQRT2) & 0x7ff0000000000000;
    bits = bits - raised + 0x3ff0000000000000;
    memcpy(&m, &bits, sizeof m);
    s = (m - 1) / (m + 1);
    return ((double)((raised >> 52) - 1023) - shift) * 0.69314718055994530942 +
           2 * (s * ELEMENTARY_ATANH_SERIES(s * s));
}

/* 2^k, -1022 <= k <= 1023. */
static inline double
elementary_two_to(int64_t k)
{
    int64_t bits = (k + 1023) << 52;
    double x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* e^x: x = k ln 2 + r with |r| <= 0.347, where Taylor's series reaches 2^-53 with the term of degree 13. ln 2 is taken
 * off in two parts, the first with zeros at its end, so that k times it is exact. */
static inline double
elementary_exp(double x)
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
    /* In two factors, as 2^k alone may be no normal number. */
    return series * elementary_two_to((int64_t)k / 2) * elementary_two_to((int64_t)k - (int64_t)k / 2);
}

/* base^exponent for base >= 0; 0^0 is 1. */
static inline double
elementary_power(double base, double exponent)
{
    if (exponent == 0)
        return 1;
    if (base == 0)
        return exponent > 0 ? 0 : INFINITY;
    return elementary_exp(exponent * elementary_log(base));
}

#endif
