/* Common to all devices: the numbers of an update, computed once in double; and the CPU's row. */
#include "client/device/device_optimizer.h"

#include <math.h>

#include "client/device/device.h"
#include "common/core/base/base.h"
#include "common/core/optimizer/optimizer_isa.h"
#include "common/core/optimizer/optimizer_row.h"

static enum ps_err
no_optimizers(const ps_device *d, struct ps_error *e)
{
    return ps_fail(e, PS_ERR_UNSUPPORTED, "device %s: optimizers do not run there", d->name);
}

enum ps_err
device_optimizer_start(ps_device *d, const struct ps_optimizer *o, size_t n, const struct optimizer_arrays *arrays,
                       struct ps_error *e)
{
    const struct optimizer_row *row = optimizer_row(o->kind);

    if (d->ops->optimizer == NULL)
        return no_optimizers(d, e);
    for (uint32_t k = 0; k < optimizer_slots(o) && n > 0; k++)
        d->ops->optimizer->fill(d, n, row->slot_start != NULL ? row->slot_start(o, k) : 0, arrays->slot[k]);
    return PS_OK;
}

void
device_norm_start(ps_device *d, size_t n, const float *x)
{
    if (n > 0 && d->ops->optimizer != NULL && d->ops->optimizer->square_sum_start != NULL)
        d->ops->optimizer->square_sum_start(d, n, x);
}

enum ps_err
device_norm(ps_device *d, size_t n, const float *x, double *norm, struct ps_error *e)
{
    enum ps_err err;

    *norm = 0;
    if (d->ops->optimizer == NULL)
        return no_optimizers(d, e);
    if (n > 0 && (err = d->ops->optimizer->square_sum(d, n, x, norm, e)) != PS_OK)
        return err;
    *norm = sqrt(*norm);
    return PS_OK;
}

enum ps_err
device_optimizer_apply(ps_device *d, const struct ps_optimizer *o, const struct device_update *u, size_t n,
                       const float *gradient, const struct optimizer_arrays *arrays, struct ps_error *e)
{
    bool clips = o->clip.kind == PS_CLIP_BLOCK_NORM;
    struct optimizer_step step;
    float scale = u->scale;
    double norm = 0;
    enum ps_err err;

    if (d->ops->optimizer == NULL)
        return no_optimizers(d, e);
    if ((u->check || clips) && (err = device_norm(d, n, gradient, &norm, e)) != PS_OK)
        return err;
    if (u->check && !isfinite(norm)) /* no finite f32 has a square that is not one in double, nor have their sums */
        return ps_fail(e, PS_ERR_NONFINITE, "device %s: the gradient of %zu elements holds NaN or Inf", d->name, n);
    if (clips)
        scale = optimizer_clip_block(&o->clip, scale, norm);
    optimizer_prepare(o, &u->when, scale, &step);
    if (n > 0)
        d->ops->optimizer->update(d, o->kind, &step, n, gradient, arrays);
    return PS_OK;
}

/* ---- The CPU ---- */

static void
cpu_fill(ps_device *d, size_t n, float value, float *x)
{
    (void)d;
    for (size_t i = 0; i < n; i++)
        x[i] = value;
}

static enum ps_err
cpu_square_sum(ps_device *d, size_t n, const float *x, double *sum, struct ps_error *e)
{
    (void)d;
    (void)e;
    *sum = optimizer_kernels_chosen()->square_sum(n, x);
    return PS_OK;
}

static void
cpu_update(ps_device *d, enum ps_optimizer_kind kind, const struct optimizer_step *step, size_t n,
           const float *gradient, const struct optimizer_arrays *arrays)
{
    (void)d;
    (void)optimizer_kernels_chosen()->update[kind](step, n, gradient, arrays, arrays, false);
}

const struct device_optimizer_kind device_optimizer_cpu = {cpu_fill, NULL, cpu_square_sum, cpu_update};
