/* Logarithm, exponential, powers, sine and cosine of our own: + - * / alone, which IEEE 754 rounds exactly, so that no
 * C library's last bit is in a model. All in double, to within a few units in the last place. The compiler must not
 * fuse a product and a sum (-ffp-contract=off; clang: the pragma below), or machines with such an instruction get other
 * bits. Inline: random first values take millions of them, two at a time. */
#ifndef COMMON_ELEMENTARY_H
#define COMMON_ELEMENTARY_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

/* Two lanes. */
typedef double doubles __attribute__((vector_size(16)));
typedef int64_t longs __attribute__((vector_size(16)));

static inline doubles
as_doubles(longs bits)
{
    doubles x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline longs
as_longs(doubles x)
{
    longs bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* ln x = *exponent ln 2 + 2 * the value, for normal x > 0. With x = m 2^k and m in [0.71, 1.42], ln m = 2 atanh(s) for
 * s = (m - 1) / (m + 1), |s| < 0.172: nine terms of atanh's series reach 2^-52. */
static inline doubles
elementary_log_parts(doubles x, doubles *exponent)
{
    longs bits = as_longs(x);
    /* What is added carries into the exponent just when the fraction is past that of sqrt(2). */
    longs raised = (bits + 0x00095f6200000000) & 0x7ff0000000000000;
    doubles m = as_doubles(bits - raised + 0x3ff0000000000000);
    doubles s = (m - 1) / (m + 1);
    doubles q = s * s;
    doubles series = 1.0 / 15 + q * (1.0 / 17);

    *exponent = (doubles){(double)((raised[0] >> 52) - 1023), (double)((raised[1] >> 52) - 1023)};
    series = 1.0 / 13 + q * series;
    series = 1.0 / 11 + q * series;
    series = 1.0 / 9 + q * series;
    series = 1.0 / 7 + q * series;
    series = 1.0 / 5 + q * series;
    series = 1.0 / 3 + q * series;
    series = 1.0 + q * series;
    return s * series;
}

/* Cosine and sine for |x| <= pi / 4, by Taylor's series. */
static inline void
elementary_cos_sin(doubles x, doubles *cosine, doubles *sine)
{
    doubles q = x * x;
    doubles c = 1.0 / 87178291200 - q * (1.0 / 20922789888000);
    doubles s = 1.0 / 6227020800 - q * (1.0 / 1307674368000);

    c = 1.0 / 479001600 - q * c;
    s = 1.0 / 39916800 - q * s;
    c = 1.0 / 3628800 - q * c;
    s = 1.0 / 362880 - q * s;
    c = 1.0 / 40320 - q * c;
    s = 1.0 / 5040 - q * s;
    c = 1.0 / 720 - q * c;
    s = 1.0 / 120 - q * s;
    c = 1.0 / 24 - q * c;
    s = 1.0 / 6 - q * s;
    c = 1.0 / 2 - q * c;
    *sine = x - x * q * s;
    *cosine = 1.0 - q * c;
}

/* cos(pi x) for 0 <= x <= 1. */
static inline double
elementary_cos_half_turns(double x)
{
    const double pi = 3.14159265358979323846;
    /* To the nearest quarter turn: 0, 1 / 2 or 1. */
    double quarter = x < 0.25 ? 0 : x <= 0.75 ? 0.5 : 1;
    doubles c, s;

    elementary_cos_sin((doubles){pi * (x - quarter)}, &c, &s);
    return quarter == 0 ? c[0] : quarter == 1 ? -c[0] : -s[0];
}

/* Natural logarithm of x > 0, subnormal and infinite too; NaN stays. */
static inline double
elementary_log(double x)
{
    double shift = x < 0x1p-1022 ? 54 : 0;
    doubles exponent, half;

    if (!(x < INFINITY))
        return x;
    half = elementary_log_parts((doubles){shift > 0 ? x * 0x1p54 : x, 1}, &exponent);
    return (exponent[0] - shift) * 0.69314718055994530942 + 2 * half[0];
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
