/* ps_network.h: a network as a sequence of layers, on any device: perceptrons, small convolutional networks, logistic
 * regression, embedding models. It ties ps_device.h to psclient.h: its parameters come as lists of variables and
 * buffers that go straight into ps_client_pull() and ps_client_push().
 *
 *     const struct ps_layer layers[] = {
 *         {.kind = PS_LAYER_CONV2D, .filters = 16, .kernel = {3, 3}, .padding = PS_PAD_SAME},
 *         {.kind = PS_LAYER_RELU},
 *         {.kind = PS_LAYER_MAX_POOL, .kernel = {2, 2}},
 *         {.kind = PS_LAYER_DENSE, .units = 10},
 *     };
 *     struct ps_network_spec spec = {.rank = 3, .dims = {8, 8, 1}, .layers = 4, .layer = layers, .rows_max = 96};
 *     ps_network *network;
 *     ps_network_new(device, &spec, &network, &error);
 *     ps_network_declare(network, client, "", &optimizer, vars, &error);   // ps_var *vars[ps_network_params(network)]
 *     for (step ...) {
 *         struct ps_batch batch = {.rows = rows, .x = images, .labels = labels};
 *         ps_client_pull(client, ps_network_params(network), vars, ps_network_values(network), NULL, &error);
 *         ps_network_gradient(network, &batch, scale, draw, &result, &error);
 *         ps_client_push(client, ps_network_params(network), vars, ps_network_gradients(network), NULL, &error);
 *         ps_client_tick(client, &error);
 *     }
 *
 * The same layers as text: ps_network_parse("conv 16 3x3 same, relu, maxpool 2, dense 10", ...).
 *
 * Shapes are those of one example, rank 1 to 3, channels last: [features], [positions, channels], [height, width,
 * channels]. All memory is set aside by ps_network_new(), that of a second batch by ps_network_prefetch(); a step
 * allocates nothing. The gradient depends on values, batch, scale and (with dropout) seed and draw alone: n slices
 * computed one after the other in one process have the bits that n workers compute (with the same number of threads, on
 * one instruction set).
 *
 * Parameters:
 *   network  from ps_network_new()
 *   error    filled when the call fails; may be NULL
 * Returns: PS_OK, or the code that *error has, too.
 * Errors batch:
 *   PS_ERR_INVALID  something of the batch is missing, a label that is not a class, an id past the vocabulary, a target
 *                   that is not from 0 to 1: says which
 *   PS_ERR_IO       the device failed
 * Threads: one at a time for each network. */
#ifndef PS_NETWORK_H
#define PS_NETWORK_H

#include "ps_device.h"
#include "psclient.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Layers ------------------------------------------------------------------------------------------------------ */

/* Every kind of layer: its constant, its file (client/network/layers/), what it is called in texts and messages.
 * Since: 0.1 */
/* clang-format off */
#define PS_LAYER_LIST(X) \
    X(DENSE,      dense,      "dense") \
    X(CONV2D,     conv2d,     "conv") \
    X(MAX_POOL,   max_pool,   "maxpool") \
    X(AVG_POOL,   avg_pool,   "avgpool") \
    X(RELU,       relu,       "relu") \
    X(TANH,       tanh,       "tanh") \
    X(SIGMOID,    sigmoid,    "sigmoid") \
    X(GELU,       gelu,       "gelu") \
    X(LAYER_NORM, layer_norm, "norm") \
    X(DROPOUT,    dropout,    "dropout") \
    X(FLATTEN,    flatten,    "flatten") \
    X(EMBEDDING,  embedding,  "embedding")
/* clang-format on */

/* Which layer. x is its input, y its output; a shape [positions, channels] is to CONV2D and the pools an image of width
 * 1.
 *
 *     DENSE       any shape, flattened -> [units]; y = x w + b
 *     CONV2D      [height, width, channels] -> [.., .., filters]; a kernel over all channels at every stride
 *     MAX_POOL,   the same shape -> fewer places, the same channels: the largest, the mean of each window. A kernel of
 *     AVG_POOL    0 sees the whole input ("global" pooling)
 *     RELU, TANH, SIGMOID, GELU    any shape, element by element
 *     LAYER_NORM  any shape; each group along the last dimension to mean 0 and variance 1 (epsilon is 1e-5), then times
 *                 gamma plus beta (Ba, Kiros and Hinton, 2016)
 *     DROPOUT     any shape; in ps_network_gradient() each element is 0 with probability rate, else x / (1 - rate)
 *                 (Srivastava et al., JMLR 2014); nothing elsewhere
 *     FLATTEN     any shape -> [elements]; DENSE does so by itself
 *     EMBEDDING   the first layer only: [positions] of ids -> [positions, width], the rows of a table
 *
 * Since: 0.1 */
enum ps_layer_kind {
#define PS_LAYER_ENUM(NAME, name, word) PS_LAYER_##NAME,
    PS_LAYER_LIST(PS_LAYER_ENUM)
#undef PS_LAYER_ENUM
        PS_LAYER_KINDS /* one past the last */
};

/* A layer. What the kind does not read is ignored, and 0 is the default.
 * Since: 0.1 */
struct ps_layer {
    enum ps_layer_kind kind;
    size_t units;            /* DENSE */
    size_t filters;          /* CONV2D */
    size_t kernel[2];        /* CONV2D, pools: height, width */
    size_t stride[2];        /* CONV2D, pools: height, width; 0: 1 for CONV2D, the kernel for pools */
    enum ps_padding padding; /* CONV2D, pools */
    int no_bias;             /* DENSE, CONV2D */
    double rate;             /* DROPOUT: at least 0, below 1 */
    size_t vocabulary;       /* EMBEDDING: ids are below */
    size_t width;            /* EMBEDDING */
};

/* Most layers of a network, and most parameters of a layer.
 * Since: 0.1 */
#define PS_LAYERS_MAX       64
#define PS_LAYER_PARAMS_MAX 2

/* Read layers from text: one after the other between commas, each its word, its numbers in the order below, then
 * options.
 *
 *     dense UNITS [no-bias]                                       relu, tanh, sigmoid, gelu, norm, flatten
 *     conv FILTERS KERNEL [same] [stride STRIDE] [no-bias]        dropout RATE
 *     maxpool [KERNEL] [same] [stride STRIDE], avgpool the same   embedding VOCABULARY WIDTH
 *
 * KERNEL and STRIDE are "5x3" (height, width) or "5" for both. Shapes are checked by ps_network_new().
 *
 * Parameters:
 *   text    what is to be read
 *   layers  [PS_LAYERS_MAX], filled
 *   count   filled: how many
 * Errors:
 *   PS_ERR_INVALID  says which layer is wrong and how it is written; or there are more than PS_LAYERS_MAX
 * Threads: any.
 * Since: 0.1 */
PS_API enum ps_err ps_network_parse(const char *text, struct ps_layer *layers, size_t *count,
                                    struct ps_error *error) PS_MUST_USE;

/* ---- Networks ---------------------------------------------------------------------------------------------------- */

/* A network with its values and gradients.
 * Since: 0.1 */
typedef struct ps_network ps_network;

/* What the last layer's outputs are compared with.
 * Since: 0.1 */
enum ps_loss {
    PS_LOSS_SOFTMAX = 0, /* cross-entropy of the softmax over all outputs with a label: one of many classes */
    PS_LOSS_SIGMOID = 1  /* the sum over the outputs of the cross-entropy of each one's sigmoid with a target from 0 to
                            1: yes or no (logistic regression), or any number of classes at once */
};

/* What a network is.
 * Since: 0.1 */
struct ps_network_spec {
    uint32_t rank; /* 1 to 3 */
    size_t dims[3];
    size_t layers; /* 1 to PS_LAYERS_MAX */
    const struct ps_layer *layer;
    enum ps_loss loss;
    size_t rows_max; /* most rows of one ps_network_gradient() */
    uint64_t seed;   /* of first values and of dropout; the same on every worker */
};

/* Make a network. Its values are zero until pulled or initialized.
 *
 * Parameters:
 *   device  must outlive the network
 *   spec    what it is; copied
 *   out     the network, which the caller frees with ps_network_free()
 * Errors:
 *   PS_ERR_INVALID  of a layer: "layer 3 (conv 16 5x5): ...", counted from 0; a softmax of one output, or another
 *                   member of spec; device is NULL
 *   PS_ERR_LIMIT    more than PS_DEVICE_SIZE_MAX elements between two layers, for rows_max rows
 *   PS_ERR_IO       the device failed
 *   PS_ERR_NOMEM    no memory
 * Threads: one at a time for the device.
 * Since: 0.1 */
PS_API enum ps_err ps_network_new(ps_device *device, const struct ps_network_spec *spec, ps_network **out,
                                  struct ps_error *error) PS_MUST_USE;

/* Free a network.
 *
 * Parameters:
 *   network  or NULL
 * Since: 0.1 */
PS_API void ps_network_free(ps_network *network);

/* The sizes of a network.
 *
 * Returns:
 *   ps_network_inputs()    elements of an example
 *   ps_network_outputs()   elements of the last layer's output: classes
 *   ps_network_params()    number of parameters, at most layers * PS_LAYER_PARAMS_MAX
 *   ps_network_elements()  elements of all parameters
 * Since: 0.1 */
PS_API size_t ps_network_inputs(const ps_network *network);
PS_API size_t ps_network_outputs(const ps_network *network);
PS_API size_t ps_network_params(const ps_network *network);
PS_API uint64_t ps_network_elements(const ps_network *network);

/* Write a network as text: "8x8x1: conv 16 3x3 same, relu, maxpool 2x2, dense 10".
 *
 * Parameters:
 *   text  [size] bytes, terminated, cut off where size ends
 *   size  in bytes, at least 1
 * Returns: text.
 * Since: 0.1 */
PS_API const char *ps_network_describe(const ps_network *network, char *text, size_t size);

/* ---- Parameters: in the order of the layers, weights before bias, gamma before beta ------------------------------ */

/* Where values are read from and gradients written to.
 *
 * Returns:
 *   ps_network_values()     [ps_network_params()] pointers to host memory, owned by the network unless placed elsewhere
 *   ps_network_gradients()  the same
 * Since: 0.1 */
PS_API float *const *ps_network_values(const ps_network *network);
PS_API const float *const *ps_network_gradients(const ps_network *network);

/* From now on read values from, and write gradients to, memory of the caller's.
 *
 * Several networks may read the same values; gradients may lie where they are sent from (ps_reducer_buffers()). The
 * lists are copied, what lies there and lay here is left as it is. Between steps.
 *
 * Parameters:
 *   values     host memory, values[i]: the elements of parameter i, 4-byte aligned (64 is best), which outlives its use
 *              here. NULL: the network's own memory again
 *   gradients  the same for gradients
 * Since: 0.1 */
PS_API void ps_network_place(ps_network *network, float *const *values, float *const *gradients);

/* The declaration of a parameter, all but its optimizer.
 *
 *     "dense0/weights" [in, units]                            He uniform when the next activation is ReLU or GELU,
 *     "conv0/weights" [height, width, channels, filters]          else Glorot uniform
 *     "dense0/bias" [units], "conv0/bias" [filters]           zeros
 *     "norm0/gamma", "norm0/beta" [last dimension]            ones, zeros
 *     "embedding0/table" [vocabulary, width]                  uniform from -0.05 to 0.05
 *
 * Layers of a kind are counted from 0. Each layer's seed is the network's plus the number of layers with parameters
 * before it.
 *
 * Parameters:
 *   i    number of the parameter
 *   out  filled; the name lives as long as the network
 * Since: 0.1 */
PS_API void ps_network_var_spec(const ps_network *network, size_t i, struct ps_var_spec *out);

/* Declare all parameters with a client.
 *
 * Parameters:
 *   client     from ps_client_open()
 *   prefix     stands before each parameter's name; NULL: none
 *   optimizer  of all of them
 *   vars       [ps_network_params()], filled
 * Errors:
 *   PS_ERR_INVALID       a name is too long
 *   ps_client_declare()  what a declaration may get
 * Since: 0.1 */
PS_API enum ps_err ps_network_declare(const ps_network *network, ps_client *client, const char *prefix,
                                      const struct ps_optimizer *optimizer, ps_var **vars,
                                      struct ps_error *error) PS_MUST_USE;

/* Fill the values with what the shards would, without a cluster.
 * Since: 0.1 */
PS_API void ps_network_initialize(ps_network *network);

/* ---- Computing --------------------------------------------------------------------------------------------------- */

/* Examples; all in host memory.
 * Since: 0.1 */
struct ps_batch {
    size_t rows;
    const float *x;         /* [rows, inputs]; unused after an embedding */
    const uint32_t *ids;    /* [rows, inputs]: for an embedding */
    const uint32_t *labels; /* [rows]: for PS_LOSS_SOFTMAX */
    const float *targets;   /* [rows, outputs]: for PS_LOSS_SIGMOID */
};

/* What a network made of a batch.
 * Since: 0.1 */
struct ps_network_result {
    double loss; /* sum over the rows, unscaled */
    size_t rows;
    size_t correct; /* softmax: rows whose largest output is at the label; sigmoid: rows all of whose outputs are above
                       0 (a probability above 1/2) where the target is above 1/2 and not elsewhere */
};

/* Forward and backward at the values: the gradients of scale × the sum of the rows' losses.
 *
 * draw chooses the elements that dropout sets to 0 together with the spec's seed; a step should have one of its own on
 * every worker, such as clock × workers + task; without dropout it is ignored.
 *
 * Parameters:
 *   batch   the examples; rows may be 0: gradients of 0
 *   scale   of the losses
 *   draw    number for dropout
 *   result  filled; may be NULL
 * Errors:
 *   PS_ERR_INVALID  more rows than the network was made for
 *   (batch)         the batch, or the device
 * Since: 0.1 */
PS_API enum ps_err ps_network_gradient(ps_network *network, const struct ps_batch *batch, float scale, uint64_t draw,
                                       struct ps_network_result *result, struct ps_error *error) PS_MUST_USE;

/* Have the next batch go to the device while the present one is computed.
 *
 *     fill(batch[0]);
 *     for (step ...) {
 *         fill(batch[(step + 1) % 2]);
 *         ps_network_prefetch(network, &batch[(step + 1) % 2], &error);
 *         ps_network_gradient(network, &batch[step % 2], ...);     // sends the other one while it computes
 *     }
 *
 * The next ps_network_gradient() sends it; the one after, of a batch with these rows and pointers, finds it there. The
 * data must not change in between; that of memory from ps_device_alloc_host() is read by the device itself, of other
 * memory it is copied first. A batch that is never computed is sent in vain, and one of other pointers is sent as ever.
 * The first call sets memory for a second batch aside. Where device memory is host memory there is nothing to send.
 *
 * Parameters:
 *   batch  the one after that of the next ps_network_gradient(); its pointers are kept
 * Errors:
 *   PS_ERR_INVALID  more rows than the network was made for, or no inputs, labels or targets
 *   PS_ERR_NOMEM    no memory for a second batch
 * Since: 0.1 */
PS_API enum ps_err ps_network_prefetch(ps_network *network, const struct ps_batch *batch,
                                       struct ps_error *error) PS_MUST_USE;

/* Report each gradient as soon as it is whole, while the backward pass goes on to the layers before.
 *
 * So it can be on its way to other workers meanwhile. ps_network_gradient() calls ready(arg, i) in its own thread once
 * for every parameter i, from the last down to 0, whatever the number of rows; ps_network_gradients()[i] then holds the
 * gradient and is not touched any more in this call, so it may be overwritten. Values must stay as they are until the
 * call has returned. After INVALID no call was made; after a failure of the device perhaps some.
 *
 * On a device whose memory is not host memory a layer's gradients are copied to the host while the next layer's are
 * computed; then they are reported.
 *
 * Parameters:
 *   ready  may do anything but call functions of this network; NULL: none, which is how a network begins
 *   arg    handed to ready
 * Since: 0.1 */
PS_API void ps_network_on_ready(ps_network *network, void (*ready)(void *arg, size_t i), void *arg);

/* Forward only, without dropout.
 *
 * Parameters:
 *   batch   the examples; any number of rows
 *   result  filled
 * Errors:
 *   (batch)  the batch, or the device
 * Since: 0.1 */
PS_API enum ps_err ps_network_evaluate(ps_network *network, const struct ps_batch *batch,
                                       struct ps_network_result *result, struct ps_error *error) PS_MUST_USE;

/* The last layer's outputs, before softmax and sigmoid.
 *
 * Parameters:
 *   batch    the examples; any number of rows. Labels and targets are not needed
 *   outputs  [rows, ps_network_outputs()], host memory, filled
 * Errors:
 *   (batch)  the batch, or the device
 * Since: 0.1 */
PS_API enum ps_err ps_network_predict(ps_network *network, const struct ps_batch *batch, float *outputs,
                                      struct ps_error *error) PS_MUST_USE;

/* The class of each row, or the classes that it has.
 *
 * Parameters:
 *   batch    the examples; any number of rows. Labels and targets are not needed
 *   classes  host memory, filled. Softmax: [rows], the class of each. Sigmoid: [rows, outputs], 1 or 0 for each output
 * Errors:
 *   (batch)  the batch, or the device
 * Since: 0.1 */
PS_API enum ps_err ps_network_classify(ps_network *network, const struct ps_batch *batch, uint32_t *classes,
                                       struct ps_error *error) PS_MUST_USE;

#ifdef __cplusplus
}
#endif

#endif
