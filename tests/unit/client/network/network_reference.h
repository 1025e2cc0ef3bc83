/* A network in double, one example at a time, straight from the layers' definitions: what the real one is compared
 * with. */
#ifndef TESTS_UNIT_CLIENT_NETWORK_NETWORK_REFERENCE_H
#define TESTS_UNIT_CLIENT_NETWORK_NETWORK_REFERENCE_H

#include "client/include/psclient/ps_network.h"

enum { TENSOR_MAX = 256 };

struct reference_tensor {
    size_t rank, dims[3];
    double v[TENSOR_MAX];
};

struct reference_reference {
    const struct ps_layer *layer;
    size_t layers;
    enum ps_loss loss;
    double *value[PS_LAYERS_MAX * PS_LAYER_PARAMS_MAX]; /* as the network's parameters */
    const float *mask[PS_LAYERS_MAX]; /* of dropout: what this example's elements are multiplied by; NULL: 1 */
};

/* The loss of one example: x (ids as numbers) is overwritten. wanted: the label, or the targets. */
double reference_loss(const struct reference_reference *r, struct reference_tensor *x, uint32_t label,
                      const float *targets);

#endif
