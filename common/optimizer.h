/* How a gradient changes weights. One table row and one kernel per optimizer. Pure.
 *
 *     const struct optimizer_row *row = optimizer_row(kind);
 *     finite = optimizer_apply(&opt, step, scale, n, grad, old, new);
 *
 * The kernels are written once over vectors (optimizer_kernels.h) and compiled for each instruction set: plain, AVX2,
 * AVX-512; the choice is made at run time, and PSD_ISA=plain|avx2|avx512 in the environment overrides it for tests. No
 * fused multiply-add and one order of operations, so that all of them give the same bits.
 *
 * Adding an optimizer: a row in optimizer.c, a kernel in optimizer_kernels.h, a number: the same here, in psd.proto
 * and in psclient.h. wire_describe.c says which parameters it has. */
#ifndef COMMON_OPTIMIZER_H
#define COMMON_OPTIMIZER_H

#include "base.h"
#include "layout.h"
#include "ps_err.h"

/* Numbers are those of the protocol's OptimizerKind. */
enum optimizer_kind { OPT_SGD, OPT_MOMENTUM, OPT_NESTEROV, OPT_ADAGRAD, OPT_ADAM, OPT_KIND_MAX };

struct optimizer {
    enum optimizer_kind kind;
    double learning_rate;
    double momentum;            /* momentum, Nesterov */
    double beta1, beta2;        /* Adam */
    double epsilon;             /* Adagrad, Adam */
    double initial_accumulator; /* Adagrad */
};

/* The arrays of one block: weights and slots, each [n] f32, 64-byte aligned. */
struct optimizer_arrays {
    float *weights;
    float *slot[LAYOUT_SLOTS_MAX];
};

/* What a kernel needs, rounded to f32 where it works in f32. */
struct optimizer_step {
    float rate;  /* learning rate, bias-corrected where the optimizer does that */
    float scale; /* the gradient is multiplied by this first (age, mean of k) */
    float momentum, beta1, beta2, one_minus_beta1, one_minus_beta2, epsilon;
};

/* grad: [n] f32, at least 4-byte aligned. from and to may be the same arrays (in place) or must not overlap. stream:
 * use non-temporal stores (out of place and larger than the cache). Returns false when grad holds NaN or Inf; `to` is
 * then written all the same and the caller throws it away. */
typedef bool (*optimizer_kernel)(const struct optimizer_step *s, size_t n, const float *grad,
                                 const struct optimizer_arrays *from, const struct optimizer_arrays *to, bool stream);

struct optimizer_row {
    const char *name; /* "adam" */
    uint32_t slots;
    const char *source; /* paper */
    enum ps_err (*check)(const struct optimizer *o, struct ps_error *e);
    void (*prepare)(const struct optimizer *o, uint64_t step, struct optimizer_step *s); /* step counts from 1 */
    float (*slot_start)(const struct optimizer *o, uint32_t slot);                       /* first value of a slot */
};

/* NULL for a number that is not known. */
const struct optimizer_row *optimizer_row(int kind);

/* By name ("adam"), with the large frameworks' defaults: SGD 0.01; momentum and Nesterov 0.01, 0.9; Adagrad 0.01, start
 * 0.1, epsilon 1e-7; Adam 0.001, 0.9, 0.999, 1e-7. PS_ERR_INVALID with a sentence that lists the names. */
enum ps_err optimizer_by_name(const char *name, struct optimizer *out, struct ps_error *e) PS_MUST_USE;

/* PS_ERR_INVALID with a sentence: a parameter that is not finite or out of its range. */
enum ps_err optimizer_check(const struct optimizer *o, struct ps_error *e) PS_MUST_USE;

/* Values of slots before the first update. to: weights are left alone. */
void optimizer_start(const struct optimizer *o, size_t n, const struct optimizer_arrays *to);

/* One update: step is the version that the block will have (counts from 1). See optimizer_kernel for the arrays. */
bool optimizer_apply(const struct optimizer *o, uint64_t step, float scale, size_t n, const float *grad,
                     const struct optimizer_arrays *from, const struct optimizer_arrays *to, bool stream);

/* False when any of x[0..n) is NaN or Inf. x: 4-byte aligned. */
bool optimizer_finite(size_t n, const float *x);

/* sum[i] = x[0][i] + x[1][i] + ... in that order; x: k arrays of [n] f32; sum may be x[0]. */
void optimizer_sum(size_t n, size_t k, const float *const x[], float *sum);

/* "avx512", "avx2", "plain": what is in use. */
const char *optimizer_isa(void);

#endif
