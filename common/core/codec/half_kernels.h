/* The loops of half.h over vectors of KERNEL_LANES floats, compiled by each of half_plain.c, half_avx2.c and
 * half_avx512.c with its own -m flags, which define KERNEL_LANES and KERNEL_TABLE first. Remaining elements go one at a
 * time. */
#ifndef KERNEL_TABLE
#error "define KERNEL_LANES and KERNEL_TABLE first"
#endif

#include "common/core/codec/half_isa.h"
#include "common/core/codec/half_lanes_kernels.h"

typedef float floats_anywhere __attribute__((vector_size(KERNEL_LANES * 4), may_alias, aligned(4)));

static void
half_from(size_t n, const float *x, uint16_t *h)
{
    size_t i = 0;

    for (; i + KERNEL_LANES <= n; i += KERNEL_LANES)
        half_store(h + i, *(const floats_anywhere *)(x + i));
    for (; i < n; i++)
        h[i] = half_from_float(x[i]);
}

static void
half_to(size_t n, const uint16_t *h, float *x)
{
    size_t i = 0;

    for (; i + KERNEL_LANES <= n; i += KERNEL_LANES)
        *(floats_anywhere *)(x + i) = half_load(h + i);
    for (; i < n; i++)
        x[i] = half_to_float(h[i]);
}

static void
bfloat_from(size_t n, const float *x, uint16_t *h)
{
    size_t i = 0;

    for (; i + KERNEL_LANES <= n; i += KERNEL_LANES)
        bfloat_store(h + i, *(const floats_anywhere *)(x + i));
    for (; i < n; i++)
        h[i] = bfloat_from_float(x[i]);
}

static void
bfloat_to(size_t n, const uint16_t *h, float *x)
{
    size_t i = 0;

    for (; i + KERNEL_LANES <= n; i += KERNEL_LANES)
        *(floats_anywhere *)(x + i) = bfloat_load(h + i);
    for (; i < n; i++)
        x[i] = bfloat_to_float(h[i]);
}

const struct half_kernels KERNEL_TABLE = {half_from, half_to, bfloat_from, bfloat_to};
