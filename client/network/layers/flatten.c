/* The same elements as one row of features. */
#include "client/network/layer.h"

static enum ps_err
flatten_shape(struct layer *l, struct ps_error *e)
{
    (void)e;
    l->out = (struct layer_shape){1, {shape_elements(&l->in)}};
    return PS_OK;
}

static const float *
flatten_forward(struct layer *l, const struct pass *p)
{
    (void)p;
    return l->x;
}

static void
flatten_backward(struct layer *l, const struct pass *p, const float *dy, float *dx)
{
    (void)l;
    (void)p;
    ps_assert(dx == dy);
}

const struct layer_kind layer_flatten = {
    .traits = LAYER_Y_ON_X | LAYER_DX_ON_DY | LAYER_PASSES_ON,
    .shape = flatten_shape,
    .forward = flatten_forward,
    .backward = flatten_backward,
};
