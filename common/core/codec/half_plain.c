/* The kernels in vectors of 128 bits, which every x86-64 (SSE2) and arm64 (NEON) has. */
#define KERNEL_LANES 4
#define KERNEL_TABLE half_kernels_plain
#include "common/core/codec/half_kernels.h"
