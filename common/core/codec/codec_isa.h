/* Functions of each instruction set's file: short loops over runs that lie in the first cache. Internal to codec.c and
 * its test. */
#ifndef COMMON_CORE_CODEC_CODEC_ISA_H
#define COMMON_CORE_CODEC_CODEC_ISA_H

#include "common/core/codec/codec.h"
#include "common/core/codec/isa.h"

struct codec_kernels {
    /* e = gradient + residual, within 2^127 */
    void (*feed)(size_t n, const float *gradient, const float *residual, float *e);
    /* y = x, within most */
    void (*limit)(size_t n, const float *x, float most, float *y);
    /* residual = e - decoded */
    void (*rest)(size_t n, const float *e, const float *decoded, float *residual);
    /* residual += decoded - gradient, the difference first: it is small */
    void (*undo)(size_t n, const float *decoded, const float *gradient, float *residual);
    /* the largest magnitude */
    float (*largest)(size_t n, const float *x);
    /* q = x / scale, scale > 0, to nearest even, within 127; of NaN any */
    void (*quantize)(size_t n, const float *x, float scale, int8_t *q);
    void (*expand)(size_t n, const int8_t *q, float scale, float *x);
    /* h = gradient + residual, within 2^127, as float16 (within its most) or bfloat16; left = what h leaves out. left
     * may be residual. Any n: memory is read and written once. */
    void (*half_encode)(size_t n, const float *gradient, const float *residual, float *left, uint16_t *h);
    void (*bfloat_encode)(size_t n, const float *gradient, const float *residual, float *left, uint16_t *h);
};

extern const struct codec_kernels codec_kernels_plain;
#ifdef __x86_64__
extern const struct codec_kernels codec_kernels_avx2;
extern const struct codec_kernels codec_kernels_avx512;
#endif

/* Of a set that is supported. */
const struct codec_kernels *codec_kernels_of(enum isa isa);

/* Use these from now on, in this process: for tests. */
void codec_use(enum isa isa);

#endif
