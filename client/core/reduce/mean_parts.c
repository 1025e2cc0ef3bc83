#include "client/core/reduce/mean_parts.h"

bool
mean_parts_needed(enum ps_dtype dtype)
{
    return dtype == PS_I32 || dtype == PS_I64;
}

/* floor(remainders / k) is added to the quotients: that is the mean rounded down, which fits; one more where what was
 * left out brings a negative one nearer to zero. */
#define MEAN_PARTS(type)                                                                                               \
    static void mean_parts_split_##type(size_t n, type k, const type *in, type *parts)                                 \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++) {                                                                               \
            parts[2 * i] = in[i] / k;                                                                                  \
            parts[2 * i + 1] = in[i] % k;                                                                              \
        }                                                                                                              \
    }                                                                                                                  \
    static void mean_parts_join_##type(size_t n, type k, const type *parts, type *out)                                 \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++) {                                                                               \
            type rest = parts[2 * i + 1] % k, down = parts[2 * i + 1] / k;                                             \
                                                                                                                       \
            if (rest < 0)                                                                                              \
                down--;                                                                                                \
            down += parts[2 * i];                                                                                      \
            out[i] = down + (down < 0 && rest != 0);                                                                   \
        }                                                                                                              \
    }

MEAN_PARTS(int32_t)
MEAN_PARTS(int64_t)

void
mean_parts_split(enum ps_dtype dtype, size_t n, uint32_t ranks, const void *in, void *parts)
{
    ps_assert(mean_parts_needed(dtype) && ranks >= 1 && ranks <= PS_GROUP_RANKS_MAX);
    if (dtype == PS_I32)
        mean_parts_split_int32_t(n, (int32_t)ranks, in, parts);
    else
        mean_parts_split_int64_t(n, ranks, in, parts);
}

void
mean_parts_join(enum ps_dtype dtype, size_t n, uint32_t ranks, const void *parts, void *out)
{
    ps_assert(mean_parts_needed(dtype) && ranks >= 1 && ranks <= PS_GROUP_RANKS_MAX);
    if (dtype == PS_I32)
        mean_parts_join_int32_t(n, (int32_t)ranks, parts, out);
    else
        mean_parts_join_int64_t(n, ranks, parts, out);
}
