/* Instruction sets that kernels are compiled for, and which of them run here: the choice is made once per process.
 *
 * A module with kernels has one file for each set (half_plain.c, half_avx2.c, ...), compiled with its -m flags, and a
 * table by enum isa. All sets give the same bits; PSD_ISA in the environment ("plain", "avx2", "avx512") takes a
 * narrower one. */
#ifndef COMMON_CORE_CODEC_ISA_H
#define COMMON_CORE_CODEC_ISA_H

#include "common/core/base/base.h"

enum isa {
    ISA_PLAIN,  /* what every processor of the architecture has: SSE2, NEON, or scalars */
    ISA_AVX2,   /* with F16C, which no processor with AVX2 lacks */
    ISA_AVX512, /* its foundation, AVX-512F */
    ISA_COUNT
};

const char *isa_name(enum isa isa);

/* This processor has it, and so kernels for it were built. */
bool isa_supported(enum isa isa);

/* The one called name, or the widest when name is NULL or not among those that are supported. */
enum isa isa_choose(const char *name);

/* The one that is in use: PSD_ISA, or the widest. Any thread. */
enum isa isa_chosen(void);

#endif
