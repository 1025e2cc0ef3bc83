/* The CPU device: matrix products by OpenBLAS, the rest as plain loops. The one file that includes cblas.h.
 *
 * Device memory is host memory, and every operation is done when its call returns. Matrix products are the only thing
 * that OpenBLAS's threads share; how it cuts them depends on the shape and the number of threads alone, so the same
 * call gives the same bits whatever ran before it. */
#include "client/device.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cblas.h>

#include "common/base.h"

#define CPU_ALIGN 64

static void
cpu_close(ps_device *d)
{
    free(d);
}

/* ---- Memory ---- */

static void *
cpu_alloc(ps_device *d, size_t size)
{
    void *memory;

    (void)d;
    if (size > PTRDIFF_MAX - CPU_ALIGN)
        return NULL;
    size = size == 0 ? CPU_ALIGN : round_up(size, CPU_ALIGN);
    if ((memory = aligned_alloc(CPU_ALIGN, size)) != NULL)
        memset(memory, 0, size);
    return memory;
}

static void
cpu_free(ps_device *d, void *memory)
{
    (void)d;
    free(memory);
}

static void
cpu_copy(ps_device *d, void *to, const void *from, size_t size)
{
    (void)d;
    memcpy(to, from, size);
}

static void
cpu_zero(ps_device *d, void *to, size_t size)
{
    (void)d;
    memset(to, 0, size);
}

static enum ps_err
cpu_download(ps_device *d, void *to_host, const void *from, size_t size, struct ps_error *e)
{
    (void)e;
    cpu_copy(d, to_host, from, size);
    return PS_OK;
}

static enum ps_err
cpu_finish(ps_device *d, struct ps_error *e)
{
    (void)d;
    (void)e;
    return PS_OK;
}

/* ---- Dense ---- */

static void
cpu_dense_forward(ps_device *d, size_t rows, size_t in, size_t out, const float *x, const float *w, const float *b,
                  float *y)
{
    (void)d;
    if (b != NULL)
        for (size_t r = 0; r < rows; r++)
            memcpy(y + r * out, b, out * sizeof *y);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)rows, (blasint)out, (blasint)in, 1, x, (blasint)in,
                w, (blasint)out, b != NULL ? 1 : 0, y, (blasint)out);
}

/* db: [out] = sums of the columns of dy: [rows, out], rows added in their order. */
static void
column_sums(size_t rows, size_t out, const float *restrict dy, float *restrict db)
{
    memcpy(db, dy, out * sizeof *db);
    for (size_t r = 1; r < rows; r++)
        for (size_t c = 0; c < out; c++)
            db[c] += dy[r * out + c];
}

static void
cpu_dense_backward(ps_device *d, size_t rows, size_t in, size_t out, const float *x, const float *w, const float *dy,
                   float *dx, float *dw, float *db)
{
    (void)d;
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (blasint)in, (blasint)out, (blasint)rows, 1, x, (blasint)in,
                dy, (blasint)out, 0, dw, (blasint)out);
    if (db != NULL)
        column_sums(rows, out, dy, db);
    if (dx != NULL)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)rows, (blasint)in, (blasint)out, 1, dy,
                    (blasint)out, w, (blasint)out, 0, dx, (blasint)in);
}

/* ---- Activations ---- */

static void
cpu_relu_forward(ps_device *d, size_t n, const float *x, float *y)
{
    (void)d;
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] < 0 ? 0 : x[i]; /* in this order a NaN stays */
}

static void
cpu_relu_backward(ps_device *d, size_t n, const float *y, const float *dy, float *dx)
{
    (void)d;
    for (size_t i = 0; i < n; i++)
        dx[i] = y[i] > 0 ? dy[i] : 0;
}

static void
cpu_tanh_forward(ps_device *d, size_t n, const float *x, float *y)
{
    (void)d;
    for (size_t i = 0; i < n; i++)
        y[i] = tanhf(x[i]);
}

static void
cpu_tanh_backward(ps_device *d, size_t n, const float *y, const float *dy, float *dx)
{
    (void)d;
    for (size_t i = 0; i < n; i++)
        dx[i] = dy[i] * (1 - y[i] * y[i]);
}

/* ---- Classification ---- */

/* A NaN anywhere in the row makes everything after it NaN: exp and the sum carry it. */
static float
row_max(size_t classes, const float *x)
{
    float max = x[0];

    for (size_t c = 1; c < classes; c++)
        if (x[c] > max)
            max = x[c];
    return max;
}

/* p = exp(x - max); returns the sum. Subtracting the largest keeps exp() from overflowing and the sum at 1 or more. */
static float
row_exp(size_t classes, const float *x, float max, float *p)
{
    float sum = 0;

    for (size_t c = 0; c < classes; c++) {
        p[c] = expf(x[c] - max);
        sum += p[c];
    }
    return sum;
}

static void
cpu_softmax(ps_device *d, size_t rows, size_t classes, const float *x, float *p)
{
    (void)d;
    for (size_t r = 0; r < rows; r++, x += classes, p += classes) {
        float sum = row_exp(classes, x, row_max(classes, x), p);
        for (size_t c = 0; c < classes; c++)
            p[c] /= sum;
    }
}

static float
row_sum_exp(size_t classes, const float *x, float max)
{
    float sum = 0;

    for (size_t c = 0; c < classes; c++)
        sum += expf(x[c] - max);
    return sum;
}

static void
cpu_softmax_cross_entropy(ps_device *d, size_t rows, size_t classes, const float *x, const uint32_t *labels,
                          float scale, float *loss, float *dx)
{
    (void)d;
    for (size_t r = 0; r < rows; r++, x += classes) {
        ps_assert(labels[r] < classes);
        float max = row_max(classes, x), at_label = x[labels[r]] - max; /* dx may be x: read before */
        float sum = dx != NULL ? row_exp(classes, x, max, dx) : row_sum_exp(classes, x, max);

        loss[r] = logf(sum) - at_label;
        if (dx == NULL)
            continue;
        for (size_t c = 0; c < classes; c++)
            dx[c] = (dx[c] / sum - (c == labels[r] ? 1.0f : 0.0f)) * scale;
        dx += classes;
    }
}

static void
cpu_argmax(ps_device *d, size_t rows, size_t classes, const float *x, uint32_t *best)
{
    (void)d;
    for (size_t r = 0; r < rows; r++, x += classes) {
        best[r] = 0;
        for (size_t c = 1; c < classes; c++)
            if (x[c] > x[best[r]])
                best[r] = (uint32_t)c;
    }
}

static enum ps_err
cpu_count_equal(ps_device *d, size_t n, const uint32_t *a, const uint32_t *b, size_t *count, struct ps_error *e)
{
    size_t equal = 0;

    (void)d;
    (void)e;
    for (size_t i = 0; i < n; i++)
        equal += a[i] == b[i];
    *count = equal;
    return PS_OK;
}

static const struct device_ops cpu_ops = {
    .is_host = 1,
    .close = cpu_close,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .upload = cpu_copy,
    .copy = cpu_copy,
    .zero = cpu_zero,
    .download = cpu_download,
    .finish = cpu_finish,
    .dense_forward = cpu_dense_forward,
    .dense_backward = cpu_dense_backward,
    .relu_forward = cpu_relu_forward,
    .relu_backward = cpu_relu_backward,
    .tanh_forward = cpu_tanh_forward,
    .tanh_backward = cpu_tanh_backward,
    .softmax = cpu_softmax,
    .softmax_cross_entropy = cpu_softmax_cross_entropy,
    .argmax = cpu_argmax,
    .count_equal = cpu_count_equal,
};

/* ---- Opening ---- */

/* Cores that this process may run on: what a container or taskset left of the machine. */
static int
cores_allowed(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1; /* more than CPU_SETSIZE cores: nothing to go by */
    return CPU_COUNT(&set);
}

/* 0: leave it to OpenBLAS, which reads the same variable itself. */
static int
threads_wanted(const struct ps_device_options *options)
{
    const char *text = getenv("OPENBLAS_NUM_THREADS");

    if (options->threads > 0)
        return options->threads;
    if (text != NULL && atoi(text) > 0)
        return 0;
    return MAX(1, cores_allowed() / options->workers);
}

/* "OpenBLAS 0.3.21 ...": the first two words. */
static void
describe(ps_device *d)
{
    const char *config = openblas_get_config();
    size_t first = strcspn(config, " ");
    size_t words = config[first] == ' ' ? first + 1 + strcspn(config + first + 1, " ") : first;

    snprintf(d->description, sizeof d->description, "%.*s %s, %d thread%s", (int)words, config, openblas_get_corename(),
             d->threads, d->threads == 1 ? "" : "s");
}

enum ps_err
device_cpu_open(const struct ps_device_options *options, ps_device **out, struct ps_error *e)
{
    int threads = threads_wanted(options);
    ps_device *d = calloc(1, sizeof *d);

    if (d == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "device cpu: out of memory");
    if (threads > 0)
        openblas_set_num_threads(threads);
    d->ops = &cpu_ops;
    d->threads = openblas_get_num_threads();
    describe(d);
    *out = d;
    return PS_OK;
}
