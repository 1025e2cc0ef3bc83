/* The kernels for AVX-512: built with -mavx512f, used where the processor has it. */
#define KERNEL_LANES 16
#define KERNEL_TABLE reduce_kernels_avx512
#include "client/core/reduce/reduce_kernels.h"
