/* Shared by kernels and the rest of the project, so that both compute the same: functions of one number, random
 * words, floats of 16 bits. These headers are plain C and know nothing of GPUs: nvcc compiles their functions for both
 * sides. */
#ifndef CLIENT_DEVICE_CUDA_SHARED_H
#define CLIENT_DEVICE_CUDA_SHARED_H

/* The headers that those below include, before "inline" is redefined. */
#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/param.h>

#include "client/device/cuda/lanes.h"
#include "common/core/base/base.h"

#ifdef __CUDACC__
#pragma push_macro("inline")
#define inline __host__ __device__ inline
#endif

#include "client/device/cpu/device_cpu_math.h"
#include "client/device/dropout.h"
#include "common/core/codec/half.h"
#include "common/core/model/elementary_scalar.h"
#include "common/core/model/philox.h"

#ifdef __CUDACC__
#pragma pop_macro("inline")
#endif

#endif
