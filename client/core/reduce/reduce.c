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

void
reduce_divide(enum ps_dtype dtype, size_t n, void *x, uint32_t by)
{
    ps_assert((size_t)dtype < PS_DTYPES && by >= 1);
    reduce_kernels_of(isa_chosen())->divide[dtype](n, x, by);
}
