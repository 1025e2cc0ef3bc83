/* Convolutions by a library, where there is one that takes the shape: it has windows without patches. Its filters are
 * [out, window, in], each beside its own, so weights are transposed on their way.
 *
 * A file that includes operations.h has defined, besides what stands there,
 *
 *     run_convolution(d, pass, rows, c, a, b, out, workspace, size)
 *
 * false, and nothing was begun: the library is missing, or does not take this shape in this precision with so many
 * bytes of workspace and the same bits every time. */
#ifndef CLIENT_DEVICE_CUDA_CONVOLUTION_OPERATIONS_H
#define CLIENT_DEVICE_CUDA_CONVOLUTION_OPERATIONS_H

#include "client/device/cuda/patches.h"

/* Filters lie at the start of the scratch memory, what the library works with behind them. */
struct convolution_scratch {
    size_t window; /* elements of one filter */
    float *filters, *workspace;
    size_t size; /* bytes of workspace; 0: there is no room */
};

#define CONVOLUTION_ALIGN 64 /* floats: what a library may want of its workspace */

static struct convolution_scratch
convolution_scratch_of(PS_MODULE_DEVICE, const struct ps_module_conv2d *c)
{
    struct convolution_scratch s = {c->y.window * c->x.window * c->in, d->scratch, NULL, 0};
    size_t filters = (s.window * c->out + CONVOLUTION_ALIGN - 1) / CONVOLUTION_ALIGN * CONVOLUTION_ALIGN;

    if (filters < d->scratch_floats) {
        s.workspace = d->scratch + filters;
        s.size = (d->scratch_floats - filters) * sizeof *s.workspace;
    }
    return s;
}

/* Elements of a patch from which on a library is as fast with the same bits every time as products of patches are, for
 * gradients: measured with cuDNN 9 on an H100. Filters' gradients in float32 never are. Forward it always is. */
#define CONVOLUTION_DATA_MIN   128
#define CONVOLUTION_FILTER_MIN 256

/* bfloat16 has factors of 16 bits, which are made of patches. A window that is a pixel is a product as it is. */
static int
convolution_may(PS_MODULE_DEVICE, const struct ps_module_conv2d *c, size_t least)
{
    return d->precision != PS_MODULE_BFLOAT16 && c->at_once != 0 && c->y.window * c->x.window * c->in >= least;
}

/* False: not done. */
static int
convolution_forward(PS_MODULE_DEVICE, size_t rows, const struct ps_module_conv2d *c, const float *x, const float *w,
                    const float *b, float *y)
{
    struct convolution_scratch s = convolution_scratch_of(d, c);

    if (!convolution_may(d, c, 1) || s.size == 0)
        return 0;
    RUN_ELEMENTS(d, transpose, s.window * c->out, c->out, s.window, w, s.filters);
    if (!run_convolution(d, CONVOLUTION_FORWARD, rows, c, x, s.filters, y, s.workspace, s.size))
        return 0;
    if (b != NULL)
        RUN_ELEMENTS(d, bias_forward, QUADS(rows * c->y.out * c->x.out * c->out), rows * c->y.out * c->x.out * c->out,
                     c->out, y, b, y);
    return 1;
}

static int
convolution_data(PS_MODULE_DEVICE, size_t rows, const struct ps_module_conv2d *c, const float *w, const float *dy,
                 float *dx)
{
    struct convolution_scratch s = convolution_scratch_of(d, c);

    if (!convolution_may(d, c, CONVOLUTION_DATA_MIN) || s.size == 0)
        return 0;
    RUN_ELEMENTS(d, transpose, s.window * c->out, c->out, s.window, w, s.filters);
    return run_convolution(d, CONVOLUTION_DATA, rows, c, dy, s.filters, dx, s.workspace, s.size);
}

static int
convolution_filter(PS_MODULE_DEVICE, size_t rows, const struct ps_module_conv2d *c, const float *x, const float *dy,
                   float *dw)
{
    struct convolution_scratch s = convolution_scratch_of(d, c);

    if (d->precision == PS_MODULE_FLOAT32 || !convolution_may(d, c, CONVOLUTION_FILTER_MIN) || s.size == 0 ||
        !run_convolution(d, CONVOLUTION_FILTER, rows, c, x, dy, s.filters, s.workspace, s.size))
        return 0;
    RUN_ELEMENTS(d, transpose, s.window * c->out, s.window, c->out, s.filters, dw);
    return 1;
}

#endif
