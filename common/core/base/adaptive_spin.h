/* How long to poll before sleeping. Being woken on another core costs the sleeper tens of microseconds, and the waking
 * thread nearly as much; polling costs a processor. So a wait polls for a short time if recent waits ended within that
 * time, and sleeps at once if they did not.
 *
 *     adaptive_spin_init(&p, most_ns);
 *     poll_ns = adaptive_spin_now(&p);         // a wait begins: poll this long, then sleep
 *     adaptive_spin_learn(&p, waited_ns, slept); // it has ended
 *
 * Rent or buy: polling for about as long as being woken costs never costs more than twice what the better choice would
 * have (Karlin, Manasse, McGeoch and Owicki, "Competitive randomized algorithms for nonuniform problems", SODA 1990);
 * looking at the last waits avoids most of that.
 *
 * Pure; any thread, one at a time. */
#ifndef COMMON_CORE_BASE_ADAPTIVE_SPIN_H
#define COMMON_CORE_BASE_ADAPTIVE_SPIN_H

#include "common/core/base/base.h"

#define ADAPTIVE_SPIN_US   50 /* the default: about the cost of being woken */
#define ADAPTIVE_SPIN_FULL 16 /* most short waits that are remembered */

struct adaptive_spin {
    uint64_t most_ns; /* 0: never poll */
    unsigned paid; /* 0 to ADAPTIVE_SPIN_FULL: one more for each wait that was short, two less for each that was not */
};

/* The meaning of an option: microseconds; 0: ADAPTIVE_SPIN_US, or none on a single processor, where polling keeps the
 * answering thread from running; ADAPTIVE_SPIN_NEVER: none. */
#define ADAPTIVE_SPIN_NEVER UINT32_MAX
uint64_t adaptive_spin_ns(uint32_t option_us, unsigned processors);

void adaptive_spin_init(struct adaptive_spin *p, uint64_t most_ns);

/* Nanoseconds that a wait which begins now should poll: most_ns or 0. */
uint64_t adaptive_spin_now(const struct adaptive_spin *p);

/* A wait took this long. slept: a thread was asleep at its end, and waking it is part of the time. */
void adaptive_spin_learn(struct adaptive_spin *p, uint64_t waited_ns, bool slept);

#endif
