/* How long to poll before sleeping. Being woken on another core costs the sleeper tens of microseconds, and whoever
 * wakes it nearly as much; polling costs a processor. So a wait polls for a short while where what is waited for has
 * lately come in that while, and sleeps at once where it has not.
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
#ifndef COMMON_ADAPTIVE_SPIN_H
#define COMMON_ADAPTIVE_SPIN_H

#include "common/core/base/base.h"

#define ADAPTIVE_SPIN_US   50 /* where nobody says otherwise: about what being woken costs */
#define ADAPTIVE_SPIN_FULL 16 /* waits that paid, at most, that are remembered */

struct adaptive_spin {
    uint64_t most_ns; /* 0: never poll */
    unsigned paid; /* 0 to ADAPTIVE_SPIN_FULL: one more for each wait that was short, two less for each that was not */
};

/* What an option means: microseconds; 0: ADAPTIVE_SPIN_US, or, on a single processor, where polling keeps from running
 * who would answer, none; ADAPTIVE_SPIN_NEVER: none. */
#define ADAPTIVE_SPIN_NEVER UINT32_MAX
uint64_t adaptive_spin_ns(uint32_t option_us, unsigned processors);

void adaptive_spin_init(struct adaptive_spin *p, uint64_t most_ns);

/* Nanoseconds that a wait which begins now should poll: most_ns or 0. */
uint64_t adaptive_spin_now(const struct adaptive_spin *p);

/* A wait took so long. slept: at its end somebody was asleep, and being woken is in the time. */
void adaptive_spin_learn(struct adaptive_spin *p, uint64_t waited_ns, bool slept);

#endif
