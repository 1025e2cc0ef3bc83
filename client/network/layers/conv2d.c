/* Convolution over all channels: image to image. */
#include "client/network/layer.h"

static const struct layer_field fields[] = {
    {FIELD_COUNT, "FILTERS", offsetof(struct ps_layer, filters), FIELD_REQUIRED},
    {FIELD_PLANE, "KERNEL", offsetof(struct ps_layer, kernel), FIELD_REQUIRED},
    {FIELD_FLAG, "same", offsetof(struct ps_layer, padding), FIELD_AFTER_WORD},
    {FIELD_PLANE, "stride", offsetof(struct ps_layer, stride), FIELD_AFTER_WORD},
    {FIELD_FLAG, "no-bias", offsetof(struct ps_layer, no_bias), FIELD_AFTER_WORD},
};

static struct ps_conv2d
conv2d_of(const struct layer *l)
{
    const struct ps_layer *s = &l->spec;
    struct ps_conv2d c = {.out = s->filters,
                          .kernel_height = s->kernel[0],
                          .kernel_width = s->kernel[1],
                          .stride_height = MAX(s->stride[0], 1),
                          .stride_width = MAX(s->stride[1], 1),
                          .padding = s->padding};

    (void)shape_plane(&l->in, &c.height, &c.width, &c.in);
    return c;
}

static enum ps_err
conv2d_shape(struct layer *l, struct ps_error *e)
{
    struct ps_conv2d c = conv2d_of(l);
    size_t height, width;
    enum ps_err err;

    if (c.in == 0)
        return ps_fail(e, PS_ERR_INVALID, "its input has no height and channels");
    if ((err = ps_conv2d_check(&c, e)) != PS_OK)
        return err;
    ps_conv2d_output(&c, &height, &width);
    l->out = shape_like(&l->in, height, width, c.out);
    layer_add_param(l, "weights", PS_INIT_GLOROT_UNIFORM, 4,
                    (uint64_t[]){c.kernel_height, c.kernel_width, c.in, c.out});
    if (!l->spec.no_bias)
        layer_add_param(l, "bias", PS_INIT_ZEROS, 1, (uint64_t[]){c.out});
    return PS_OK;
}

static size_t
conv2d_scratch(const struct layer *l, size_t rows)
{
    struct ps_conv2d c = conv2d_of(l);

    return ps_conv2d_workspace(&c, rows);
}

static const float *
conv2d_forward(struct layer *l, const struct pass *p)
{
    struct ps_conv2d c = conv2d_of(l);

    ps_conv2d_forward(p->device, p->rows, &c, l->x, l->param[0].value, l->param[1].value, l->place, p->scratch);
    return l->place;
}

static void
conv2d_backward(struct layer *l, const struct pass *p, const float *dy, float *dx)
{
    struct ps_conv2d c = conv2d_of(l);

    ps_conv2d_backward(p->device, p->rows, &c, l->x, l->param[0].value, dy, dx, l->param[0].gradient,
                       l->param[1].gradient, p->scratch);
}

const struct layer_kind layer_conv2d = {
    .fields = fields,
    .field_count = ARRAY_LEN(fields),
    .shape = conv2d_shape,
    .scratch = conv2d_scratch,
    .forward = conv2d_forward,
    .backward = conv2d_backward,
};
