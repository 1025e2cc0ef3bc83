/* The time, by the clock that only goes forward ("monotonic") and by the calendar's; and waiting for a condition until
 * a time, unaffected by changes of the calendar's clock. Glue: a core takes the time as an argument.
 *
 *     monotonic_cond_init(&changed);
 *     until = monotonic_in(timeout_ms);
 *     ... pthread_cond_timedwait(&changed, &mutex, &until) ... */
#ifndef COMMON_SYSTEM_NOW_H
#define COMMON_SYSTEM_NOW_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t
clock_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- Since the machine's start ---- */

static inline uint64_t
monotonic_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

static inline uint64_t
monotonic_us(void)
{
    return monotonic_ns() / 1000;
}

static inline uint64_t
monotonic_ms(void)
{
    return monotonic_ns() / 1000000;
}

/* ---- Since 1970 ---- */

static inline uint64_t
unix_ns(void)
{
    return clock_ns(CLOCK_REALTIME);
}

static inline uint64_t
unix_ms(void)
{
    return unix_ns() / 1000000;
}

/* ---- Waiting ---- */

static inline void
monotonic_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

/* The time that many milliseconds from now. */
static inline struct timespec
monotonic_in(uint64_t ms)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += (time_t)(ms / 1000);
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

#endif
