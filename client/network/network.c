/* A network, from its spec to all its memory.
 *
 * Each layer is checked against the shape that the one before it leaves, then gets its parameters, and a place for its
 * output: one of its own, or, where neither it nor the layer before needs the data there, that of its input. The
 * gradients between layers alternate between two buffers. */
#include "client/network/network.h"

#include <stdlib.h>
#include <string.h>

#include "client/device/device_staging.h"

/* ---- Memory ---- */

/* Bytes cannot overflow: products of two sizes below 2^31. */
void *
network_alloc(ps_network *n, size_t elements, struct ps_error *e)
{
    void *memory;

    if (ps_device_alloc(n->device, elements * sizeof(float), &memory, e) != PS_OK)
        return NULL;
    ps_assert(n->device_blocks < NETWORK_BLOCKS_MAX);
    return n->device_block[n->device_blocks++] = memory;
}

void *
network_alloc_host(ps_network *n, size_t elements, struct ps_error *e)
{
    void *memory;

    if (ps_device_alloc_host(n->device, elements * sizeof(float), &memory, e) != PS_OK)
        return NULL;
    ps_assert(n->host_blocks < NETWORK_BLOCKS_MAX);
    return n->host_block[n->host_blocks++] = memory;
}

/* ---- Shapes ---- */

/* No size, and no product of sizes, rows among them, may exceed what the device takes. */
static enum ps_err
check_shape(const struct layer_shape *s, size_t rows, const char *what, struct ps_error *e)
{
    size_t elements = rows;

    for (size_t i = 0; i < s->rank; i++) {
        if (s->dims[i] == 0)
            return ps_fail(e, PS_ERR_INVALID, "dimension %zu of its %s is 0", i, what);
        if (s->dims[i] > PS_DEVICE_SIZE_MAX / elements)
            return ps_fail(e, PS_ERR_LIMIT, "its %s has more than %d elements in %zu rows", what, PS_DEVICE_SIZE_MAX,
                           rows);
        elements *= s->dims[i];
    }
    return PS_OK;
}

static enum ps_err
shape_layer(ps_network *n, size_t i, struct ps_error *e)
{
    struct layer *l = &n->layer[i];
    enum ps_err err;

    l->in = i == 0 ? n->in : n->layer[i - 1].out;
    l->out = l->in;
    if (l->kind == &layer_embedding && i > 0)
        return ps_fail(e, PS_ERR_INVALID, "it reads ids, so it can only be the first layer");
    if (l->kind->shape != NULL && (err = l->kind->shape(l, e)) != PS_OK)
        return err;
    return check_shape(&l->out, n->rows_max, "output", e);
}

/* The error of layer i, with its name before it. */
static enum ps_err
layer_failed(const struct ps_layer *spec, size_t i, const struct ps_error *inner, struct ps_error *e)
{
    char text[128];
    struct text t = text_start(text, sizeof text);

    layer_format(&t, spec);
    return ps_fail(e, inner->code, "layer %zu (%s): %s", i, text, inner->text);
}

static enum ps_err
init_layers(ps_network *n, const struct ps_network_spec *spec, struct ps_error *e)
{
    struct ps_error inner = {0};

    n->first_trained = spec->layers;
    for (size_t i = 0; i < spec->layers; i++) {
        struct layer *l = &n->layer[n->layers++];

        l->spec = spec->layer[i];
        if ((l->kind = layer_kind_of((int)l->spec.kind)) == NULL)
            return ps_fail(e, PS_ERR_INVALID, "layer %zu: there is no kind %d", i, (int)l->spec.kind);
        if (shape_layer(n, i, &inner) != PS_OK)
            return layer_failed(&l->spec, i, &inner, e);
        if (l->params > 0)
            n->first_trained = MIN(n->first_trained, i);
    }
    if (n->first_trained == n->layers)
        return ps_fail(e, PS_ERR_INVALID, "a network of which no layer has parameters cannot learn");
    n->outputs = shape_elements(&n->layer[n->layers - 1].out);
    if (n->loss == PS_LOSS_SOFTMAX && n->outputs == 1)
        return ps_fail(e, PS_ERR_INVALID,
                       "the softmax of one output is always 1: nothing is learnt. Yes or no is two "
                       "outputs, or PS_LOSS_SIGMOID");
    n->takes_ids = n->layer[0].kind == &layer_embedding;
    return PS_OK;
}

static enum ps_err
check_spec(const struct ps_network_spec *spec, struct ps_error *e)
{
    if (spec->rank < 1 || spec->rank > 3)
        return ps_fail(e, PS_ERR_INVALID, "an example has a rank from 1 to 3, not %u", spec->rank);
    if (spec->layers < 1 || spec->layers > PS_LAYERS_MAX)
        return ps_fail(e, PS_ERR_INVALID, "a network has 1 to %d layers, not %zu", PS_LAYERS_MAX, spec->layers);
    if (spec->layer == NULL)
        return ps_fail(e, PS_ERR_INVALID, "a network of %zu layers, but their list is NULL", spec->layers);
    if (spec->rows_max == 0 || spec->rows_max > PS_DEVICE_SIZE_MAX)
        return ps_fail(e, PS_ERR_INVALID, "a network takes 1 to %d rows at once, not %zu", PS_DEVICE_SIZE_MAX,
                       spec->rows_max);
    if (spec->loss != PS_LOSS_SOFTMAX && spec->loss != PS_LOSS_SIGMOID)
        return ps_fail(e, PS_ERR_INVALID, "there is no loss %d", (int)spec->loss);
    return PS_OK;
}

/* ---- Places ---- */

/* Where the last output lies, and whether its layer's backward reads it there. */
struct tensor_memory {
    float *memory; /* NULL: it is the network's input */
    bool read;
};

static enum ps_err
output_alloc(ps_network *n, struct layer *l, struct tensor_memory *last, struct ps_error *e)
{
    bool on_x = (l->kind->traits & LAYER_Y_ON_X) != 0;

    if (l->kind == &layer_flatten) { /* writes nothing, so it overwrites no other data */
        l->place = last->memory;
        return PS_OK;
    }
    if (!on_x || last->memory == NULL || last->read) {
        if ((last->memory = network_alloc(n, n->rows_max * shape_elements(&l->out), e)) == NULL)
            return PS_ERR_NOMEM;
    }
    l->place = last->memory;
    last->read = (l->kind->traits & LAYER_READS_Y) != 0;
    return PS_OK;
}

static enum ps_err
alloc_layers(ps_network *n, struct ps_error *e)
{
    struct tensor_memory last = {0};
    size_t scratch = 0, elements;
    enum ps_err err;

    for (size_t i = 0; i < n->layers; i++) {
        struct layer *l = &n->layer[i];

        if ((err = output_alloc(n, l, &last, e)) != PS_OK)
            return err;
        if (l->kind->scratch != NULL)
            scratch = MAX(scratch, l->kind->scratch(l, n->rows_max));
        elements = l->kind->kept != NULL ? l->kind->kept(l, n->rows_max) : 0;
        if (elements > 0 && (l->kept = network_alloc(n, elements, e)) == NULL)
            return PS_ERR_NOMEM;
    }
    if (scratch > 0 && (n->scratch = network_alloc(n, scratch, e)) == NULL)
        return PS_ERR_NOMEM;
    return PS_OK;
}

static enum ps_err
alloc_batch(ps_network *n, struct ps_error *e)
{
    size_t widest = 0, rows = n->rows_max, wanted = n->loss == PS_LOSS_SIGMOID ? rows * n->outputs : rows;

    for (size_t i = n->first_trained; i < n->layers; i++)
        widest = MAX(widest, shape_elements(&n->layer[i].out));
    for (int i = 0; i < 2; i++)
        if ((n->delta[i] = network_alloc(n, rows * widest, e)) == NULL)
            return PS_ERR_NOMEM;
    if ((n->losses = network_alloc(n, rows, e)) == NULL || (n->best = network_alloc(n, rows, e)) == NULL)
        return PS_ERR_NOMEM;
    if ((n->host_losses = network_alloc_host(n, rows, e)) == NULL)
        return PS_ERR_NOMEM;
    if (n->loss == PS_LOSS_SIGMOID && (n->host_outputs = network_alloc_host(n, wanted, e)) == NULL)
        return PS_ERR_NOMEM;
    if (ps_device_is_host(n->device))
        return PS_OK;
    if ((n->batches.input[0] = network_alloc(n, rows * n->inputs, e)) == NULL ||
        (n->batches.wanted[0] = network_alloc(n, wanted, e)) == NULL)
        return PS_ERR_NOMEM;
    return PS_OK;
}

/* ---- Public ---- */

static enum ps_err
network_init(ps_network *n, const struct ps_network_spec *spec, struct ps_error *e)
{
    struct ps_error inner = {0};
    enum ps_err err;

    n->rows_max = spec->rows_max;
    n->in.rank = spec->rank;
    memcpy(n->in.dims, spec->dims, spec->rank * sizeof *spec->dims);
    if ((err = check_shape(&n->in, spec->rows_max, "input", &inner)) != PS_OK)
        return ps_fail(e, err, "network: %s", inner.text);
    n->inputs = shape_elements(&n->in);
    n->loss = spec->loss;
    if ((err = init_layers(n, spec, e)) != PS_OK)
        return err;
    if ((err = network_init_params(n, spec->seed, e)) != PS_OK)
        return err;
    if ((err = alloc_layers(n, e)) != PS_OK)
        return err;
    return alloc_batch(n, e);
}

enum ps_err
ps_network_new(ps_device *device, const struct ps_network_spec *spec, ps_network **out, struct ps_error *error)
{
    ps_network *n;
    enum ps_err err;

    if (device == NULL)
        return ps_fail(error, PS_ERR_INVALID, "a network needs a device");
    if ((err = check_spec(spec, error)) != PS_OK)
        return err;
    if ((n = calloc(1, sizeof *n)) == NULL)
        return ps_fail(error, PS_ERR_NOMEM, "network: out of memory");
    n->device = device;
    if ((err = network_init(n, spec, error)) != PS_OK) {
        ps_network_free(n);
        return err;
    }
    *out = n;
    return PS_OK;
}

void
ps_network_free(ps_network *network)
{
    if (network == NULL)
        return;
    for (size_t i = 0; i < network->device_blocks; i++)
        ps_device_free(network->device, network->device_block[i]);
    for (size_t i = 0; i < network->host_blocks; i++)
        ps_device_free_host(network->device, network->host_block[i]);
    free(network);
}

size_t
ps_network_inputs(const ps_network *network)
{
    return network->inputs;
}

size_t
ps_network_outputs(const ps_network *network)
{
    return network->outputs;
}

const char *
ps_network_describe(const ps_network *network, char *text, size_t size)
{
    struct text t = text_start(text, size);

    for (size_t i = 0; i < network->in.rank; i++)
        text_put(&t, "%s%zu", i > 0 ? "x" : "", network->in.dims[i]);
    for (size_t i = 0; i < network->layers; i++) {
        text_put(&t, "%s ", i == 0 ? ":" : ",");
        layer_format(&t, &network->layer[i].spec);
    }
    return text;
}
