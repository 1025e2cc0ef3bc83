/* Which instruction set's kernels run. */
#include "common/core/codec/isa.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

static const char *const names[ISA_COUNT] = {[ISA_PLAIN] = "plain", [ISA_AVX2] = "avx2", [ISA_AVX512] = "avx512"};

const char *
isa_name(enum isa isa)
{
    return names[isa];
}

#ifdef __x86_64__
/* Not every clang's __builtin_cpu_supports() knows it by name. Asked once: in a virtual machine the host answers, which
 * takes longer than a small message. */
static bool
f16c_supported(void)
{
    static atomic_int known; /* 0: not yet, 1: no, 2: yes */
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    unsigned a, b, c, d;

    if (answer == 0) {
        answer = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0 ? 2 : 1;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == 2;
}
#endif

bool
isa_supported(enum isa isa)
{
    switch (isa) {
    case ISA_PLAIN:
        return true;
#ifdef __x86_64__
    case ISA_AVX2:
        return __builtin_cpu_supports("avx2") && f16c_supported();
    case ISA_AVX512:
        return __builtin_cpu_supports("avx512f") && isa_supported(ISA_AVX2);
#endif
    default:
        return false;
    }
}

enum isa
isa_choose(const char *name)
{
    int isa;

    for (isa = 0; name != NULL && isa < ISA_COUNT; isa++)
        if (strcmp(names[isa], name) == 0 && isa_supported((enum isa)isa))
            return (enum isa)isa;
    for (isa = ISA_COUNT - 1; !isa_supported((enum isa)isa); isa--)
        ;
    return (enum isa)isa;
}

/* Threads that come first together choose the same. */
enum isa
isa_chosen(void)
{
    static atomic_int chosen; /* 1 + enum isa; 0: not yet */
    int isa = atomic_load_explicit(&chosen, memory_order_relaxed);

    if (isa == 0) {
        isa = 1 + (int)isa_choose(getenv("PSD_ISA"));
        atomic_store_explicit(&chosen, isa, memory_order_relaxed);
    }
    return (enum isa)(isa - 1);
}
