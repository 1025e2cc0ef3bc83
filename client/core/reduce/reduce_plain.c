/* The kernels in vectors of 128 bits, which every x86-64 (SSE2) and arm64 (NEON) has; elsewhere the compiler takes them
 * apart. */
#define KERNEL_LANES 4
#define KERNEL_TABLE reduce_kernels_plain
#include "client/core/reduce/reduce_kernels.h"
