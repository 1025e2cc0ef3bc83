/* Activations, element by element, each possibly in place. */
#include "client/device/cpu/device_cpu.h"
#include "client/device/cpu/device_cpu_math.h"

void
cpu_relu_forward(ps_device *d, size_t n, const float *x, float *y)
{
    (void)d;
    ELEMENTWISE
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] < 0 ? 0 : x[i]; /* in this order a NaN stays */
}

void
cpu_relu_backward(ps_device *d, size_t n, const float *y, const float *dy, float *dx)
{
    (void)d;
    ELEMENTWISE
    for (size_t i = 0; i < n; i++) {
        float passed = dy[i];

        dx[i] = y[i] > 0 ? passed : 0;
    }
}

void
cpu_tanh_forward(ps_device *d, size_t n, const float *x, float *y)
{
    (void)d;
    ELEMENTWISE
    for (size_t i = 0; i < n; i++)
        y[i] = math_tanh(x[i]);
}

void
cpu_tanh_backward(ps_device *d, size_t n, const float *y, const float *dy, float *dx)
{
    (void)d;
    ELEMENTWISE
    for (size_t i = 0; i < n; i++)
        dx[i] = dy[i] * (1 - y[i] * y[i]);
}

void
cpu_sigmoid_forward(ps_device *d, size_t n, const float *x, float *y)
{
    (void)d;
    ELEMENTWISE
    for (size_t i = 0; i < n; i++)
        y[i] = math_sigmoid(x[i]);
}

void
cpu_sigmoid_backward(ps_device *d, size_t n, const float *y, const float *dy, float *dx)
{
    (void)d;
    ELEMENTWISE
    for (size_t i = 0; i < n; i++)
        dx[i] = dy[i] * (y[i] * (1 - y[i]));
}

/* Beyond this the normal distribution is 0 or 1 in f32; from here on infinity times 0 would be NaN. */
#define GELU_FAR 15.0f

void
cpu_gelu_forward(ps_device *d, size_t n, const float *x, float *y)
{
    (void)d;
    ELEMENTWISE
    for (size_t i = 0; i < n; i++) {
        float density, below;

        math_normal(x[i], &density, &below);
        y[i] = (x[i] < -GELU_FAR ? -GELU_FAR : x[i]) * below;
    }
}

void
cpu_gelu_backward(ps_device *d, size_t n, const float *x, const float *dy, float *dx)
{
    (void)d;
    ELEMENTWISE
    for (size_t i = 0; i < n; i++) {
        float near = x[i] < -GELU_FAR ? -GELU_FAR : x[i] > GELU_FAR ? GELU_FAR : x[i], density, below;

        math_normal(near, &density, &below);
        dx[i] = dy[i] * (below + near * density);
    }
}
