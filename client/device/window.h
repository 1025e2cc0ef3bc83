/* Windows that slide over images: kernels of convolutions, windows of pools. The place of each, the padding, the size
 * of the output. One axis at a time: height and width are independent. Pure.
 *
 * VALID: windows lie on the image; elements left over at the end are ignored. SAME: as many windows as strides begin on
 * the image; the padding they need beyond it is split between its two ends, the odd element going to the far one. This
 * is TensorFlow's rule, so that its weights mean the same here. */
#ifndef CLIENT_DEVICE_WINDOW_H
#define CLIENT_DEVICE_WINDOW_H

#include "client/include/psclient/ps_device.h"
#include "common/core/base/base.h"

struct axis {
    size_t size, window, stride;
    size_t out;    /* windows along it; 0: none fits */
    size_t before; /* elements of padding in front of the first */
};

struct axis axis_make(size_t size, size_t window, size_t stride, enum ps_padding padding);

/* The part of window number `at` on the image: `count` elements from `first` on (at least one), after the window's
 * first `skip`, which lie on padding. */
struct axis_part {
    size_t first, skip, count;
};

static inline struct axis_part
axis_part(const struct axis *a, size_t at)
{
    size_t start = at * a->stride; /* counted from the padding's first element */
    size_t skip = start < a->before ? a->before - start : 0;
    size_t first = start + skip - a->before;

    return (struct axis_part){first, skip, MIN(a->window - skip, a->size - first)};
}

/* Patches of a convolution that are computed at a time, at most; the workspace holds so many. 0: a kernel of 1 x 1 that
 * skips nothing, whose patches are the image itself. */
size_t conv2d_patches_at_once(const struct ps_conv2d *c);

#endif
