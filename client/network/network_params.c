/* The parameters of a network: their names, initial values, and memory.
 *
 * Where device memory is host memory, the parameters that the client fills are those that the device reads. Elsewhere
 * each has a copy in host memory, uploaded before a pass and downloaded after it (network_run.c), unless the caller
 * keeps them on the device (network_reside()). */
#include <stdio.h>
#include <string.h>

#include "client/device/device_staging.h"
#include "client/network/network.h"
#include "common/core/model/initializer.h"

/* Whether a rectifier is the first to bend the layer's output: it halves the variance, so the weights must be larger
 * (He et al., ICCV 2015). */
static bool
is_rectified(const ps_network *n, size_t i)
{
    for (i++; i < n->layers && (n->layer[i].kind->traits & LAYER_PASSES_ON); i++)
        ;
    return i < n->layers && (n->layer[i].kind->traits & LAYER_RECTIFIES);
}

/* How many layers before i have parameters of the same name. */
static size_t
count_before(const ps_network *n, size_t i)
{
    size_t count = 0;

    for (size_t k = 0; k < i; k++)
        count += n->layer[k].kind == n->layer[i].kind;
    return count;
}

static enum ps_err
alloc_param(ps_network *n, struct layer_param *p, struct ps_error *e)
{
    if ((p->value = network_alloc(n, p->elements, e)) == NULL ||
        (p->gradient = network_alloc(n, p->elements, e)) == NULL)
        return PS_ERR_NOMEM;
    p->own_value = p->value;
    p->own_gradient = p->gradient;
    if (ps_device_is_host(n->device))
        return PS_OK;
    if ((p->own_value = network_alloc_host(n, p->elements, e)) == NULL ||
        (p->own_gradient = network_alloc_host(n, p->elements, e)) == NULL)
        return PS_ERR_NOMEM;
    return PS_OK;
}

/* Its host memory; the device's is the same where that is host memory. */
static void
param_set_host(ps_network *n, size_t i, float *value, float *gradient)
{
    struct layer_param *p = n->param[i];

    n->values[i] = p->host_value = value;
    if (n->resides)
        return;
    n->gradients[i] = p->host_gradient = gradient;
    if (!ps_device_is_host(n->device))
        return;
    p->value = value;
    p->gradient = gradient;
}

static enum ps_err
init_param(ps_network *n, size_t i, struct layer_param *p, struct ps_error *e)
{
    const struct layer *l = &n->layer[i];
    enum ps_err err;

    snprintf(p->name, sizeof p->name, "%s%zu/%s", layer_word(l->spec.kind), count_before(n, i), p->suffix);
    p->init.seed = l->seed; /* a seed's values depend on the element index alone: layers must not share one */
    if (p->init.kind == PS_INIT_GLOROT_UNIFORM && is_rectified(n, i))
        p->init.kind = PS_INIT_HE_UNIFORM;
    if ((err = alloc_param(n, p, e)) != PS_OK)
        return err;
    n->param[n->params] = p;
    param_set_host(n, n->params++, p->own_value, p->own_gradient);
    return PS_OK;
}

/* Seeds: those of layers with parameters come first, in their order; then one for each other layer. */
enum ps_err
network_init_params(ps_network *n, uint64_t seed, struct ps_error *e)
{
    size_t with_params = 0;
    enum ps_err err;

    for (size_t i = 0; i < n->layers; i++) {
        struct layer *l = &n->layer[i];

        l->seed = seed + (l->params > 0 ? with_params++ : PS_LAYERS_MAX + i);
        for (size_t k = 0; k < l->params; k++)
            if ((err = init_param(n, i, &l->param[k], e)) != PS_OK)
                return err;
    }
    return PS_OK;
}

/* ---- Public ---- */

size_t
ps_network_params(const ps_network *network)
{
    return network->params;
}

uint64_t
ps_network_elements(const ps_network *network)
{
    uint64_t elements = 0;

    for (size_t i = 0; i < network->params; i++)
        elements += network->param[i]->elements;
    return elements;
}

float *const *
ps_network_values(const ps_network *network)
{
    return network->values;
}

const float *const *
ps_network_gradients(const ps_network *network)
{
    return network->gradients;
}

void
ps_network_place(ps_network *network, float *const *values, float *const *gradients)
{
    for (size_t i = 0; i < network->params; i++)
        param_set_host(network, i, values != NULL ? values[i] : network->param[i]->own_value,
                       gradients != NULL ? gradients[i] : network->param[i]->own_gradient);
}

/* Memory that it allocated for a parameter and needs no longer. */
static void
network_drop_param(ps_network *n, struct layer_param *p)
{
    for (size_t i = 0; i < n->device_blocks; i++)
        if (n->device_block[i] == p->value || n->device_block[i] == p->gradient) {
            ps_device_free(n->device, n->device_block[i]);
            n->device_block[i] = NULL;
        }
    for (size_t i = 0; i < n->host_blocks; i++)
        if (n->host_block[i] == p->own_value || n->host_block[i] == p->own_gradient) {
            ps_device_free_host(n->device, n->host_block[i]);
            n->host_block[i] = NULL;
        }
    p->own_value = p->own_gradient = NULL;
}

void
network_expect_norm(ps_network *n, size_t elements, const float *gradients)
{
    n->norm_of = gradients;
    n->norm_elements = elements;
}

void
network_reside(ps_network *n, float *const *values, float *const *gradients)
{
    ps_assert(!ps_device_is_host(n->device) && !n->resides);
    n->resides = true;
    for (size_t i = 0; i < n->params; i++) {
        struct layer_param *p = n->param[i];

        network_drop_param(n, p);
        p->value = values[i];
        p->gradient = gradients[i];
        p->host_gradient = NULL;
        n->gradients[i] = gradients[i];
    }
}

void
ps_network_var_spec(const ps_network *network, size_t i, struct ps_var_spec *out)
{
    const struct layer_param *p = network->param[i];

    ps_assert(i < network->params);
    memset(out, 0, sizeof *out);
    out->name = p->name;
    out->rank = p->rank;
    memcpy(out->dims, p->dims, sizeof p->dims);
    out->init = p->init;
}

enum ps_err
ps_network_declare(const ps_network *network, ps_client *client, const char *prefix,
                   const struct ps_optimizer *optimizer, ps_var **vars, struct ps_error *error)
{
    char name[PS_NAME_MAX + 1];
    struct ps_var_spec spec;
    enum ps_err err;

    for (size_t i = 0; i < network->params; i++) {
        ps_network_var_spec(network, i, &spec);
        if (snprintf(name, sizeof name, "%s%s", prefix != NULL ? prefix : "", spec.name) >= (int)sizeof name)
            return ps_fail(error, PS_ERR_INVALID, "the name %.64s...%s is longer than %d bytes", prefix, spec.name,
                           PS_NAME_MAX);
        spec.name = name;
        spec.optimizer = *optimizer;
        if ((err = ps_client_declare(client, &spec, &vars[i], error)) != PS_OK)
            return err;
    }
    return PS_OK;
}

/* The public numbers are the protocol's, and so are the initializer's. */
static_assert((int)PS_INIT_ZEROS == (int)INIT_ZEROS && (int)PS_INIT_ONES == (int)INIT_ONES &&
                  (int)PS_INIT_UNIFORM == (int)INIT_UNIFORM &&
                  (int)PS_INIT_GLOROT_UNIFORM == (int)INIT_GLOROT_UNIFORM &&
                  (int)PS_INIT_HE_UNIFORM == (int)INIT_HE_UNIFORM,
              "initializer numbers must agree");

void
ps_network_initialize(ps_network *network)
{
    for (size_t i = 0; i < network->params; i++) {
        const struct layer_param *p = network->param[i];
        struct initializer init = {
            .kind = (enum initializer_kind)p->init.kind, .a = p->init.a, .b = p->init.b, .seed = p->init.seed};

        initializer_fill(&init, p->dims, p->rank, 0, p->elements, p->host_value);
    }
}
