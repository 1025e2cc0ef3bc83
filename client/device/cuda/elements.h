/* Kernels of single elements: activations, biases, pools, dropout. Each adds in the order in which the CPU device does,
 * so the results are the same bits. */
#ifndef CLIENT_DEVICE_CUDA_ELEMENTS_H
#define CLIENT_DEVICE_CUDA_ELEMENTS_H

#include "client/device/cuda/shared.h"
#include "client/device/ps_device_module.h"

/* Integer division of 64 bits is many times slower than one of 32. */
EVERYWHERE size_t
divide(size_t n, size_t by)
{
    return ((n | by) >> 32) == 0 ? (uint32_t)n / (uint32_t)by : n / by;
}

/* *n becomes the quotient; returns the rest. */
EVERYWHERE size_t
split(size_t *n, size_t by)
{
    size_t quotient = divide(*n, by), rest = *n - quotient * by;

    *n = quotient;
    return rest;
}

/* ---- Filling: element i of this and of most kernels below is quad i ---- */

struct fill_args {
    size_t n;
    float value;
    float *x;
};

KERNEL_ELEMENT(fill)
{
    const struct quad q = {{k->value, k->value, k->value, k->value}};

    quad_store(k->x, i, k->n, q);
}

/* The biases of quad i of [rows, n] floats. */
EVERYWHERE struct quad
quad_of_biases(const float *b, size_t i, size_t n)
{
    size_t row = 4 * i, column = split(&row, n);
    struct quad q;

    if (n % 4 == 0)
        return quad_load(b, column / 4, n);
    EACH_OF_QUAD
    {
        q.of[e] = b[column];
        column = column + 1 < n ? column + 1 : 0;
    }
    return q;
}

/* Every row of y: [rows, n] becomes b. */
struct fill_rows_args {
    size_t all, n; /* rows * n */
    const float *b;
    float *y;
};

KERNEL_ELEMENT(fill_rows)
{
    quad_store(k->y, i, k->all, quad_of_biases(k->b, i, k->n));
}

/* ---- Activations ---- */

EVERYWHERE float
relu_of(float x)
{
    return x < 0 ? 0 : x; /* in this order a NaN stays */
}

EVERYWHERE float
relu_slope(float y, float dy)
{
    return y > 0 ? dy : 0;
}

EVERYWHERE float
tanh_of(float x)
{
    return math_tanh(x);
}

EVERYWHERE float
tanh_slope(float y, float dy)
{
    return dy * (1 - y * y);
}

EVERYWHERE float
sigmoid_of(float x)
{
    return math_sigmoid(x);
}

EVERYWHERE float
sigmoid_slope(float y, float dy)
{
    return dy * (y * (1 - y));
}

/* Beyond this the normal distribution is 0 or 1 in f32; from here on infinity times 0 would be NaN. */
#define GELU_FAR 15.0f

EVERYWHERE float
gelu_of(float x)
{
    float density, below;

    math_normal(x, &density, &below);
    return (x < -GELU_FAR ? -GELU_FAR : x) * below;
}

EVERYWHERE float
gelu_slope(float x, float dy)
{
    float near = x < -GELU_FAR ? -GELU_FAR : x > GELU_FAR ? GELU_FAR : x, density, below;

    math_normal(near, &density, &below);
    return dy * (below + near * density);
}

struct forward_args {
    size_t n;
    const float *x;
    float *y;
};

struct backward_args {
    size_t n;
    const float *with, *dy; /* with: x or y, which the backward pass reads */
    float *dx;
};

#define relu_forward_args     forward_args
#define tanh_forward_args     forward_args
#define sigmoid_forward_args  forward_args
#define gelu_forward_args     forward_args
#define relu_backward_args    backward_args
#define tanh_backward_args    backward_args
#define sigmoid_backward_args backward_args
#define gelu_backward_args    backward_args

#define ACTIVATION_KERNELS(name)                                                                                       \
    KERNEL_ELEMENT(name##_forward)                                                                                     \
    {                                                                                                                  \
        struct quad q = quad_load(k->x, i, k->n);                                                                      \
                                                                                                                       \
        EACH_OF_QUAD                                                                                                   \
        {                                                                                                              \
            q.of[e] = name##_of(q.of[e]);                                                                              \
        }                                                                                                              \
        quad_store(k->y, i, k->n, q);                                                                                  \
    }                                                                                                                  \
                                                                                                                       \
    KERNEL_ELEMENT(name##_backward)                                                                                    \
    {                                                                                                                  \
        struct quad with = quad_load(k->with, i, k->n), q = quad_load(k->dy, i, k->n);                                 \
                                                                                                                       \
        EACH_OF_QUAD                                                                                                   \
        {                                                                                                              \
            q.of[e] = name##_slope(with.of[e], q.of[e]);                                                               \
        }                                                                                                              \
        quad_store(k->dx, i, k->n, q);                                                                                 \
    }
ACTIVATION_KERNELS(relu)
ACTIVATION_KERNELS(tanh)
ACTIVATION_KERNELS(sigmoid)
ACTIVATION_KERNELS(gelu)
#undef ACTIVATION_KERNELS

/* ---- Biases ---- */

struct bias_forward_args {
    size_t all, n; /* rows * n */
    const float *x, *b;
    float *y;
};

KERNEL_ELEMENT(bias_forward)
{
    struct quad q = quad_load(k->x, i, k->all), b = quad_of_biases(k->b, i, k->n);

    EACH_OF_QUAD
    {
        q.of[e] += b.of[e];
    }
    quad_store(k->y, i, k->all, q);
}

/* ---- Windows along an axis ---- */

struct window_part {
    size_t first, skip, count; /* of a window, as axis_part() in client/device/window.h says */
};

EVERYWHERE struct window_part
part_of_window(const struct ps_module_axis *a, size_t at)
{
    size_t start = at * a->stride;
    size_t skip = start < a->before ? a->before - start : 0;
    size_t first = start + skip - a->before;
    struct window_part p = {first, skip, a->window - skip < a->size - first ? a->window - skip : a->size - first};

    return p;
}

/* The windows that contain element `at`: those from first to end - 1. */
struct element_windows {
    size_t first, end;
};

EVERYWHERE struct element_windows
windows_over(const struct ps_module_axis *a, size_t at)
{
    size_t place = at + a->before, last = divide(place, a->stride) + 1;
    struct element_windows w = {place < a->window ? 0 : divide(place - a->window, a->stride) + 1,
                                last < a->out ? last : a->out};

    return w;
}

/* ---- Pools: an output reads its window; an input the windows that contain it ---- */

struct pool_args {
    struct ps_module_pool2d p;
    const float *x, *dy;
    float *y, *dx;
    uint32_t *best;
};

#define max_pool_forward_args  pool_args
#define max_pool_backward_args pool_args
#define avg_pool_forward_args  pool_args
#define avg_pool_backward_args pool_args

/* Of output or input element i: its channel, its place, its row of the batch. */
struct element_place {
    size_t row, y, x, channel;
};

EVERYWHERE struct element_place
element_place_of(size_t i, size_t height, size_t width, size_t channels)
{
    struct element_place at;

    at.channel = split(&i, channels);
    at.x = split(&i, width);
    at.y = split(&i, height);
    at.row = i;
    return at;
}

/* Element i of pools is a quad of channels of an output or input: at.channel counts quads. What is found of a place is
 * used for all four. A NaN is larger than anything, so that it is not hidden; the first of equals stays. */
KERNEL_ELEMENT(max_pool_forward)
{
    const struct ps_module_pool2d *p = &k->p;
    struct element_place at = element_place_of(i, p->y.out, p->x.out, QUADS(p->channels));
    struct window_part down = part_of_window(&p->y, at.y), along = part_of_window(&p->x, at.x);
    const float *x = k->x + at.row * p->y.size * p->x.size * p->channels;
    size_t first = down.first * p->x.size + along.first,
           to = ((at.row * p->y.out + at.y) * p->x.out + at.x) * p->channels;
    struct quad kept = quad_load(x + first * p->channels, at.channel, p->channels);
    struct quad_words best;

    EACH_OF_QUAD
    {
        best.of[e] = (uint32_t)(first * p->channels + 4 * at.channel + e);
    }
    for (size_t y = down.first; y < down.first + down.count; y++)
        for (size_t c = along.first; c < along.first + along.count; c++) {
            size_t place = (y * p->x.size + c) * p->channels;
            struct quad found = quad_load(x + place, at.channel, p->channels);

            EACH_OF_QUAD
            {
                if (found.of[e] > kept.of[e] || found.of[e] != found.of[e]) {
                    kept.of[e] = found.of[e];
                    best.of[e] = (uint32_t)(place + 4 * at.channel + e);
                }
            }
        }
    quad_store(k->y + to, at.channel, p->channels, kept);
    quad_words_store(k->best + to, at.channel, p->channels, best);
}

KERNEL_ELEMENT(max_pool_backward)
{
    const struct ps_module_pool2d *p = &k->p;
    struct element_place at = element_place_of(i, p->y.size, p->x.size, QUADS(p->channels));
    struct element_windows down = windows_over(&p->y, at.y), along = windows_over(&p->x, at.x);
    size_t is = (at.y * p->x.size + at.x) * p->channels + 4 * at.channel;
    struct quad sum = {{0}};

    for (size_t y = down.first; y < down.end; y++)
        for (size_t x = along.first; x < along.end; x++) {
            size_t from = ((at.row * p->y.out + y) * p->x.out + x) * p->channels;
            struct quad_words best = quad_words_load(k->best + from, at.channel, p->channels);
            struct quad dy = quad_load(k->dy + from, at.channel, p->channels);

            EACH_OF_QUAD
            {
                if (best.of[e] == is + e)
                    sum.of[e] += dy.of[e];
            }
        }
    quad_store(k->dx + ((at.row * p->y.size + at.y) * p->x.size + at.x) * p->channels, at.channel, p->channels, sum);
}

KERNEL_ELEMENT(avg_pool_forward)
{
    const struct ps_module_pool2d *p = &k->p;
    struct element_place at = element_place_of(i, p->y.out, p->x.out, QUADS(p->channels));
    struct window_part down = part_of_window(&p->y, at.y), along = part_of_window(&p->x, at.x);
    struct quad sum = {{0}};

    for (size_t y = down.first; y < down.first + down.count; y++)
        for (size_t x = along.first; x < along.first + along.count; x++) {
            size_t place = ((at.row * p->y.size + y) * p->x.size + x) * p->channels;
            struct quad q = quad_load(k->x + place, at.channel, p->channels);

            EACH_OF_QUAD
            {
                sum.of[e] += q.of[e];
            }
        }
    EACH_OF_QUAD
    {
        sum.of[e] /= (float)(down.count * along.count);
    }
    quad_store(k->y + ((at.row * p->y.out + at.y) * p->x.out + at.x) * p->channels, at.channel, p->channels, sum);
}

KERNEL_ELEMENT(avg_pool_backward)
{
    const struct ps_module_pool2d *p = &k->p;
    struct element_place at = element_place_of(i, p->y.size, p->x.size, QUADS(p->channels));
    struct element_windows down = windows_over(&p->y, at.y), along = windows_over(&p->x, at.x);
    struct quad sum = {{0}};

    for (size_t y = down.first; y < down.end; y++)
        for (size_t x = along.first; x < along.end; x++) {
            size_t from = ((at.row * p->y.out + y) * p->x.out + x) * p->channels;
            float count = (float)(part_of_window(&p->y, y).count * part_of_window(&p->x, x).count);
            struct quad dy = quad_load(k->dy + from, at.channel, p->channels);

            EACH_OF_QUAD
            {
                sum.of[e] += dy.of[e] / count;
            }
        }
    quad_store(k->dx + ((at.row * p->y.size + at.y) * p->x.size + at.x) * p->channels, at.channel, p->channels, sum);
}

/* ---- Dropout: quad i is what block i of random words decides ---- */

struct dropout_args {
    size_t n;
    uint32_t below;
    float scale;
    uint64_t seed, counter;
    const float *x;
    float *y;
};

KERNEL_ELEMENT(dropout)
{
    struct quad q = quad_load(k->x, i, k->n);
    uint32_t words[4];

    dropout_words(k->seed, k->counter, i, words);
    EACH_OF_QUAD
    {
        q.of[e] = words[e] >= k->below ? q.of[e] * k->scale : 0;
    }
    quad_store(k->y, i, k->n, q);
}

/* ---- Replicas that share a device: every tensor becomes the sum, divided ---- */

#define TENSORS_MAX 64

struct tensors_sum_args {
    size_t elements, n;
    float divisor;
    float *x[TENSORS_MAX];
};

KERNEL_ELEMENT(tensors_sum)
{
    struct quad sum = quad_load(k->x[0], i, k->elements);

    for (size_t r = 1; r < k->n; r++) {
        struct quad q = quad_load(k->x[r], i, k->elements);

        EACH_OF_QUAD
        {
            sum.of[e] += q.of[e];
        }
    }
    EACH_OF_QUAD
    {
        sum.of[e] /= k->divisor;
    }
    for (size_t r = 0; r < k->n; r++)
        quad_store(k->x[r], i, k->elements, sum);
}

/* After a sum that was made elsewhere. */
struct divide_args {
    size_t n;
    float divisor;
    float *x;
};

KERNEL_ELEMENT(divide)
{
    struct quad q = quad_load(k->x, i, k->n);

    EACH_OF_QUAD
    {
        q.of[e] /= k->divisor;
    }
    quad_store(k->x, i, k->n, q);
}

#endif
