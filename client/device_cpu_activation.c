/* Activations, element by element. */
#include "client/device_cpu.h"

#include <math.h>

void
cpu_relu_forward(ps_device *d, size_t n, const float *x, float *y)
{
    (void)d;
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] < 0 ? 0 : x[i]; /* in this order a NaN stays */
}

void
cpu_relu_backward(ps_device *d, size_t n, const float *y, const float *dy, float *dx)
{
    (void)d;
    for (size_t i = 0; i < n; i++)
        dx[i] = y[i] > 0 ? dy[i] : 0;
}

void
cpu_tanh_forward(ps_device *d, size_t n, const float *x, float *y)
{
    (void)d;
    for (size_t i = 0; i < n; i++)
        y[i] = tanhf(x[i]);
}

void
cpu_tanh_backward(ps_device *d, size_t n, const float *y, const float *dy, float *dx)
{
    (void)d;
    for (size_t i = 0; i < n; i++)
        dx[i] = dy[i] * (1 - y[i] * y[i]);
}
