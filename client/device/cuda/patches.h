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

#define gather_args   patches_args
#define gather4_args  patches_args
#define scatter_args  patches_args
#define scatter4_args patches_args

/* Four channels at once, where their number and both ends' alignment allow it. */
struct patches_four {
    float x[4];
} __attribute__((aligned(16)));

/* Element i of the patches: where it lies on the images; false: on padding. channels: of a pixel, each an element. */
EVERYWHERE int
patches_from(const struct patches_args *k, size_t i, size_t channels, size_t *from)
{
    const struct ps_module_conv2d *c = &k->c;
    size_t windows = c->y.out * c->x.out, rest = i;
    size_t channel = split(&rest, channels), x = split(&rest, c->x.window), y = split(&rest, c->y.window);
    size_t image = k->place + rest, window = split(&image, windows);
    size_t line = window, column = split(&line, c->x.out);

    y += line * c->y.stride; /* counted from the padding's first element */
    x += column * c->x.stride;
    if (y < c->y.before || y - c->y.before >= c->y.size || x < c->x.before || x - c->x.before >= c->x.size)
        return 0;
    *from = (((k->image + image) * c->y.size + y - c->y.before) * c->x.size + x - c->x.before) * channels + channel;
    return 1;
}

/* to: [n, patch], 0 where padding lies. from: the images. Element i of to. */
KERNEL_ELEMENT(gather)
{
    size_t from;

    k->to[i] = patches_from(k, i, k->c.in, &from) ? k->from[from] : 0;
}

KERNEL_ELEMENT(gather4)
{
    struct patches_four four = {{0, 0, 0, 0}};
    size_t from;

    if (patches_from(k, i, k->c.in / 4, &from))
        four = ((const struct patches_four *)(const void *)k->from)[from];
    ((struct patches_four *)(void *)k->to)[i] = four;
}

/* Where the element of an image lies in the patch of window (y, x) of it; false: that is none of the patches here. */
EVERYWHERE int
patches_at_window(const struct patches_args *k, const struct element_place *at, size_t y, size_t x, size_t channels,
                  size_t *from)
{
    const struct ps_module_conv2d *c = &k->c;
    size_t number = (at->row * c->y.out + y) * c->x.out + x;

    if (number < k->place || number - k->place >= k->n)
        return 0;
    *from = (((number - k->place) * c->y.window + at->y + c->y.before - y * c->y.stride) * c->x.window + at->x +
             c->x.before - x * c->x.stride) *
                channels +
            at->channel;
    return 1;
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
            size_t from;

            if (patches_at_window(k, &at, y, x, c->in, &from))
                sum += k->from[from];
        }
    *to = sum;
}

KERNEL_ELEMENT(scatter4)
{
    const struct ps_module_conv2d *c = &k->c;
    struct element_place at = element_place_of(i, c->y.size, c->x.size, c->in / 4);
    struct element_windows down = windows_over(&c->y, at.y), along = windows_over(&c->x, at.x);
    struct patches_four *to = (struct patches_four *)(void *)(k->to + k->image * c->y.size * c->x.size * c->in) + i;
    struct patches_four sum = *to;

    for (size_t y = down.first; y < down.end; y++)
        for (size_t x = along.first; x < along.end; x++) {
            struct patches_four one;
            size_t from;

            if (!patches_at_window(k, &at, y, x, c->in / 4, &from))
                continue;
            one = ((const struct patches_four *)(const void *)k->from)[from];
            for (int n = 0; n < 4; n++)
                sum.x[n] += one.x[n];
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
