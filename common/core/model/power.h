/* Whole powers by squaring: products only, so the same bits on every machine and C library. Its relative error is below
 * n * 2^-52, and 0 <= base <= 1 here, so b^n loses its weight long before that shows. Pure. */
#ifndef COMMON_CORE_MODEL_POWER_H
#define COMMON_CORE_MODEL_POWER_H

#include <stdint.h>

static inline double
power_of(double base, uint64_t n)
{
    double result = 1;

    for (; n > 0; n >>= 1) {
        if (n & 1)
            result *= base;
        base *= base;
    }
    return result;
}

#endif
