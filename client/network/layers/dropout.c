/* Elements that are 0 by chance while training; the rest is scaled up, so that the mean stays. No mask is kept:
 * backward draws the same numbers again. */
#include "client/network/layer.h"

static const struct layer_field fields[] = {
    {FIELD_FRACTION, "RATE", offsetof(struct ps_layer, rate), FIELD_REQUIRED},
};

static enum ps_err
dropout_shape(struct layer *l, struct ps_error *e)
{
    if (!(l->spec.rate >= 0 && (float)l->spec.rate < 1)) /* 0.99999999 is 1 to the device */
        return ps_fail(e, PS_ERR_INVALID, "its rate is not at least 0 and below 1");
    return PS_OK;
}

static const float *
dropout_forward(struct layer *l, const struct pass *p)
{
    if (!p->training)
        return l->x;
    ps_dropout_forward(p->device, p->rows * shape_elements(&l->in), (float)l->spec.rate, l->seed, p->draw, l->x,
                       l->place);
    return l->place;
}

static void
dropout_backward(struct layer *l, const struct pass *p, const float *dy, float *dx)
{
    ps_dropout_backward(p->device, p->rows * shape_elements(&l->in), (float)l->spec.rate, l->seed, p->draw, dy, dx);
}

const struct layer_kind layer_dropout = {
    .traits = LAYER_Y_ON_X | LAYER_DX_ON_DY | LAYER_PASSES_ON,
    .fields = fields,
    .field_count = ARRAY_LEN(fields),
    .shape = dropout_shape,
    .forward = dropout_forward,
    .backward = dropout_backward,
};
