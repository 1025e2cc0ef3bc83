#include "client/device/window.h"

/* Patches are gathered into the workspace and multiplied from there: it should stay in the second cache, but hold
 * enough rows that reading the weights again for each filling does not matter. */
#define WORKSPACE_FLOATS (128 * KIB)
#define PATCHES_MIN      ((size_t)256)

struct axis
axis_make(size_t size, size_t window, size_t stride, enum ps_padding padding)
{
    struct axis a = {.size = size, .window = window, .stride = stride};
    size_t covered;

    if (padding == PS_PAD_VALID) {
        a.out = size < window ? 0 : (size - window) / stride + 1;
        return a;
    }
    a.out = (size - 1) / stride + 1;
    covered = (a.out - 1) * stride + window;
    a.before = covered > size ? (covered - size) / 2 : 0;
    return a;
}

static enum ps_err
check_axis(const char *what, const char *side, size_t size, size_t window, size_t stride, enum ps_padding padding,
           struct ps_error *e)
{
    const size_t most = PS_DEVICE_SIZE_MAX;

    if (size == 0 || window == 0 || stride == 0 || size > most || window > most || stride > most)
        return ps_fail(e, PS_ERR_INVALID, "%s: %s %zu, window %zu and stride %zu must be 1 to %zu", what, side, size,
                       window, stride, most);
    if (padding != PS_PAD_VALID && padding != PS_PAD_SAME)
        return ps_fail(e, PS_ERR_INVALID, "%s: there is no padding %d", what, (int)padding);
    if (padding == PS_PAD_VALID && window > size)
        return ps_fail(e, PS_ERR_INVALID, "%s: a window of %zu does not fit into a %s of %zu without padding", what,
                       window, side, size);
    return PS_OK;
}

/* a and b are within PS_DEVICE_SIZE_MAX. */
static enum ps_err
check_volume(const char *what, const char *tensor, size_t a, size_t b, size_t c, struct ps_error *e)
{
    const size_t most = PS_DEVICE_SIZE_MAX;

    if (c == 0)
        return ps_fail(e, PS_ERR_INVALID, "%s: %s of %zu x %zu x 0", what, tensor, a, b);
    if (c > most || a * b > most || a * b * c > most)
        return ps_fail(e, PS_ERR_LIMIT, "%s: %s of %zu x %zu x %zu; at most %zu elements", what, tensor, a, b, c, most);
    return PS_OK;
}

enum ps_err
ps_conv2d_check(const struct ps_conv2d *c, struct ps_error *error)
{
    static const char what[] = "convolution";
    size_t height, width;
    enum ps_err err;

    err = check_axis(what, "height", c->height, c->kernel_height, c->stride_height, c->padding, error);
    if (err == PS_OK)
        err = check_axis(what, "width", c->width, c->kernel_width, c->stride_width, c->padding, error);
    if (err == PS_OK)
        err = check_volume(what, "an input", c->height, c->width, c->in, error);
    if (err == PS_OK)
        err = check_volume(what, "a kernel", c->kernel_height, c->kernel_width, c->in, error);
    if (err != PS_OK)
        return err;
    ps_conv2d_output(c, &height, &width);
    return check_volume(what, "an output", height, width, c->out, error);
}

void
ps_conv2d_output(const struct ps_conv2d *c, size_t *height, size_t *width)
{
    *height = axis_make(c->height, c->kernel_height, c->stride_height, c->padding).out;
    *width = axis_make(c->width, c->kernel_width, c->stride_width, c->padding).out;
}

size_t
conv2d_patches_at_once(const struct ps_conv2d *c)
{
    size_t floats = c->kernel_height * c->kernel_width * c->in;

    if (c->kernel_height * c->kernel_width * c->stride_height * c->stride_width == 1)
        return 0;
    return MAX(PATCHES_MIN, WORKSPACE_FLOATS / floats);
}

size_t
ps_conv2d_workspace(const struct ps_conv2d *c, size_t rows)
{
    size_t height, width, patches = conv2d_patches_at_once(c);

    ps_conv2d_output(c, &height, &width);
    return MIN(patches, rows * height * width) * c->kernel_height * c->kernel_width * c->in;
}

enum ps_err
ps_pool2d_check(const struct ps_pool2d *p, struct ps_error *error)
{
    static const char what[] = "pool";
    enum ps_err err;

    err = check_axis(what, "height", p->height, p->window_height, p->stride_height, p->padding, error);
    if (err == PS_OK)
        err = check_axis(what, "width", p->width, p->window_width, p->stride_width, p->padding, error);
    if (err == PS_OK)
        err = check_volume(what, "an input", p->height, p->width, p->channels, error);
    return err; /* the output is not larger */
}

void
ps_pool2d_output(const struct ps_pool2d *p, size_t *height, size_t *width)
{
    *height = axis_make(p->height, p->window_height, p->stride_height, p->padding).out;
    *width = axis_make(p->width, p->window_width, p->stride_width, p->padding).out;
}
