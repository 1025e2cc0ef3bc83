/* Hands arrays to the kernels of the instruction set that was chosen. */
#include "client/core/reduce/reduce.h"

#include "client/core/reduce/reduce_isa.h"

/* From here on neither operand nor result stays in a cache, and a streamed store saves reading what it overwrites. */
#define STREAM_BYTES_MIN (16 * MIB)

static const struct reduce_kernels *const kernels[ISA_COUNT] = {
    [ISA_PLAIN] = &reduce_kernels_plain,
#ifdef __x86_64__
    [ISA_AVX2] = &reduce_kernels_avx2,
    [ISA_AVX512] = &reduce_kernels_avx512,
#endif
};

const struct reduce_kernels *
reduce_kernels_of(enum isa isa)
{
    ps_assert(isa_supported(isa) && kernels[isa] != NULL);
    return kernels[isa];
}

void
reduce(enum ps_dtype dtype, enum ps_reduce op, size_t n, void *out, const void *a, const void *b)
{
    const struct reduce_kernels *k = reduce_kernels_of(isa_chosen());

    ps_assert((size_t)dtype < PS_DTYPES && (size_t)op < REDUCE_OPS);
    if (n >= STREAM_BYTES_MIN / ps_dtype_size(dtype) && out != a && out != b && k->reduce_streamed[dtype][op] != NULL)
        k->reduce_streamed[dtype][op](n, out, a, b);
    else
        k->reduce[dtype][op](n, out, a, b);
}

static bool
is_half_type(enum ps_dtype dtype)
{
    return dtype == PS_F16 || dtype == PS_BF16;
}

/* The least power of two that is not below k. */
static uint32_t
reduce_power(uint32_t k)
{
    uint32_t power = 1;

    while (power < k)
        power *= 2;
    return power;
}

/* By what something kept of k elements is multiplied to become a part of what is kept of `all`. */
static float
reduce_weight(enum ps_dtype dtype, uint32_t k, uint32_t all)
{
    return is_half_type(dtype) ? (float)k / (float)all : (float)reduce_power(k) / (float)reduce_power(all);
}

void
reduce_mean(enum ps_dtype dtype, size_t n, void *out, const void *a, const void *b, struct reduce_counts of)
{
    const struct reduce_kernels *k = reduce_kernels_of(isa_chosen());
    float by_a = reduce_weight(dtype, of.a, of.a + of.b), by_b = reduce_weight(dtype, of.b, of.a + of.b);
    bool apart = out != a && out != b;

    ps_assert((size_t)dtype < PS_DTYPES && k->weigh[dtype] != NULL && of.a >= 1 && of.b >= 1);
    if (apart && n >= STREAM_BYTES_MIN / ps_dtype_size(dtype) && k->weigh_streamed[dtype] != NULL)
        k->weigh_streamed[dtype](n, out, a, b, by_a, by_b);
    else
        k->weigh[dtype](n, out, a, b, by_a, by_b);
}

bool
reduce_mean_is_kept(enum ps_dtype dtype, uint32_t k)
{
    return is_half_type(dtype) || reduce_power(k) == k;
}

void
reduce_mean_end(enum ps_dtype dtype, size_t n, void *x, uint32_t k)
{
    const struct reduce_kernels *kernels = reduce_kernels_of(isa_chosen());

    ps_assert((size_t)dtype < PS_DTYPES && kernels->weigh[dtype] != NULL && k >= 1 && k < UINT32_C(1) << 24);
    if (!reduce_mean_is_kept(dtype, k))
        kernels->divide[dtype](n, x, (float)k / (float)reduce_power(k)); /* exactly */
}
