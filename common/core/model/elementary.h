/* Sine, cosine and logarithm independent of the C library, two at a time: + - * / alone, as in elementary_scalar.h,
 * which this includes. Inline: random first values take millions of them. */
#ifndef COMMON_CORE_MODEL_ELEMENTARY_H
#define COMMON_CORE_MODEL_ELEMENTARY_H

#include "common/core/model/elementary_scalar.h"

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

/* ln x = *exponent ln 2 + 2 * the value, for normal x > 0, to the bits of elementary_log(). With x = m 2^k and m in
 * [0.71, 1.42], ln m = 2 atanh(s) for s = (m - 1) / (m + 1), |s| < 0.172. */
static inline doubles
elementary_log_parts(doubles x, doubles *exponent)
{
    longs bits = as_longs(x);
    longs raised = (bits + ELEMENTARY_PAST_SQRT2) & 0x7ff0000000000000;
    doubles m = as_doubles(bits - raised + 0x3ff0000000000000);
    doubles s = (m - 1) / (m + 1);

    *exponent = (doubles){(double)((raised[0] >> 52) - 1023), (double)((raised[1] >> 52) - 1023)};
    return s * ELEMENTARY_ATANH_SERIES(s * s);
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

#endif
