/* What tests and benches read off the clock that only goes forward. */
#ifndef TESTS_NOW_H
#define TESTS_NOW_H

#include <stdint.h>
#include <time.h>

static inline uint64_t
now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static inline uint64_t
now_ms(void)
{
    return now_us() / 1000;
}

/* Of any clock, to the nanosecond. */
static inline double
clock_s(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline double
now_s(void)
{
    return clock_s(CLOCK_MONOTONIC);
}

#endif
