/* Each group of channels to mean 0 and variance 1, then scaled and shifted by learnt parameters. */
#include "client/network/layer.h"

#define EPSILON 1e-5f /* of the paper's own code and of the large frameworks */

/* Channels of a group; groups of an example. */
static size_t
channels_of(const struct layer *l)
{
    return l->in.dims[l->in.rank - 1];
}

static size_t
groups_of(const struct layer *l)
{
    return shape_elements(&l->in) / channels_of(l);
}

static enum ps_err
layer_norm_shape(struct layer *l, struct ps_error *e)
{
    (void)e;
    layer_add_param(l, "gamma", PS_INIT_ONES, 1, (uint64_t[]){channels_of(l)});
    layer_add_param(l, "beta", PS_INIT_ZEROS, 1, (uint64_t[]){channels_of(l)});
    return PS_OK;
}

/* The mean of each group, then one over its standard deviation. */
static size_t
layer_norm_kept(const struct layer *l, size_t rows)
{
    return 2 * rows * groups_of(l);
}

static const float *
layer_norm_forward(struct layer *l, const struct pass *p)
{
    size_t groups = p->rows * groups_of(l);
    float *mean = l->kept;

    ps_layer_norm_forward(p->device, groups, channels_of(l), l->x, l->param[0].value, l->param[1].value, EPSILON,
                          l->place, mean, mean + groups);
    return l->place;
}

static void
layer_norm_backward(struct layer *l, const struct pass *p, const float *dy, float *dx)
{
    size_t groups = p->rows * groups_of(l);
    const float *mean = l->kept;

    ps_layer_norm_backward(p->device, groups, channels_of(l), l->x, l->param[0].value, mean, mean + groups, dy, dx,
                           l->param[0].gradient, l->param[1].gradient);
}

const struct layer_kind layer_layer_norm = {
    .traits = LAYER_DX_ON_DY | LAYER_PASSES_ON,
    .shape = layer_norm_shape,
    .kept = layer_norm_kept,
    .forward = layer_norm_forward,
    .backward = layer_norm_backward,
};
