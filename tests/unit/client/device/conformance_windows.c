/* Rows: convolutions and pools, against loops over windows and pixels. */
#include "tests/unit/client/device/conformance_kit.h"

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
windows_seen(size_t at, size_t e, size_t stride, size_t before, size_t size, size_t *place)
{
    *place = at * stride + e - before;
    return at * stride + e >= before && *place < size;
}

/* Calls visit for every window of the batch and every element that it sees: numbers of pixels, without channels. */
struct windows_windows {
    size_t rows, height, width, window[2], stride[2], out[2];
    enum ps_padding padding;
};

typedef void visit_fn(void *context, size_t out_pixel, size_t in_pixel, size_t window_pixel);

static void
each_pixel(const struct windows_windows *w, visit_fn *visit, void *context)
{
    size_t before[2] = {padding_before(w->height, w->window[0], w->stride[0], w->out[0], w->padding),
                        padding_before(w->width, w->window[1], w->stride[1], w->out[1], w->padding)};
    size_t y, x;

    for (size_t r = 0; r < w->rows; r++)
        for (size_t oy = 0; oy < w->out[0]; oy++)
            for (size_t ox = 0; ox < w->out[1]; ox++)
                for (size_t ky = 0; ky < w->window[0]; ky++)
                    for (size_t kx = 0; kx < w->window[1]; kx++)
                        if (windows_seen(oy, ky, w->stride[0], before[0], w->height, &y) &&
                            windows_seen(ox, kx, w->stride[1], before[1], w->width, &x))
                            visit(context, (r * w->out[0] + oy) * w->out[1] + ox, (r * w->height + y) * w->width + x,
                                  ky * w->window[1] + kx);
}

struct conv {
    const struct conformance *c;
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
            double x = conformance_factor(v->c, v->x[i * v->in + ci]);
            double w = conformance_factor(v->c, v->w[(k * v->in + ci) * v->out + co]);
            double dy = conformance_factor(v->c, v->dy[o * v->out + co]);

            v->y[o * v->out + co] += x * w;
            v->dx[i * v->in + ci] += dy * w;
            v->dw[(k * v->in + ci) * v->out + co] += dy * x;
        }
}

static void
check_conv(struct conformance *c, size_t rows, const struct ps_conv2d *s)
{
    struct windows_windows w = {
        rows, s->height, s->width, {s->kernel_height, s->kernel_width}, {s->stride_height, s->stride_width},
        {0},  s->padding};
    size_t inputs = rows * s->height * s->width * s->in, weights = s->kernel_height * s->kernel_width * s->in * s->out;
    size_t outputs, floats_of_workspace = ps_conv2d_workspace(s, rows);
    float *workspace = floats_of_workspace > 0 ? nans_on(c, floats_of_workspace) : NULL, *x, *k, *b, *dy, *y, *dx, *dw,
          *db;
    float *x_on, *k_on, *dy_on;
    struct conv v = {.c = c, .in = s->in, .out = s->out};

    ps_conv2d_output(s, &w.out[0], &w.out[1]);
    outputs = rows * w.out[0] * w.out[1] * s->out;
    v.x = x = conformance_floats(c, inputs, 1);
    v.w = k = conformance_floats(c, weights, 1);
    v.dy = dy = conformance_floats(c, outputs, 1);
    b = conformance_floats(c, s->out, 1);
    v.y = conformance_host(c, outputs * sizeof *v.y);
    v.dx = conformance_host(c, inputs * sizeof *v.dx);
    v.dw = conformance_host(c, weights * sizeof *v.dw);
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
    conformance_near_product(c, "y", outputs, y, v.y, s->kernel_height * s->kernel_width * s->in);
    ps_conv2d_backward(c->device, rows, s, x_on, k_on, dy_on, dx, dw, db, workspace);
    conformance_near_product(c, "dx", inputs, dx, v.dx, s->kernel_height * s->kernel_width * s->out);
    conformance_near_product(c, "dw", weights, dw, v.dw, rows * w.out[0] * w.out[1]);
    conformance_near(c, "db", s->out, db, column_sums(c, outputs / s->out, s->out, dy), rows * w.out[0] * w.out[1]);
}

void
conform_conv2d(struct conformance *c)
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
        {2, {7, 6, 20, 4, 3, 3, 1, 1, PS_PAD_SAME}},   {2, {5, 6, 32, 3, 3, 3, 2, 2, PS_PAD_VALID}},
    };

    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        check_conv(c, shapes[i].rows, &shapes[i].s);
        give_back(c);
    }
}

/* The same inputs have the same bits every time. */
void
conform_conv2d_repeats(struct conformance *c)
{
    static const struct ps_conv2d shape = {14, 14, 8, 12, 3, 3, 1, 1, PS_PAD_SAME};
    size_t rows = ps_device_is_host(c->device) ? 3 : 16, inputs = rows * 14 * 14 * 8, outputs = rows * 14 * 14 * 12;
    size_t weights = 3 * 3 * 8 * 12, floats_of_workspace = ps_conv2d_workspace(&shape, rows);
    float *x = floats_on(c, inputs, conformance_floats(c, inputs, 1));
    float *w = floats_on(c, weights, conformance_floats(c, weights, 1));
    float *dy = floats_on(c, outputs, conformance_floats(c, outputs, 1));
    float *workspace = nans_on(c, floats_of_workspace), *y[2], *dx[2], *dw[2], *db[2];

    for (int i = 0; i < 2; i++) {
        y[i] = nans_on(c, outputs);
        dx[i] = nans_on(c, inputs);
        dw[i] = nans_on(c, weights);
        db[i] = nans_on(c, shape.out);
        ps_conv2d_forward(c->device, rows, &shape, x, w, NULL, y[i], workspace);
        ps_conv2d_backward(c->device, rows, &shape, x, w, dy, dx[i], dw[i], db[i], workspace);
    }
    conformance_same(c, "y again", outputs * sizeof(float), y[1],
                     conformance_downloaded(c, y[0], outputs * sizeof(float)));
    conformance_same(c, "dx again", inputs * sizeof(float), dx[1],
                     conformance_downloaded(c, dx[0], inputs * sizeof(float)));
    conformance_same(c, "dw again", weights * sizeof(float), dw[1],
                     conformance_downloaded(c, dw[0], weights * sizeof(float)));
    conformance_same(c, "db again", shape.out * sizeof(float), db[1],
                     conformance_downloaded(c, db[0], shape.out * sizeof(float)));
}

struct windows_pool {
    size_t channels, in_pixels; /* of an image */
    const float *x, *dy;
    double *max, *sum, *count, *max_dx, *avg_dx;
    uint32_t *best;
};

static void
pool_pixel(void *context, size_t o, size_t i, size_t k)
{
    struct windows_pool *v = context;

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
    struct windows_pool *v = context;

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
    struct windows_windows w = {
        rows, s->height, s->width, {s->window_height, s->window_width}, {s->stride_height, s->stride_width},
        {0},  s->padding};
    size_t inputs = rows * s->height * s->width * s->channels, outputs;
    struct windows_pool v = {.channels = s->channels, .in_pixels = s->height * s->width};
    float *x, *x_on, *dy_on, *y, *dx;
    uint32_t *best;

    ps_pool2d_output(s, &w.out[0], &w.out[1]);
    outputs = rows * w.out[0] * w.out[1] * s->channels;
    v.x = x = conformance_floats(c, inputs, 1);
    v.dy = conformance_floats(c, outputs, 1);
    for (size_t i = 0; i < inputs; i += 3)
        x[i] = 0.5f; /* equals: the first of them */
    v.max = conformance_host(c, outputs * sizeof *v.max);
    v.sum = conformance_host(c, outputs * sizeof *v.sum);
    v.count = conformance_host(c, outputs * sizeof *v.count);
    v.best = conformance_host(c, outputs * sizeof *v.best);
    v.max_dx = conformance_host(c, inputs * sizeof *v.max_dx);
    v.avg_dx = conformance_host(c, inputs * sizeof *v.avg_dx);
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
    conformance_near(c, "largest", outputs, y, v.max, 1);
    conformance_same(c, "places", outputs * sizeof *best, best, v.best);
    if (c->failed) /* backward would write to those places */
        return;
    ps_max_pool_backward(c->device, rows, s, best, dy_on, dx);
    conformance_near(c, "dx of the largest", inputs, dx, v.max_dx, s->window_height * s->window_width);
    ps_avg_pool_forward(c->device, rows, s, x_on, y);
    conformance_near(c, "mean", outputs, y, v.sum, s->window_height * s->window_width);
    ps_avg_pool_backward(c->device, rows, s, dy_on, dx);
    conformance_near(c, "dx of the mean", inputs, dx, v.avg_dx, s->window_height * s->window_width);
}

void
conform_pools(struct conformance *c)
{
    static const struct {
        size_t rows;
        struct ps_pool2d s;
    } shapes[] = {
        {1, {1, 1, 1, 1, 1, 1, 1, PS_PAD_VALID}},  {3, {8, 8, 5, 2, 2, 2, 2, PS_PAD_VALID}},
        {2, {7, 9, 3, 3, 2, 1, 1, PS_PAD_SAME}},   {2, {7, 9, 3, 3, 2, 1, 1, PS_PAD_VALID}},
        {5, {10, 11, 2, 2, 3, 4, 5, PS_PAD_SAME}}, {2, {10, 11, 2, 2, 3, 4, 5, PS_PAD_VALID}},
        {4, {6, 5, 33, 6, 5, 6, 5, PS_PAD_VALID}}, {2, {3, 4, 2, 5, 7, 2, 3, PS_PAD_SAME}},
        {3, {8, 8, 8, 2, 2, 2, 2, PS_PAD_VALID}},  {2, {7, 9, 12, 3, 2, 1, 1, PS_PAD_SAME}},
    };

    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        check_pool(c, shapes[i].rows, &shapes[i].s);
        give_back(c);
    }
}
