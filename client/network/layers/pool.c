/* The largest and the mean of each window, channel by channel. */
#include "client/network/layer.h"

static const struct layer_field fields[] = {
    {FIELD_PLANE, "KERNEL", offsetof(struct ps_layer, kernel), FIELD_OPTIONAL},
    {FIELD_FLAG, "same", offsetof(struct ps_layer, padding), FIELD_AFTER_WORD},
    {FIELD_PLANE, "stride", offsetof(struct ps_layer, stride), FIELD_AFTER_WORD},
};

static struct ps_pool2d
pool_of(const struct layer *l)
{
    const struct ps_layer *s = &l->spec;
    struct ps_pool2d p = {.padding = s->padding};

    (void)shape_plane(&l->in, &p.height, &p.width, &p.channels);
    p.window_height = s->kernel[0] > 0 ? s->kernel[0] : p.height;
    p.window_width = s->kernel[1] > 0 ? s->kernel[1] : p.width;
    p.stride_height = s->stride[0] > 0 ? s->stride[0] : p.window_height;
    p.stride_width = s->stride[1] > 0 ? s->stride[1] : p.window_width;
    return p;
}

static enum ps_err
pool_shape(struct layer *l, struct ps_error *e)
{
    struct ps_pool2d p = pool_of(l);
    size_t height, width;
    enum ps_err err;

    if (p.channels == 0)
        return ps_fail(e, PS_ERR_INVALID, "its input has no height and channels");
    if ((err = ps_pool2d_check(&p, e)) != PS_OK)
        return err;
    ps_pool2d_output(&p, &height, &width);
    l->out = shape_like(&l->in, height, width, p.channels);
    return PS_OK;
}

/* Where each largest element was. */
static size_t
max_pool_kept(const struct layer *l, size_t rows)
{
    return rows * shape_elements(&l->out);
}

static const float *
max_pool_forward(struct layer *l, const struct pass *p)
{
    struct ps_pool2d pool = pool_of(l);

    ps_max_pool_forward(p->device, p->rows, &pool, l->x, l->place, l->kept);
    return l->place;
}

static void
max_pool_backward(struct layer *l, const struct pass *p, const float *dy, float *dx)
{
    struct ps_pool2d pool = pool_of(l);

    ps_max_pool_backward(p->device, p->rows, &pool, l->kept, dy, dx);
}

static const float *
avg_pool_forward(struct layer *l, const struct pass *p)
{
    struct ps_pool2d pool = pool_of(l);

    ps_avg_pool_forward(p->device, p->rows, &pool, l->x, l->place);
    return l->place;
}

static void
avg_pool_backward(struct layer *l, const struct pass *p, const float *dy, float *dx)
{
    struct ps_pool2d pool = pool_of(l);

    ps_avg_pool_backward(p->device, p->rows, &pool, dy, dx);
}

const struct layer_kind layer_max_pool = {
    .traits = LAYER_PASSES_ON,
    .fields = fields,
    .field_count = ARRAY_LEN(fields),
    .shape = pool_shape,
    .kept = max_pool_kept,
    .forward = max_pool_forward,
    .backward = max_pool_backward,
};

const struct layer_kind layer_avg_pool = {
    .traits = LAYER_PASSES_ON,
    .fields = fields,
    .field_count = ARRAY_LEN(fields),
    .shape = pool_shape,
    .forward = avg_pool_forward,
    .backward = avg_pool_backward,
};
