/* Blocks in the order of the layout, each by optimizer_apply() in place. What could refuse a step is looked at before
 * the first array changes; where numbers are so large that an update may overflow, all arrays are kept aside until it
 * is known that none did. */
#include "client/core/shards/local_optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/optimizer/optimizer.h"

/* ---- Memory ---- */

static uint32_t
largest_block(const struct layout *l)
{
    return layout_block(l, 0).stride; /* the largest class comes first */
}

enum ps_err
local_optimizer_init(struct local_optimizer *l, const struct ps_optimizer *optimizer, uint64_t elements,
                     struct ps_error *e)
{
    uint64_t stride = round_up(elements, LAYOUT_ALIGN / sizeof(float));
    float *memory;
    enum ps_err err;

    memset(l, 0, sizeof *l);
    if (elements == 0 || elements > SIZE_MAX / 8 / sizeof(float))
        return ps_fail(e, PS_ERR_INVALID, "optimizer: an array of %llu elements", (unsigned long long)elements);
    if ((err = optimizer_check(optimizer, e)) != PS_OK)
        return err;
    l->optimizer = optimizer_used(optimizer);
    l->slots = optimizer_slots(optimizer);
    layout_init(&l->layout, elements, l->slots);
    memory = aligned_alloc(LAYOUT_ALIGN, (size_t)(l->slots * stride + largest_block(&l->layout)) * sizeof(float));
    if (memory == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "optimizer %s: no memory for the slots of %llu elements",
                       ps_optimizer_name(optimizer->kind), (unsigned long long)elements);
    l->aside = memory + l->slots * stride; /* at the end: where weights are aligned no page of it is touched */
    for (uint32_t k = 0; k < l->slots; k++)
        l->slot[k] = memory + k * stride;
    local_optimizer_reset(l);
    return PS_OK;
}

void
local_optimizer_finish(struct local_optimizer *l)
{
    if (l == NULL)
        return;
    free(l->slots > 0 ? l->slot[0] : l->aside);
    memset(l, 0, sizeof *l);
}

void
local_optimizer_reset(struct local_optimizer *l)
{
    struct optimizer_arrays to = {0};

    for (uint32_t k = 0; k < l->slots; k++)
        to.slot[k] = l->slot[k];
    optimizer_start(&l->optimizer, (size_t)l->layout.elements, &to);
    l->version = 0;
    l->calm = false;
}

/* ---- Before a step ---- */

/* *calm: all gradients of arrays that may refuse them are. */
static enum ps_err
check_finite(size_t n, struct local_optimizer *const l[], const float *const grads[], bool *calm, struct ps_error *e)
{
    *calm = true;
    for (size_t i = 0; i < n; i++) {
        size_t elements = (size_t)l[i]->layout.elements, k = 0;
        enum optimizer_magnitude m =
            l[i]->allow_nonfinite ? OPTIMIZER_CALM : optimizer_magnitude_of_gradient(elements, grads[i]);

        *calm = *calm && m == OPTIMIZER_CALM;
        if (m != OPTIMIZER_NONFINITE)
            continue;
        while (isfinite(grads[i][k]))
            k++;
        return ps_fail(e, PS_ERR_NONFINITE, "the gradient of array %zu is %g at element %zu", i, (double)grads[i][k],
                       k);
    }
    return PS_OK;
}

static bool
wants_norm(size_t n, struct local_optimizer *const l[])
{
    for (size_t i = 0; i < n; i++)
        if (l[i]->optimizer.clip.kind == PS_CLIP_GIVEN_NORM)
            return true;
    return false;
}

/* As a push computes it when its caller gives none. */
static double
norm_of(size_t n, struct local_optimizer *const l[], double scale, const float *const grads[])
{
    double sum = 0, one;

    for (size_t i = 0; i < n; i++) {
        one = optimizer_norm((size_t)l[i]->layout.elements, grads[i]);
        sum += one * one;
    }
    return fabs(scale) * sqrt(sum);
}

/* ---- A step ---- */

static bool
local_optimizer_aligned(const float *p)
{
    return (uintptr_t)p % LAYOUT_ALIGN == 0;
}

static enum optimizer_magnitude
apply_block(const struct local_optimizer *l, const struct layout_block *b, const struct optimizer_when *when,
            float scale, float *weights, const float *grad)
{
    enum optimizer_magnitude after;
    struct optimizer_arrays arrays = {.weights = local_optimizer_aligned(weights) ? weights : l->aside};

    for (uint32_t k = 0; k < l->slots; k++)
        arrays.slot[k] = l->slot[k] + b->first;
    if (arrays.weights != weights)
        memcpy(arrays.weights, weights, b->len * sizeof *weights);
    after = optimizer_apply(&l->optimizer, when, scale, b->len, grad, &arrays, &arrays, false);
    if (arrays.weights != weights)
        memcpy(weights, arrays.weights, b->len * sizeof *weights);
    return after;
}

/* Clipping by the norm of the whole gradient (Pascanu, Mikolov and Bengio, ICML 2013). */
float
local_optimizer_scale(const struct local_optimizer *l, float scale, double norm)
{
    const struct ps_clip *clip = &l->optimizer.clip;

    if (clip->kind != PS_CLIP_GIVEN_NORM || norm <= clip->limit)
        return scale;
    return (float)((double)scale * (clip->limit / norm));
}

/* False: something overflowed, and this array refuses that. */
static bool
local_optimizer_apply(struct local_optimizer *l, uint64_t clock, float scale, float *weights, const float *grad)
{
    struct optimizer_when when = {.version = ++l->version, .clock = clock};
    enum optimizer_magnitude least = OPTIMIZER_CALM;

    for (uint64_t i = 0; i < l->layout.blocks; i++) {
        struct layout_block b = layout_block(&l->layout, i);
        enum optimizer_magnitude after = apply_block(l, &b, &when, scale, weights + b.first, grad + b.first);

        least = MIN(least, after);
    }
    l->calm = least == OPTIMIZER_CALM;
    return least != OPTIMIZER_NONFINITE || l->allow_nonfinite;
}

/* ---- Steps that may be refused ---- */

/* Whether the array's update cannot overflow; its gradient is calm. */
static bool
local_optimizer_is_safe(const struct local_optimizer *l, uint64_t clock, float scale, const float *weights)
{
    struct optimizer_when when = {.version = l->version + 1, .clock = clock};
    size_t elements = (size_t)l->layout.elements;

    if (l->allow_nonfinite)
        return true;
    for (uint32_t k = 0; k < l->slots && !l->calm; k++)
        if (optimizer_magnitude_of_state(elements, l->slot[k]) != OPTIMIZER_CALM)
            return false;
    return fabsf(scale) <= 1 && optimizer_keeps_finite(&l->optimizer, &when) &&
           optimizer_magnitude_of_state(elements, weights) == OPTIMIZER_CALM;
}

static size_t
local_optimizer_bytes(const struct local_optimizer *l)
{
    return (size_t)l->layout.elements * sizeof(float);
}

/* Weights and slots of all arrays, one behind the other; NULL: no memory. */
static unsigned char *
arrays_keep(size_t n, struct local_optimizer *const l[], float *const weights[])
{
    unsigned char *all, *to;
    size_t bytes = 0;

    for (size_t i = 0; i < n; i++)
        bytes += (1 + l[i]->slots) * local_optimizer_bytes(l[i]);
    if ((all = to = malloc(MAX(bytes, (size_t)1))) == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        to = (unsigned char *)memcpy(to, weights[i], local_optimizer_bytes(l[i])) + local_optimizer_bytes(l[i]);
        for (uint32_t k = 0; k < l[i]->slots; k++)
            to = (unsigned char *)memcpy(to, l[i]->slot[k], local_optimizer_bytes(l[i])) + local_optimizer_bytes(l[i]);
    }
    return all;
}

static void
arrays_put_back(size_t n, struct local_optimizer *const l[], float *const weights[], const unsigned char *from)
{
    for (size_t i = 0; i < n; i++) {
        memcpy(weights[i], from, local_optimizer_bytes(l[i]));
        from += local_optimizer_bytes(l[i]);
        for (uint32_t k = 0; k < l[i]->slots; k++, from += local_optimizer_bytes(l[i]))
            memcpy(l[i]->slot[k], from, local_optimizer_bytes(l[i]));
        l[i]->calm = false;
        l[i]->version--;
    }
}

static enum ps_err
local_optimizer_try(size_t n, struct local_optimizer *const l[], const struct local_step *step, double norm,
                    float *const weights[], const float *const grads[], struct ps_error *e)
{
    unsigned char *kept = arrays_keep(n, l, weights);
    size_t refused = n;

    if (kept == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "optimizer: no memory to keep the arrays of a step that may overflow");
    for (size_t i = 0; i < n; i++)
        if (!local_optimizer_apply(l[i], step->clock, local_optimizer_scale(l[i], step->scale, norm), weights[i],
                                   grads[i]) &&
            refused == n)
            refused = i;
    if (refused < n)
        arrays_put_back(n, l, weights, kept);
    free(kept);
    if (refused < n)
        return ps_fail(e, PS_ERR_NONFINITE, "the gradient of array %zu would make its weights or slots overflow",
                       refused);
    return PS_OK;
}

static bool
all_safe(size_t n, struct local_optimizer *const l[], const struct local_step *step, double norm,
         float *const weights[])
{
    for (size_t i = 0; i < n; i++)
        if (!local_optimizer_is_safe(l[i], step->clock, local_optimizer_scale(l[i], step->scale, norm), weights[i]))
            return false;
    return true;
}

enum ps_err
local_optimizer_step(size_t n, struct local_optimizer *const l[], const struct local_step *step, float *const weights[],
                     const float *const grads[], struct ps_error *e)
{
    double norm = step->norm;
    enum ps_err err;
    bool calm;

    if ((err = check_finite(n, l, grads, &calm, e)) != PS_OK)
        return err;
    if (norm == 0 && wants_norm(n, l))
        norm = norm_of(n, l, (double)step->scale, grads);
    if (!isfinite(norm) || !isfinite(step->scale))
        return ps_fail(e, PS_ERR_NONFINITE, "the norm of the gradients is %g, their scale %g", norm,
                       (double)step->scale);
    if (!calm || !all_safe(n, l, step, norm, weights))
        return local_optimizer_try(n, l, step, norm, weights, grads, e);
    for (size_t i = 0; i < n; i++)
        (void)local_optimizer_apply(l[i], step->clock, local_optimizer_scale(l[i], step->scale, norm), weights[i],
                                    grads[i]);
    return PS_OK;
}
