/* Reductions of arrays, element by element. Pure.
 *
 * The same bits on every instruction set and machine, and both operands are alike: reduce(a, b) is reduce(b, a), bit
 * for bit. So:
 *
 * - Sums and products of floats are rounded once; those of half types are computed in float32 and rounded to the half
 *   type. What is too large becomes infinite. Integers wrap.
 * - Min and max know -0 from 0: -0 is the lesser one.
 * - A NaN in either operand makes a NaN, min and max included. Every NaN that comes out is the same one: quiet,
 *   positive, without a payload (0x7fc00000 of float32, 0x7e00 of float16, ...).
 *
 * A mean of floats is not made of the sum of all, which may be too large. What is kept of k elements on the way is, of
 * half types, their mean: two of these make one by their weights, in float32, so that equal elements are their own mean
 * whatever their number. Of float32 and float64 it is their sum divided by 2^h, the least power of two that is not
 * below k: that changes no bits but of what is subnormal, and the mean is that of the sum, divided once. What rounding
 * would make larger than the type's largest number is that number, so the mean of finite elements is finite. Means of
 * integers are exact: mean_parts.h.
 *
 * Arrays need the alignment of their elements. out may be a or b; otherwise arrays do not overlap. */
#ifndef CLIENT_CORE_REDUCE_REDUCE_H
#define CLIENT_CORE_REDUCE_REDUCE_H

#include "client/include/psclient/ps_group.h"
#include "common/core/base/base.h"

/* out[i] = a[i] op b[i] for i < n; MEAN adds. dtype and op are of their lists. */
void reduce(enum ps_dtype dtype, enum ps_reduce op, size_t n, void *out, const void *a, const void *b);

/* Of how many elements the two operands of a mean are what is kept. */
struct reduce_counts {
    uint16_t a, b;
};

/* out[i]: what is kept of the elements of a[i] and b[i], for i < n; counts are at least 1. A float type. */
void reduce_mean(enum ps_dtype dtype, size_t n, void *out, const void *a, const void *b, struct reduce_counts of);

/* What is kept of k elements becomes their mean, for i < n. A float type; nothing happens where it is the mean already:
 * reduce_mean_is_kept(). */
void reduce_mean_end(enum ps_dtype dtype, size_t n, void *x, uint32_t k);
bool reduce_mean_is_kept(enum ps_dtype dtype, uint32_t k);

#endif
