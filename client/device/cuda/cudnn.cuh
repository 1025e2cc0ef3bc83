/* cuDNN, which is loaded when the first convolution asks for it: without it convolutions are products of patches. Its
 * few functions are declared here, as of version 9, so that the module builds without its header. */
#ifndef CLIENT_DEVICE_CUDA_CUDNN_CUH
#define CLIENT_DEVICE_CUDA_CUDNN_CUH

#include "client/device/cuda/module.cuh"
#include "client/device/cuda/patches.h"

struct cudnn_state; /* of a device */

/* As run_convolution(), convolution_operations.h. */
int cudnn_run(PS_MODULE_DEVICE, enum convolution_pass pass, size_t rows, const struct ps_module_conv2d *c,
              const float *a, const float *b, float *out, void *workspace, size_t size);

void cudnn_close(struct cudnn_state *state); /* accepts NULL */

#endif
