/* An optimizer over a worker's own memory: what shards do to a variable's blocks, done to a plain array. Pure.
 *
 *     struct local_optimizer adam[2], *list[] = {&adam[0], &adam[1]};
 *     local_optimizer_init(&adam[0], &spec, elements, &error); ...
 *     for (clock = 0; ...; clock++) {
 *         struct local_step step = {.clock = clock, .scale = 1};
 *         local_optimizer_step(2, list, &step, weights, gradients, &error);
 *     }
 *
 * The array is cut as a variable of its size is (common/core/model/layout.h), and so an update has the bits of a
 * shard's, clipping by a block's norm included: a worker that steps here ends where one that pushes to shards, alone or
 * with others whose mean the gradient is, would have ended.
 *
 * One object per array. It allocates in init(), and in a step with numbers so large that it may be refused. One thread
 * at a time. */
#ifndef CLIENT_CORE_SHARDS_LOCAL_OPTIMIZER_H
#define CLIENT_CORE_SHARDS_LOCAL_OPTIMIZER_H

#include "common/core/base/base.h"
#include "common/core/model/layout.h"
#include "common/include/psclient/ps_optimizer.h"

/* Open, so that its state can be sent to another worker or saved: all there is between two steps is `version` and
 * `slots` arrays of layout.elements floats. What is written there is what goes on. */
struct local_optimizer {
    struct ps_optimizer optimizer;
    struct layout layout;
    uint64_t version; /* updates taken */
    uint32_t slots;
    float *slot[LAYOUT_SLOTS_MAX]; /* [layout.elements], 64-byte aligned */
    float *aside;                  /* the largest block's weights, where those of the caller are not aligned */
    bool allow_nonfinite;          /* gradients with NaN or Inf are applied instead of refused */
    bool calm; /* the slots are OPTIMIZER_CALM; false: not known, as when others have written them */
};

/* elements: at least 1. INVALID as a declaration would be, NOMEM; *l is finished then. */
enum ps_err local_optimizer_init(struct local_optimizer *l, const struct ps_optimizer *optimizer, uint64_t elements,
                                 struct ps_error *e) PS_MUST_USE;
void local_optimizer_finish(struct local_optimizer *l); /* accepts NULL and zeroed */

/* As after init(): no updates, slots at their first values. */
void local_optimizer_reset(struct local_optimizer *l);

/* What the gradient is multiplied by in a step of this scale whose gradients, scaled, have this norm together: less
 * where the optimizer clips by it. */
float local_optimizer_scale(const struct local_optimizer *l, float scale, double norm);

struct local_step {
    uint64_t clock; /* for schedules by clock */
    float scale;    /* the gradients are multiplied by this first: 1 over the workers where they are sums */
    double norm;    /* for PS_CLIP_GIVEN_NORM: of all gradients of the step, scaled. 0: computed over those given here,
                       in double */
};

/* One update of each of n arrays. weights[i], grads[i]: [l[i]->layout.elements] f32, 4-byte aligned (64 is faster for
 * weights); grads are read only. All or nothing: NONFINITE, and no array has changed, when a gradient of one that
 * refuses that, or the norm, is not finite, or when weights or slots would not be; it names the array by its place in
 * the list. NOMEM: no memory to keep what there was before an update that may be refused. */
enum ps_err local_optimizer_step(size_t n, struct local_optimizer *const l[], const struct local_step *step,
                                 float *const weights[], const float *const grads[], struct ps_error *e) PS_MUST_USE;

#endif
