/* Which instruction set's kernels run: chosen once per process. */
#include "common/core/optimizer/optimizer_isa.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/codec/isa.h"

/* Widest first. */
static const struct {
    const struct optimizer_kernels *kernels;
    enum isa isa;
} isas[] = {
#ifdef __x86_64__
    {&optimizer_kernels_avx512, ISA_AVX512},
    {&optimizer_kernels_avx2, ISA_AVX2},
#endif
    {&optimizer_kernels_plain, ISA_PLAIN},
};

const struct optimizer_kernels *
optimizer_kernels_at(size_t i)
{
    for (size_t k = 0; k < ARRAY_LEN(isas); k++)
        if (isa_supported(isas[k].isa) && i-- == 0)
            return isas[k].kernels;
    return NULL;
}

const struct optimizer_kernels *
optimizer_kernels_choose(const char *name)
{
    const struct optimizer_kernels *k;

    for (size_t i = 0; name != NULL && (k = optimizer_kernels_at(i)) != NULL; i++)
        if (strcmp(k->name, name) == 0)
            return k;
    return optimizer_kernels_at(0);
}

/* The choice, made at the first call. Threads that come first together choose the same. */
const struct optimizer_kernels *
optimizer_kernels_chosen(void)
{
    static _Atomic(const struct optimizer_kernels *) chosen;
    const struct optimizer_kernels *k = atomic_load_explicit(&chosen, memory_order_relaxed);

    if (k == NULL) {
        k = optimizer_kernels_choose(getenv("PSD_ISA"));
        atomic_store_explicit(&chosen, k, memory_order_relaxed);
    }
    return k;
}

const char *
optimizer_isa(void)
{
    return optimizer_kernels_chosen()->name;
}

bool
optimizer_finite(size_t n, const float *x)
{
    return optimizer_kernels_chosen()->below(n, x, OPTIMIZER_CARRY_INF);
}

static enum optimizer_magnitude
optimizer_magnitude_of(size_t n, const float *x, uint32_t carry)
{
    if (optimizer_kernels_chosen()->below(n, x, carry))
        return OPTIMIZER_CALM;
    return optimizer_finite(n, x) ? OPTIMIZER_LARGE : OPTIMIZER_NONFINITE;
}

enum optimizer_magnitude
optimizer_magnitude_of_gradient(size_t n, const float *x)
{
    return optimizer_magnitude_of(n, x, OPTIMIZER_CARRY_GRADIENT);
}

enum optimizer_magnitude
optimizer_magnitude_of_state(size_t n, const float *x)
{
    return optimizer_magnitude_of(n, x, OPTIMIZER_CARRY_STATE);
}

void
optimizer_sum(size_t n, size_t k, const float *const x[], float *sum)
{
    ps_assert(k >= 1);
    optimizer_kernels_chosen()->sum(n, k, x, sum);
}

double
optimizer_norm(size_t n, const float *x)
{
    return sqrt(optimizer_kernels_chosen()->square_sum(n, x));
}
