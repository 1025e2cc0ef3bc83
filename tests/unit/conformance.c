#include "tests/unit/conformance.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/device.h"
#include "client/device_codec.h"
#include "client/device_gang.h"
#include "client/device_optimizer.h"
#include "client/device_staging.h"
#include "common/base.h"
#include "common/half.h"
#include "common/philox.h"

/* ---- Failing ---- */

__attribute__((format(printf, 2, 3))) static void
fail(struct conformance *c, const char *format, ...)
{
    va_list args;

    if (c->failed)
        return;
    c->failed = true;
    va_start(args, format);
    vsnprintf(c->text, sizeof c->text, format, args);
    va_end(args);
}

static void
must(struct conformance *c, enum ps_err err, const struct ps_error *e)
{
    if (err != PS_OK)
        fail(c, "%s", e->text);
}

/* ---- Memory: of the host and of the device, given back after the row ---- */

static void *
keep(struct conformance *c, void *memory)
{
    ps_assert(memory != NULL && c->count < ARRAY_LEN(c->taken));
    return c->taken[c->count++] = memory;
}

static void *
host(struct conformance *c, size_t size)
{
    return keep(c, calloc(1, MAX(size, (size_t)1)));
}

#define DEVICE_MARK ((uintptr_t)1) /* in the list: of the device */

static void *
on_device(struct conformance *c, size_t size)
{
    struct ps_error e;
    void *memory = NULL;

    if (ps_device_alloc(c->device, size, &memory, &e) != PS_OK) {
        fprintf(stderr, "%s\n", e.text);
        abort();
    }
    keep(c, (void *)((uintptr_t)memory | DEVICE_MARK));
    return memory;
}

static void
give_back(struct conformance *c)
{
    while (c->count > 0) {
        uintptr_t memory = (uintptr_t)c->taken[--c->count];

        if (memory & DEVICE_MARK)
            ps_device_free(c->device, (void *)(memory & ~DEVICE_MARK));
        else
            free((void *)memory);
    }
}

/* ---- Values ---- */

/* splitmix64 (Steele, Lea and Flood, OOPSLA 2014). */
static uint64_t
draw(struct conformance *c)
{
    uint64_t z = (c->state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* In [-most, most). */
static float *
floats(struct conformance *c, size_t n, float most)
{
    float *x = host(c, n * sizeof *x);

    for (size_t i = 0; i < n; i++)
        x[i] = (float)((double)(draw(c) >> 11) * 0x1p-52 - 1.0) * most;
    return x;
}

static uint32_t *
numbers(struct conformance *c, size_t n, size_t below)
{
    uint32_t *x = host(c, n * sizeof *x);

    for (size_t i = 0; i < n; i++)
        x[i] = (uint32_t)(draw(c) % below);
    return x;
}

static void *
uploaded(struct conformance *c, const void *from, size_t size)
{
    void *to = on_device(c, size);

    ps_device_upload(c->device, to, from, size);
    return to;
}

static float *
floats_on(struct conformance *c, size_t n, const float *x)
{
    return uploaded(c, x, n * sizeof *x);
}

/* For results: what was there may not matter, and what is not written is noticed. */
static float *
nans_on(struct conformance *c, size_t n)
{
    float *x = host(c, n * sizeof *x);

    for (size_t i = 0; i < n; i++)
        x[i] = NAN;
    return floats_on(c, n, x);
}

static uint32_t *
marks_on(struct conformance *c, size_t n)
{
    uint32_t *x = host(c, n * sizeof *x);

    memset(x, 0xee, n * sizeof *x);
    return uploaded(c, x, n * sizeof *x);
}

/* ---- Comparing ---- */

static void *
downloaded(struct conformance *c, const void *from, size_t size)
{
    void *to = host(c, size);
    struct ps_error e;

    must(c, ps_device_download(c->device, to, from, size, &e), &e);
    return to;
}

/* Sums of `terms` products of numbers of about 1: what f32 may lose against double. */
static void
near(struct conformance *c, const char *what, size_t n, const float *on, const double *want, size_t terms)
{
    const float *got = downloaded(c, on, n * sizeof *got);

    for (size_t i = 0; i < n; i++) {
        double allowed = 1e-6 * (double)(terms + 8) * fmax(1, fabs(want[i]));

        if (!(fabs((double)got[i] - want[i]) <= allowed))
            fail(c, "%s[%zu] of %zu: %.9g, reference %.9g", what, i, n, (double)got[i], want[i]);
    }
}

/* For what is promised to the bit. */
static void
same(struct conformance *c, const char *what, size_t size, const void *on, const void *want)
{
    const unsigned char *got = downloaded(c, on, size);

    for (size_t i = 0; i < size; i++)
        if (got[i] != ((const unsigned char *)want)[i]) {
            fail(c, "%s: byte %zu of %zu is %02x, not %02x", what, i, size, got[i], ((const unsigned char *)want)[i]);
            return;
        }
}

static const size_t sizes[] = {1, 7, 64, 65, 251};

#define SIZES        ARRAY_LEN(sizes)
#define EACH_SIZE(i) for (size_t i = 0; i < SIZES; i++)

/* ---- Memory and copies ---- */

static void
row_copies(struct conformance *c)
{
    /* The last goes through buffers, in several pieces, where there are any. */
    const size_t lengths[] = {1, 63, 64, 4097, ps_device_is_host(c->device) ? 100003 : 9437189};

    for (size_t k = 0; k < ARRAY_LEN(lengths); k++) {
        size_t n = lengths[k];
        uint8_t *bytes = host(c, n), *zeros = host(c, n);
        void *a, *b = on_device(c, n);

        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)(i * 31 + i / 255 + k);
        same(c, "new memory", n, b, zeros);
        a = uploaded(c, bytes, n);
        memset(bytes, 0xab, n); /* the upload has read it */
        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)(i * 31 + i / 255 + k);
        same(c, "uploaded", n, a, bytes);
        ps_device_copy(c->device, b, a, n);
        same(c, "copied", n, b, bytes);
        c->device->ops->zero(c->device, a, n);
        same(c, "zeroed", n, a, zeros);
    }
}

static void
row_staging(struct conformance *c)
{
    struct ps_error e;

    EACH_SIZE(i)
    {
        size_t n = sizes[i] * 1000 + i, size = n * sizeof(float);
        float *x = floats(c, n, 1), *on = on_device(c, size), *y = nans_on(c, n), *there, *back;

        must(c, device_staging_alloc(c->device, size, (void **)&there, &e), &e);
        must(c, device_staging_alloc(c->device, size, (void **)&back, &e), &e);
        memcpy(there, x, size);
        device_send(c->device, on, there, size);
        ps_relu_forward(c->device, n, on, y);
        must(c, device_fetch(c->device, back, y, size, &e), &e);
        ps_relu_forward(c->device, n, on, on);
        must(c, device_fetched(c->device, &e), &e);
        for (size_t k = 0; k < n; k++)
            if (back[k] != (x[k] < 0 ? 0 : x[k]))
                fail(c, "fetched[%zu] of %zu: %g", k, n, (double)back[k]);
        must(c, ps_device_finish(c->device, &e), &e);
        same(c, "again", size, on, back);
        device_staging_free(c->device, there);
        device_staging_free(c->device, back);
    }
}

/* ---- Dense, sparse, bias ---- */

/* c: [m, n] = a b + start, by strides. */
static double *
product(struct conformance *c, size_t m, size_t n, size_t k, const float *a, size_t a_row, size_t a_column,
        const float *b, size_t b_row, size_t b_column, const float *start)
{
    double *want = host(c, m * n * sizeof *want);

    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = start != NULL ? (double)start[j] : 0;

            for (size_t t = 0; t < k; t++)
                sum += (double)a[i * a_row + t * a_column] * (double)b[t * b_row + j * b_column];
            want[i * n + j] = sum;
        }
    return want;
}

static double *
column_sums(struct conformance *c, size_t rows, size_t n, const float *x)
{
    double *want = host(c, n * sizeof *want);

    for (size_t i = 0; i < rows * n; i++)
        want[i % n] += (double)x[i];
    return want;
}

static void
check_dense(struct conformance *c, size_t rows, size_t in, size_t out, bool with_bias)
{
    float *x = floats(c, rows * in, 1), *w = floats(c, in * out, 1), *b = floats(c, out, 1);
    float *dy = floats(c, rows * out, 1), *y = nans_on(c, rows * out), *dx = nans_on(c, rows * in);
    float *dw = nans_on(c, in * out), *db = nans_on(c, out);
    float *x_on = floats_on(c, rows * in, x), *w_on = floats_on(c, in * out, w), *dy_on = floats_on(c, rows * out, dy);

    ps_dense_forward(c->device, rows, in, out, x_on, w_on, with_bias ? floats_on(c, out, b) : NULL, y);
    near(c, "y", rows * out, y, product(c, rows, out, in, x, in, 1, w, out, 1, with_bias ? b : NULL), in);
    ps_dense_backward(c->device, rows, in, out, x_on, w_on, dy_on, with_bias ? dx : NULL, dw, with_bias ? db : NULL);
    near(c, "dw", in * out, dw, product(c, in, out, rows, x, 1, in, dy, out, 1, NULL), rows);
    if (!with_bias)
        return;
    near(c, "dx", rows * in, dx, product(c, rows, in, out, dy, out, 1, w, 1, out, NULL), out);
    near(c, "db", out, db, column_sums(c, rows, out, dy), rows);
}

static void
row_dense(struct conformance *c)
{
    EACH_SIZE(i)
    EACH_SIZE(j)
    {
        check_dense(c, sizes[i], sizes[j], sizes[(i + j) % SIZES], (i + j) % 2 == 0);
        give_back(c);
    }
}

static void
row_bias(struct conformance *c)
{
    EACH_SIZE(i)
    EACH_SIZE(j)
    {
        size_t rows = sizes[i] * (i == j ? 17 : 1), n = sizes[j];
        float *x = floats(c, rows * n, 1), *b = floats(c, n, 1), *y = floats_on(c, rows * n, x), *db = nans_on(c, n);
        double *want = host(c, rows * n * sizeof *want);

        for (size_t k = 0; k < rows * n; k++)
            want[k] = (double)x[k] + (double)b[k % n];
        ps_bias_backward(c->device, rows, n, y, db);
        near(c, "db", n, db, column_sums(c, rows, n, x), rows / 8);
        ps_bias_forward(c->device, rows, n, y, floats_on(c, n, b), y); /* in place */
        near(c, "y", rows * n, y, want, 1);
        give_back(c);
    }
}

static void
check_sparse(struct conformance *c, size_t rows, size_t in, size_t out, unsigned percent)
{
    uint64_t *start = host(c, (rows + 1) * sizeof *start), entries = 0;
    uint32_t *column = host(c, rows * in * sizeof *column);
    float *value = host(c, rows * in * sizeof *value), *x = host(c, rows * in * sizeof *x);
    float *w = floats(c, in * out, 1), *b = floats(c, out, 1), *dy = floats(c, rows * out, 1);
    float *y = nans_on(c, rows * out), *dw = nans_on(c, in * out), *db = nans_on(c, out);
    void *start_on, *column_on, *value_on;

    for (size_t r = 0; r < rows; r++) {
        for (size_t k = 0; k < in; k++)
            if (draw(c) % 100 < percent) {
                column[entries] = (uint32_t)k;
                value[entries++] = x[r * in + k] = (float)(draw(c) % 1000) / 500 - 1;
            }
        start[r + 1] = entries;
    }
    start_on = uploaded(c, start, (rows + 1) * sizeof *start);
    column_on = uploaded(c, column, rows * in * sizeof *column);
    value_on = uploaded(c, value, rows * in * sizeof *value);
    ps_sparse_forward(c->device, rows, in, out, start_on, column_on, value_on, floats_on(c, in * out, w),
                      percent % 2 == 0 ? floats_on(c, out, b) : NULL, y);
    near(c, "y", rows * out, y, product(c, rows, out, in, x, in, 1, w, out, 1, percent % 2 == 0 ? b : NULL), in);
    ps_sparse_backward(c->device, rows, in, out, start_on, column_on, value_on, floats_on(c, rows * out, dy), dw, db);
    near(c, "dw", in * out, dw, product(c, in, out, rows, x, 1, in, dy, out, 1, NULL), rows);
    near(c, "db", out, db, column_sums(c, rows, out, dy), rows);
}

static void
row_sparse(struct conformance *c)
{
    static const struct {
        size_t rows, in, out;
        unsigned percent;
    } shapes[] = {{1, 1, 1, 100},   {5, 7, 1, 30}, {64, 65, 1, 5},  {9, 33, 3, 51},
                  {3, 100, 16, 10}, {4, 8, 2, 0},  {17, 257, 5, 99}};

    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        check_sparse(c, shapes[i].rows, shapes[i].in, shapes[i].out, shapes[i].percent);
        give_back(c);
    }
}

/* ---- Windows ---- */

/* Where TensorFlow begins: elements of padding before the first. */
static size_t
padding_before(size_t size, size_t window, size_t stride, size_t out, enum ps_padding padding)
{
    size_t covered = (out - 1) * stride + window;

    return padding == PS_PAD_SAME && covered > size ? (covered - size) / 2 : 0;
}

/* The place that window `at` sees at its element `e`; false: padding. */
static bool
seen(size_t at, size_t e, size_t stride, size_t before, size_t size, size_t *place)
{
    *place = at * stride + e - before;
    return at * stride + e >= before && *place < size;
}

/* Calls visit for every window of the batch and every element that it sees: numbers of pixels, without channels. */
struct windows {
    size_t rows, height, width, window[2], stride[2], out[2];
    enum ps_padding padding;
};

typedef void visit_fn(void *context, size_t out_pixel, size_t in_pixel, size_t window_pixel);

static void
each_pixel(const struct windows *w, visit_fn *visit, void *context)
{
    size_t before[2] = {padding_before(w->height, w->window[0], w->stride[0], w->out[0], w->padding),
                        padding_before(w->width, w->window[1], w->stride[1], w->out[1], w->padding)};
    size_t y, x;

    for (size_t r = 0; r < w->rows; r++)
        for (size_t oy = 0; oy < w->out[0]; oy++)
            for (size_t ox = 0; ox < w->out[1]; ox++)
                for (size_t ky = 0; ky < w->window[0]; ky++)
                    for (size_t kx = 0; kx < w->window[1]; kx++)
                        if (seen(oy, ky, w->stride[0], before[0], w->height, &y) &&
                            seen(ox, kx, w->stride[1], before[1], w->width, &x))
                            visit(context, (r * w->out[0] + oy) * w->out[1] + ox, (r * w->height + y) * w->width + x,
                                  ky * w->window[1] + kx);
}

struct conv {
    size_t in, out;
    const float *x, *w, *dy;
    double *y, *dx, *dw;
};

static void
conv_pixel(void *context, size_t o, size_t i, size_t k)
{
    struct conv *v = context;

    for (size_t ci = 0; ci < v->in; ci++)
        for (size_t co = 0; co < v->out; co++) {
            double x = (double)v->x[i * v->in + ci], w = (double)v->w[(k * v->in + ci) * v->out + co];
            double dy = (double)v->dy[o * v->out + co];

            v->y[o * v->out + co] += x * w;
            v->dx[i * v->in + ci] += dy * w;
            v->dw[(k * v->in + ci) * v->out + co] += dy * x;
        }
}

static void
check_conv(struct conformance *c, size_t rows, const struct ps_conv2d *s)
{
    struct windows w = {
        rows, s->height, s->width, {s->kernel_height, s->kernel_width}, {s->stride_height, s->stride_width},
        {0},  s->padding};
    size_t inputs = rows * s->height * s->width * s->in, weights = s->kernel_height * s->kernel_width * s->in * s->out;
    size_t outputs, floats_of_workspace = ps_conv2d_workspace(s, rows);
    float *workspace = floats_of_workspace > 0 ? nans_on(c, floats_of_workspace) : NULL, *x, *k, *b, *dy, *y, *dx, *dw,
          *db;
    float *x_on, *k_on, *dy_on;
    struct conv v = {.in = s->in, .out = s->out};

    ps_conv2d_output(s, &w.out[0], &w.out[1]);
    outputs = rows * w.out[0] * w.out[1] * s->out;
    v.x = x = floats(c, inputs, 1);
    v.w = k = floats(c, weights, 1);
    v.dy = dy = floats(c, outputs, 1);
    b = floats(c, s->out, 1);
    v.y = host(c, outputs * sizeof *v.y);
    v.dx = host(c, inputs * sizeof *v.dx);
    v.dw = host(c, weights * sizeof *v.dw);
    each_pixel(&w, conv_pixel, &v);
    for (size_t i = 0; i < outputs; i++)
        v.y[i] += (double)b[i % s->out];
    x_on = floats_on(c, inputs, x);
    k_on = floats_on(c, weights, k);
    dy_on = floats_on(c, outputs, dy);
    y = nans_on(c, outputs);
    dx = nans_on(c, inputs);
    dw = nans_on(c, weights);
    db = nans_on(c, s->out);
    ps_conv2d_forward(c->device, rows, s, x_on, k_on, floats_on(c, s->out, b), y, workspace);
    near(c, "y", outputs, y, v.y, s->kernel_height * s->kernel_width * s->in);
    ps_conv2d_backward(c->device, rows, s, x_on, k_on, dy_on, dx, dw, db, workspace);
    near(c, "dx", inputs, dx, v.dx, s->kernel_height * s->kernel_width * s->out);
    near(c, "dw", weights, dw, v.dw, rows * w.out[0] * w.out[1]);
    near(c, "db", s->out, db, column_sums(c, outputs / s->out, s->out, dy), rows * w.out[0] * w.out[1]);
}

static void
row_conv2d(struct conformance *c)
{
    static const struct {
        size_t rows;
        struct ps_conv2d s;
    } shapes[] = {
        {1, {1, 1, 1, 1, 1, 1, 1, 1, PS_PAD_VALID}},   {3, {8, 8, 1, 5, 3, 3, 1, 1, PS_PAD_SAME}},
        {2, {7, 5, 3, 4, 3, 2, 1, 1, PS_PAD_VALID}},   {4, {9, 11, 2, 3, 5, 4, 2, 3, PS_PAD_SAME}},
        {5, {6, 6, 4, 7, 1, 1, 1, 1, PS_PAD_VALID}},   {5, {6, 7, 3, 2, 1, 1, 2, 2, PS_PAD_SAME}},
        {2, {3, 4, 2, 2, 7, 6, 1, 1, PS_PAD_SAME}},    {2, {10, 9, 2, 3, 2, 2, 3, 4, PS_PAD_VALID}},
        {33, {12, 13, 3, 2, 3, 3, 1, 1, PS_PAD_SAME}}, {7, {20, 1, 5, 6, 4, 1, 2, 1, PS_PAD_SAME}},
    };

    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        check_conv(c, shapes[i].rows, &shapes[i].s);
        give_back(c);
    }
}

struct pool {
    size_t channels, in_pixels; /* of an image */
    const float *x, *dy;
    double *max, *sum, *count, *max_dx, *avg_dx;
    uint32_t *best;
};

static void
pool_pixel(void *context, size_t o, size_t i, size_t k)
{
    struct pool *v = context;

    (void)k;
    for (size_t ch = 0; ch < v->channels; ch++) {
        size_t at = o * v->channels + ch;
        double x = (double)v->x[i * v->channels + ch];

        if (v->count[at] == 0 || x > v->max[at]) {
            v->max[at] = x;
            v->best[at] = (uint32_t)(i % v->in_pixels * v->channels + ch);
        }
        v->sum[at] += x;
        v->count[at]++;
    }
}

static void
pool_share(void *context, size_t o, size_t i, size_t k)
{
    struct pool *v = context;

    (void)k;
    for (size_t ch = 0; ch < v->channels; ch++) {
        size_t at = o * v->channels + ch;

        v->avg_dx[i * v->channels + ch] += (double)v->dy[at] / v->count[at];
        if (v->best[at] == i % v->in_pixels * v->channels + ch)
            v->max_dx[i * v->channels + ch] += (double)v->dy[at];
    }
}

static void
check_pool(struct conformance *c, size_t rows, const struct ps_pool2d *s)
{
    struct windows w = {
        rows, s->height, s->width, {s->window_height, s->window_width}, {s->stride_height, s->stride_width},
        {0},  s->padding};
    size_t inputs = rows * s->height * s->width * s->channels, outputs;
    struct pool v = {.channels = s->channels, .in_pixels = s->height * s->width};
    float *x, *x_on, *dy_on, *y, *dx;
    uint32_t *best;

    ps_pool2d_output(s, &w.out[0], &w.out[1]);
    outputs = rows * w.out[0] * w.out[1] * s->channels;
    v.x = x = floats(c, inputs, 1);
    v.dy = floats(c, outputs, 1);
    for (size_t i = 0; i < inputs; i += 3)
        x[i] = 0.5f; /* equals: the first of them */
    v.max = host(c, outputs * sizeof *v.max);
    v.sum = host(c, outputs * sizeof *v.sum);
    v.count = host(c, outputs * sizeof *v.count);
    v.best = host(c, outputs * sizeof *v.best);
    v.max_dx = host(c, inputs * sizeof *v.max_dx);
    v.avg_dx = host(c, inputs * sizeof *v.avg_dx);
    each_pixel(&w, pool_pixel, &v);
    each_pixel(&w, pool_share, &v);
    for (size_t i = 0; i < outputs; i++)
        v.sum[i] /= v.count[i];
    x_on = floats_on(c, inputs, x);
    dy_on = floats_on(c, outputs, v.dy);
    y = nans_on(c, outputs);
    dx = nans_on(c, inputs);
    best = marks_on(c, outputs);
    ps_max_pool_forward(c->device, rows, s, x_on, y, best);
    near(c, "largest", outputs, y, v.max, 1);
    same(c, "places", outputs * sizeof *best, best, v.best);
    if (c->failed) /* the way back would write where they say */
        return;
    ps_max_pool_backward(c->device, rows, s, best, dy_on, dx);
    near(c, "dx of the largest", inputs, dx, v.max_dx, s->window_height * s->window_width);
    ps_avg_pool_forward(c->device, rows, s, x_on, y);
    near(c, "mean", outputs, y, v.sum, s->window_height * s->window_width);
    ps_avg_pool_backward(c->device, rows, s, dy_on, dx);
    near(c, "dx of the mean", inputs, dx, v.avg_dx, s->window_height * s->window_width);
}

static void
row_pools(struct conformance *c)
{
    static const struct {
        size_t rows;
        struct ps_pool2d s;
    } shapes[] = {
        {1, {1, 1, 1, 1, 1, 1, 1, PS_PAD_VALID}},  {3, {8, 8, 5, 2, 2, 2, 2, PS_PAD_VALID}},
        {2, {7, 9, 3, 3, 2, 1, 1, PS_PAD_SAME}},   {2, {7, 9, 3, 3, 2, 1, 1, PS_PAD_VALID}},
        {5, {10, 11, 2, 2, 3, 4, 5, PS_PAD_SAME}}, {2, {10, 11, 2, 2, 3, 4, 5, PS_PAD_VALID}},
        {4, {6, 5, 33, 6, 5, 6, 5, PS_PAD_VALID}}, {2, {3, 4, 2, 5, 7, 2, 3, PS_PAD_SAME}},
    };

    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        check_pool(c, shapes[i].rows, &shapes[i].s);
        give_back(c);
    }
}

/* ---- Activations ---- */

static double
gelu(double x)
{
    return x * 0.5 * erfc(-x * 0.70710678118654752440);
}

static double
sigmoid(double x)
{
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

static double
relu(double x)
{
    return x > 0 ? x : 0;
}

static double
relu_slope(double x)
{
    return x > 0;
}

static double
tanh_slope(double x)
{
    return 1 - tanh(x) * tanh(x);
}

static double
sigmoid_slope(double x)
{
    return sigmoid(x) * (1 - sigmoid(x));
}

static double
gelu_slope(double x)
{
    return 0.5 * erfc(-x * 0.70710678118654752440) + x * exp(-0.5 * x * x) * 0.39894228040143267794;
}

static const struct activation {
    double (*f)(double x), (*slope)(double x);
    void (*forward)(ps_device *d, size_t n, const float *x, float *y);
    void (*backward)(ps_device *d, size_t n, const float *with, const float *dy, float *dx);
    bool with_x; /* what the way back reads */
} activations[] = {
    {relu, relu_slope, ps_relu_forward, ps_relu_backward, false},
    {tanh, tanh_slope, ps_tanh_forward, ps_tanh_backward, false},
    {sigmoid, sigmoid_slope, ps_sigmoid_forward, ps_sigmoid_backward, false},
    {gelu, gelu_slope, ps_gelu_forward, ps_gelu_backward, true},
};

static void
check_activation(struct conformance *c, const struct activation *a, size_t n)
{
    static const float edges[] = {0, -0.0f, 1e-30f, -1e-30f, 30, -30, 100, -100};
    float *x = floats(c, n, 6), *dy = floats(c, n, 1), *x_on, *y = nans_on(c, n), *dx = nans_on(c, n), *dy_on;
    double *want = host(c, n * sizeof *want), *slope = host(c, n * sizeof *slope);
    const float *with;

    for (size_t i = 0; i < n; i++) {
        if (n > 20 && i < ARRAY_LEN(edges))
            x[i] = edges[i];
        want[i] = a->f((double)x[i]);
        slope[i] = (double)dy[i] * a->slope((double)x[i]);
    }
    x_on = floats_on(c, n, x);
    dy_on = floats_on(c, n, dy);
    with = a->with_x ? x_on : y;
    a->forward(c->device, n, x_on, y);
    near(c, "y", n, y, want, 1);
    a->backward(c->device, n, with, dy_on, dx);
    near(c, "dx", n, dx, slope, 1);
    a->backward(c->device, n, with, dy_on, dy_on); /* in place */
    near(c, "dx in place", n, dy_on, slope, 1);
    a->forward(c->device, n, x_on, x_on);
    near(c, "y in place", n, x_on, want, 1);
}

static void
row_of_activation(struct conformance *c, const struct activation *a)
{
    static const size_t lengths[] = {1, 7, 64, 65, 10007};

    for (size_t k = 0; k < ARRAY_LEN(lengths); k++) {
        check_activation(c, a, lengths[k]);
        give_back(c);
    }
}

static void
row_relu(struct conformance *c)
{
    row_of_activation(c, &activations[0]);
}

static void
row_tanh(struct conformance *c)
{
    row_of_activation(c, &activations[1]);
}

static void
row_sigmoid(struct conformance *c)
{
    row_of_activation(c, &activations[2]);
}

static void
row_gelu(struct conformance *c)
{
    row_of_activation(c, &activations[3]);
}

static void
row_nan(struct conformance *c)
{
    static const float x[3] = {NAN, 1, -1};

    for (size_t k = 0; k < ARRAY_LEN(activations); k++) {
        float *y = floats_on(c, 3, (const float[]){5, 5, 5});
        double (*f)(double) = activations[k].f;
        const float *got;

        activations[k].forward(c->device, 3, floats_on(c, 3, x), y);
        got = downloaded(c, y, sizeof x);
        if (!isnan(got[0]) || !(fabs((double)got[1] - f(1)) < 1e-5) || !(fabs((double)got[2] - f(-1)) < 1e-5))
            fail(c, "activation %zu of NaN, 1, -1: %g %g %g", k, (double)got[0], (double)got[1], (double)got[2]);
    }
}

/* ---- Layer normalization ---- */

static void
check_norm(struct conformance *c, size_t rows, size_t n)
{
    float *x = floats(c, rows * n, 2), *gamma = floats(c, n, 1), *beta = floats(c, n, 1), *dy = floats(c, rows * n, 1);
    float *x_on = floats_on(c, rows * n, x), *gamma_on = floats_on(c, n, gamma), *dy_on = floats_on(c, rows * n, dy);
    float *y = nans_on(c, rows * n), *mean = nans_on(c, rows), *rstd = nans_on(c, rows), *dgamma = nans_on(c, n);
    float *dbeta = nans_on(c, n);
    double *want = host(c, rows * n * sizeof *want), *dx = host(c, rows * n * sizeof *dx);
    double *of_gamma = host(c, n * sizeof *of_gamma), *means = host(c, rows * sizeof *means);
    double *rstds = host(c, rows * sizeof *rstds), epsilon = 0.01f;

    for (size_t r = 0; r < rows; r++) {
        double square = 0, g = 0, gh = 0;

        for (size_t i = 0; i < n; i++)
            means[r] += (double)x[r * n + i] / (double)n;
        for (size_t i = 0; i < n; i++)
            square += pow((double)x[r * n + i] - means[r], 2) / (double)n;
        rstds[r] = 1 / sqrt(square + epsilon);
        for (size_t i = 0; i < n; i++) {
            double h = ((double)x[r * n + i] - means[r]) * rstds[r], of = (double)dy[r * n + i] * (double)gamma[i];

            want[r * n + i] = h * (double)gamma[i] + (double)beta[i];
            of_gamma[i] += (double)dy[r * n + i] * h;
            g += of / (double)n;
            gh += of * h / (double)n;
        }
        for (size_t i = 0; i < n; i++) {
            double h = ((double)x[r * n + i] - means[r]) * rstds[r];

            dx[r * n + i] = rstds[r] * ((double)dy[r * n + i] * (double)gamma[i] - g - h * gh);
        }
    }
    ps_layer_norm_forward(c->device, rows, n, x_on, gamma_on, floats_on(c, n, beta), 0.01f, y, mean, rstd);
    near(c, "y", rows * n, y, want, n + 8);
    near(c, "mean", rows, mean, means, n);
    near(c, "rstd", rows, rstd, rstds, n);
    ps_layer_norm_backward(c->device, rows, n, x_on, gamma_on, mean, rstd, dy_on, dy_on, dgamma, dbeta); /* in place */
    near(c, "dx", rows * n, dy_on, dx, n + 100);
    near(c, "dgamma", n, dgamma, of_gamma, rows + 20);
    near(c, "dbeta", n, dbeta, column_sums(c, rows, n, dy), rows);
}

static void
row_norm(struct conformance *c)
{
    EACH_SIZE(i)
    {
        check_norm(c, sizes[i], sizes[(i + 2) % SIZES]);
        give_back(c);
    }
}

/* ---- Embedding ---- */

static void
check_embedding(struct conformance *c, size_t n, size_t vocabulary, size_t width)
{
    uint32_t *ids = numbers(c, n, vocabulary), *ids_on = uploaded(c, ids, n * sizeof *ids);
    float *table = floats(c, vocabulary * width, 1), *dy = floats(c, n * width, 1),
          *want = host(c, n * width * sizeof *want);
    float *y = nans_on(c, n * width), *dtable = nans_on(c, vocabulary * width);
    double *sums = host(c, vocabulary * width * sizeof *sums);

    for (size_t i = 0; i < n * width; i++) {
        want[i] = table[ids[i / width] * width + i % width];
        sums[ids[i / width] * width + i % width] += (double)dy[i];
    }
    ps_embedding_forward(c->device, n, vocabulary, width, ids_on, floats_on(c, vocabulary * width, table), y);
    same(c, "y", n * width * sizeof *y, y, want);
    ps_embedding_backward(c->device, n, vocabulary, width, ids_on, floats_on(c, n * width, dy), dtable);
    near(c, "dtable", vocabulary * width, dtable, sums, n);
}

static void
row_embedding(struct conformance *c)
{
    static const size_t shapes[][3] = {{1, 1, 1}, {7, 3, 5}, {65, 100, 1}, {700, 11, 9}, {251, 1, 64}, {999, 500, 3}};

    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        check_embedding(c, shapes[i][0], shapes[i][1], shapes[i][2]);
        give_back(c);
    }
}

/* ---- Dropout ---- */

/* The definition once more, an element at a time: word e of Philox at (e / 4, counter) under the seed's key. */
static float
dropped(uint64_t seed, uint64_t counter, float rate, size_t e, float x)
{
    uint64_t mixed = seed ^ 0x64726f706f757473u, block = e / 4;
    uint32_t words[4];

    philox4x32(
        (const uint32_t[]){(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)counter, (uint32_t)(counter >> 32)},
        (const uint32_t[]){(uint32_t)mixed, (uint32_t)(mixed >> 32)}, words);
    return (double)words[e % 4] >= floor((double)rate * 0x1p32) ? x * (1 / (1 - rate)) : 0;
}

static void
row_dropout(struct conformance *c)
{
    static const size_t lengths[] = {1, 2, 3, 4, 5, 63, 64, 65, 10007};
    static const float rates[] = {0, 0.3f, 0.5f, 0.9f};

    for (size_t k = 0; k < ARRAY_LEN(lengths); k++) {
        size_t n = lengths[k];
        float rate = rates[k % ARRAY_LEN(rates)], *x = floats(c, n, 1), *want = host(c, n * sizeof *want);
        float *x_on = floats_on(c, n, x), *y = nans_on(c, n);
        uint64_t seed = draw(c), counter = draw(c);

        for (size_t i = 0; i < n; i++)
            want[i] = dropped(seed, counter, rate, i, x[i]);
        ps_dropout_forward(c->device, n, rate, seed, counter, x_on, y);
        same(c, "y", n * sizeof *y, y, want);
        ps_dropout_backward(c->device, n, rate, seed, counter, x_on, x_on); /* in place */
        same(c, "dx", n * sizeof *x_on, x_on, want);
        give_back(c);
    }
}

/* ---- Classification ---- */

static void
check_softmax(struct conformance *c, size_t rows, size_t n)
{
    float *x = floats(c, rows * n, 8), *x_on, *p = nans_on(c, rows * n), *dx = nans_on(c, rows * n);
    float *loss = nans_on(c, rows), *loss_only = nans_on(c, rows);
    uint32_t *labels = numbers(c, rows, n), *labels_on = uploaded(c, labels, rows * sizeof *labels);
    double *want = host(c, rows * n * sizeof *want), *want_dx = host(c, rows * n * sizeof *want_dx);
    double *want_loss = host(c, rows * sizeof *want_loss);

    for (size_t r = 0; r < rows; r++) {
        double most = -INFINITY, sum = 0;

        if (r % 3 == 1)
            x[r * n + r % n] = 1e4f; /* exp() of it would overflow */
        for (size_t i = 0; i < n; i++)
            most = fmax(most, (double)x[r * n + i]);
        for (size_t i = 0; i < n; i++)
            sum += exp((double)x[r * n + i] - most);
        want_loss[r] = log(sum) + most - (double)x[r * n + labels[r]];
        for (size_t i = 0; i < n; i++) {
            want[r * n + i] = exp((double)x[r * n + i] - most) / sum;
            want_dx[r * n + i] = 0.25 * (want[r * n + i] - (i == labels[r]));
        }
    }
    x_on = floats_on(c, rows * n, x);
    ps_softmax(c->device, rows, n, x_on, p);
    near(c, "p", rows * n, p, want, 4);
    ps_softmax_cross_entropy(c->device, rows, n, x_on, labels_on, 0.25f, loss_only, NULL);
    near(c, "loss alone", rows, loss_only, want_loss, 10);
    ps_softmax_cross_entropy(c->device, rows, n, x_on, labels_on, 0.25f, loss, dx);
    near(c, "loss", rows, loss, want_loss, 10);
    near(c, "dx", rows * n, dx, want_dx, 4);
    ps_softmax_cross_entropy(c->device, rows, n, x_on, labels_on, 0.25f, loss, x_on); /* in place */
    near(c, "dx in place", rows * n, x_on, want_dx, 4);
}

static void
row_softmax(struct conformance *c)
{
    EACH_SIZE(i)
    EACH_SIZE(j)
    {
        check_softmax(c, sizes[i], sizes[j]);
        give_back(c);
    }
}

static void
check_sigmoid_loss(struct conformance *c, size_t rows, size_t n)
{
    float *x = floats(c, rows * n, 6), *t = floats(c, rows * n, 0.5f), *x_on, *t_on, *loss = nans_on(c, rows);
    float *loss_only = nans_on(c, rows), *dx = nans_on(c, rows * n);
    double *want = host(c, rows * n * sizeof *want), *want_loss = host(c, rows * sizeof *want_loss);

    for (size_t i = 0; i < rows * n; i++) {
        double z;

        t[i] += 0.5f;
        x[i] = i % 11 == 5 ? 90 : i % 13 == 6 ? -90 : x[i];
        z = (double)x[i];
        want_loss[i / n] += fmax(z, 0) - z * (double)t[i] + log1p(exp(-fabs(z)));
        want[i] = 0.5 * (sigmoid(z) - (double)t[i]);
    }
    x_on = floats_on(c, rows * n, x);
    t_on = floats_on(c, rows * n, t);
    ps_sigmoid_cross_entropy(c->device, rows, n, x_on, t_on, 0.5f, loss_only, NULL);
    near(c, "loss alone", rows, loss_only, want_loss, n);
    ps_sigmoid_cross_entropy(c->device, rows, n, x_on, t_on, 0.5f, loss, dx);
    near(c, "loss", rows, loss, want_loss, n);
    near(c, "dx", rows * n, dx, want, 1);
    ps_sigmoid_cross_entropy(c->device, rows, n, x_on, t_on, 0.5f, loss, x_on); /* in place */
    near(c, "dx in place", rows * n, x_on, want, 1);
}

static void
row_sigmoid_loss(struct conformance *c)
{
    EACH_SIZE(i)
    {
        check_sigmoid_loss(c, sizes[i], sizes[(i + 3) % SIZES]);
        give_back(c);
    }
}

static void
check_argmax(struct conformance *c, size_t rows, size_t n)
{
    float *x = floats(c, rows * n, 1);
    uint32_t *want = host(c, rows * sizeof *want), *best = marks_on(c, rows);

    for (size_t r = 0; r < rows; r++) {
        float *row = x + r * n;

        for (size_t i = 0; i < n; i++)
            row[i] = roundf(row[i] * 8) / 8; /* many equals, and zeros of both signs */
        if (r % 5 == 1)
            row[draw(c) % n] = NAN;
        if (r % 5 == 2)
            memset(row, 0xff, n * sizeof *row); /* NaN everywhere */
        if (r % 5 == 3)
            row[draw(c) % n] = INFINITY;
        for (size_t i = 0; r % 5 == 4 && i < n; i++)
            row[i] = i == n / 2 ? -1e30f : -INFINITY;
        for (size_t i = 1; i < n; i++)
            if (row[i] > row[want[r]])
                want[r] = (uint32_t)i;
    }
    ps_argmax(c->device, rows, n, floats_on(c, rows * n, x), best);
    same(c, "best", rows * sizeof *best, best, want);
}

static void
row_argmax(struct conformance *c)
{
    EACH_SIZE(i)
    EACH_SIZE(j)
    {
        check_argmax(c, sizes[i], sizes[j]);
        give_back(c);
    }
}

static void
row_count_equal(struct conformance *c)
{
    static const size_t lengths[] = {1, 7, 64, 65, 251, 10007, 200003};
    struct ps_error e;

    for (size_t k = 0; k < ARRAY_LEN(lengths); k++) {
        size_t n = lengths[k], want = 0, got = SIZE_MAX;
        uint32_t *a = numbers(c, n, 3), *b = numbers(c, n, 3);

        a[0] = b[0] = 7; /* one at least */
        for (size_t i = 0; i < n; i++)
            want += a[i] == b[i];
        must(c, ps_count_equal(c->device, n, uploaded(c, a, n * sizeof *a), uploaded(c, b, n * sizeof *b), &got, &e),
             &e);
        if (got != want)
            fail(c, "%zu of %zu are equal, it says %zu", want, n, got);
        give_back(c);
    }
}

/* ---- Optimizers: the bits of the shards' ---- */

static float *
aligned_floats(struct conformance *c, size_t n, float most)
{
    float *x = keep(c, aligned_alloc(64, round_up(n * sizeof *x, 64))), *from = floats(c, n, most);

    memcpy(x, from, n * sizeof *x);
    return x;
}

static void
check_optimizer(struct conformance *c, const struct ps_optimizer *o, size_t n)
{
    uint32_t slots = optimizer_slots(o);
    struct optimizer_arrays want = {.weights = aligned_floats(c, n, 1)}, on;
    struct ps_error e;

    on.weights = floats_on(c, n, want.weights);
    for (uint32_t k = 0; k < LAYOUT_SLOTS_MAX; k++) {
        want.slot[k] = aligned_floats(c, n, 1);
        on.slot[k] = nans_on(c, n);
    }
    optimizer_start(o, n, &want);
    must(c, device_optimizer_start(c->device, o, n, &on, &e), &e);
    for (uint64_t version = 1; version <= 3; version++) {
        float *gradient = floats(c, n, version == 2 ? 0.01f : 3);
        struct device_update u = {{version, version}, 0.5f, version == 3};

        must(c, device_optimizer_apply(c->device, o, &u, n, floats_on(c, n, gradient), &on, &e), &e);
        (void)optimizer_apply(o, &u.when, 0.5f, n, gradient, &want, &want, false);
    }
    same(c, "weights", n * sizeof(float), on.weights, want.weights);
    for (uint32_t k = 0; k < slots; k++)
        same(c, "slot", n * sizeof(float), on.slot[k], want.slot[k]);
}

static struct ps_optimizer
optimizer_of(enum ps_optimizer_kind kind)
{
    struct ps_optimizer o = {.kind = kind,
                             .learning_rate = 0.05,
                             .momentum = 0.9,
                             .beta1 = 0.9,
                             .beta2 = 0.99,
                             .rho = 0.9,
                             .epsilon = 1e-6,
                             .initial_accumulator = 0.1,
                             .learning_rate_power = -0.5,
                             .l1 = 0.01,
                             .beta = 0.1};

    return o;
}

static void
row_optimizers(struct conformance *c)
{
    for (int kind = 0; kind < PS_OPTIMIZER_KINDS; kind++)
        for (int with = 0; with < 3; with++) {
            struct ps_optimizer o = optimizer_of((enum ps_optimizer_kind)kind);

            if (with == 1) { /* a rule's other way */
                o.momentum = 0;
                o.learning_rate_power = -0.7;
            }
            if (with == 2) {
                o.l2 = 0.03;
                o.weight_decay = 0.01;
                o.clip = (struct ps_clip){PS_CLIP_VALUE, 0.4};
            }
            check_optimizer(c, &o, sizes[(size_t)(kind + with) % SIZES] * 3 + 1);
            if (c->failed)
                return;
            give_back(c);
        }
}

static void
row_nonfinite(struct conformance *c)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    struct ps_optimizer o = optimizer_of(PS_ADAM);
    struct device_update u = {{1, 0}, 1, true};
    struct ps_error e;

    for (size_t k = 0; k < ARRAY_LEN(bad); k++) {
        size_t n = 1000 + k;
        float *w = floats(c, n, 1), *gradient = floats(c, n, 1), *zeros = host(c, n * sizeof *zeros);
        struct optimizer_arrays on = {floats_on(c, n, w), {floats_on(c, n, zeros), floats_on(c, n, zeros), NULL}};
        enum ps_err err;
        double norm, want = 0;

        for (size_t i = 0; i < n; i++)
            want += (double)gradient[i] * (double)gradient[i];
        must(c, device_norm(c->device, n, floats_on(c, n, gradient), &norm, &e), &e);
        if (!(fabs(norm - sqrt(want)) <= 1e-12 * want))
            fail(c, "norm of %zu: %.17g, reference %.17g", n, norm, sqrt(want));
        gradient[n - 1 - k] = bad[k];
        err = device_optimizer_apply(c->device, &o, &u, n, floats_on(c, n, gradient), &on, &e);
        if (err != PS_ERR_NONFINITE)
            fail(c, "a gradient with %g: %s", (double)bad[k], ps_err_name(err));
        same(c, "weights", n * sizeof *w, on.weights, w);
        same(c, "slot", n * sizeof *w, on.slot[0], zeros);
    }
}

/* ---- Gradients made smaller ---- */

static float
most_of(float x, float most)
{
    return x > most ? most : x < -most ? -most : x;
}

/* The definition, an element at a time, of all but the scale. */
static float
encode_one(enum device_codec code, float e, float scale, void *out, size_t i)
{
    float steps;
    uint16_t half;
    int8_t q;

    if (code == DEVICE_CODEC_INT8) {
        steps = scale > 0 ? nearbyintf(most_of(e / scale, 127)) : 0;
        q = (int8_t)steps;
        ((int8_t *)out)[i] = q;
        return (float)q * scale;
    }
    half = code == DEVICE_CODEC_FLOAT16 ? half_from_float(most_of(e, 65504)) : bfloat_from_float(e);
    ((uint16_t *)out)[i] = half;
    return code == DEVICE_CODEC_FLOAT16 ? half_to_float(half) : bfloat_to_float(half);
}

static void
check_codec(struct conformance *c, enum device_codec code, size_t n, bool feeds_back)
{
    size_t size = device_encoded_size(code, n), runs = code == DEVICE_CODEC_INT8 ? (n + 255) / 256 : 0;
    float *gradient = floats(c, n, 3), *residual = floats(c, n, 0.1f), *decoded = host(c, n * sizeof *decoded);
    float *e = host(c, n * sizeof *e), *x = nans_on(c, n), *residual_on;
    uint8_t *want = host(c, size), *out = (uint8_t *)marks_on(c, size / 4);
    float *scales = (float *)(void *)want;
    struct ps_error error;

    if (n > 300)
        memset(gradient + 256, 0, 44 * sizeof *gradient);
    gradient[n / 2] = 1e5f;
    for (size_t i = 0; i < n; i++)
        e[i] = feeds_back ? gradient[i] + residual[i] : gradient[i];
    for (size_t i = 0; i < n && runs > 0; i++)
        scales[i / 256] = fmaxf(scales[i / 256], fabsf(e[i]));
    for (size_t i = 0; i < runs; i++)
        scales[i] /= 127;
    residual_on = floats_on(c, n, residual);
    for (size_t i = 0; i < n; i++) {
        decoded[i] = encode_one(code, e[i], runs > 0 ? scales[i / 256] : 0, scales + runs, i);
        residual[i] = feeds_back ? e[i] - decoded[i] : residual[i];
    }
    must(c, device_encode(c->device, code, n, floats_on(c, n, gradient), feeds_back ? residual_on : NULL, out, &error),
         &error);
    same(c, "encoding", size, out, want);
    same(c, "residual", n * sizeof *residual, residual_on, residual);
    must(c, device_decode(c->device, code, n, out, x, &error), &error);
    same(c, "decoded", n * sizeof *x, x, decoded);
}

static void
row_codecs(struct conformance *c)
{
    static const size_t lengths[] = {1, 2, 3, 255, 256, 257, 1001};

    if (c->device->ops->codec == NULL)
        return;
    for (size_t k = 0; k < ARRAY_LEN(lengths); k++)
        for (int code = DEVICE_CODEC_FLOAT16; code <= DEVICE_CODEC_INT8; code++)
            for (int feeds_back = 0; feeds_back < 2; feeds_back++) {
                check_codec(c, (enum device_codec)code, lengths[k], feeds_back != 0);
                if (c->failed)
                    return;
                give_back(c);
            }
}

/* ---- Gangs ---- */

static void
check_gang(struct conformance *c, struct device_gang *g, size_t replicas, size_t n, enum device_gang_op op)
{
    float *tensors[8], *x[8], *want = host(c, n * sizeof *want);
    struct ps_error e;

    for (size_t r = 0; r < replicas; r++) {
        x[r] = floats(c, n, 1);
        tensors[r] = floats_on(c, n, x[r]);
    }
    for (size_t i = 0; i < n; i++) {
        want[i] = x[0][i];
        for (size_t r = 1; r < replicas; r++)
            want[i] += x[r][i];
        want[i] /= op == DEVICE_GANG_MEAN ? (float)replicas : 1;
    }
    must(c, device_gang_all_reduce(g, tensors, n, op, &e), &e);
    for (size_t r = 0; r < replicas; r++)
        same(c, "sum", n * sizeof *want, tensors[r], want);
}

static void
row_gang(struct conformance *c)
{
    ps_device *devices[3] = {c->device, c->device, c->device};
    struct ps_error e;

    for (size_t replicas = 1; replicas <= 3; replicas++) {
        struct device_gang *g;
        enum ps_err err = device_gang_open(devices, replicas, &g, &e);

        must(c, err, &e);
        EACH_SIZE(i)
        {
            if (err != PS_OK || c->failed)
                break;
            check_gang(c, g, replicas, sizes[i] * 33, i % 2 == 0 ? DEVICE_GANG_SUM : DEVICE_GANG_MEAN);
            give_back(c);
        }
        if (err == PS_OK)
            device_gang_close(g);
    }
}

/* ---- The table ---- */

static const struct {
    const char *name;
    void (*run)(struct conformance *c);
} rows[] = {
    {"copies", row_copies},
    {"staging", row_staging},
    {"dense", row_dense},
    {"bias", row_bias},
    {"sparse", row_sparse},
    {"conv2d", row_conv2d},
    {"pools", row_pools},
    {"relu", row_relu},
    {"tanh", row_tanh},
    {"sigmoid", row_sigmoid},
    {"gelu", row_gelu},
    {"nan", row_nan},
    {"layer_norm", row_norm},
    {"embedding", row_embedding},
    {"dropout", row_dropout},
    {"softmax", row_softmax},
    {"sigmoid_loss", row_sigmoid_loss},
    {"argmax", row_argmax},
    {"count_equal", row_count_equal},
    {"optimizers", row_optimizers},
    {"nonfinite", row_nonfinite},
    {"codecs", row_codecs},
    {"gang", row_gang},
};

size_t
conformance_rows(void)
{
    return ARRAY_LEN(rows);
}

const char *
conformance_name(size_t row)
{
    return rows[row].name;
}

bool
conformance_run(struct conformance *c, size_t row)
{
    c->failed = false;
    c->text[0] = '\0';
    c->state = c->seed + row;
    rows[row].run(c);
    give_back(c);
    return !c->failed;
}
