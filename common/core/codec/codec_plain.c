/* The kernels with what every processor of the architecture has. */
#define KERNEL_LANES 4
#define KERNEL_TABLE codec_kernels_plain
#include "common/core/codec/codec_kernels.h"
