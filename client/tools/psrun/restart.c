#include "client/tools/psrun/restart.h"

/* delay_ms doubled `times` times, at most delay_ms_max. */
static uint64_t
restart_delay(const struct restart_policy *policy, uint64_t times)
{
    uint64_t delay_ms = policy->delay_ms;

    while (times-- > 0 && delay_ms > 0 && delay_ms < policy->delay_ms_max)
        delay_ms *= 2;
    return MIN(delay_ms, policy->delay_ms_max);
}

bool
restart_next(struct restart *r, const struct restart_policy *policy, uint64_t ran_ms, int status, uint64_t *delay_ms)
{
    if (status == RESTART_STATUS_USAGE)
        return false;
    if (ran_ms >= policy->reset_ms)
        r->starts = 0;
    if (r->starts >= policy->starts_max)
        return false;
    *delay_ms = restart_delay(policy, r->starts++);
    return true;
}
