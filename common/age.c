/* Age policies: one factor per push, computed in double and rounded once. */
#include "age.h"

#include <math.h>

#include "power.h"

enum ps_err
age_check(const struct age_policy *p, struct ps_error *e)
{
    switch ((int)p->kind) {
    case AGE_NONE:
    case AGE_INVERSE:
        return PS_OK;
    case AGE_EXPONENTIAL:
        if (!(p->parameter > 0 && p->parameter < 1))
            return ps_fail(e, PS_ERR_INVALID, "age policy exponential: the base must be between 0 and 1, not %g",
                           p->parameter);
        return PS_OK;
    case AGE_CUTOFF:
        if (!(p->parameter >= 0 && isfinite(p->parameter)))
            return ps_fail(e, PS_ERR_INVALID, "age policy cutoff: the largest age must be 0 or more, not %g",
                           p->parameter);
        return PS_OK;
    default:
        return ps_fail(e, PS_ERR_INVALID, "age policy %d is not known", (int)p->kind);
    }
}

float
age_scale(const struct age_policy *p, uint64_t age)
{
    switch (p->kind) {
    case AGE_NONE:
        return 1;
    case AGE_INVERSE:
        return (float)(1 / (1 + (double)age));
    case AGE_EXPONENTIAL:
        return (float)power(p->parameter, age);
    case AGE_CUTOFF:
        return (double)age > p->parameter ? -1 : 1;
    case AGE_KIND_MAX:
        break;
    }
    ps_assert(!"age_check() passed");
}

int
age_bucket(uint64_t age)
{
    if (age == 0)
        return 0;
    return MIN(64 - __builtin_clzll(age), AGE_BUCKETS - 1);
}
