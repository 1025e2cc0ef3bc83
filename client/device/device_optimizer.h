/* Optimizers at work where weights, slots and gradients lie: in a device's memory, in one pass over them. The same as a
 * shard does to a block (common/core/optimizer/optimizer.h), to the same bits: on the CPU by the same kernels, on a GPU
 * by the same rules.
 *
 *     struct device_update u = {.when = {.version = ++version, .clock = clock}, .scale = scale, .check = true};
 *     device_optimizer_apply(device, &adam, &u, elements, gradient, &arrays, &error);
 *
 * Clipping by the block's norm takes the n elements of a call for the block. A norm given (PS_CLIP_GIVEN_NORM) is the
 * caller's to put into the scale. */
#ifndef CLIENT_DEVICE_DEVICE_OPTIMIZER_H
#define CLIENT_DEVICE_DEVICE_OPTIMIZER_H

#include "client/include/psclient/ps_device.h"
#include "common/core/optimizer/optimizer.h"

struct device_update {
    struct optimizer_when when;
    float scale; /* the gradient is multiplied by this first */
    bool check;  /* NONFINITE, and nothing has changed, when the gradient holds NaN or Inf; costs a pass and a wait */
};

/* Slots to their first values. arrays: of d's memory, each [n] f32, 64-byte aligned; weights are left alone. */
enum ps_err device_optimizer_start(ps_device *d, const struct ps_optimizer *o, size_t n,
                                   const struct optimizer_arrays *arrays, struct ps_error *e) PS_MUST_USE;

/* One update in place. gradient: [n] f32 of d's memory. The optimizer has been checked (optimizer_check()). Takes its
 * turn among the device's operations; done when ps_device_finish() has returned. UNSUPPORTED: this kind of device has
 * no optimizers. */
enum ps_err device_optimizer_apply(ps_device *d, const struct ps_optimizer *o, const struct device_update *u, size_t n,
                                   const float *gradient, const struct optimizer_arrays *arrays,
                                   struct ps_error *e) PS_MUST_USE;

/* A device_norm() of the same will follow: begin it now, so that it costs no wait of its own when something else was
 * waited for meanwhile. Only a hint: a device that is called in between to write anything computes it anew. */
void device_norm_start(ps_device *d, size_t n, const float *x);

/* The L2 norm of x: [n], in double; waits. On a GPU in another order of adding than on the CPU. */
enum ps_err device_norm(ps_device *d, size_t n, const float *x, double *norm, struct ps_error *e) PS_MUST_USE;

/* ---- What a kind of device provides ---- */

struct optimizer_step;

struct device_optimizer_kind {
    void (*fill)(ps_device *d, size_t n, float value, float *x);
    void (*square_sum_start)(ps_device *d, size_t n, const float *x); /* NULL: that is not worth while */
    enum ps_err (*square_sum)(ps_device *d, size_t n, const float *x, double *sum, struct ps_error *e);
    void (*update)(ps_device *d, enum ps_optimizer_kind kind, const struct optimizer_step *step, size_t n,
                   const float *gradient, const struct optimizer_arrays *arrays);
};

extern const struct device_optimizer_kind device_optimizer_cpu;

#endif
