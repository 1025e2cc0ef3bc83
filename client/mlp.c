/* A multilayer perceptron: buffers on the device, set aside once, and the calls in their order.
 *
 * Forward: activation[0] is the batch, activation[l + 1] = act(activation[l] w[l] + b[l]), the last without act.
 * Backward: delta starts as the softmax's gradient in the place of the last activation; each layer writes its dw and db
 * and turns delta around into the gradient of its input, in the other of two delta buffers.
 *
 * Where device memory is host memory, the parameters that the client fills are those that the device reads. Elsewhere
 * each has a copy in host memory, uploaded before and downloaded after. */
#include "client/ps_mlp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base.h"
#include "common/initializer.h"

#define LAYERS_MAX (PS_MLP_SIZES_MAX - 1)
#define PARAMS_MAX (2 * LAYERS_MAX)

struct param {
    char name[32];
    size_t elements;
    float *value, *grad; /* device */
};

struct ps_mlp {
    ps_device *device;
    enum ps_activation act;
    size_t layers, sizes[PS_MLP_SIZES_MAX], rows_max;
    struct param param[PARAMS_MAX];
    float *host_value[PARAMS_MAX], *host_grad[PARAMS_MAX]; /* the same as the device's where that is host memory */
    const float *host_grad_const[PARAMS_MAX];

    float *activation[PS_MLP_SIZES_MAX]; /* [rows_max, sizes[l]], device; the first is used when x is not there yet */
    float *delta[2];                     /* [rows_max, widest hidden layer], device */
    uint32_t *labels, *predicted;        /* [rows_max], device */
    float *loss, *host_loss;             /* [rows_max] */
};

/* ---- Creation ---- */

static enum ps_err
check_sizes(const size_t *sizes, size_t count, size_t rows_max, struct ps_error *e)
{
    if (count < 2 || count > PS_MLP_SIZES_MAX)
        return ps_fail(e, PS_ERR_INVALID, "a network has 2 to %d sizes, not %zu", PS_MLP_SIZES_MAX, count);
    if (rows_max == 0 || rows_max > PS_DEVICE_SIZE_MAX)
        return ps_fail(e, PS_ERR_INVALID, "a network takes 1 to %d rows at once, not %zu", PS_DEVICE_SIZE_MAX,
                       rows_max);
    for (size_t i = 0; i < count; i++) {
        if (sizes[i] == 0)
            return ps_fail(e, PS_ERR_INVALID, "size %zu of the network is 0", i);
        if (sizes[i] > PS_DEVICE_SIZE_MAX)
            return ps_fail(e, PS_ERR_LIMIT, "size %zu of the network is %zu; at most %d", i, sizes[i],
                           PS_DEVICE_SIZE_MAX);
    }
    return PS_OK;
}

/* rows and columns are below 2^31, so their product and its bytes fit in 64 bits. */
static enum ps_err
alloc_floats(ps_device *device, size_t rows, size_t columns, float **out, struct ps_error *e)
{
    void *memory;
    enum ps_err err;

    if ((err = ps_device_alloc(device, rows * columns * sizeof(float), &memory, e)) == PS_OK)
        *out = memory;
    return err;
}

static enum ps_err
alloc_host(size_t elements, float **out, struct ps_error *e)
{
    if ((*out = calloc(elements, sizeof **out)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "network: no memory for %zu elements", elements);
    return PS_OK;
}

static enum ps_err
alloc_param(ps_mlp *m, size_t i, size_t rows, size_t columns, struct ps_error *e)
{
    struct param *p = &m->param[i];
    enum ps_err err;

    snprintf(p->name, sizeof p->name, "dense%zu/%s", i / 2, i % 2 == 0 ? "weights" : "bias");
    p->elements = rows * columns;
    if ((err = alloc_floats(m->device, rows, columns, &p->value, e)) != PS_OK)
        return err;
    if ((err = alloc_floats(m->device, rows, columns, &p->grad, e)) != PS_OK)
        return err;
    m->host_value[i] = p->value;
    m->host_grad[i] = p->grad;
    if (!ps_device_is_host(m->device)) {
        m->host_value[i] = m->host_grad[i] = NULL;
        if ((err = alloc_host(p->elements, &m->host_value[i], e)) != PS_OK)
            return err;
        if ((err = alloc_host(p->elements, &m->host_grad[i], e)) != PS_OK)
            return err;
    }
    m->host_grad_const[i] = m->host_grad[i];
    return PS_OK;
}

static enum ps_err
alloc_params(ps_mlp *m, struct ps_error *e)
{
    enum ps_err err;

    for (size_t l = 0; l < m->layers; l++) {
        if ((err = alloc_param(m, 2 * l, m->sizes[l], m->sizes[l + 1], e)) != PS_OK)
            return err;
        if ((err = alloc_param(m, 2 * l + 1, 1, m->sizes[l + 1], e)) != PS_OK)
            return err;
    }
    return PS_OK;
}

static enum ps_err
alloc_batch(ps_mlp *m, struct ps_error *e)
{
    size_t widest = 1;
    void *memory;
    enum ps_err err;

    for (size_t l = 0; l <= m->layers; l++) {
        if ((err = alloc_floats(m->device, m->rows_max, m->sizes[l], &m->activation[l], e)) != PS_OK)
            return err;
        if (l > 0 && l < m->layers)
            widest = MAX(widest, m->sizes[l]);
    }
    for (int i = 0; i < 2; i++)
        if ((err = alloc_floats(m->device, m->rows_max, widest, &m->delta[i], e)) != PS_OK)
            return err;
    if ((err = alloc_floats(m->device, m->rows_max, 1, &m->loss, e)) != PS_OK)
        return err;
    if ((err = ps_device_alloc(m->device, m->rows_max * sizeof *m->labels, &memory, e)) != PS_OK)
        return err;
    m->labels = memory;
    if ((err = ps_device_alloc(m->device, m->rows_max * sizeof *m->predicted, &memory, e)) != PS_OK)
        return err;
    m->predicted = memory;
    return alloc_host(m->rows_max, &m->host_loss, e);
}

enum ps_err
ps_mlp_new(ps_device *device, const size_t *sizes, size_t count, enum ps_activation activation, size_t rows_max,
           ps_mlp **out, struct ps_error *error)
{
    ps_mlp *m;
    enum ps_err err;

    if ((err = check_sizes(sizes, count, rows_max, error)) != PS_OK)
        return err;
    if (activation != PS_RELU && activation != PS_TANH)
        return ps_fail(error, PS_ERR_INVALID, "there is no activation %d", (int)activation);
    if ((m = calloc(1, sizeof *m)) == NULL)
        return ps_fail(error, PS_ERR_NOMEM, "network: out of memory");
    m->device = device;
    m->act = activation;
    m->layers = count - 1;
    m->rows_max = rows_max;
    memcpy(m->sizes, sizes, count * sizeof *sizes);
    if ((err = alloc_params(m, error)) != PS_OK || (err = alloc_batch(m, error)) != PS_OK) {
        ps_mlp_free(m);
        return err;
    }
    *out = m;
    return PS_OK;
}

static void
free_param(ps_mlp *m, size_t i)
{
    if (m->host_value[i] != m->param[i].value)
        free(m->host_value[i]);
    if (m->host_grad[i] != m->param[i].grad)
        free(m->host_grad[i]);
    ps_device_free(m->device, m->param[i].value);
    ps_device_free(m->device, m->param[i].grad);
}

void
ps_mlp_free(ps_mlp *mlp)
{
    if (mlp == NULL)
        return;
    for (size_t i = 0; i < PARAMS_MAX; i++)
        free_param(mlp, i);
    for (size_t l = 0; l < PS_MLP_SIZES_MAX; l++)
        ps_device_free(mlp->device, mlp->activation[l]);
    ps_device_free(mlp->device, mlp->delta[0]);
    ps_device_free(mlp->device, mlp->delta[1]);
    ps_device_free(mlp->device, mlp->loss);
    ps_device_free(mlp->device, mlp->labels);
    ps_device_free(mlp->device, mlp->predicted);
    free(mlp->host_loss);
    free(mlp);
}

/* ---- Parameters ---- */

size_t
ps_mlp_params(const ps_mlp *mlp)
{
    return 2 * mlp->layers;
}

uint64_t
ps_mlp_elements(const ps_mlp *mlp)
{
    uint64_t elements = 0;

    for (size_t i = 0; i < ps_mlp_params(mlp); i++)
        elements += mlp->param[i].elements;
    return elements;
}

float *const *
ps_mlp_values(const ps_mlp *mlp)
{
    return mlp->host_value;
}

const float *const *
ps_mlp_gradients(const ps_mlp *mlp)
{
    return mlp->host_grad_const;
}

void
ps_mlp_var_spec(const ps_mlp *mlp, size_t i, uint64_t seed, struct ps_var_spec *out)
{
    size_t layer = i / 2;
    bool relu = mlp->act == PS_RELU && layer + 1 < mlp->layers;

    ps_assert(i < ps_mlp_params(mlp));
    memset(out, 0, sizeof *out);
    out->name = mlp->param[i].name;
    out->init.seed = seed + layer; /* a seed's values depend on the element index alone: layers must not share one */
    if (i % 2 == 0) {
        out->rank = 2;
        out->dims[0] = mlp->sizes[layer];
        out->dims[1] = mlp->sizes[layer + 1];
        out->init.kind = relu ? PS_INIT_HE_UNIFORM : PS_INIT_GLOROT_UNIFORM;
    } else {
        out->rank = 1;
        out->dims[0] = mlp->sizes[layer + 1];
        out->init.kind = PS_INIT_ZEROS;
    }
}

enum ps_err
ps_mlp_declare(const ps_mlp *mlp, ps_client *client, const char *prefix, const struct ps_optimizer *optimizer,
               uint64_t seed, ps_var **vars, struct ps_error *error)
{
    char name[PS_NAME_MAX + 1];
    struct ps_var_spec spec;
    enum ps_err err;

    for (size_t i = 0; i < ps_mlp_params(mlp); i++) {
        ps_mlp_var_spec(mlp, i, seed, &spec);
        if (snprintf(name, sizeof name, "%s%s", prefix, spec.name) >= (int)sizeof name)
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
static_assert((int)PS_INIT_ZEROS == (int)INIT_ZEROS && (int)PS_INIT_GLOROT_UNIFORM == (int)INIT_GLOROT_UNIFORM &&
                  (int)PS_INIT_HE_UNIFORM == (int)INIT_HE_UNIFORM,
              "initializer numbers must agree");

void
ps_mlp_initialize(ps_mlp *mlp, uint64_t seed)
{
    struct ps_var_spec spec;
    struct initializer init;

    for (size_t i = 0; i < ps_mlp_params(mlp); i++) {
        ps_mlp_var_spec(mlp, i, seed, &spec);
        init = (struct initializer){.kind = (enum initializer_kind)spec.init.kind, .seed = spec.init.seed};
        initializer_fill(&init, spec.dims, spec.rank, 0, mlp->param[i].elements, mlp->host_value[i]);
    }
}

/* ---- Computing ---- */

static enum ps_err
check_labels(const ps_mlp *m, size_t rows, const uint32_t *labels, struct ps_error *e)
{
    size_t classes = m->sizes[m->layers];

    for (size_t r = 0; r < rows; r++)
        if (labels[r] >= classes)
            return ps_fail(e, PS_ERR_INVALID, "label %u of row %zu is not a class: the network has %zu", labels[r], r,
                           classes);
    return PS_OK;
}

static void
upload_values(ps_mlp *m)
{
    if (ps_device_is_host(m->device))
        return;
    for (size_t i = 0; i < ps_mlp_params(m); i++)
        ps_device_upload(m->device, m->param[i].value, m->host_value[i], m->param[i].elements * sizeof(float));
}

static enum ps_err
download_gradients(ps_mlp *m, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    if (ps_device_is_host(m->device))
        return ps_device_finish(m->device, e);
    for (size_t i = 0; i < ps_mlp_params(m) && err == PS_OK; i++)
        err = ps_device_download(m->device, m->host_grad[i], m->param[i].grad, m->param[i].elements * sizeof(float), e);
    return err;
}

/* The batch as the device sees it. */
static const float *
upload_rows(ps_mlp *m, size_t rows, const float *x, const uint32_t *labels)
{
    if (labels != NULL)
        ps_device_upload(m->device, m->labels, labels, rows * sizeof *labels);
    if (ps_device_is_host(m->device))
        return x;
    ps_device_upload(m->device, m->activation[0], x, rows * m->sizes[0] * sizeof *x);
    return m->activation[0];
}

/* Returns the last layer's output: [rows, classes]. x: device. */
static float *
forward(ps_mlp *m, size_t rows, const float *x)
{
    for (size_t l = 0; l < m->layers; l++) {
        size_t out = m->sizes[l + 1];
        float *y = m->activation[l + 1];

        ps_dense_forward(m->device, rows, m->sizes[l], out, l == 0 ? x : m->activation[l], m->param[2 * l].value,
                         m->param[2 * l + 1].value, y);
        if (l + 1 == m->layers)
            break;
        if (m->act == PS_RELU)
            ps_relu_forward(m->device, rows * out, y, y);
        else
            ps_tanh_forward(m->device, rows * out, y, y);
    }
    return m->activation[m->layers];
}

/* delta: gradient at the last layer's output. */
static void
backward(ps_mlp *m, size_t rows, const float *x, float *delta)
{
    for (size_t l = m->layers; l-- > 0;) {
        size_t in = m->sizes[l], out = m->sizes[l + 1];
        const float *input = l == 0 ? x : m->activation[l];
        float *next = l == 0 ? NULL : m->delta[l % 2];

        ps_dense_backward(m->device, rows, in, out, input, m->param[2 * l].value, delta, next, m->param[2 * l].grad,
                          m->param[2 * l + 1].grad);
        if (l == 0)
            break;
        if (m->act == PS_RELU)
            ps_relu_backward(m->device, rows * in, input, next, next);
        else
            ps_tanh_backward(m->device, rows * in, input, next, next);
        delta = next;
    }
}

/* Adds this batch to *result. */
static enum ps_err
collect(ps_mlp *m, size_t rows, struct ps_mlp_result *result, struct ps_error *e)
{
    enum ps_err err;
    size_t correct;

    if ((err = ps_count_equal(m->device, rows, m->predicted, m->labels, &correct, e)) != PS_OK)
        return err;
    if ((err = ps_device_download(m->device, m->host_loss, m->loss, rows * sizeof *m->loss, e)) != PS_OK)
        return err;
    for (size_t r = 0; r < rows; r++)
        result->loss += (double)m->host_loss[r];
    result->rows += rows;
    result->correct += correct;
    return PS_OK;
}

enum ps_err
ps_mlp_gradient(ps_mlp *mlp, size_t rows, const float *x, const uint32_t *labels, float scale,
                struct ps_mlp_result *result, struct ps_error *error)
{
    size_t classes = mlp->sizes[mlp->layers];
    struct ps_mlp_result got = {0};
    enum ps_err err;
    float *output;

    if (rows > mlp->rows_max)
        return ps_fail(error, PS_ERR_INVALID, "%zu rows: the network was made for %zu at once", rows, mlp->rows_max);
    if ((err = check_labels(mlp, rows, labels, error)) != PS_OK)
        return err;
    upload_values(mlp);
    x = upload_rows(mlp, rows, x, labels);
    output = forward(mlp, rows, x);
    ps_argmax(mlp->device, rows, classes, output, mlp->predicted);
    ps_softmax_cross_entropy(mlp->device, rows, classes, output, mlp->labels, scale, mlp->loss, output);
    backward(mlp, rows, x, output);
    if ((err = collect(mlp, rows, &got, error)) != PS_OK)
        return err;
    if (result != NULL)
        *result = got;
    return download_gradients(mlp, error);
}

enum ps_err
ps_mlp_evaluate(ps_mlp *mlp, size_t rows, const float *x, const uint32_t *labels, struct ps_mlp_result *result,
                struct ps_error *error)
{
    size_t classes = mlp->sizes[mlp->layers], part;
    struct ps_mlp_result got = {0};
    enum ps_err err;
    float *output;

    if ((err = check_labels(mlp, rows, labels, error)) != PS_OK)
        return err;
    upload_values(mlp);
    for (size_t first = 0; first < rows; first += part) {
        part = MIN(rows - first, mlp->rows_max);
        output = forward(mlp, part, upload_rows(mlp, part, x + first * mlp->sizes[0], labels + first));
        ps_argmax(mlp->device, part, classes, output, mlp->predicted);
        ps_softmax_cross_entropy(mlp->device, part, classes, output, mlp->labels, 1, mlp->loss, NULL);
        if ((err = collect(mlp, part, &got, error)) != PS_OK)
            return err;
    }
    *result = got;
    return PS_OK;
}

enum ps_err
ps_mlp_predict(ps_mlp *mlp, size_t rows, const float *x, uint32_t *predicted, struct ps_error *error)
{
    size_t classes = mlp->sizes[mlp->layers], part;
    enum ps_err err;
    float *output;

    upload_values(mlp);
    for (size_t first = 0; first < rows; first += part) {
        part = MIN(rows - first, mlp->rows_max);
        output = forward(mlp, part, upload_rows(mlp, part, x + first * mlp->sizes[0], NULL));
        ps_argmax(mlp->device, part, classes, output, mlp->predicted);
        err = ps_device_download(mlp->device, predicted + first, mlp->predicted, part * sizeof *predicted, error);
        if (err != PS_OK)
            return err;
    }
    return PS_OK;
}
