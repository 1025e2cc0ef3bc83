/* y = x w + b over the flattened example. */
#include "client/network/layer.h"

static const struct layer_field fields[] = {
    {FIELD_COUNT, "UNITS", offsetof(struct ps_layer, units), FIELD_REQUIRED},
    {FIELD_FLAG, "no-bias", offsetof(struct ps_layer, no_bias), FIELD_AFTER_WORD},
};

static enum ps_err
dense_shape(struct layer *l, struct ps_error *e)
{
    size_t in = shape_elements(&l->in), units = l->spec.units;

    if (units == 0)
        return ps_fail(e, PS_ERR_INVALID, "it has no units");
    l->out = (struct layer_shape){1, {units}};
    layer_add_param(l, "weights", PS_INIT_GLOROT_UNIFORM, 2, (uint64_t[]){in, units});
    if (!l->spec.no_bias)
        layer_add_param(l, "bias", PS_INIT_ZEROS, 1, (uint64_t[]){units});
    return PS_OK;
}

static const float *
dense_forward(struct layer *l, const struct pass *p)
{
    ps_dense_forward(p->device, p->rows, shape_elements(&l->in), l->spec.units, l->x, l->param[0].value,
                     l->param[1].value, l->place);
    return l->place;
}

static void
dense_backward(struct layer *l, const struct pass *p, const float *dy, float *dx)
{
    ps_dense_backward(p->device, p->rows, shape_elements(&l->in), l->spec.units, l->x, l->param[0].value, dy, dx,
                      l->param[0].gradient, l->param[1].gradient);
}

const struct layer_kind layer_dense = {
    .fields = fields,
    .field_count = ARRAY_LEN(fields),
    .shape = dense_shape,
    .forward = dense_forward,
    .backward = dense_backward,
};
