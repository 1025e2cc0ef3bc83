#include "common/core/model/schedule.h"

#include <inttypes.h>
#include <math.h>

#include "common/core/model/elementary.h"
#include "common/core/model/power.h"

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

bool
schedule_by_factor(const struct ps_schedule *s)
{
    return s->kind == PS_SCHEDULE_STEP || s->kind == PS_SCHEDULE_EXPONENTIAL;
}

enum ps_err
schedule_check(const struct ps_schedule *s, double learning_rate, struct ps_error *e)
{
    if ((unsigned)s->kind > PS_SCHEDULE_LINEAR)
        return ps_fail(e, PS_ERR_INVALID, "schedule %d is not known", (int)s->kind);
    if ((unsigned)s->by > PS_BY_CLOCK)
        return ps_fail(e, PS_ERR_INVALID, "a schedule by %d is not known", (int)s->by);
    if (s->kind == PS_SCHEDULE_CONSTANT)
        return PS_OK;
    if (s->steps == 0)
        return ps_fail(e, PS_ERR_INVALID, "schedule: steps must be at least 1");
    if (schedule_by_factor(s) && !(s->factor > 0 && s->factor <= 1))
        return ps_fail(e, PS_ERR_INVALID, "schedule: factor must be greater than 0 and at most 1, not %g", s->factor);
    if (!(s->floor >= 0 && s->floor <= learning_rate))
        return ps_fail(e, PS_ERR_INVALID,
                       "schedule: floor must be at least 0 and at most the learning rate (%g), not %g", learning_rate,
                       s->floor);
    return PS_OK;
}

struct ps_schedule
schedule_used(const struct ps_schedule *s)
{
    struct ps_schedule used = *s;

    if (!schedule_by_factor(s))
        used.factor = 0;
    if (s->kind == PS_SCHEDULE_CONSTANT) {
        used.steps = 0;
        used.floor = 0;
    }
    if (!schedule_moves(s)) {
        used.by = PS_BY_VERSION;
        used.begin = 0;
    }
    return used;
}

bool
schedule_equal(const struct ps_schedule *a, const struct ps_schedule *b)
{
    struct ps_schedule x = schedule_used(a), y = schedule_used(b);

    return x.kind == y.kind && x.by == y.by && x.warmup_steps == y.warmup_steps && x.steps == y.steps &&
           x.factor == y.factor && x.floor == y.floor && x.begin == y.begin;
}

/* How much of the way is behind, 0 to 1. */
static double
schedule_progress(const struct ps_schedule *s, uint64_t u)
{
    return (double)MIN(u, s->steps) / (double)s->steps;
}

double
schedule_rate(const struct ps_schedule *s, double learning_rate, uint64_t at)
{
    uint64_t t = at > s->begin ? at - s->begin : 0, u = t - s->warmup_steps;

    if (t < s->warmup_steps)
        return learning_rate * ((double)(t + 1) / (double)s->warmup_steps);
    switch (s->kind) {
    case PS_SCHEDULE_CONSTANT:
        return learning_rate;
    case PS_SCHEDULE_STEP:
        return MAX(s->floor, learning_rate * power_of(s->factor, u / s->steps));
    case PS_SCHEDULE_EXPONENTIAL:
        /* Whole powers exactly as STEP has them, and the rest of the way between two of them. */
        return MAX(s->floor, learning_rate * power_of(s->factor, u / s->steps) *
                                 elementary_power(s->factor, (double)(u % s->steps) / (double)s->steps));
    case PS_SCHEDULE_COSINE:
        return s->floor + (learning_rate - s->floor) * (1 + elementary_cos_half_turns(schedule_progress(s, u))) / 2;
    case PS_SCHEDULE_LINEAR:
        return learning_rate + (s->floor - learning_rate) * schedule_progress(s, u);
    }
    ps_assert(!"schedule_check() passed");
    return learning_rate;
}
