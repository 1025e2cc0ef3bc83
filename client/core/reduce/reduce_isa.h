/* What each instruction set's file gives. Internal to reduce.c and its test; all else uses reduce.h. */
#ifndef CLIENT_CORE_REDUCE_REDUCE_ISA_H
#define CLIENT_CORE_REDUCE_REDUCE_ISA_H

#include "client/core/reduce/reduce.h"
#include "common/core/codec/isa.h"

#define REDUCE_OPS (PS_PRODUCT + 1)

struct reduce_kernels {
    void (*reduce[PS_DTYPES][REDUCE_OPS])(size_t n, void *out, const void *a, const void *b);
    /* The same past the caches, for an out that is neither operand; NULL where that is not worth while. */
    void (*reduce_streamed[PS_DTYPES][REDUCE_OPS])(size_t n, void *out, const void *a, const void *b);
    /* a * by_a + b * by_b, where by_a + by_b is hardly above 1, no larger than the largest number; NULL for integers.
     */
    void (*weigh[PS_DTYPES])(size_t n, void *out, const void *a, const void *b, float by_a, float by_b);
    void (*weigh_streamed[PS_DTYPES])(size_t n, void *out, const void *a, const void *b, float by_a, float by_b);
    void (*divide[PS_DTYPES])(size_t n, void *x, float by); /* of float32 and float64, no larger either; else NULL */
};

extern const struct reduce_kernels reduce_kernels_plain;
#ifdef __x86_64__
extern const struct reduce_kernels reduce_kernels_avx2;
extern const struct reduce_kernels reduce_kernels_avx512;
#endif

/* Of a set that is supported. */
const struct reduce_kernels *reduce_kernels_of(enum isa isa);

#endif
