/* Kernels of each instruction set's file, and the choice among them. Internal to the optimizer and its tests; all
 * others use optimizer.h. */
#ifndef COMMON_CORE_OPTIMIZER_OPTIMIZER_ISA_H
#define COMMON_CORE_OPTIMIZER_OPTIMIZER_ISA_H

#include "common/core/optimizer/optimizer_row.h"

/* Added to the bits of a float without its sign, these carry into the sign bit from 2^power on; or where it is NaN or
 * Inf. */
#define OPTIMIZER_CARRY(power)   (0x80000000u - ((127u + (power)) << 23))
#define OPTIMIZER_CARRY_INF      OPTIMIZER_CARRY(128)
#define OPTIMIZER_CARRY_STATE    OPTIMIZER_CARRY(OPTIMIZER_STATE_POWER)
#define OPTIMIZER_CARRY_GRADIENT OPTIMIZER_CARRY(OPTIMIZER_GRADIENT_POWER)

struct optimizer_kernels {
    const char *name;                                        /* "avx2" */
    optimizer_kernel update[PS_OPTIMIZER_KINDS];             /* grad is [n] f32 */
    optimizer_kernel update_half[PS_OPTIMIZER_KINDS];        /* [n] float16 */
    bool (*below)(size_t n, const float *x, uint32_t carry); /* all of them are below the limit */
    double (*square_sum)(size_t n, const float *x);
    void (*sum)(size_t n, size_t k, const float *const x[], float *sum);
};

extern const struct optimizer_kernels optimizer_kernels_plain;
#ifdef __x86_64__
extern const struct optimizer_kernels optimizer_kernels_avx2;
extern const struct optimizer_kernels optimizer_kernels_avx512;
#endif

/* The i-th of those that this machine runs, widest first; NULL past the last. */
const struct optimizer_kernels *optimizer_kernels_at(size_t i);

/* The one called name, or the widest when name is NULL or not among those that this machine runs. */
const struct optimizer_kernels *optimizer_kernels_choose(const char *name);

/* The one that is in use: PSD_ISA in the environment, or the widest. */
const struct optimizer_kernels *optimizer_kernels_chosen(void);

#endif
