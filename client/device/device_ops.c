/* The public operations call the device's own. The part common to all devices is done here: sizes are checked, and
 * calls without rows end, with gradients of zero. */
#include "client/device/device.h"

#include "common/core/base/base.h"

static bool
sizes_fit(size_t a, size_t b, size_t c)
{
    return a <= PS_DEVICE_SIZE_MAX && b <= PS_DEVICE_SIZE_MAX && c <= PS_DEVICE_SIZE_MAX;
}

void
ps_dense_forward(ps_device *device, size_t rows, size_t in, size_t out, const float *x, const float *w, const float *b,
                 float *y)
{
    ps_assert(sizes_fit(rows, in, out) && in > 0 && out > 0);
    if (rows > 0)
        device->ops->dense_forward(device, rows, in, out, x, w, b, y);
}

void
ps_dense_backward(ps_device *device, size_t rows, size_t in, size_t out, const float *x, const float *w,
                  const float *dy, float *dx, float *dw, float *db)
{
    ps_assert(sizes_fit(rows, in, out) && in > 0 && out > 0);
    if (rows > 0) {
        device->ops->dense_backward(device, rows, in, out, x, w, dy, dx, dw, db);
        return;
    }
    /* A worker whose slice of the last batch is empty still has a gradient to push. */
    device->ops->zero(device, dw, in * out * sizeof *dw);
    if (db != NULL)
        device->ops->zero(device, db, out * sizeof *db);
}

void
ps_sparse_forward(ps_device *device, size_t rows, size_t in, size_t out, const uint64_t *start, const uint32_t *column,
                  const float *value, const float *w, const float *b, float *y)
{
    ps_assert(sizes_fit(rows, in, out) && in > 0 && out > 0);
    if (rows > 0)
        device->ops->sparse_forward(device, rows, in, out, start, column, value, w, b, y);
}

void
ps_sparse_backward(ps_device *device, size_t rows, size_t in, size_t out, const uint64_t *start, const uint32_t *column,
                   const float *value, const float *dy, float *dw, float *db)
{
    ps_assert(sizes_fit(rows, in, out) && in > 0 && out > 0);
    if (rows > 0) {
        device->ops->sparse_backward(device, rows, in, out, start, column, value, dy, dw, db);
        return;
    }
    device->ops->zero(device, dw, in * out * sizeof *dw);
    if (db != NULL)
        device->ops->zero(device, db, out * sizeof *db);
}

void
ps_bias_forward(ps_device *device, size_t rows, size_t n, const float *x, const float *b, float *y)
{
    ps_assert(sizes_fit(rows, n, 0) && n > 0);
    if (rows > 0)
        device->ops->bias_forward(device, rows, n, x, b, y);
}

void
ps_bias_backward(ps_device *device, size_t rows, size_t n, const float *dy, float *db)
{
    ps_assert(sizes_fit(rows, n, 0) && n > 0);
    if (rows > 0)
        device->ops->bias_backward(device, rows, n, dy, db);
    else
        device->ops->zero(device, db, n * sizeof *db);
}

void
ps_conv2d_forward(ps_device *device, size_t rows, const struct ps_conv2d *c, const float *x, const float *w,
                  const float *b, float *y, float *workspace)
{
    ps_assert(sizes_fit(rows, 0, 0) && ps_conv2d_check(c, NULL) == PS_OK);
    if (rows > 0)
        device->ops->conv2d_forward(device, rows, c, x, w, b, y, workspace);
}

void
ps_conv2d_backward(ps_device *device, size_t rows, const struct ps_conv2d *c, const float *x, const float *w,
                   const float *dy, float *dx, float *dw, float *db, float *workspace)
{
    ps_assert(sizes_fit(rows, 0, 0) && ps_conv2d_check(c, NULL) == PS_OK);
    if (rows > 0) {
        device->ops->conv2d_backward(device, rows, c, x, w, dy, dx, dw, db, workspace);
        return;
    }
    device->ops->zero(device, dw, c->kernel_height * c->kernel_width * c->in * c->out * sizeof *dw);
    if (db != NULL)
        device->ops->zero(device, db, c->out * sizeof *db);
}

void
ps_max_pool_forward(ps_device *device, size_t rows, const struct ps_pool2d *p, const float *x, float *y, uint32_t *best)
{
    ps_assert(sizes_fit(rows, 0, 0) && ps_pool2d_check(p, NULL) == PS_OK);
    if (rows > 0)
        device->ops->max_pool_forward(device, rows, p, x, y, best);
}

void
ps_max_pool_backward(ps_device *device, size_t rows, const struct ps_pool2d *p, const uint32_t *best, const float *dy,
                     float *dx)
{
    ps_assert(sizes_fit(rows, 0, 0) && ps_pool2d_check(p, NULL) == PS_OK);
    if (rows > 0)
        device->ops->max_pool_backward(device, rows, p, best, dy, dx);
}

void
ps_avg_pool_forward(ps_device *device, size_t rows, const struct ps_pool2d *p, const float *x, float *y)
{
    ps_assert(sizes_fit(rows, 0, 0) && ps_pool2d_check(p, NULL) == PS_OK);
    if (rows > 0)
        device->ops->avg_pool_forward(device, rows, p, x, y);
}

void
ps_avg_pool_backward(ps_device *device, size_t rows, const struct ps_pool2d *p, const float *dy, float *dx)
{
    ps_assert(sizes_fit(rows, 0, 0) && ps_pool2d_check(p, NULL) == PS_OK);
    if (rows > 0)
        device->ops->avg_pool_backward(device, rows, p, dy, dx);
}

void
ps_relu_forward(ps_device *device, size_t n, const float *x, float *y)
{
    if (n > 0)
        device->ops->relu_forward(device, n, x, y);
}

void
ps_relu_backward(ps_device *device, size_t n, const float *y, const float *dy, float *dx)
{
    if (n > 0)
        device->ops->relu_backward(device, n, y, dy, dx);
}

void
ps_tanh_forward(ps_device *device, size_t n, const float *x, float *y)
{
    if (n > 0)
        device->ops->tanh_forward(device, n, x, y);
}

void
ps_tanh_backward(ps_device *device, size_t n, const float *y, const float *dy, float *dx)
{
    if (n > 0)
        device->ops->tanh_backward(device, n, y, dy, dx);
}

void
ps_sigmoid_forward(ps_device *device, size_t n, const float *x, float *y)
{
    if (n > 0)
        device->ops->sigmoid_forward(device, n, x, y);
}

void
ps_sigmoid_backward(ps_device *device, size_t n, const float *y, const float *dy, float *dx)
{
    if (n > 0)
        device->ops->sigmoid_backward(device, n, y, dy, dx);
}

void
ps_gelu_forward(ps_device *device, size_t n, const float *x, float *y)
{
    if (n > 0)
        device->ops->gelu_forward(device, n, x, y);
}

void
ps_gelu_backward(ps_device *device, size_t n, const float *x, const float *dy, float *dx)
{
    if (n > 0)
        device->ops->gelu_backward(device, n, x, dy, dx);
}

void
ps_layer_norm_forward(ps_device *device, size_t rows, size_t n, const float *x, const float *gamma, const float *beta,
                      float epsilon, float *y, float *mean, float *rstd)
{
    ps_assert(sizes_fit(rows, n, 0) && n > 0 && epsilon >= 0);
    if (rows > 0)
        device->ops->layer_norm_forward(device, rows, n, x, gamma, beta, epsilon, y, mean, rstd);
}

void
ps_layer_norm_backward(ps_device *device, size_t rows, size_t n, const float *x, const float *gamma, const float *mean,
                       const float *rstd, const float *dy, float *dx, float *dgamma, float *dbeta)
{
    ps_assert(sizes_fit(rows, n, 0) && n > 0);
    if (rows > 0) {
        device->ops->layer_norm_backward(device, rows, n, x, gamma, mean, rstd, dy, dx, dgamma, dbeta);
        return;
    }
    device->ops->zero(device, dgamma, n * sizeof *dgamma);
    device->ops->zero(device, dbeta, n * sizeof *dbeta);
}

enum ps_err
ps_check_ids(size_t n, const uint32_t *ids, size_t vocabulary, struct ps_error *error)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= vocabulary)
            return ps_fail(error, PS_ERR_INVALID, "id %u at %zu: there are %zu, from 0 on", ids[i], i, vocabulary);
    return PS_OK;
}

void
ps_embedding_forward(ps_device *device, size_t n, size_t vocabulary, size_t width, const uint32_t *ids,
                     const float *table, float *y)
{
    ps_assert(sizes_fit(n, vocabulary, width) && vocabulary > 0 && width > 0);
    if (n > 0)
        device->ops->embedding_forward(device, n, vocabulary, width, ids, table, y);
}

void
ps_embedding_backward(ps_device *device, size_t n, size_t vocabulary, size_t width, const uint32_t *ids,
                      const float *dy, float *dtable)
{
    ps_assert(sizes_fit(n, vocabulary, width) && vocabulary > 0 && width > 0);
    if (n > 0)
        device->ops->embedding_backward(device, n, vocabulary, width, ids, dy, dtable);
    else
        device->ops->zero(device, dtable, vocabulary * width * sizeof *dtable);
}

void
ps_dropout_forward(ps_device *device, size_t n, float rate, uint64_t seed, uint64_t counter, const float *x, float *y)
{
    ps_assert(rate >= 0 && rate < 1);
    if (n > 0)
        device->ops->dropout_forward(device, n, rate, seed, counter, x, y);
}

void
ps_dropout_backward(ps_device *device, size_t n, float rate, uint64_t seed, uint64_t counter, const float *dy,
                    float *dx)
{
    ps_assert(rate >= 0 && rate < 1);
    if (n > 0)
        device->ops->dropout_backward(device, n, rate, seed, counter, dy, dx);
}

void
ps_softmax(ps_device *device, size_t rows, size_t classes, const float *x, float *p)
{
    ps_assert(sizes_fit(rows, classes, 0) && classes > 0);
    if (rows > 0)
        device->ops->softmax(device, rows, classes, x, p);
}

void
ps_softmax_cross_entropy(ps_device *device, size_t rows, size_t classes, const float *x, const uint32_t *labels,
                         float scale, float *loss, float *dx)
{
    ps_assert(sizes_fit(rows, classes, 0) && classes > 0);
    if (rows > 0)
        device->ops->softmax_cross_entropy(device, rows, classes, x, labels, scale, loss, dx);
}

void
ps_sigmoid_cross_entropy(ps_device *device, size_t rows, size_t n, const float *x, const float *targets, float scale,
                         float *loss, float *dx)
{
    ps_assert(sizes_fit(rows, n, 0) && n > 0);
    if (rows > 0)
        device->ops->sigmoid_cross_entropy(device, rows, n, x, targets, scale, loss, dx);
}

void
ps_argmax(ps_device *device, size_t rows, size_t classes, const float *x, uint32_t *best)
{
    ps_assert(sizes_fit(rows, classes, 0) && classes > 0);
    if (rows > 0)
        device->ops->argmax(device, rows, classes, x, best);
}

enum ps_err
ps_count_equal(ps_device *device, size_t n, const uint32_t *a, const uint32_t *b, size_t *count, struct ps_error *error)
{
    *count = 0;
    if (n == 0)
        return device->ops->finish(device, error);
    return device->ops->count_equal(device, n, a, b, count, error);
}
