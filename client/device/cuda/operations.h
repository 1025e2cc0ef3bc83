/* Every operation of the table, as a sequence of kernels. Written once like these: a file that includes this has
 * defined, for a struct ps_module_device with the members scratch ([scratch_floats], device memory that the next
 * operation may overwrite) and flags ([FLAGS], in memory that kernels and the host both access),
 *
 *     RUN_ELEMENTS(d, name, n, ...)        kernel name for elements 0 to n - 1; then the members of struct <name>_args
 *     RUN_ROWS(d, name, n, ...)            the same for rows
 *     run_product(d, a_transposed, ...)    as cpu_product(), client/device/cpu/device_cpu.h
 *     run_zero(d, to, size)                bytes
 *     run_read(d, to_host, from, size)     waits; false after a failure
 *
 * so that module.cu runs them on a GPU and the tests in plain loops. */
#ifndef CLIENT_DEVICE_CUDA_OPERATIONS_H
#define CLIENT_DEVICE_CUDA_OPERATIONS_H

#include "client/device/cuda/elements.h"
#include "client/device/cuda/patches.h"
#include "client/device/cuda/row_kernels.h"

/* ---- Sums of columns ---- */

#define COLUMN_RUN 64 /* rows, at least: a longer sum at once loses more precision */

/* sum: [n] of dy: [rows, n], times the normalized x when x is not NULL. */
static void
sum_columns(PS_MODULE_DEVICE, size_t rows, size_t n, const float *dy, const float *x, const float *mean,
            const float *rstd, float *sum)
{
    size_t runs_max = d->scratch_floats / n > 0 ? d->scratch_floats / n : 1;
    size_t runs = (rows - 1) / COLUMN_RUN + 1, run;

    runs = runs < runs_max ? runs : runs_max;
    run = (rows - 1) / runs + 1;
    runs = (rows - 1) / run + 1; /* none is empty */
    RUN_ELEMENTS(d, column_part, runs * n, rows, n, run, dy, x, mean, rstd, runs > 1 ? d->scratch : sum);
    if (runs > 1)
        RUN_ELEMENTS(d, column_sum, n, runs, n, d->scratch, sum);
}

static void
op_bias_forward(PS_MODULE_DEVICE, size_t rows, size_t n, const float *x, const float *b, float *y)
{
    RUN_ELEMENTS(d, bias_forward, rows * n, n, x, b, y);
}

static void
op_bias_backward(PS_MODULE_DEVICE, size_t rows, size_t n, const float *dy, float *db)
{
    sum_columns(d, rows, n, dy, NULL, NULL, NULL, db);
}

/* ---- Dense ---- */

static void
op_dense_forward(PS_MODULE_DEVICE, size_t rows, size_t in, size_t out, const float *x, const float *w, const float *b,
                 float *y)
{
    if (b != NULL)
        RUN_ELEMENTS(d, fill_rows, rows * out, out, b, y);
    run_product(d, 0, 0, rows, out, in, x, w, b != NULL ? 1 : 0, y);
}

static void
op_dense_backward(PS_MODULE_DEVICE, size_t rows, size_t in, size_t out, const float *x, const float *w, const float *dy,
                  float *dx, float *dw, float *db)
{
    run_product(d, 1, 0, in, out, rows, x, dy, 0, dw);
    if (db != NULL)
        op_bias_backward(d, rows, out, dy, db);
    if (dx != NULL)
        run_product(d, 0, 1, rows, in, out, dy, w, 0, dx);
}

/* ---- Convolution ---- */

#define PATCH_FLOATS_MAX ((size_t)INT32_MAX) /* at a time: a BLAS counts in int, and 32 bits are fast to divide */

/* Where patches lie: in the scratch memory when it holds more of them than the caller's workspace. */
struct patches {
    size_t floats;  /* of one */
    size_t at_once; /* 0: x is the matrix of patches */
    float *memory;
};

static struct patches
patches_of(PS_MODULE_DEVICE, const struct ps_module_conv2d *c, float *workspace)
{
    struct patches p = {c->y.window * c->x.window * c->in, c->at_once, workspace};
    size_t most = PATCH_FLOATS_MAX / p.floats, own = d->scratch_floats / p.floats;

    if (c->at_once != 0 && own > c->at_once) {
        p.at_once = own;
        p.memory = d->scratch;
    }
    if (p.at_once > most)
        p.at_once = most;
    return p;
}

/* How many of `left` windows come next. */
static size_t
some_windows(const struct patches *p, size_t left)
{
    size_t most = p->at_once != 0 ? p->at_once : PATCH_FLOATS_MAX / p->floats;

    return left < most ? left : most;
}

/* Where the patches of n windows from number `first` on are. */
static const float *
patches_at(PS_MODULE_DEVICE, const struct ps_module_conv2d *c, const struct patches *p, size_t first, size_t n,
           const float *x)
{
    size_t windows = c->y.out * c->x.out;

    if (p->at_once == 0)
        return x + first * c->in;
    RUN_ELEMENTS(d, gather, n * p->floats, *c, first / windows, first % windows, n, x, p->memory);
    return p->memory;
}

static void
op_conv2d_forward(PS_MODULE_DEVICE, size_t rows, const struct ps_module_conv2d *c, const float *x, const float *w,
                  const float *b, float *y, float *workspace)
{
    struct patches p = patches_of(d, c, workspace);
    size_t windows = rows * c->y.out * c->x.out, n;

    for (size_t first = 0; first < windows; first += n) {
        n = some_windows(&p, windows - first);
        op_dense_forward(d, n, p.floats, c->out, patches_at(d, c, &p, first, n, x), w, b, y + first * c->out);
    }
}

/* dx of n windows; the memory of patches is free for their gradients. */
static void
input_gradient(PS_MODULE_DEVICE, const struct ps_module_conv2d *c, const struct patches *p, size_t first, size_t n,
               const float *w, const float *dy, float *dx)
{
    size_t windows = c->y.out * c->x.out, image = first / windows, last = (first + n - 1) / windows;
    float *to = p->at_once == 0 ? dx + first * c->in : p->memory;

    run_product(d, 0, 1, n, p->floats, c->out, dy + first * c->out, w, 0, to);
    if (p->at_once != 0)
        RUN_ELEMENTS(d, scatter, (last - image + 1) * c->y.size * c->x.size * c->in, *c, image, first % windows, n, to,
                     dx);
}

static void
op_conv2d_backward(PS_MODULE_DEVICE, size_t rows, const struct ps_module_conv2d *c, const float *x, const float *w,
                   const float *dy, float *dx, float *dw, float *db, float *workspace)
{
    struct patches p = patches_of(d, c, workspace);
    size_t windows = rows * c->y.out * c->x.out, n;

    if (dx != NULL)
        run_zero(d, dx, rows * c->y.size * c->x.size * c->in * sizeof *dx);
    for (size_t first = 0; first < windows; first += n) {
        const float *some;

        n = some_windows(&p, windows - first);
        some = patches_at(d, c, &p, first, n, x);
        run_product(d, 1, 0, p.floats, c->out, n, some, dy + first * c->out, first > 0, dw);
        if (dx != NULL)
            input_gradient(d, c, &p, first, n, w, dy, dx);
    }
    if (db != NULL)
        op_bias_backward(d, windows, c->out, dy, db);
}

/* ---- Pools ---- */

static void
op_max_pool_forward(PS_MODULE_DEVICE, size_t rows, const struct ps_module_pool2d *p, const float *x, float *y,
                    uint32_t *best)
{
    RUN_ELEMENTS(d, max_pool_forward, rows * p->y.out * p->x.out * p->channels, *p, x, NULL, y, NULL, best);
}

static void
op_max_pool_backward(PS_MODULE_DEVICE, size_t rows, const struct ps_module_pool2d *p, const uint32_t *best,
                     const float *dy, float *dx)
{
    RUN_ELEMENTS(d, max_pool_backward, rows * p->y.size * p->x.size * p->channels, *p, NULL, dy, NULL, dx,
                 (uint32_t *)best);
}

static void
op_avg_pool_forward(PS_MODULE_DEVICE, size_t rows, const struct ps_module_pool2d *p, const float *x, float *y)
{
    RUN_ELEMENTS(d, avg_pool_forward, rows * p->y.out * p->x.out * p->channels, *p, x, NULL, y, NULL, NULL);
}

static void
op_avg_pool_backward(PS_MODULE_DEVICE, size_t rows, const struct ps_module_pool2d *p, const float *dy, float *dx)
{
    RUN_ELEMENTS(d, avg_pool_backward, rows * p->y.size * p->x.size * p->channels, *p, NULL, dy, NULL, dx, NULL);
}

/* ---- Activations ---- */

#define ACTIVATION(name, what)                                                                                         \
    static void op_##name##_forward(PS_MODULE_DEVICE, size_t n, const float *x, float *y)                              \
    {                                                                                                                  \
        RUN_ELEMENTS(d, name##_forward, n, x, y);                                                                      \
    }                                                                                                                  \
    static void op_##name##_backward(PS_MODULE_DEVICE, size_t n, const float *what, const float *dy, float *dx)        \
    {                                                                                                                  \
        RUN_ELEMENTS(d, name##_backward, n, what, dy, dx);                                                             \
    }
ACTIVATION(relu, y)
ACTIVATION(tanh, y)
ACTIVATION(sigmoid, y)
ACTIVATION(gelu, x)
#undef ACTIVATION

/* ---- Layer normalization ---- */

static void
op_layer_norm_forward(PS_MODULE_DEVICE, size_t rows, size_t n, const float *x, const float *gamma, const float *beta,
                      float epsilon, float *y, float *mean, float *rstd)
{
    RUN_ROWS(d, norm_forward, rows, n, x, gamma, beta, epsilon, y, mean, rstd);
}

static void
op_layer_norm_backward(PS_MODULE_DEVICE, size_t rows, size_t n, const float *x, const float *gamma, const float *mean,
                       const float *rstd, const float *dy, float *dx, float *dgamma, float *dbeta)
{
    sum_columns(d, rows, n, dy, x, mean, rstd, dgamma);
    sum_columns(d, rows, n, dy, NULL, NULL, NULL, dbeta);
    if (dx != NULL) /* last: dx may be dy */
        RUN_ROWS(d, norm_backward, rows, n, x, gamma, mean, rstd, dy, dx);
}

/* ---- Embeddings and sparse rows: sums over places in their order ---- */

/* Places at a time. Each searches for the next of the same number: the work of a run is at most its square. */
#define CHAIN_RUN ((size_t)16384)

static size_t
chain_run(PS_MODULE_DEVICE, size_t left)
{
    size_t most = d->scratch_floats / 2 < CHAIN_RUN ? d->scratch_floats / 2 : CHAIN_RUN;

    return left < most ? left : most;
}

/* Chains of n places: `next` is at the start of the scratch memory, `inner` right behind. */
static uint32_t *
make_chains(PS_MODULE_DEVICE, size_t n, size_t numbers, const uint32_t *of)
{
    uint32_t *next = (uint32_t *)(void *)d->scratch;

    run_zero(d, next + n, n * sizeof *next);
    RUN_ELEMENTS(d, chain, n, n, numbers, of, next, next + n, d->flags);
    return next;
}

static void
op_embedding_forward(PS_MODULE_DEVICE, size_t n, size_t vocabulary, size_t width, const uint32_t *ids,
                     const float *table, float *y)
{
    RUN_ELEMENTS(d, embedding_forward, n * width, vocabulary, width, ids, table, y, d->flags);
}

static void
op_embedding_backward(PS_MODULE_DEVICE, size_t n, size_t vocabulary, size_t width, const uint32_t *ids, const float *dy,
                      float *dtable)
{
    size_t run;

    run_zero(d, dtable, vocabulary * width * sizeof *dtable);
    for (size_t first = 0; first < n; first += run) {
        uint32_t *next;

        run = chain_run(d, n - first);
        next = make_chains(d, run, vocabulary, ids + first);
        RUN_ELEMENTS(d, embedding_backward, run * width, width, ids + first, next, next + run, dy + first * width,
                     dtable);
    }
}

static void
op_sparse_forward(PS_MODULE_DEVICE, size_t rows, size_t in, size_t out, const uint64_t *start, const uint32_t *column,
                  const float *value, const float *w, const float *b, float *y)
{
    RUN_ELEMENTS(d, sparse_forward, rows * out, in, out, start, column, value, w, b, y, d->flags);
}

static void
op_sparse_backward(PS_MODULE_DEVICE, size_t rows, size_t in, size_t out, const uint64_t *start, const uint32_t *column,
                   const float *value, const float *dy, float *dw, float *db)
{
    uint64_t entries;
    size_t run;

    run_zero(d, dw, in * out * sizeof *dw);
    if (!run_read(d, &entries, start + rows, sizeof entries)) /* only the device knows how many there are */
        return;
    for (uint64_t first = 0; first < entries; first += run) {
        uint32_t *next;

        run = chain_run(d, (size_t)(entries - first));
        next = make_chains(d, run, in, column + first);
        RUN_ELEMENTS(d, sparse_backward, run * out, rows, out, first, start, column, next, next + run, value, dy, dw);
    }
    if (db != NULL)
        op_bias_backward(d, rows, out, dy, db);
}

/* ---- Dropout ---- */

static void
op_dropout_forward(PS_MODULE_DEVICE, size_t n, float rate, uint64_t seed, uint64_t counter, const float *x, float *y)
{
    RUN_ELEMENTS(d, dropout, (n + 3) / 4, n, dropout_below(rate), 1 / (1 - rate), seed, counter, x, y);
}

static void
op_dropout_backward(PS_MODULE_DEVICE, size_t n, float rate, uint64_t seed, uint64_t counter, const float *dy, float *dx)
{
    op_dropout_forward(d, n, rate, seed, counter, dy, dx);
}

/* ---- Classification ---- */

static void
op_softmax(PS_MODULE_DEVICE, size_t rows, size_t classes, const float *x, float *p)
{
    RUN_ROWS(d, softmax, rows, classes, x, p);
}

static void
op_softmax_cross_entropy(PS_MODULE_DEVICE, size_t rows, size_t classes, const float *x, const uint32_t *labels,
                         float scale, float *loss, float *dx)
{
    RUN_ROWS(d, softmax_loss, rows, classes, x, labels, scale, loss, dx, d->flags);
}

static void
op_sigmoid_cross_entropy(PS_MODULE_DEVICE, size_t rows, size_t n, const float *x, const float *targets, float scale,
                         float *loss, float *dx)
{
    RUN_ROWS(d, sigmoid_loss, rows, n, x, targets, scale, loss, dx);
}

static void
op_argmax(PS_MODULE_DEVICE, size_t rows, size_t classes, const float *x, uint32_t *best)
{
    RUN_ROWS(d, argmax, rows, classes, x, best);
}

/* ---- Sums over everything ---- */

/* Threads that share the work; their parts, of 8 bytes each, and the sum fit the scratch memory. */
static size_t
sum_parts(PS_MODULE_DEVICE, size_t n)
{
    size_t most = d->scratch_floats / 2 - 1 < 65536 ? d->scratch_floats / 2 - 1 : 65536;

    return n < most ? n : most;
}

/* False after a failure. */
static int
count_equal(PS_MODULE_DEVICE, size_t n, const uint32_t *a, const uint32_t *b, uint64_t *count)
{
    size_t parts = sum_parts(d, n);
    uint64_t *part = (uint64_t *)(void *)d->scratch;

    RUN_ELEMENTS(d, count_equal, parts, n, parts, a, b, part);
    RUN_ROWS(d, count_parts, 1, parts, part);
    return run_read(d, count, part + parts, sizeof *count);
}

static int
square_sum(PS_MODULE_DEVICE, size_t n, const float *x, double *sum)
{
    size_t parts = sum_parts(d, n);
    double *part = (double *)(void *)d->scratch;

    RUN_ELEMENTS(d, square_sum, parts, n, parts, x, part);
    RUN_ROWS(d, square_parts, 1, parts, part);
    return run_read(d, sum, part + parts, sizeof *sum);
}

static void
op_fill(PS_MODULE_DEVICE, size_t n, float value, float *x)
{
    RUN_ELEMENTS(d, fill, n, value, x);
}

/* The rules are many, so another file may compile them. */
void run_update(PS_MODULE_DEVICE, unsigned optimizer, const struct ps_module_step *step, size_t n,
                const float *gradient, float *weights, float *const slot[PS_MODULE_SLOTS_MAX]);

#endif
