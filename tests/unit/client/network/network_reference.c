#include "tests/unit/client/network/network_reference.h"

#include <math.h>

#include "common/core/base/base.h"
#include "tests/unit/kits/check_main.h"

static size_t
reference_elements(const struct reference_tensor *t)
{
    size_t n = 1;

    for (size_t i = 0; i < t->rank; i++)
        n *= t->dims[i];
    ps_assert(n <= TENSOR_MAX); /* thousands of times: Check would write a mark for each */
    return n;
}

/* ---- Windows ---- */

struct reference_window {
    size_t in, size, stride, out;
    long before; /* padding */
};

static struct reference_window
window_of(size_t in, size_t size, size_t stride, enum ps_padding padding)
{
    struct reference_window w = {.in = in, .size = size, .stride = stride, .out = (in - size) / stride + 1};

    if (padding == PS_PAD_SAME) {
        long missing;

        w.out = (in + stride - 1) / stride;
        missing = (long)((w.out - 1) * stride + size) - (long)in;
        w.before = missing > 0 ? missing / 2 : 0;
    }
    return w;
}

/* Where element k of window number at lies; -1: on the padding. */
static long
window_at(const struct reference_window *w, size_t at, size_t k)
{
    long i = (long)(at * w->stride + k) - w->before;

    return i >= 0 && i < (long)w->in ? i : -1;
}

struct plane {
    struct reference_window y, x;
    size_t width, channels;
};

static struct plane
plane_of(const struct ps_layer *l, const struct reference_tensor *x, struct reference_tensor *out)
{
    size_t height = x->dims[0], width = x->rank == 3 ? x->dims[1] : 1;
    size_t kernel[2] = {l->kernel[0] ? l->kernel[0] : height, l->kernel[1] ? l->kernel[1] : width};
    struct plane p = {.width = width, .channels = x->dims[x->rank - 1]};
    bool pools = l->kind != PS_LAYER_CONV2D;

    p.y = window_of(height, kernel[0], l->stride[0] ? l->stride[0] : pools ? kernel[0] : 1, l->padding);
    p.x = window_of(width, kernel[1], l->stride[1] ? l->stride[1] : pools ? kernel[1] : 1, l->padding);
    *out = (struct reference_tensor){.rank = x->rank, .dims = {p.y.out, p.x.out}};
    out->dims[x->rank - 1] = pools ? p.channels : l->filters;
    return p;
}

/* The sum over a window of x times w (NULL: 1) for one filter; *best: the largest; *count: elements that are there. */
static double
over_window(const struct plane *p, const struct reference_tensor *x, size_t at_y, size_t at_x, size_t channel,
            const double *w, size_t filters, double *best, size_t *count)
{
    double sum = 0;

    *best = -INFINITY;
    *count = 0;
    for (size_t ky = 0; ky < p->y.size; ky++)
        for (size_t kx = 0; kx < p->x.size; kx++) {
            long iy = window_at(&p->y, at_y, ky), ix = window_at(&p->x, at_x, kx);
            double v;

            if (iy < 0 || ix < 0)
                continue;
            v = x->v[((size_t)iy * p->width + (size_t)ix) * p->channels + channel];
            sum += w == NULL ? v : v * w[((ky * p->x.size + kx) * p->channels + channel) * filters];
            *best = fmax(*best, v);
            ++*count;
        }
    return sum;
}

static void
reference_windows(const struct ps_layer *l, const struct reference_tensor *x, const double *w, const double *b,
                  struct reference_tensor *out)
{
    struct plane p = plane_of(l, x, out);
    size_t channels_out = out->dims[out->rank - 1], i = 0, count;
    double best, sum;

    for (size_t y = 0; y < p.y.out; y++)
        for (size_t k = 0; k < p.x.out; k++)
            for (size_t c = 0; c < channels_out; c++, i++) {
                if (l->kind != PS_LAYER_CONV2D) {
                    sum = over_window(&p, x, y, k, c, NULL, 0, &best, &count);
                    out->v[i] = l->kind == PS_LAYER_MAX_POOL ? best : sum / (double)count;
                    continue;
                }
                out->v[i] = b != NULL ? b[c] : 0;
                for (size_t in = 0; in < p.channels; in++)
                    out->v[i] += over_window(&p, x, y, k, in, w + c, channels_out, &best, &count);
            }
}

/* ---- Others ---- */

static void
reference_dense(size_t units, const struct reference_tensor *x, const double *w, const double *b,
                struct reference_tensor *out)
{
    size_t in = reference_elements(x);

    *out = (struct reference_tensor){.rank = 1, .dims = {units}};
    for (size_t o = 0; o < units; o++) {
        out->v[o] = b != NULL ? b[o] : 0;
        for (size_t i = 0; i < in; i++)
            out->v[o] += x->v[i] * w[i * units + o];
    }
}

static void
reference_norm(const struct reference_tensor *x, const double *gamma, const double *beta, struct reference_tensor *out)
{
    size_t n = x->dims[x->rank - 1];

    *out = *x;
    for (size_t first = 0; first < reference_elements(x); first += n) {
        double mean = 0, variance = 0;

        for (size_t i = 0; i < n; i++)
            mean += x->v[first + i] / (double)n;
        for (size_t i = 0; i < n; i++)
            variance += (x->v[first + i] - mean) * (x->v[first + i] - mean) / (double)n;
        for (size_t i = 0; i < n; i++)
            out->v[first + i] = (x->v[first + i] - mean) / sqrt(variance + 1e-5) * gamma[i] + beta[i];
    }
}

static double
reference_activation(enum ps_layer_kind kind, double x)
{
    switch (kind) {
    case PS_LAYER_RELU:
        return fmax(x, 0);
    case PS_LAYER_TANH:
        return tanh(x);
    case PS_LAYER_SIGMOID:
        return 1 / (1 + exp(-x));
    case PS_LAYER_GELU:
        return x * erfc(-x / sqrt(2)) / 2;
    default:
        ck_abort_msg("the reference has no layer %d", (int)kind);
    }
    return 0;
}

/* y may not be x. *params: parameters taken so far. */
static void
reference_layer(const struct reference_reference *r, size_t i, const struct reference_tensor *x,
                struct reference_tensor *y, size_t *params)
{
    const struct ps_layer *l = &r->layer[i];
    double *const *value = &r->value[*params];

    switch (l->kind) {
    case PS_LAYER_DENSE:
        reference_dense(l->units, x, value[0], l->no_bias ? NULL : value[1], y);
        *params += l->no_bias ? 1 : 2;
        break;
    case PS_LAYER_CONV2D:
        reference_windows(l, x, value[0], l->no_bias ? NULL : value[1], y);
        *params += l->no_bias ? 1 : 2;
        break;
    case PS_LAYER_MAX_POOL:
    case PS_LAYER_AVG_POOL:
        reference_windows(l, x, NULL, NULL, y);
        break;
    case PS_LAYER_LAYER_NORM:
        reference_norm(x, value[0], value[1], y);
        *params += 2;
        break;
    case PS_LAYER_DROPOUT:
        *y = *x;
        for (size_t k = 0; k < reference_elements(x) && r->mask[i] != NULL; k++)
            y->v[k] *= (double)r->mask[i][k];
        break;
    case PS_LAYER_EMBEDDING:
        *y = (struct reference_tensor){.rank = 2, .dims = {x->dims[0], l->width}};
        for (size_t k = 0; k < reference_elements(y); k++)
            y->v[k] = value[0][(size_t)x->v[k / l->width] * l->width + k % l->width];
        *params += 1;
        break;
    case PS_LAYER_FLATTEN:
        *y = *x;
        y->rank = 1;
        y->dims[0] = reference_elements(x);
        break;
    default:
        *y = *x;
        for (size_t k = 0; k < reference_elements(x); k++)
            y->v[k] = reference_activation(l->kind, x->v[k]);
    }
}

static double
softmax_loss(const struct reference_tensor *x, uint32_t label)
{
    double max = -INFINITY, sum = 0;

    for (size_t c = 0; c < reference_elements(x); c++)
        max = fmax(max, x->v[c]);
    for (size_t c = 0; c < reference_elements(x); c++)
        sum += exp(x->v[c] - max);
    return log(sum) + max - x->v[label];
}

static double
sigmoid_loss(const struct reference_tensor *x, const float *targets)
{
    double loss = 0;

    for (size_t c = 0; c < reference_elements(x); c++)
        loss += log1p(exp(x->v[c])) - (double)targets[c] * x->v[c];
    return loss;
}

double
reference_loss(const struct reference_reference *r, struct reference_tensor *x, uint32_t label, const float *targets)
{
    struct reference_tensor y;
    size_t params = 0;

    for (size_t i = 0; i < r->layers; i++) {
        reference_layer(r, i, x, &y, &params);
        *x = y;
    }
    return r->loss == PS_LOSS_SOFTMAX ? softmax_loss(x, label) : sigmoid_loss(x, targets);
}
