/* Rows of a table by their ids. The gradient of the table is whole: 0 in the rows that no id of the batch names. */
#include "client/network/layer.h"

static const struct layer_field fields[] = {
    {FIELD_COUNT, "VOCABULARY", offsetof(struct ps_layer, vocabulary), FIELD_REQUIRED},
    {FIELD_COUNT, "WIDTH", offsetof(struct ps_layer, width), FIELD_REQUIRED},
};

static enum ps_err
embedding_shape(struct layer *l, struct ps_error *e)
{
    size_t vocabulary = l->spec.vocabulary, width = l->spec.width;

    if (l->in.rank != 1)
        return ps_fail(e, PS_ERR_INVALID, "its input is not a row of ids");
    if (vocabulary == 0 || width == 0)
        return ps_fail(e, PS_ERR_INVALID, "its table is empty");
    if (vocabulary > PS_DEVICE_SIZE_MAX || width > PS_DEVICE_SIZE_MAX)
        return ps_fail(e, PS_ERR_LIMIT, "its table is %zu by %zu; at most %d either way", vocabulary, width,
                       PS_DEVICE_SIZE_MAX);
    l->out = (struct layer_shape){2, {l->in.dims[0], width}};
    layer_add_param(l, "table", PS_INIT_UNIFORM, 2, (uint64_t[]){vocabulary, width});
    l->param[0].init.a = -0.05;
    l->param[0].init.b = 0.05;
    return PS_OK;
}

static const float *
embedding_forward(struct layer *l, const struct pass *p)
{
    ps_embedding_forward(p->device, p->rows * l->in.dims[0], l->spec.vocabulary, l->spec.width, l->x, l->param[0].value,
                         l->place);
    return l->place;
}

/* Ids have no gradient: this is the first layer, and dx is NULL. */
static void
embedding_backward(struct layer *l, const struct pass *p, const float *dy, float *dx)
{
    ps_assert(dx == NULL);
    ps_embedding_backward(p->device, p->rows * l->in.dims[0], l->spec.vocabulary, l->spec.width, l->x, dy,
                          l->param[0].gradient);
}

const struct layer_kind layer_embedding = {
    .fields = fields,
    .field_count = ARRAY_LEN(fields),
    .shape = embedding_shape,
    .forward = embedding_forward,
    .backward = embedding_backward,
};
