/* Blocks in the order of the layout, each by optimizer_apply() in place. What could refuse a step is looked at before
 * the first array changes. */
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
}

/* ---- Before a step ---- */

static enum ps_err
check_finite(size_t n, struct local_optimizer *const l[], const float *const grads[], struct ps_error *e)
{
    for (size_t i = 0; i < n; i++) {
        size_t elements = (size_t)l[i]->layout.elements, k = 0;

        if (l[i]->allow_nonfinite || optimizer_finite(elements, grads[i]))
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

static void
apply_block(const struct local_optimizer *l, const struct layout_block *b, const struct optimizer_when *when,
            float scale, float *weights, const float *grad)
{
    struct optimizer_arrays arrays = {.weights = local_optimizer_aligned(weights) ? weights : l->aside};

    for (uint32_t k = 0; k < l->slots; k++)
        arrays.slot[k] = l->slot[k] + b->first;
    if (arrays.weights != weights)
        memcpy(arrays.weights, weights, b->len * sizeof *weights);
    (void)optimizer_apply(&l->optimizer, when, scale, b->len, grad, &arrays, &arrays, false);
    if (arrays.weights != weights)
        memcpy(weights, arrays.weights, b->len * sizeof *weights);
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

static void
local_optimizer_apply(struct local_optimizer *l, uint64_t clock, float scale, float *weights, const float *grad)
{
    struct optimizer_when when = {.version = ++l->version, .clock = clock};

    for (uint64_t i = 0; i < l->layout.blocks; i++) {
        struct layout_block b = layout_block(&l->layout, i);

        apply_block(l, &b, &when, scale, weights + b.first, grad + b.first);
    }
}

enum ps_err
local_optimizer_step(size_t n, struct local_optimizer *const l[], const struct local_step *step, float *const weights[],
                     const float *const grads[], struct ps_error *e)
{
    double norm = step->norm;
    enum ps_err err;

    if ((err = check_finite(n, l, grads, e)) != PS_OK)
        return err;
    if (norm == 0 && wants_norm(n, l))
        norm = norm_of(n, l, (double)step->scale, grads);
    if (!isfinite(norm) || !isfinite(step->scale))
        return ps_fail(e, PS_ERR_NONFINITE, "the norm of the gradients is %g, their scale %g", norm,
                       (double)step->scale);
    for (size_t i = 0; i < n; i++)
        local_optimizer_apply(l[i], step->clock, local_optimizer_scale(l[i], step->scale, norm), weights[i], grads[i]);
    return PS_OK;
}
