/* Internal to the CPU device: matrix products by OpenBLAS, the rest as plain loops that the compiler vectorizes.
 *
 * Device memory is host memory, and every operation is done when its call returns. Matrix products are the only thing
 * that OpenBLAS's threads share; how it cuts them depends on the shape and the number of threads alone, and all other
 * sums have an order of their own, so the same call gives the same bits, independent of earlier calls. */
#ifndef CLIENT_DEVICE_CPU_DEVICE_CPU_H
#define CLIENT_DEVICE_CPU_DEVICE_CPU_H

#include <stdbool.h>

#include "client/device/device.h"

/* c = a b + keep c, keep 0 or 1. a: [m, k], or [k, m] when transposed; b: [k, n], or [n, k]; c: [m, n]. With keep 0
 * what c held does not matter. */
void cpu_product(bool a_transposed, bool b_transposed, size_t m, size_t n, size_t k, const float *a, const float *b,
                 float keep, float *c);

/* Sums over rows are made of sums over so many rows, which keeps the error of a long one small: a convolution's bias
 * has a row for every pixel of every image. So many columns at a time stay in registers or the first cache. */
#define CPU_SUM_ROWS    64
#define CPU_SUM_COLUMNS 64

#define DEVICE_OP_CPU(name, ...) void cpu_##name(ps_device *d, __VA_ARGS__);
DEVICE_COMPUTE_OPS(DEVICE_OP_CPU)

#endif
