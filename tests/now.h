/* The monotonic clock, for tests and benches. */
#ifndef TESTS_NOW_H
#define TESTS_NOW_H

#include <stdint.h>
#include <time.h>

#include "common/system/now.h"

static inline uint64_t
now_us(void)
{
    return monotonic_us();
}

static inline uint64_t
now_ms(void)
{
    return monotonic_ms();
}

/* Of any clock, to the nanosecond. */
static inline double
clock_s(clockid_t clock)
{
    return (double)clock_ns(clock) * 1e-9;
}

static inline double
now_s(void)
{
    return clock_s(CLOCK_MONOTONIC);
}

#endif
