/* Forward: z = x w + b. Loss and its derivative with respect to z come from one device operation; backward carries that
 * to w and b. */
#include "client/examples/logistic/model.h"

#include <string.h>

enum ps_err
model_init(struct logistic_model *m, ps_device *device, size_t rows_max, struct ps_error *error)
{
    const size_t sizes[MODEL_VARS] = {m->columns, 1};
    float **rows[] = {&m->z, &m->targets, &m->loss};
    enum ps_err err = PS_OK;

    m->device = device;
    m->rows_max = rows_max;
    for (int i = 0; i < MODEL_VARS && err == PS_OK; i++) {
        err = ps_device_alloc(device, sizes[i] * sizeof(float), (void **)&m->values[i], error);
        if (err == PS_OK)
            err = ps_device_alloc(device, sizes[i] * sizeof(float), (void **)&m->gradients[i], error);
    }
    for (int i = 0; i < 3 && err == PS_OK; i++)
        err = ps_device_alloc(device, rows_max * sizeof(float), (void **)rows[i], error);
    return err;
}

void
model_finish(struct logistic_model *m)
{
    for (int i = 0; i < MODEL_VARS && m->device != NULL; i++) {
        ps_device_free(m->device, m->values[i]);
        ps_device_free(m->device, m->gradients[i]);
    }
    if (m->device != NULL) {
        ps_device_free(m->device, m->z);
        ps_device_free(m->device, m->targets);
        ps_device_free(m->device, m->loss);
    }
    memset(m, 0, sizeof *m);
}

enum ps_err
model_declare(struct logistic_model *m, ps_client *client, uint64_t columns, const struct ps_optimizer *optimizer,
              struct ps_error *error)
{
    struct ps_var_spec weights = {.name = "weights", .rank = 1, .dims = {(size_t)columns}, .optimizer = *optimizer};
    struct ps_var_spec bias = {.name = "bias", .optimizer = *optimizer};
    enum ps_err err = ps_client_declare(client, &weights, &m->vars[0], error);

    m->columns = (size_t)columns;
    return err != PS_OK ? err : ps_client_declare(client, &bias, &m->vars[1], error);
}

enum ps_err
model_run(struct logistic_model *m, const struct ps_sparse *batch, const struct ps_binary *binary, float scale,
          struct model_result *result, struct ps_error *error)
{
    size_t rows = (size_t)batch->rows;
    enum ps_err err = ps_binary_targets(batch, binary, m->targets, error);

    if (err != PS_OK)
        return err;
    *result = (struct model_result){.rows = rows};
    ps_sparse_forward(m->device, rows, m->columns, 1, batch->start, batch->column, batch->value, m->values[0],
                      m->values[1], m->z);
    for (size_t r = 0; r < rows; r++)
        result->correct += (m->z[r] > 0) == (m->targets[r] > 0);
    ps_sigmoid_cross_entropy(m->device, rows, 1, m->z, m->targets, scale, m->loss, m->z); /* z becomes its derivative */
    for (size_t r = 0; r < rows; r++)
        result->loss += m->loss[r];
    if (scale > 0)
        ps_sparse_backward(m->device, rows, m->columns, 1, batch->start, batch->column, batch->value, m->z,
                           m->gradients[0], m->gradients[1]);
    return PS_OK;
}
