#include "client/tools/shared/latency.h"

#define STEP_BITS 6 /* of LATENCY_STEPS */

static_assert(1 << STEP_BITS == LATENCY_STEPS, "a step for each value of its bits");

/* Below LATENCY_STEPS each ns has its own; above, the bits after the highest one choose the bucket. */
static size_t
bucket_of(uint64_t ns)
{
    unsigned high = ns < LATENCY_STEPS ? 0 : 64 - STEP_BITS - 1 - (unsigned)__builtin_clzll(ns);
    size_t at = ((size_t)high << STEP_BITS) + (size_t)(ns >> high);

    return MIN(at, (size_t)LATENCY_BUCKETS - 1);
}

/* The longest time that falls into it. */
static uint64_t
bucket_end(size_t bucket)
{
    unsigned high = bucket < 2 * LATENCY_STEPS ? 0 : (unsigned)(bucket >> STEP_BITS) - 1;
    uint64_t step = bucket - ((uint64_t)high << STEP_BITS);

    return ((step + 1) << high) - 1;
}

void
latencies_add(struct latencies *l, uint64_t ns)
{
    l->bucket[bucket_of(ns)]++;
    l->count++;
    l->most_ns = MAX(l->most_ns, ns);
}

uint64_t
latencies_at(const struct latencies *l, double share)
{
    uint64_t below = 0;

    for (size_t i = 0; i < LATENCY_BUCKETS && l->count > 0; i++) {
        below += l->bucket[i];
        if (below > 0 && (double)below >= share * (double)l->count)
            return MIN(bucket_end(i), l->most_ns);
    }
    return l->most_ns;
}
