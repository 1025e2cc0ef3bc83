#include "client/examples/digits/model.h"

#include <string.h>

#include "common/core/base/base.h"

const struct digits_model models[] = {
    {"mlp", "dense 128, relu", 100},
    {"conv", "conv 16 3x3 same, relu, maxpool 2, conv 32 3x3 same, relu, maxpool 2, dropout 0.25", 50},
    {NULL, NULL, 0},
};

const struct digits_model *
model_by_name(const char *name)
{
    for (const struct digits_model *m = models; m->name != NULL; m++)
        if (strcmp(m->name, name) == 0)
            return m;
    return NULL;
}

/* All but the last layer. */
static enum ps_err
read_layers(const char *text, struct ps_layer *layers, size_t *count, struct ps_error *error)
{
    enum ps_err err;

    *count = 0;
    if (text[0] == '\0')
        return PS_OK;
    if ((err = ps_network_parse(text, layers, count, error)) != PS_OK)
        return err;
    if (*count == PS_LAYERS_MAX)
        return ps_fail(error, PS_ERR_INVALID, "%d layers leave no room for the last", PS_LAYERS_MAX);
    return PS_OK;
}

enum ps_err
model_check(const char *layers, struct ps_error *error)
{
    struct ps_layer layer[PS_LAYERS_MAX];
    size_t count;

    return read_layers(layers, layer, &count, error);
}

/* Grey images have one channel; an example that is no image is a row of features. */
static void
set_input(struct ps_network_spec *spec, const struct ps_dataset *data)
{
    spec->rank = 1;
    spec->dims[0] = (size_t)data->columns;
    if (data->rank != 2 && data->rank != 3)
        return;
    spec->rank = 3;
    spec->dims[0] = (size_t)data->dims[0];
    spec->dims[1] = (size_t)data->dims[1];
    spec->dims[2] = data->rank == 3 ? (size_t)data->dims[2] : 1;
}

enum ps_err
model_new(ps_device *device, const char *layers, const struct ps_dataset *data, uint32_t classes, size_t rows_max,
          uint64_t seed, ps_network **out, struct ps_error *error)
{
    struct ps_layer layer[PS_LAYERS_MAX];
    struct ps_network_spec spec = {.layer = layer, .rows_max = rows_max, .seed = seed};
    enum ps_err err;

    if ((err = read_layers(layers, layer, &spec.layers, error)) != PS_OK)
        return err;
    layer[spec.layers++] = (struct ps_layer){PS_LAYER_DENSE, .units = classes};
    set_input(&spec, data);
    return ps_network_new(device, &spec, out, error);
}
