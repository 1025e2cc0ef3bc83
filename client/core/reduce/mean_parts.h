/* Means of integers, exact whatever their sum: it need not fit into the type. Pure.
 *
 * An element x of one of k ranks is split into a quotient and a remainder, x = k q + r. The sums of each over all ranks
 * fit: that of the quotients is no larger than the largest element, that of the remainders less than k * k. So an
 * element is two of its type on its way, which are added as any others, and the mean is made of the two sums: the sum
 * of all, divided by k, rounded toward zero.
 *
 *     mean_parts_split(dtype, n, k, in, parts);       // parts: [2 n], quotients and remainders in turn
 *     ... PS_SUM of parts over all ranks ...
 *     mean_parts_join(dtype, n, k, parts, out);       // of the sums */
#ifndef CLIENT_CORE_REDUCE_MEAN_PARTS_H
#define CLIENT_CORE_REDUCE_MEAN_PARTS_H

#include "client/include/psclient/ps_group.h"
#include "common/core/base/base.h"

/* dtype: PS_I32 or PS_I64. 1 <= ranks <= PS_GROUP_RANKS_MAX. Arrays do not overlap. */
bool mean_parts_needed(enum ps_dtype dtype);
void mean_parts_split(enum ps_dtype dtype, size_t n, uint32_t ranks, const void *in, void *parts);
void mean_parts_join(enum ps_dtype dtype, size_t n, uint32_t ranks, const void *parts, void *out);

#endif
