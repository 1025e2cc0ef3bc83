/* Pools: the largest or the mean of the elements of each channel in each window. Channels lie beside each other, so a
 * window's elements are taken one after the other, each with all its channels at once. */
#include "client/device/cpu/device_cpu.h"

#include <string.h>

#include "client/device/window.h"

/* The elements in one window: `lines` times `columns` elements of `channels` floats. Offsets are in floats. */
struct view {
    size_t row, out; /* where its row of the batch, and its output, begin */
    size_t first;    /* its first element, in the row */
    size_t lines, columns;
    size_t line, channels; /* from one line, from one element, to the next */
};

/* Common to the passes, which differ in what they do with a view. */
struct tensors {
    const float *x, *dy;
    float *y, *dx;
    uint32_t *best;
};

typedef void visit_fn(const struct tensors *t, const struct view *v);

/* Every window of the batch, in the order of the output. */
static inline void
each_view(size_t rows, const struct ps_pool2d *p, const struct tensors *t, visit_fn *visit)
{
    struct axis y = axis_make(p->height, p->window_height, p->stride_height, p->padding);
    struct axis x = axis_make(p->width, p->window_width, p->stride_width, p->padding);
    struct view v = {.line = p->width * p->channels, .channels = p->channels};

    for (size_t r = 0; r < rows; r++, v.row += p->height * v.line)
        for (size_t i = 0; i < y.out; i++)
            for (size_t k = 0; k < x.out; k++, v.out += v.channels) {
                struct axis_part down = axis_part(&y, i), along = axis_part(&x, k);

                v.first = down.first * v.line + along.first * v.channels;
                v.lines = down.count;
                v.columns = along.count;
                visit(t, &v);
            }
}

/* at: where each element of the view begins, in the row. */
#define EACH_ELEMENT(v, at)                                                                                            \
    for (size_t line_ = 0; line_ < (v)->lines; line_++)                                                                \
        for (size_t column_ = 0, at = (v)->first + line_ * (v)->line; column_ < (v)->columns;                          \
             column_++, at += (v)->channels)

/* ---- Largest ---- */

/* A NaN is larger than anything, so that it is not hidden; the first of equals stays. */
static void
keep_larger(size_t channels, const float *restrict x, uint32_t at, float *restrict y, uint32_t *restrict best)
{
    for (size_t c = 0; c < channels; c++) { /* all is read and written, so that it is vectorized */
        float found = x[c], kept = y[c];
        uint32_t is = at + (uint32_t)c, was = best[c];
        int larger = (found > kept) | (found != found);

        y[c] = larger ? found : kept;
        best[c] = larger ? is : was;
    }
}

static void
max_of_view(const struct tensors *t, const struct view *v)
{
    const float *x = t->x + v->row;

    memcpy(t->y + v->out, x + v->first, v->channels * sizeof *x);
    for (uint32_t c = 0; c < v->channels; c++)
        t->best[v->out + c] = (uint32_t)v->first + c;
    EACH_ELEMENT(v, at)
    keep_larger(v->channels, x + at, (uint32_t)at, t->y + v->out, t->best + v->out);
}

void
cpu_max_pool_forward(ps_device *d, size_t rows, const struct ps_pool2d *p, const float *x, float *y, uint32_t *best)
{
    struct tensors t = {.x = x, .y = y, .best = best};

    (void)d;
    each_view(rows, p, &t, max_of_view);
}

void
cpu_max_pool_backward(ps_device *d, size_t rows, const struct ps_pool2d *p, const uint32_t *best, const float *dy,
                      float *dx)
{
    size_t in = p->height * p->width * p->channels, height, width, out;

    (void)d;
    ps_pool2d_output(p, &height, &width);
    out = height * width * p->channels;
    memset(dx, 0, rows * in * sizeof *dx);
    for (size_t r = 0; r < rows; r++, best += out, dy += out, dx += in)
        for (size_t i = 0; i < out; i++)
            dx[best[i]] += dy[i];
}

/* ---- Mean ---- */

static void
pool_add(size_t n, const float *restrict from, float *restrict to)
{
    for (size_t i = 0; i < n; i++)
        to[i] += from[i];
}

/* to += from / count. */
static void
add_share(size_t n, const float *restrict from, float count, float *restrict to)
{
    for (size_t i = 0; i < n; i++)
        to[i] += from[i] / count;
}

static void
mean_of_view(const struct tensors *t, const struct view *v)
{
    float *y = t->y + v->out, count = (float)(v->lines * v->columns);

    memset(y, 0, v->channels * sizeof *y);
    EACH_ELEMENT(v, at)
    pool_add(v->channels, t->x + v->row + at, y);
    for (size_t c = 0; c < v->channels; c++)
        y[c] /= count;
}

static void
share_among_view(const struct tensors *t, const struct view *v)
{
    float count = (float)(v->lines * v->columns);

    EACH_ELEMENT(v, at)
    add_share(v->channels, t->dy + v->out, count, t->dx + v->row + at);
}

void
cpu_avg_pool_forward(ps_device *d, size_t rows, const struct ps_pool2d *p, const float *x, float *y)
{
    struct tensors t = {.x = x, .y = y};

    (void)d;
    each_view(rows, p, &t, mean_of_view);
}

void
cpu_avg_pool_backward(ps_device *d, size_t rows, const struct ps_pool2d *p, const float *dy, float *dx)
{
    struct tensors t = {.dy = dy, .dx = dx};

    (void)d;
    memset(dx, 0, rows * p->height * p->width * p->channels * sizeof *dx);
    each_view(rows, p, &t, share_among_view);
}
