/* The kernels for AVX2: built with -mavx2, used where the processor has it. */
#define KERNEL_LANES 8
#define KERNEL_ISA   "avx2"
#define KERNEL_TABLE optimizer_kernels_avx2
#include "common/core/optimizer/optimizer_kernels.h"
