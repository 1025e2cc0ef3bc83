/* How a gradient changes weights: the public structs (ps_optimizer.h) applied to a block's arrays. Pure.
 *
 *     struct optimizer_when when = {.version = block->version + 1, .clock = clock};
 *     finite = optimizer_apply(&v->optimizer, &when, scale, n, grad, &from, &to, stream);
 *
 * An optimizer is one file, rules/<name>.h, and one row of PS_OPTIMIZER_LIST. The file has what optimizer.c needs
 * (parameters, slots, values computed once per update, in double) and the rule, which optimizer_kernels.h compiles into
 * a loop for each instruction set: plain, AVX2, AVX-512. The choice among these is made at run time, and
 * PSD_ISA=plain|avx2|avx512 in the environment overrides it for tests. No fused multiply-add and one order of
 * operations, so that all of them give the same bits. */
#ifndef COMMON_CORE_OPTIMIZER_OPTIMIZER_H
#define COMMON_CORE_OPTIMIZER_OPTIMIZER_H

#include "common/core/base/base.h"
#include "common/core/model/layout.h"
#include "common/include/psclient/ps_err.h"
#include "common/include/psclient/ps_optimizer.h"

/* The arrays of one block: weights and slots, each [n] f32, 64-byte aligned. */
struct optimizer_arrays {
    float *weights;
    float *slot[LAYOUT_SLOTS_MAX];
};

/* An update's place in the training. */
struct optimizer_when {
    uint64_t version; /* that the block will have: counts from 1 */
    uint64_t clock;   /* for schedules by clock: counts from 0 */
};

/* ---- Parameters ---- */

/* Each by its name, which is the same in struct ps_optimizer, in the Optimizer message and in text. */
/* clang-format off */
#define OPTIMIZER_PARAMETER_LIST(X) \
    X(learning_rate) \
    X(momentum) \
    X(beta1) \
    X(beta2) \
    X(rho) \
    X(epsilon) \
    X(initial_accumulator) \
    X(learning_rate_power) \
    X(l1) \
    X(l2) \
    X(beta) \
    X(weight_decay)
/* clang-format on */

enum optimizer_parameter {
#define OPTIMIZER_PARAMETER_ENUM(name) PARAMETER_##name,
    OPTIMIZER_PARAMETER_LIST(OPTIMIZER_PARAMETER_ENUM)
#undef OPTIMIZER_PARAMETER_ENUM
        OPTIMIZER_PARAMETERS
};

/* "beta1" */
const char *optimizer_parameter_name(enum optimizer_parameter p);

double *optimizer_parameter(struct ps_optimizer *o, enum optimizer_parameter p);

/* Whether this kind has the parameter. */
bool optimizer_uses(enum ps_optimizer_kind kind, enum optimizer_parameter p);

/* PS_ERR_INVALID with a sentence: an unknown kind, a parameter, schedule or clip out of its range. */
enum ps_err optimizer_check(const struct ps_optimizer *o, struct ps_error *e) PS_MUST_USE;
enum ps_err clip_check(const struct ps_clip *c, struct ps_error *e) PS_MUST_USE;

/* A copy in which all unused fields are 0; the kind is known. */
struct ps_optimizer optimizer_used(const struct ps_optimizer *o);

/* The same in all that is used; the kinds are known. */
bool optimizer_equal(const struct ps_optimizer *a, const struct ps_optimizer *b);

/* Each parameter of x that is used, its schedule and its clip are a's or b's; all three are of one known kind, else
 * false. */
bool optimizer_of_either(const struct ps_optimizer *x, const struct ps_optimizer *a, const struct ps_optimizer *b);

/* ---- Work ---- */

/* Arrays besides the weights, at most LAYOUT_SLOTS_MAX. A block is laid out by it: parameters that change it may not be
 * set once the variable is declared (RMSProp's momentum from or to 0). */
uint32_t optimizer_slots(const struct ps_optimizer *o);

/* Values of slots before the first update. to: weights are left alone. */
void optimizer_start(const struct ps_optimizer *o, size_t n, const struct optimizer_arrays *to);

/* Weights were put there by other means than an update: slots from which the rule computes the weights (FTRL's) are
 * made to agree with them; others are left alone. */
void optimizer_follow(const struct ps_optimizer *o, size_t n, const struct optimizer_arrays *arrays);

/* The learning rate of that update, by the schedule. */
double optimizer_rate(const struct ps_optimizer *o, const struct optimizer_when *when);

/* How large numbers are: what could make an update of a block not finite, and what cannot. */
enum optimizer_magnitude {
    OPTIMIZER_NONFINITE = 0, /* some are NaN or Inf */
    OPTIMIZER_LARGE,         /* finite */
    OPTIMIZER_CALM           /* below 2^OPTIMIZER_STATE_POWER; of gradients, below 2^OPTIMIZER_GRADIENT_POWER */
};
#define OPTIMIZER_STATE_POWER    40
#define OPTIMIZER_GRADIENT_POWER 20

/* One update. grad: [n] f32, at least 4-byte aligned, multiplied by scale first. from and to may be the same arrays (in
 * place) or must not overlap. stream: use non-temporal stores (out of place and larger than the cache). Returns the
 * magnitude of the weights and slots after it. OPTIMIZER_NONFINITE: grad holds NaN or Inf, or a weight or slot
 * overflows; `to` is then written nevertheless, and the caller discards it. */
enum optimizer_magnitude optimizer_apply(const struct ps_optimizer *o, const struct optimizer_when *when, float scale,
                                         size_t n, const float *grad, const struct optimizer_arrays *from,
                                         const struct optimizer_arrays *to, bool stream);

/* The same of a gradient that is [n] float16 (half.h), at least 2-byte aligned: the same bits as of what it decodes to.
 * Not with PS_CLIP_BLOCK_NORM. */
enum optimizer_magnitude optimizer_apply_half(const struct ps_optimizer *o, const struct optimizer_when *when,
                                              float scale, size_t n, const uint16_t *grad,
                                              const struct optimizer_arrays *from, const struct optimizer_arrays *to,
                                              bool stream);

/* Whether one update of a calm block by a calm gradient, multiplied by at most 1, is finite whatever they hold. */
bool optimizer_keeps_finite(const struct ps_optimizer *o, const struct optimizer_when *when);

/* Of a gradient, or of first values. x: 4-byte aligned. */
enum optimizer_magnitude optimizer_magnitude_of_gradient(size_t n, const float *x);
enum optimizer_magnitude optimizer_magnitude_of_state(size_t n, const float *x);

/* False when any of x[0..n) is NaN or Inf. x: 4-byte aligned. */
bool optimizer_finite(size_t n, const float *x);

/* sum[i] = x[0][i] + x[1][i] + ... in that order; x: k arrays of [n] f32; sum may be x[0]. */
void optimizer_sum(size_t n, size_t k, const float *const x[], float *sum);

/* The L2 norm, the same bits on every instruction set. x: [n] f32, 4-byte aligned. */
double optimizer_norm(size_t n, const float *x);

/* "avx512", "avx2", "plain": what is in use. */
const char *optimizer_isa(void);

#endif
