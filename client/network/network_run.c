/* Computing with a network: check the batch, send it and the values, forward, compare, backward, download.
 *
 * Every pass is over at most rows_max rows; evaluate, predict and classify go through a larger batch in parts. */
#include <string.h>

#include "client/device/device.h"
#include "client/device/device_optimizer.h"
#include "client/device/device_staging.h"
#include "client/network/network.h"

/* ---- The batch ---- */

/* values: [rows, columns], each below limit. what: one of them. */
static enum ps_err
check_below(size_t rows, size_t columns, const uint32_t *values, size_t limit, const char *what, struct ps_error *e)
{
    if (values == NULL && rows > 0)
        return ps_fail(e, PS_ERR_INVALID, "the batch has no %ss", what);
    for (size_t i = 0; i < rows * columns; i++)
        if (values[i] >= limit)
            return ps_fail(e, PS_ERR_INVALID, "%s %u of row %zu: there are %zu, from 0 on", what, values[i],
                           i / columns, limit);
    return PS_OK;
}

static enum ps_err
check_targets(const ps_network *n, const struct ps_batch *b, struct ps_error *e)
{
    if (b->targets == NULL && b->rows > 0)
        return ps_fail(e, PS_ERR_INVALID, "the batch has no targets");
    for (size_t i = 0; i < b->rows * n->outputs; i++)
        if (!(b->targets[i] >= 0 && b->targets[i] <= 1))
            return ps_fail(e, PS_ERR_INVALID, "target %zu of row %zu is %g, not from 0 to 1", i % n->outputs,
                           i / n->outputs, (double)b->targets[i]);
    return PS_OK;
}

static enum ps_err
check_inputs(const ps_network *n, const struct ps_batch *b, struct ps_error *e)
{
    if (n->takes_ids)
        return check_below(b->rows, n->inputs, b->ids, n->layer[0].spec.vocabulary, "id", e);
    if (b->x == NULL && b->rows > 0)
        return ps_fail(e, PS_ERR_INVALID, "the batch has no x");
    return PS_OK;
}

static enum ps_err
check_batch(const ps_network *n, const struct ps_batch *b, struct ps_error *e)
{
    enum ps_err err = check_inputs(n, b, e);

    if (err != PS_OK)
        return err;
    if (n->loss == PS_LOSS_SIGMOID)
        return check_targets(n, b, e);
    return check_below(b->rows, 1, b->labels, n->outputs, "label", e);
}

enum ps_err
network_check_rows(const ps_network *n, const struct ps_batch *b, struct ps_error *e)
{
    if (b->rows > n->rows_max)
        return ps_fail(e, PS_ERR_INVALID, "%zu rows: the network was made for %zu at once", b->rows, n->rows_max);
    return PS_OK;
}

/* Rows [first, first + rows) of a batch. */
static struct ps_batch
part_of(const ps_network *n, const struct ps_batch *b, size_t first, size_t rows)
{
    struct ps_batch part = {.rows = rows};

    if (b->x != NULL)
        part.x = b->x + first * n->inputs;
    if (b->ids != NULL)
        part.ids = b->ids + first * n->inputs;
    if (b->labels != NULL)
        part.labels = b->labels + first;
    if (b->targets != NULL)
        part.targets = b->targets + first * n->outputs;
    return part;
}

/* ---- To the device and back ---- */

/* Parameters are computed with where they lie. */
static bool
network_params_stay(const ps_network *n)
{
    return ps_device_is_host(n->device) || n->resides;
}

/* The values of a layer, right before it computes with them: on a device with memory of its own they come while the
 * layer before computes. */
static void
send_values(ps_network *n, const struct layer *l)
{
    if (network_params_stay(n))
        return;
    for (size_t i = 0; i < l->params; i++) {
        const struct layer_param *p = &l->param[i];

        device_send(n->device, p->value, p->host_value, p->elements * sizeof(float));
    }
}

/* Gradients of the parameters [first, end) are on their way to the host. */
struct on_way {
    size_t first, end;
};

static enum ps_err
fetch_gradients(ps_network *n, const struct on_way *w, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    if (network_params_stay(n))
        return PS_OK;
    for (size_t i = w->first; i < w->end && err == PS_OK; i++) {
        const struct layer_param *p = n->param[i];

        err = device_fetch(n->device, p->host_gradient, p->gradient, p->elements * sizeof(float), e);
    }
    return err;
}

/* ---- A pass ---- */

/* Returns the last layer's output: [rows, outputs], device. send: values may have changed. */
static const float *
network_forward(ps_network *n, const struct pass *pass, const struct ps_batch *b, bool send)
{
    const void *x = network_batch_input(n, b);

    for (size_t i = 0; i < n->layers; i++) {
        struct layer *l = &n->layer[i];

        if (send)
            send_values(n, l);
        l->x = x;
        x = l->y = l->kind->forward(l, pass);
    }
    return x;
}

/* Reports gradients that were on their way. Those that stay on the device are reported once their computation was
 * called for: the callback copies them, or not. */
static enum ps_err
call_ready(ps_network *n, struct on_way *w, struct ps_error *e)
{
    enum ps_err err;

    if (w->first == w->end)
        return PS_OK;
    if (!network_params_stay(n) && (err = device_fetched(n->device, e)) != PS_OK)
        return err;
    while (w->end > w->first)
        n->ready(n->ready_arg, --w->end);
    return PS_OK;
}

/* The gradients of a layer are computed, or will be: their call was made. Where they have to be fetched, those of the
 * layer before in this order are reported first, while the device computes these. */
static enum ps_err
hand_over(ps_network *n, struct on_way *w, size_t first, size_t end, struct ps_error *e)
{
    enum ps_err err;

    if (first == end)
        return PS_OK;
    if (n->ready != NULL && (err = call_ready(n, w, e)) != PS_OK)
        return err;
    *w = (struct on_way){first, end};
    if ((err = fetch_gradients(n, w, e)) != PS_OK)
        return err;
    return n->ready != NULL && network_params_stay(n) ? call_ready(n, w, e) : PS_OK;
}

/* From the loss's gradient in delta[0] down to the first layer with parameters, whose input needs no gradient. */
static enum ps_err
network_backward(ps_network *n, const struct pass *pass, struct ps_error *e)
{
    float *dy = n->delta[0], *dx;
    struct on_way w = {0};
    size_t told = n->params;
    enum ps_err err;

    for (size_t i = n->layers; i-- > n->first_trained; dy = dx) {
        struct layer *l = &n->layer[i];

        dx = l->kind->traits & LAYER_DX_ON_DY ? dy : dy == n->delta[0] ? n->delta[1] : n->delta[0];
        l->kind->backward(l, pass, dy, i > n->first_trained ? dx : NULL);
        if ((err = hand_over(n, &w, told - l->params, told, e)) != PS_OK)
            return err;
        told -= l->params;
    }
    return n->ready != NULL ? call_ready(n, &w, e) : PS_OK;
}

/* Losses, for softmax the largest outputs, and, when dx is not NULL, the gradient of scale × the sum of the losses.
 * Returns what the outputs were compared with: device. */
static const void *
network_compare(ps_network *n, const struct ps_batch *b, const float *outputs, float scale, float *dx)
{
    const void *want = network_batch_wanted(n, b);

    if (n->loss == PS_LOSS_SIGMOID) {
        ps_sigmoid_cross_entropy(n->device, b->rows, n->outputs, outputs, want, scale, n->losses, dx);
        return want;
    }
    ps_argmax(n->device, b->rows, n->outputs, outputs, n->best);
    ps_softmax_cross_entropy(n->device, b->rows, n->outputs, outputs, want, scale, n->losses, dx);
    return want;
}

/* ---- Results ---- */

/* Whether every output is on its target's side. */
static bool
row_is_right(size_t outputs, const float *output, const float *target)
{
    for (size_t i = 0; i < outputs; i++)
        if ((output[i] > 0) != (target[i] > 0.5f))
            return false;
    return true;
}

static enum ps_err
count_correct(ps_network *n, const struct ps_batch *b, const float *outputs, const void *want, size_t *correct,
              struct ps_error *e)
{
    enum ps_err err;

    *correct = 0;
    if (n->loss == PS_LOSS_SOFTMAX)
        return ps_count_equal(n->device, b->rows, n->best, want, correct, e);
    err = ps_device_download(n->device, n->host_outputs, outputs, b->rows * n->outputs * sizeof *outputs, e);
    for (size_t r = 0; r < b->rows && err == PS_OK; r++)
        *correct += row_is_right(n->outputs, n->host_outputs + r * n->outputs, b->targets + r * n->outputs);
    return err;
}

/* How many are right, and the sum of the losses. want: as network_compare() returned it. */
static enum ps_err
read_result(ps_network *n, const struct ps_batch *b, const float *outputs, const void *want, size_t *correct,
            double *loss, struct ps_error *e)
{
    enum ps_err err;

    *loss = 0;
    if ((err = count_correct(n, b, outputs, want, correct, e)) != PS_OK)
        return err;
    if ((err = ps_device_download(n->device, n->host_losses, n->losses, b->rows * sizeof *n->losses, e)) != PS_OK)
        return err;
    for (size_t r = 0; r < b->rows; r++)
        *loss += (double)n->host_losses[r];
    return PS_OK;
}

/* Adds this pass to *result. Where a device counts and adds up itself, that is waited for once, together with the norm
 * of the gradients, where the pass has made any. */
static enum ps_err
network_collect(ps_network *n, const struct ps_batch *b, const float *outputs, const void *want, bool trains,
                struct ps_network_result *result, struct ps_error *e)
{
    const struct device_ops *ops = n->device->ops;
    bool tallies = n->loss == PS_LOSS_SOFTMAX && ops->tally_start != NULL && b->rows > 0;
    size_t correct;
    double loss;
    enum ps_err err;

    if (tallies)
        ops->tally_start(n->device, b->rows, n->best, want, n->losses);
    if (trains && n->norm_of != NULL)
        device_norm_start(n->device, n->norm_elements, n->norm_of);
    err =
        tallies ? ops->tally_end(n->device, &correct, &loss, e) : read_result(n, b, outputs, want, &correct, &loss, e);
    if (err != PS_OK)
        return err;
    result->loss += loss;
    result->rows += b->rows;
    result->correct += correct;
    return PS_OK;
}

/* ---- Public ---- */

enum ps_err
ps_network_gradient(ps_network *network, const struct ps_batch *batch, float scale, uint64_t draw,
                    struct ps_network_result *result, struct ps_error *error)
{
    ps_network *n = network;
    struct pass pass = {n->device, batch->rows, true, draw, n->scratch};
    struct ps_network_result got = {0};
    const float *outputs;
    const void *want;
    enum ps_err err, fetched;

    if ((err = network_check_rows(n, batch, error)) != PS_OK || (err = check_batch(n, batch, error)) != PS_OK)
        return err;
    outputs = network_forward(n, &pass, batch, true);
    want = network_compare(n, batch, outputs, scale, n->delta[0]);
    if ((err = network_backward(n, &pass, error)) == PS_OK) {
        network_batch_send_next(n);
        err = network_collect(n, batch, outputs, want, true, &got, error);
    }
    fetched =
        network_params_stay(n)
            ? PS_OK
            : device_fetched(n->device, err == PS_OK ? error : NULL); /* nothing is on its way when this returns */
    if (err == PS_OK && result != NULL)
        *result = got;
    return err != PS_OK ? err : fetched;
}

void
ps_network_on_ready(ps_network *network, void (*ready)(void *arg, size_t i), void *arg)
{
    network->ready = ready;
    network->ready_arg = arg;
}

/* The function that takes the outputs of each part of a batch. */
typedef enum ps_err (*take_outputs)(ps_network *n, const struct ps_batch *part, size_t first, const float *outputs,
                                    void *to, struct ps_error *e);

static enum ps_err
forward_in_parts(ps_network *n, const struct ps_batch *batch, take_outputs take, void *to, struct ps_error *e)
{
    struct pass pass = {.device = n->device, .scratch = n->scratch};
    struct ps_batch part;
    enum ps_err err = PS_OK;

    for (size_t first = 0; first < batch->rows && err == PS_OK; first += part.rows) {
        part = part_of(n, batch, first, MIN(batch->rows - first, n->rows_max));
        pass.rows = part.rows;
        err = take(n, &part, first, network_forward(n, &pass, &part, first == 0), to, e);
    }
    return err;
}

static enum ps_err
take_result(ps_network *n, const struct ps_batch *part, size_t first, const float *outputs, void *to,
            struct ps_error *e)
{
    (void)first;
    return network_collect(n, part, outputs, network_compare(n, part, outputs, 1, NULL), false, to, e);
}

enum ps_err
ps_network_evaluate(ps_network *network, const struct ps_batch *batch, struct ps_network_result *result,
                    struct ps_error *error)
{
    struct ps_network_result got = {0};
    enum ps_err err;

    if ((err = check_batch(network, batch, error)) != PS_OK)
        return err;
    if ((err = forward_in_parts(network, batch, take_result, &got, error)) != PS_OK)
        return err;
    *result = got;
    return PS_OK;
}

static enum ps_err
take_raw(ps_network *n, const struct ps_batch *part, size_t first, const float *outputs, void *to, struct ps_error *e)
{
    float *row = (float *)to + first * n->outputs;

    return ps_device_download(n->device, row, outputs, part->rows * n->outputs * sizeof *outputs, e);
}

enum ps_err
ps_network_predict(ps_network *network, const struct ps_batch *batch, float *outputs, struct ps_error *error)
{
    enum ps_err err = check_inputs(network, batch, error);

    return err == PS_OK ? forward_in_parts(network, batch, take_raw, outputs, error) : err;
}

static enum ps_err
take_classes(ps_network *n, const struct ps_batch *part, size_t first, const float *outputs, void *to,
             struct ps_error *e)
{
    uint32_t *classes = to;
    size_t count = part->rows * n->outputs;
    enum ps_err err;

    if (n->loss == PS_LOSS_SOFTMAX) {
        ps_argmax(n->device, part->rows, n->outputs, outputs, n->best);
        return ps_device_download(n->device, classes + first, n->best, part->rows * sizeof *classes, e);
    }
    err = ps_device_download(n->device, n->host_outputs, outputs, count * sizeof *outputs, e);
    for (size_t i = 0; i < count && err == PS_OK; i++)
        classes[first * n->outputs + i] = n->host_outputs[i] > 0;
    return err;
}

enum ps_err
ps_network_classify(ps_network *network, const struct ps_batch *batch, uint32_t *classes, struct ps_error *error)
{
    enum ps_err err = check_inputs(network, batch, error);

    return err == PS_OK ? forward_in_parts(network, batch, take_classes, classes, error) : err;
}
