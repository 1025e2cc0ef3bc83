/* The base of the simulator: virtual time, one queue of events, one stream of random numbers, one trace, one verdict.
 * Everything else in tests/sim is built on it, and nothing here or there looks at the real clock or at addresses: the
 * same seed gives the same run, line by line, whatever the compiler (so: one draw in an expression).
 *
 *     sim_init(&sim, seed, false);
 *     timer.run = fault_comes;  sim_at(&sim, &timer, sim.now_us + 500);
 *     while (sim_step(&sim)) {}                 // until no event is left, or sim_fail() was called
 *     sim_finish(&sim);
 *
 * Events run in the order of (time, order of being planned). One thread. */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include "common/core/base/base.h"

#define SIM_MS     ((uint64_t)1000) /* virtual microseconds */
#define SIM_SECOND (1000 * SIM_MS)
#define SIM_START  SIM_SECOND /* when a run begins: no time is 0 */

/* Embedded in the object that waits. Zeroed: idle. */
struct sim_timer {
    void (*run)(struct sim_timer *t);
    uint64_t at_us, order;
    size_t place; /* in the queue, counted from 1; 0: idle */
};

struct sim {
    uint64_t now_us;
    uint64_t order;
    uint64_t random;
    struct sim_timer **queue; /* a binary heap */
    size_t queue_len, queue_room;
    bool trace;    /* print lines */
    uint64_t hash; /* of all lines so far */
    uint64_t lines;
    bool failed;
    char failure[2048];
};

void sim_init(struct sim *s, uint64_t seed, bool trace);
void sim_finish(struct sim *s);

/* Plan, or plan again. A past time means now, after the events that are planned for now. */
void sim_at(struct sim *s, struct sim_timer *t, uint64_t at_us);
void sim_in(struct sim *s, struct sim_timer *t, uint64_t delay_us);
void sim_cancel(struct sim *s, struct sim_timer *t); /* accepts idle ones */

/* Run the next event. False: none is left, or the run has failed. */
bool sim_step(struct sim *s);

uint64_t sim_rand(struct sim *s);
uint64_t sim_mix(uint64_t *state); /* the same over a state of one's own, whose draws change no others */
uint64_t sim_mix_below(uint64_t *state, uint64_t n);
uint64_t sim_below(struct sim *s, uint64_t n);                    /* 0 <= result < n, n >= 1 */
uint64_t sim_between(struct sim *s, uint64_t low, uint64_t high); /* both included */
bool sim_chance(struct sim *s, uint32_t per_mille);

/* Whether a run of this seed is one of the so many of 1,000 that have what the salt is of. */
bool sim_has(uint64_t seed, uint64_t salt, uint32_t per_mille);

/* One line: "[   120] s1 > ...". Part of the hash whether it is printed or not. */
void sim_trace(struct sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The run has failed; the first failure is kept. Event handlers return soon after. */
void sim_fail(struct sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Zeroed heap memory; ends the process when there is none. */
void *sim_alloc(size_t size);
/* Grow an array by doubling, so that `len` + 1 items fit. */
void *sim_grow(void *array, size_t *room, size_t len, size_t item);

#endif
