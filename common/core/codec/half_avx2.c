/* The kernels for AVX2 and F16C: built with -mavx2 -mf16c, used where the processor has both. */
#define KERNEL_LANES 8
#define KERNEL_TABLE half_kernels_avx2
#include "common/core/codec/half_kernels.h"
