/* Functions of each instruction set's file. Internal to half.c and its test; all others use half.h. */
#ifndef COMMON_CORE_CODEC_HALF_ISA_H
#define COMMON_CORE_CODEC_HALF_ISA_H

#include "common/core/codec/half.h"
#include "common/core/codec/isa.h"

struct half_kernels {
    void (*half_from_floats)(size_t n, const float *x, uint16_t *h);
    void (*half_to_floats)(size_t n, const uint16_t *h, float *x);
    void (*bfloat_from_floats)(size_t n, const float *x, uint16_t *h);
    void (*bfloat_to_floats)(size_t n, const uint16_t *h, float *x);
};

extern const struct half_kernels half_kernels_plain;
#ifdef __x86_64__
extern const struct half_kernels half_kernels_avx2;
extern const struct half_kernels half_kernels_avx512;
#endif

/* Of a set that is supported. */
const struct half_kernels *half_kernels_of(enum isa isa);

#endif
