/* Floats of 16 bits: float16 (IEEE 754 binary16: 5 bits of exponent, 10 of fraction) and bfloat16 (the upper half of a
 * float32: 8 and 7). Pure.
 *
 * To 16 bits: rounded to nearest, ties to even; what is too large becomes infinite (float16 from 65520 on), and
 * float16's subnormals are kept. A NaN stays one: quiet, with its sign and the upper bits of its payload. To float32:
 * exact, but that a signalling NaN of float16 becomes quiet (bfloat16's stays as it is: its bits are a float32's).
 *
 * The same bits on every instruction set, and whatever the state of flush-to-zero. */
#ifndef COMMON_CORE_CODEC_HALF_H
#define COMMON_CORE_CODEC_HALF_H

#include <string.h>

#include "common/core/base/base.h"

#define HALF_MOST 65504.0f /* the largest float16 */

/* [n] elements from x to h or back, with the instructions of isa_chosen(); arrays need the alignment of their elements
 * and may not overlap. */
void half_from_floats(size_t n, const float *x, uint16_t *h);
void half_to_floats(size_t n, const uint16_t *h, float *x);
void bfloat_from_floats(size_t n, const float *x, uint16_t *h);
void bfloat_to_floats(size_t n, const uint16_t *h, float *x);

/* ---- One at a time ---- */

static inline uint32_t
half_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float
half_float(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The one NaN that encodings of gradients and their residuals hold: quiet, positive, without a payload. As float16 it
 * is 0x7e00, as bfloat16 0x7fc0. What a sum of NaNs is differs from processor to processor. */
#define HALF_NAN 0x7fc00000u

static inline float
half_one_nan(float x)
{
    return x == x ? x : half_float(HALF_NAN);
}

/* Below 2^-14: in units of the least subnormal, 2^-24. */
static inline uint32_t
half_subnormal(uint32_t size)
{
    uint32_t fraction = (size & 0x7fffff) | 0x800000, shift = 126 - (size >> 23), rest, middle;

    if (shift > 24) /* less than half of the least */
        return 0;
    rest = fraction & ((1u << shift) - 1);
    middle = 1u << (shift - 1);
    fraction >>= shift;
    return fraction + (rest > middle || (rest == middle && (fraction & 1) != 0));
}

static inline uint16_t
half_from_float(float x)
{
    uint32_t bits = half_bits(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;

    if (size > 0x7f800000) /* NaN */
        return (uint16_t)(sign | 0x7e00 | (size >> 13 & 0x3ff));
    if (size >= 0x47800000) /* 2^16 */
        return (uint16_t)(sign | 0x7c00);
    if (size < 0x38800000) /* 2^-14 */
        return (uint16_t)(sign | half_subnormal(size));
    size += 0xfff + (size >> 13 & 1); /* carries into the exponent, and up to infinity, where it has to */
    return (uint16_t)(sign | (size - (112u << 23)) >> 13);
}

static inline float
half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;

    if (exponent == 31)
        return half_float(sign | 0x7f800000 | fraction << 13 | (fraction != 0 ? 0x400000 : 0));
    if (exponent == 0) /* fraction * 2^-24 */
        return half_float(sign | half_bits((float)fraction * 0x1p-24f));
    return half_float(sign | (exponent + 112) << 23 | fraction << 13);
}

static inline uint16_t
bfloat_from_float(float x)
{
    uint32_t bits = half_bits(x);

    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float
bfloat_to_float(uint16_t h)
{
    return half_float((uint32_t)h << 16);
}

#endif
