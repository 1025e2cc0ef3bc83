/* The kernels for AVX-512: built with -mavx512f, used where the processor has it. */
#define KERNEL_LANES 16
#define KERNEL_ISA   "avx512"
#define KERNEL_TABLE optimizer_kernels_avx512
#include "common/core/optimizer/optimizer_kernels.h"
