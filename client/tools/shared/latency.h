/* How long operations took, any number of them, in fixed memory: counts of buckets that grow with the time, so that
 * what is read from them is at most 1/64 too high. Pure. */
#ifndef CLIENT_TOOLS_SHARED_LATENCY_H
#define CLIENT_TOOLS_SHARED_LATENCY_H

#include "common/core/base/base.h"

#define LATENCY_STEPS   64 /* in each power of two */
#define LATENCY_BUCKETS (LATENCY_STEPS * 48)

struct latencies {
    uint64_t bucket[LATENCY_BUCKETS];
    uint64_t count, most_ns;
};

void latencies_add(struct latencies *l, uint64_t ns);

/* The time, in ns, that `share` of them did not exceed; 0 when there are none. share: 0 to 1. */
uint64_t latencies_at(const struct latencies *l, double share);

#endif
