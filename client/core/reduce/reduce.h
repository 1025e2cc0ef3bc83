/* Reductions of arrays, element by element. Pure.
 *
 * The same bits on every instruction set and machine, and both operands are alike: reduce(a, b) is reduce(b, a), bit
 * for bit. So:
 *
 * - Sums and products of floats are rounded once; those of half types are computed in float32 and rounded to the half
 *   type. What is too large becomes infinite. Integers wrap.
 * - Min and max know -0 from 0: -0 is the lesser one.
 * - A NaN in either operand makes a NaN, min and max included. Every NaN that comes out is the same one: quiet,
 * positive, without a payload (0x7fc00000 of float32, 0x7e00 of float16, ...).
 *
 * Arrays need the alignment of their elements. out may be a or b; otherwise arrays do not overlap. */
#ifndef CLIENT_CORE_REDUCE_REDUCE_H
#define CLIENT_CORE_REDUCE_REDUCE_H

#include "client/include/psclient/ps_group.h"
#include "common/core/base/base.h"

/* out[i] = a[i] op b[i] for i < n; MEAN adds, and reduce_divide() does the rest. dtype and op are of their lists. */
void reduce(enum ps_dtype dtype, enum ps_reduce op, size_t n, void *out, const void *a, const void *b);

/* x[i] = x[i] / by for i < n, by >= 1: floats rounded once (half types by way of float32), integers toward zero. */
void reduce_divide(enum ps_dtype dtype, size_t n, void *x, uint32_t by);

#endif
