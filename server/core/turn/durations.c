#include "server/core/turn/durations.h"

const uint32_t duration_bounds_ms[DURATION_BUCKETS - 1] = {1,    5,    10,    50,    100,    500,
                                                           1000, 5000, 10000, 60000, 300000, 1800000};

const char *const wait_names[WAITS] = {
#define X(id, text) [WAIT_##id] = text,
    WAIT_LIST(X)
#undef X
};

void
durations_add(struct durations *d, uint64_t ms)
{
    size_t i = 0;

    while (i < ARRAY_LEN(duration_bounds_ms) && ms > duration_bounds_ms[i])
        i++;
    d->count[i]++;
    d->sum_ms += ms;
}
