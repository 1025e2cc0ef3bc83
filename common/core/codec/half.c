/* Hands arrays to the kernels of the instruction set that was chosen. */
#include "common/core/codec/half.h"

#include "common/core/codec/half_isa.h"

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

/* isa_chosen() gives none that is not supported. To ask again would cost more than many calls: CPUID is slow, and in a
 * virtual machine it takes microseconds. */
static const struct half_kernels *
half_chosen_kernels(void)
{
    return kernels[isa_chosen()];
}

void
half_from_floats(size_t n, const float *x, uint16_t *h)
{
    half_chosen_kernels()->half_from_floats(n, x, h);
}

void
half_to_floats(size_t n, const uint16_t *h, float *x)
{
    half_chosen_kernels()->half_to_floats(n, h, x);
}

void
bfloat_from_floats(size_t n, const float *x, uint16_t *h)
{
    half_chosen_kernels()->bfloat_from_floats(n, x, h);
}

void
bfloat_to_floats(size_t n, const uint16_t *h, float *x)
{
    half_chosen_kernels()->bfloat_to_floats(n, h, x);
}
