/* The kernels for AVX2: built with -mavx2 -mf16c, used where the processor has both. */
#define KERNEL_LANES 8
#define KERNEL_TABLE codec_kernels_avx2
#include "common/core/codec/codec_kernels.h"
