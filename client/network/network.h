/* The inside of a ps_network: what network.c sets up, network_params.c names, network_batch.c sends batches to and
 * network_run.c computes with. */
#ifndef CLIENT_NETWORK_NETWORK_H
#define CLIENT_NETWORK_NETWORK_H

#include "client/network/layer.h"

#define NETWORK_PARAMS_MAX (PS_LAYERS_MAX * PS_LAYER_PARAMS_MAX)
#define NETWORK_BLOCKS_MAX (2 * NETWORK_PARAMS_MAX + 2 * PS_LAYERS_MAX + 12)

/* Batches on a device with memory of its own: the one that is computed with and, with ps_network_prefetch(), the next.
 * All NULL and false where device memory is host memory. */
struct network_batches {
    void *input[2],
        *wanted[2]; /* x or ids, labels or targets, of rows_max rows; of the second: NULL until prefetched */
    size_t slot;    /* the one that is computed with */
    bool here;      /* and it arrived as the next one */

    struct ps_batch next, sent; /* of ps_network_prefetch(), to be sent; what lies in the other slot */
    bool has_next, has_sent;
    void *staged_input, *staged_wanted; /* host memory; NULL until a batch needs it */
};

struct ps_network {
    ps_device *device;
    struct layer_shape in;
    size_t inputs, outputs, rows_max;
    enum ps_loss loss;
    bool takes_ids;

    size_t layers, first_trained; /* first layer with parameters: backward ends there */
    struct layer layer[PS_LAYERS_MAX];

    /* The parameters of all layers in one list, and the lists that the client takes. */
    size_t params;
    struct layer_param *param[NETWORK_PARAMS_MAX];
    float *values[NETWORK_PARAMS_MAX];
    const float *gradients[NETWORK_PARAMS_MAX];
    bool resides;         /* network_reside() */
    const float *norm_of; /* network_expect_norm(); NULL: none */
    size_t norm_elements;
    void (*ready)(void *arg, size_t i); /* ps_network_on_ready() */
    void *ready_arg;

    /* Device memory for rows_max rows. */
    float *delta[2]; /* gradients between layers, in turn */
    float *scratch;  /* NULL: no layer needs any */
    float *losses;   /* [rows_max] */
    uint32_t *best;  /* [rows_max]: classes with the largest output */
    struct network_batches batches;
    float *host_losses;  /* [rows_max], host memory */
    float *host_outputs; /* [rows_max, outputs], host memory; PS_LOSS_SIGMOID only */

    /* All memory there is, to be freed. */
    void *device_block[NETWORK_BLOCKS_MAX], *host_block[NETWORK_BLOCKS_MAX];
    size_t device_blocks, host_blocks;
};

/* elements of 4 bytes each, zeroed, that live as long as the network. NULL: NOMEM, which is what *e says. */
void *network_alloc(ps_network *n, size_t elements, struct ps_error *e) PS_MUST_USE;
void *network_alloc_host(ps_network *n, size_t elements, struct ps_error *e) PS_MUST_USE;

/* Names, seeds, initializers and memory of all parameters. Layers have their shapes. */
enum ps_err network_init_params(ps_network *n, uint64_t seed, struct ps_error *e) PS_MUST_USE;

/* INVALID: more rows than it was made for. */
enum ps_err network_check_rows(const ps_network *n, const struct ps_batch *b, struct ps_error *e) PS_MUST_USE;

/* A batch as the device sees it: first what goes in, then what is wanted. They are sent unless they have arrived. */
const void *network_batch_input(ps_network *n, const struct ps_batch *b);
const void *network_batch_wanted(ps_network *n, const struct ps_batch *b);

/* Sends the batch of ps_network_prefetch(), if there is one, beside what was called before. */
void network_batch_send_next(ps_network *n);

/* From now on parameters and their gradients lie in this memory of the network's device, which is not host memory:
 * [params] each, owned by the caller, which sends and fetches what is needed. The network's own memory for them is
 * freed, so ps_network_place() has been called and is called with other lists only from now on. Gradients are reported
 * (ps_network_on_ready()) once the call that computes them was made; ps_network_gradients() has those of the device. */
void network_reside(ps_network *n, float *const *values, float *const *gradients);

/* The norm of these gradients, [elements] of the device, will be asked for after each call that computes them: begin it
 * while their losses are waited for (device_norm_start()). */
void network_expect_norm(ps_network *n, size_t elements, const float *gradients);

#endif
