/* The table of optimizers, put together from their files, and one update: what is computed once for it, in double
 * (the schedule's rate, bias corrections, the block's norm), before a kernel takes the arrays. */
#include "common/core/optimizer/optimizer.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "common/core/codec/half.h"
#include "common/core/model/elementary_scalar.h"
#include "common/core/model/power.h"
#include "common/core/model/schedule.h"
#include "common/core/optimizer/optimizer_isa.h"
#include "common/core/optimizer/optimizer_row.h"

#define OPTIMIZER_ROWS
#include "common/core/optimizer/optimizer_files.h"

static const char *const names[] = {
#define NAME(NAME, name, number) [number] = #name,
    PS_OPTIMIZER_LIST(NAME)
#undef NAME
};

static const struct optimizer_row *const rows[] = {
#define ROW(NAME, name, number) [number] = &name##_row,
    PS_OPTIMIZER_LIST(ROW)
#undef ROW
};

static const uint32_t slots_max[] = {
#define SLOTS(NAME, name, number) [number] = NAME##_SLOTS_MAX,
    PS_OPTIMIZER_LIST(SLOTS)
#undef SLOTS
};

static const char *const parameter_names[] = {
#define PARAMETER_NAME(name) [PARAMETER_##name] = #name,
    OPTIMIZER_PARAMETER_LIST(PARAMETER_NAME)
#undef PARAMETER_NAME
};

static const size_t parameter_offsets[] = {
#define PARAMETER_OFFSET(name) [PARAMETER_##name] = offsetof(struct ps_optimizer, name),
    OPTIMIZER_PARAMETER_LIST(PARAMETER_OFFSET)
#undef PARAMETER_OFFSET
};

/* Each file's numbers into the step that all kernels take. */
#define PREPARE(NAME, name, number)                                                                                    \
    static void prepare_##name(const struct ps_optimizer *o, double rate, uint64_t version, struct optimizer_step *s)  \
    {                                                                                                                  \
        struct name##_step own;                                                                                        \
        static_assert(sizeof own <= sizeof s->own, "OPTIMIZER_STEP_MAX");                                              \
        name##_prepare(o, rate, version, &own);                                                                        \
        memcpy(s->own, &own, sizeof own);                                                                              \
    }
PS_OPTIMIZER_LIST(PREPARE)

static void (*const prepares[])(const struct ps_optimizer *, double, uint64_t, struct optimizer_step *) = {
#define PREPARE_ROW(NAME, name, number) [number] = prepare_##name,
    PS_OPTIMIZER_LIST(PREPARE_ROW)
#undef PREPARE_ROW
};

static const size_t step_sizes[] = {
#define STEP_SIZE(NAME, name, number) [number] = sizeof(struct name##_step),
    PS_OPTIMIZER_LIST(STEP_SIZE)
#undef STEP_SIZE
};

size_t
optimizer_step_size(enum ps_optimizer_kind kind)
{
    return step_sizes[kind];
}

/* ---- Parameters ---- */

const char *
ps_optimizer_name(enum ps_optimizer_kind kind)
{
    return (unsigned)kind < PS_OPTIMIZER_KINDS ? names[kind] : NULL;
}

const struct optimizer_row *
optimizer_row(enum ps_optimizer_kind kind)
{
    return (unsigned)kind < PS_OPTIMIZER_KINDS ? rows[kind] : NULL;
}

const char *
optimizer_parameter_name(enum optimizer_parameter p)
{
    return parameter_names[p];
}

double *
optimizer_parameter(struct ps_optimizer *o, enum optimizer_parameter p)
{
    return (double *)(void *)((char *)o + parameter_offsets[p]);
}

static double
parameter_of(const struct ps_optimizer *o, enum optimizer_parameter p)
{
    return *optimizer_parameter((struct ps_optimizer *)o, p);
}

const struct optimizer_use *
optimizer_find_use(enum ps_optimizer_kind kind, enum optimizer_parameter p)
{
    const struct optimizer_use *use = optimizer_row(kind)->parameters;

    while (use->range != RANGE_NONE && use->parameter != p)
        use++;
    return use->range != RANGE_NONE ? use : NULL;
}

bool
optimizer_uses(enum ps_optimizer_kind kind, enum optimizer_parameter p)
{
    return optimizer_find_use(kind, p) != NULL;
}

static const struct {
    const char *text;
    double least, most;
    bool open_below, open_above; /* the bound itself is outside */
} ranges[] = {
    [AT_LEAST_0] = {"at least 0 and finite", 0, (double)FLT_MAX, false, false},
    [ABOVE_0] = {"greater than 0 and finite", 0, (double)FLT_MAX, true, false},
    [AT_LEAST_0_BELOW_1] = {"at least 0 and less than 1", 0, 1, false, true},
    [AT_MOST_0] = {"at most 0 and finite", -(double)FLT_MAX, 0, false, false},
};

enum ps_err
optimizer_check_value(enum ps_optimizer_kind kind, const struct optimizer_use *use, double value, struct ps_error *e)
{
    /* What is above 0 must be so when it is rounded to f32. */
    double x = ranges[use->range].open_below ? (double)(float)value : value;
    bool above = ranges[use->range].open_below ? x > ranges[use->range].least : x >= ranges[use->range].least;
    bool below = ranges[use->range].open_above ? x < ranges[use->range].most : x <= ranges[use->range].most;

    if (above && below)
        return PS_OK;
    return ps_fail(e, PS_ERR_INVALID, "optimizer %s: %s must be %s, not %g", names[kind],
                   parameter_names[use->parameter], ranges[use->range].text, value);
}

enum ps_err
clip_check(const struct ps_clip *c, struct ps_error *e)
{
    if ((unsigned)c->kind > PS_CLIP_GIVEN_NORM)
        return ps_fail(e, PS_ERR_INVALID, "clip %d is not known", (int)c->kind);
    if (c->kind != PS_CLIP_NONE && !((float)c->limit > 0 && c->limit <= (double)FLT_MAX))
        return ps_fail(e, PS_ERR_INVALID, "clip: limit must be greater than 0 and finite, not %g", c->limit);
    return PS_OK;
}

enum ps_err
optimizer_check(const struct ps_optimizer *o, struct ps_error *e)
{
    const struct optimizer_row *row = optimizer_row(o->kind);
    enum ps_err err;

    if (row == NULL)
        return ps_fail(e, PS_ERR_INVALID, "optimizer %d is not known", (int)o->kind);
    for (const struct optimizer_use *use = row->parameters; use->range != RANGE_NONE; use++)
        if ((err = optimizer_check_value(o->kind, use, parameter_of(o, use->parameter), e)) != PS_OK)
            return err;
    if (row->check != NULL && (err = row->check(o, e)) != PS_OK)
        return err;
    if ((err = schedule_check(&o->schedule, o->learning_rate, e)) != PS_OK)
        return err;
    if (row->fixed_rate && schedule_moves(&o->schedule))
        return ps_fail(e, PS_ERR_INVALID, "optimizer %s takes no schedule: its rates fall by themselves",
                       names[o->kind]);
    return clip_check(&o->clip, e);
}

struct ps_optimizer
optimizer_used(const struct ps_optimizer *o)
{
    struct ps_optimizer used = {.kind = o->kind, .schedule = schedule_used(&o->schedule), .clip = o->clip};

    for (const struct optimizer_use *use = optimizer_row(o->kind)->parameters; use->range != RANGE_NONE; use++)
        *optimizer_parameter(&used, use->parameter) = parameter_of(o, use->parameter);
    if (used.clip.kind == PS_CLIP_NONE)
        used.clip.limit = 0;
    return used;
}

static bool
clip_equal(const struct ps_clip *a, const struct ps_clip *b)
{
    return a->kind == b->kind && a->limit == b->limit;
}

bool
optimizer_of_either(const struct ps_optimizer *x, const struct ps_optimizer *a, const struct ps_optimizer *b)
{
    struct ps_optimizer is, was, now;

    if (x->kind != a->kind || x->kind != b->kind)
        return false;
    is = optimizer_used(x), was = optimizer_used(a), now = optimizer_used(b);
    for (enum optimizer_parameter p = 0; p < OPTIMIZER_PARAMETERS; p++)
        if (parameter_of(&is, p) != parameter_of(&was, p) && parameter_of(&is, p) != parameter_of(&now, p))
            return false;
    return (schedule_equal(&is.schedule, &was.schedule) || schedule_equal(&is.schedule, &now.schedule)) &&
           (clip_equal(&is.clip, &was.clip) || clip_equal(&is.clip, &now.clip));
}

bool
optimizer_equal(const struct ps_optimizer *a, const struct ps_optimizer *b)
{
    return optimizer_of_either(a, b, b);
}

/* ---- Work ---- */

uint32_t
optimizer_slots(const struct ps_optimizer *o)
{
    const struct optimizer_row *row = optimizer_row(o->kind);

    return row->slots != NULL ? row->slots(o) : slots_max[o->kind];
}

void
optimizer_start(const struct ps_optimizer *o, size_t n, const struct optimizer_arrays *to)
{
    const struct optimizer_row *row = optimizer_row(o->kind);

    for (uint32_t k = 0; k < optimizer_slots(o); k++) {
        float value = row->slot_start != NULL ? row->slot_start(o, k) : 0;

        for (size_t i = 0; i < n; i++)
            to->slot[k][i] = value;
    }
}

void
optimizer_follow(const struct ps_optimizer *o, size_t n, const struct optimizer_arrays *arrays)
{
    const struct optimizer_row *row = optimizer_row(o->kind);

    if (row->follow != NULL)
        row->follow(o, n, arrays);
}

double
optimizer_rate(const struct ps_optimizer *o, const struct optimizer_when *when)
{
    uint64_t at = o->schedule.by == PS_BY_CLOCK ? when->clock : when->version - 1;

    return schedule_rate(&o->schedule, o->learning_rate, at);
}

void
optimizer_prepare(const struct ps_optimizer *o, const struct optimizer_when *when, float scale,
                  struct optimizer_step *s)
{
    double rate = optimizer_rate(o, when);
    double l2 = optimizer_row(o->kind)->own_l2 ? 0 : o->l2;
    double decay = optimizer_uses(o->kind, PARAMETER_weight_decay) ? rate * o->weight_decay : 0;

    *s = (struct optimizer_step){.scale = scale,
                                 .shaped = l2 > 0 || decay > 0 || o->clip.kind == PS_CLIP_VALUE,
                                 .limit = o->clip.kind == PS_CLIP_VALUE ? (float)o->clip.limit : INFINITY,
                                 .l2 = (float)l2,
                                 .decay = (float)decay,
                                 .slots = optimizer_slots(o)};
    prepares[o->kind](o, rate, when->version, s);
}

/* The factor that brings the scaled gradient's norm down to the limit, multiplied with the scale. A gradient that is
 * not finite is left to the kernel to find. */
float
optimizer_clip_block(const struct ps_clip *c, float scale, double norm)
{
    double most = c->limit / fabs((double)scale);

    return norm > most ? (float)((double)scale * (most / norm)) : scale;
}

/* Conditions that kernels may assume. */
static bool
optimizer_is_aligned(const struct optimizer_arrays *a, uint32_t slots)
{
    uintptr_t all = (uintptr_t)a->weights;

    for (uint32_t k = 0; k < slots; k++)
        all |= (uintptr_t)a->slot[k];
    return all % LAYOUT_ALIGN == 0;
}

/* Some weight, slot or element of the gradient is large. */
static enum optimizer_magnitude
optimizer_magnitude_of_result(size_t n, bool finite_gradient, const struct optimizer_arrays *to, uint32_t slots)
{
    bool finite = finite_gradient && optimizer_finite(n, to->weights);

    for (uint32_t k = 0; k < slots && finite; k++)
        finite = optimizer_finite(n, to->slot[k]);
    return finite ? OPTIMIZER_LARGE : OPTIMIZER_NONFINITE;
}

static bool
optimizer_halves_finite(size_t n, const uint16_t *grad)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(half_to_float(grad[i])))
            return false;
    return true;
}

/* True: all is calm. */
static bool
optimizer_apply_kernels(const optimizer_kernel update[], const struct ps_optimizer *o,
                        const struct optimizer_when *when, float scale, size_t n, const void *grad,
                        const struct optimizer_arrays *from, const struct optimizer_arrays *to, bool stream)
{
    struct optimizer_step s;

    ps_assert(optimizer_row(o->kind) != NULL && when->version >= 1);
    optimizer_prepare(o, when, scale, &s);
    ps_assert(optimizer_is_aligned(from, s.slots) && optimizer_is_aligned(to, s.slots));
    return update[o->kind](&s, n, grad, from, to, stream);
}

enum optimizer_magnitude
optimizer_apply(const struct ps_optimizer *o, const struct optimizer_when *when, float scale, size_t n,
                const float *grad, const struct optimizer_arrays *from, const struct optimizer_arrays *to, bool stream)
{
    if (o->clip.kind == PS_CLIP_BLOCK_NORM)
        scale = optimizer_clip_block(&o->clip, scale, optimizer_norm(n, grad));
    if (optimizer_apply_kernels(optimizer_kernels_chosen()->update, o, when, scale, n, grad, from, to, stream))
        return OPTIMIZER_CALM;
    return optimizer_magnitude_of_result(n, optimizer_finite(n, grad), to, optimizer_slots(o));
}

enum optimizer_magnitude
optimizer_apply_half(const struct ps_optimizer *o, const struct optimizer_when *when, float scale, size_t n,
                     const uint16_t *grad, const struct optimizer_arrays *from, const struct optimizer_arrays *to,
                     bool stream)
{
    ps_assert(o->clip.kind != PS_CLIP_BLOCK_NORM);
    if (optimizer_apply_kernels(optimizer_kernels_chosen()->update_half, o, when, scale, n, grad, from, to, stream))
        return OPTIMIZER_CALM;
    return optimizer_magnitude_of_result(n, optimizer_halves_finite(n, grad), to, optimizer_slots(o));
}

/* With these bounds no rule's results or intermediate values come near 2^127: a gradient with its penalty is below
 * 2^51, its square below 2^102, and what a rule takes off a weight below 2^14 * 2^10 * 2^51 * 2^34. FTRL divides by a
 * root that may be as small as its accumulator, and Adadelta squares a quotient. */
bool
optimizer_keeps_finite(const struct ps_optimizer *o, const struct optimizer_when *when)
{
    if (o->kind == PS_FTRL || o->kind == PS_ADADELTA || fabs(optimizer_rate(o, when)) > 0x1p10)
        return false;
    return (!optimizer_uses(o->kind, PARAMETER_epsilon) || o->epsilon >= 0x1p-34) &&
           (!optimizer_uses(o->kind, PARAMETER_beta1) || 1 - o->beta1 >= 0x1p-14) && o->l2 <= 0x1p10 &&
           o->weight_decay <= 0x1p10;
}
