/* Kernels of convolutions: from images to matrices of patches and back (client/device/cpu/device_cpu_conv.c explains
 * how a convolution becomes a product). A patch is the part of an image that one window covers: [window height, window
 * width, in]. Patches are numbered over all windows of all images; some at a time lie in memory, from `image` and
 * `place` on. */
#ifndef CLIENT_DEVICE_CUDA_PATCHES_H
#define CLIENT_DEVICE_CUDA_PATCHES_H

#include "client/device/cuda/elements.h"

struct patches_args {
    struct ps_module_conv2d c;
    size_t image, place; /* of the first patch: its image, and its window on that */
    size_t n;            /* patches */
    const float *from;
    float *to;
};

#define gather_args  patches_args
#define scatter_args patches_args

/* to: [n, patch], 0 where padding lies. from: the images. Element i of to. */
KERNEL_ELEMENT(gather)
{
    const struct ps_module_conv2d *c = &k->c;
    size_t windows = c->y.out * c->x.out, rest = i;
    size_t channel = split(&rest, c->in), x = split(&rest, c->x.window), y = split(&rest, c->y.window);
    size_t image = k->place + rest, window = split(&image, windows);
    size_t line = window, column = split(&line, c->x.out);

    y += line * c->y.stride; /* counted from the padding's first element */
    x += column * c->x.stride;
    if (y < c->y.before || y - c->y.before >= c->y.size || x < c->x.before || x - c->x.before >= c->x.size)
        k->to[i] = 0;
    else
        k->to[i] = k->from[(((k->image + image) * c->y.size + y - c->y.before) * c->x.size + x - c->x.before) * c->in +
                           channel];
}

/* to: the images, from number `image` on, as many as the patches touch; each patch is added where it came from. from:
 * [n, patch]. Element i of those images. */
KERNEL_ELEMENT(scatter)
{
    const struct ps_module_conv2d *c = &k->c;
    struct element_place at = element_place_of(i, c->y.size, c->x.size, c->in);
    struct element_windows down = windows_over(&c->y, at.y), along = windows_over(&c->x, at.x);
    float *to = k->to + k->image * c->y.size * c->x.size * c->in + i, sum = *to;

    for (size_t y = down.first; y < down.end; y++)
        for (size_t x = along.first; x < along.end; x++) {
            size_t number = (at.row * c->y.out + y) * c->x.out + x;

            if (number < k->place || number - k->place >= k->n)
                continue;
            sum += k->from[(((number - k->place) * c->y.window + at.y + c->y.before - y * c->y.stride) * c->x.window +
                            at.x + c->x.before - x * c->x.stride) *
                               c->in +
                           at.channel];
        }
    *to = sum;
}

/* ---- By a library ---- */

enum convolution_pass {
    CONVOLUTION_FORWARD, /* a: x, b: filters, out: y */
    CONVOLUTION_DATA,    /* a: dy, b: filters, out: dx */
    CONVOLUTION_FILTER,  /* a: x, b: dy, out: filters' gradients */
    CONVOLUTION_PASSES
};

/* Weights to filters, which lie each beside its own, and back. */
struct transpose_args {
    size_t rows, columns; /* of to */
    const float *from;    /* [columns, rows] */
    float *to;            /* [rows, columns] */
};

KERNEL_ELEMENT(transpose)
{
    size_t row = i, column = split(&row, k->columns);

    k->to[i] = k->from[column * k->rows + row];
}

#endif
