/* Waiting for a condition until a time, whatever becomes of the wall clock meanwhile.
 *
 *     monotonic_cond_init(&changed);
 *     until = monotonic_in(timeout_ms);
 *     ... pthread_cond_timedwait(&changed, &mutex, &until) ... */
#ifndef CLIENT_MONOTONIC_H
#define CLIENT_MONOTONIC_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

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
