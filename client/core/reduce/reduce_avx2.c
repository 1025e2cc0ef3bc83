/* The kernels for AVX2: built with -mavx2 and -mf16c, used where the processor has them. */
#define KERNEL_LANES 8
#define KERNEL_TABLE reduce_kernels_avx2
#include "client/core/reduce/reduce_kernels.h"
