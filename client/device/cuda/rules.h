/* Kernels of optimizers: the rules of common/core/optimizer/rules, as the shards compute them, to the same bits. A file
 * there defines the computation on the elements of one vector; here a vector has one element. */
#ifndef CLIENT_DEVICE_CUDA_RULES_H
#define CLIENT_DEVICE_CUDA_RULES_H

#include "client/device/cuda/shared.h"
#include "client/device/ps_device_module.h"
#include "common/include/psclient/ps_optimizer.h"

#ifndef LAYOUT_SLOTS_MAX
#define LAYOUT_SLOTS_MAX PS_MODULE_SLOTS_MAX
#endif

#define KERNEL_INLINE EVERYWHERE

#ifndef OPTIMIZER_SLOTS /* common/core/optimizer/optimizer_row.h: how many arrays besides the weights, at least and at \
                           most */
#define OPTIMIZER_SLOTS(NAME, least, most) enum { NAME##_SLOTS_MIN = (least), NAME##_SLOTS_MAX = (most) }
#endif

typedef float floats;

/* One element of each array. */
struct lanes {
    floats weights;
    floats slot[PS_MODULE_SLOTS_MAX];
};

KERNEL_INLINE floats
square_root(floats x)
{
    return sqrtf(x);
}

KERNEL_INLINE floats
raise_lanes(floats x, float power)
{
    return (float)elementary_power((double)x, (double)power);
}

/* To [-limit, limit]; NaN stays. */
KERNEL_INLINE floats
clamp(floats x, float limit)
{
    x = x > limit ? limit : x;
    return x < -limit ? -limit : x;
}

#include "common/core/optimizer/optimizer_files.h"

struct update_args {
    struct ps_module_step step;
    const float *gradient;
    struct {
        float *weights, *slot[PS_MODULE_SLOTS_MAX];
    } of;
    uint32_t *flags;
};

/* The gradient as the rule gets it; see shape() in common/core/optimizer/optimizer_kernels.h. */
EVERYWHERE floats
shape_gradient(const struct ps_module_step *s, floats g, struct lanes *x)
{
    g *= s->scale;
    if (s->shaped) {
        g = clamp(g, s->limit) + x->weights * s->l2;
        x->weights -= x->weights * s->decay;
    }
    return g;
}

EVERYWHERE int
is_finite(float x)
{
    return x - x == 0; /* NaN - NaN and Inf - Inf are NaN */
}

/* Loops of a constant length become straight lines, and slots stay in registers. */
EVERYWHERE void
load_slots(const struct update_args *k, size_t i, struct lanes *x)
{
    for (uint32_t s = 0; s < PS_MODULE_SLOTS_MAX; s++)
        if (s < k->step.slots)
            x->slot[s] = k->of.slot[s][i];
}

EVERYWHERE void
store_slots(const struct update_args *k, size_t i, const struct lanes *x)
{
    for (uint32_t s = 0; s < PS_MODULE_SLOTS_MAX; s++)
        if (s < k->step.slots)
            k->of.slot[s][i] = x->slot[s];
}

#define RULE_KERNEL(NAME, name, number)                                                                                \
    EVERYWHERE void name##_update_element(const struct update_args *k, size_t i)                                       \
    {                                                                                                                  \
        struct name##_step own;                                                                                        \
        struct lanes x = {k->of.weights[i], {0}};                                                                      \
        floats g = k->gradient[i];                                                                                     \
                                                                                                                       \
        static_assert(sizeof own <= sizeof k->step.own, "a step of " #name " fits");                                   \
        memcpy(&own, k->step.own, sizeof own);                                                                         \
        load_slots(k, i, &x);                                                                                          \
        if (!is_finite(g))                                                                                             \
            flag_raise(k->flags, FLAG_NONFINITE);                                                                      \
        g = shape_gradient(&k->step, g, &x);                                                                           \
        name##_rule(&own, k->step.slots, g, &x);                                                                       \
        k->of.weights[i] = x.weights;                                                                                  \
        store_slots(k, i, &x);                                                                                         \
    }
PS_OPTIMIZER_LIST(RULE_KERNEL)
#undef RULE_KERNEL

#endif
