/* The learning rate over time (struct ps_schedule in ps_optimizer.h has the formulas). In double and with
 * elementary.h's functions, so that a model's bits do not depend on a C library. Pure. */
#ifndef COMMON_CORE_MODEL_SCHEDULE_H
#define COMMON_CORE_MODEL_SCHEDULE_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_optimizer.h"

/* PS_ERR_INVALID with a sentence. */
enum ps_err schedule_check(const struct ps_schedule *s, double learning_rate, struct ps_error *e) PS_MUST_USE;

/* A copy in which all that is not used is 0; the kind is known. */
struct ps_schedule schedule_used(const struct ps_schedule *s);

/* The rate at this version or clock; s has passed schedule_check(). Before the schedule begins it is that of its
 * beginning. */
double schedule_rate(const struct ps_schedule *s, double learning_rate, uint64_t at);

/* The same in all that is used; the kinds are known. */
bool schedule_equal(const struct ps_schedule *a, const struct ps_schedule *b);

/* Whether s uses its factor. */
bool schedule_by_factor(const struct ps_schedule *s);

/* Whether s changes the rate at all. */
static inline bool
schedule_moves(const struct ps_schedule *s)
{
    return s->kind != PS_SCHEDULE_CONSTANT || s->warmup_steps > 0;
}

#endif
