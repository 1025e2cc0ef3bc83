/* Hands arrays to the kernels of the instruction set that was chosen. */
#include "half.h"

#include "half_isa.h"

static const struct half_kernels *const kernels[ISA_COUNT] = {
    [ISA_PLAIN] = &half_kernels_plain,
#ifdef __x86_64__
    [ISA_AVX2] = &half_kernels_avx2,
    [ISA_AVX512] = &half_kernels_avx512,
#endif
};

const struct half_kernels *
half_kernels_of(enum isa isa)
{
    ps_assert(isa_supported(isa) && kernels[isa] != NULL);
    return kernels[isa];
}

void
half_from_floats(size_t n, const float *x, uint16_t *h)
{
    half_kernels_of(isa_chosen())->half_from_floats(n, x, h);
}

void
half_to_floats(size_t n, const uint16_t *h, float *x)
{
    half_kernels_of(isa_chosen())->half_to_floats(n, h, x);
}

void
bfloat_from_floats(size_t n, const float *x, uint16_t *h)
{
    half_kernels_of(isa_chosen())->bfloat_from_floats(n, x, h);
}

void
bfloat_to_floats(size_t n, const uint16_t *h, float *x)
{
    half_kernels_of(isa_chosen())->bfloat_to_floats(n, h, x);
}
