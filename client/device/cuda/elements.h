/* Kernels of single elements: activations, biases, column sums, pools, embeddings, sparse rows, dropout. Each adds in
 * the order in which the CPU device does, so but for matrix products the results are the same bits. */
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

/* ---- Filling ---- */

struct fill_args {
    float value;
    float *x;
};

KERNEL_ELEMENT(fill)
{
    k->x[i] = k->value;
}

/* Every row of y: [rows, n] becomes b. */
struct fill_rows_args {
    size_t n;
    const float *b;
    float *y;
};

KERNEL_ELEMENT(fill_rows)
{
    size_t row = i, column = split(&row, k->n);

    k->y[i] = k->b[column];
}

/* ---- Activations ---- */

struct forward_args {
    const float *x;
    float *y;
};

struct backward_args {
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

KERNEL_ELEMENT(relu_forward)
{
    float x = k->x[i];

    k->y[i] = x < 0 ? 0 : x; /* in this order a NaN stays */
}

KERNEL_ELEMENT(relu_backward)
{
    k->dx[i] = k->with[i] > 0 ? k->dy[i] : 0;
}

KERNEL_ELEMENT(tanh_forward)
{
    k->y[i] = math_tanh(k->x[i]);
}

KERNEL_ELEMENT(tanh_backward)
{
    float y = k->with[i];

    k->dx[i] = k->dy[i] * (1 - y * y);
}

KERNEL_ELEMENT(sigmoid_forward)
{
    k->y[i] = math_sigmoid(k->x[i]);
}

KERNEL_ELEMENT(sigmoid_backward)
{
    float y = k->with[i];

    k->dx[i] = k->dy[i] * (y * (1 - y));
}

/* Beyond this the normal distribution is 0 or 1 in f32; from here on infinity times 0 would be NaN. */
#define GELU_FAR 15.0f

KERNEL_ELEMENT(gelu_forward)
{
    float x = k->x[i], density, below;

    math_normal(x, &density, &below);
    k->y[i] = (x < -GELU_FAR ? -GELU_FAR : x) * below;
}

KERNEL_ELEMENT(gelu_backward)
{
    float x = k->with[i], near = x < -GELU_FAR ? -GELU_FAR : x > GELU_FAR ? GELU_FAR : x, density, below;

    math_normal(near, &density, &below);
    k->dx[i] = k->dy[i] * (below + near * density);
}

/* ---- Biases, and sums of columns ---- */

struct bias_forward_args {
    size_t n;
    const float *x, *b;
    float *y;
};

KERNEL_ELEMENT(bias_forward)
{
    size_t row = i, column = split(&row, k->n);

    k->y[i] = k->x[i] + k->b[column];
}

/* Sums over rows are made of sums over runs of rows: more threads, and a smaller error. Element i is column i % n of
 * run i / n. dy: [rows, n]; part: [runs, n]. With x, the sums are of dy times the normalized x: layer norm's gamma. */
struct column_part_args {
    size_t rows, n, run;
    const float *dy;
    const float *x, *mean, *rstd; /* x NULL: 1 */
    float *part;
};

KERNEL_ELEMENT(column_part)
{
    size_t number = i, column = split(&number, k->n), first = number * k->run;
    size_t end = k->rows - first < k->run ? k->rows : first + k->run;
    float sum = 0;

    for (size_t r = first; r < end; r++) {
        size_t at = r * k->n + column;

        sum += k->x == NULL ? k->dy[at] : k->dy[at] * ((k->x[at] - k->mean[r]) * k->rstd[r]);
    }
    k->part[i] = sum;
}

/* sum: [n], of the runs' parts. */
struct column_sum_args {
    size_t runs, n;
    const float *part;
    float *sum;
};

KERNEL_ELEMENT(column_sum)
{
    double sum = 0;

    for (size_t r = 0; r < k->runs; r++)
        sum += (double)k->part[r * k->n + i];
    k->sum[i] = (float)sum;
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

/* A NaN is larger than anything, so that it is not hidden; the first of equals stays. */
KERNEL_ELEMENT(max_pool_forward)
{
    const struct ps_module_pool2d *p = &k->p;
    struct element_place at = element_place_of(i, p->y.out, p->x.out, p->channels);
    struct window_part down = part_of_window(&p->y, at.y), along = part_of_window(&p->x, at.x);
    const float *x = k->x + at.row * p->y.size * p->x.size * p->channels;
    size_t best = (down.first * p->x.size + along.first) * p->channels + at.channel;
    float kept = x[best];

    for (size_t y = down.first; y < down.first + down.count; y++)
        for (size_t c = along.first; c < along.first + along.count; c++) {
            size_t is = (y * p->x.size + c) * p->channels + at.channel;
            float found = x[is];

            if (found > kept || found != found) {
                kept = found;
                best = is;
            }
        }
    k->y[i] = kept;
    k->best[i] = (uint32_t)best;
}

KERNEL_ELEMENT(max_pool_backward)
{
    const struct ps_module_pool2d *p = &k->p;
    struct element_place at = element_place_of(i, p->y.size, p->x.size, p->channels);
    struct element_windows down = windows_over(&p->y, at.y), along = windows_over(&p->x, at.x);
    size_t is = (at.y * p->x.size + at.x) * p->channels + at.channel;
    float sum = 0;

    for (size_t y = down.first; y < down.end; y++)
        for (size_t x = along.first; x < along.end; x++) {
            size_t from = ((at.row * p->y.out + y) * p->x.out + x) * p->channels + at.channel;

            if (k->best[from] == is)
                sum += k->dy[from];
        }
    k->dx[i] = sum;
}

KERNEL_ELEMENT(avg_pool_forward)
{
    const struct ps_module_pool2d *p = &k->p;
    struct element_place at = element_place_of(i, p->y.out, p->x.out, p->channels);
    struct window_part down = part_of_window(&p->y, at.y), along = part_of_window(&p->x, at.x);
    float sum = 0;

    for (size_t y = down.first; y < down.first + down.count; y++)
        for (size_t x = along.first; x < along.first + along.count; x++)
            sum += k->x[((at.row * p->y.size + y) * p->x.size + x) * p->channels + at.channel];
    k->y[i] = sum / (float)(down.count * along.count);
}

KERNEL_ELEMENT(avg_pool_backward)
{
    const struct ps_module_pool2d *p = &k->p;
    struct element_place at = element_place_of(i, p->y.size, p->x.size, p->channels);
    struct element_windows down = windows_over(&p->y, at.y), along = windows_over(&p->x, at.x);
    float sum = 0;

    for (size_t y = down.first; y < down.end; y++)
        for (size_t x = along.first; x < along.end; x++) {
            size_t from = ((at.row * p->y.out + y) * p->x.out + x) * p->channels + at.channel;

            sum += k->dy[from] / (float)(part_of_window(&p->y, y).count * part_of_window(&p->x, x).count);
        }
    k->dx[i] = sum;
}

/* ---- Chains: the places of a list that name the same number, in their order ---- */

/* A sum over all places that name one number, in their order and without atomics: each place finds the next one that
 * names the same; a place with none before it begins a chain, and adds up all of it. */
#define CHAIN_END UINT32_MAX

struct chain_args {
    size_t n, numbers;  /* numbers are below */
    const uint32_t *of; /* [n] */
    uint32_t *next;     /* [n] */
    uint32_t *inner;    /* [n], 0 before: 1 when one comes before it */
    uint32_t *flags;
};

KERNEL_ELEMENT(chain)
{
    uint32_t number = k->of[i];
    size_t next = i + 1;

    if (number >= k->numbers) { /* belongs to no chain */
        flag_raise(k->flags, FLAG_INDEX);
        k->next[i] = CHAIN_END;
        k->inner[i] = 1;
        return;
    }
    while (next < k->n && k->of[next] != number)
        next++;
    k->next[i] = next < k->n ? (uint32_t)next : CHAIN_END;
    if (next < k->n)
        k->inner[next] = 1; /* by no other thread */
}

/* ---- Embedding ---- */

struct embedding_forward_args {
    size_t vocabulary, width;
    const uint32_t *ids;
    const float *table;
    float *y;
    uint32_t *flags;
};

KERNEL_ELEMENT(embedding_forward)
{
    size_t row = i, column = split(&row, k->width);
    uint32_t id = k->ids[row];

    if (id < k->vocabulary)
        k->y[i] = k->table[id * k->width + column];
    else {
        flag_raise(k->flags, FLAG_INDEX);
        k->y[i] = NAN;
    }
}

/* Element i: column i % width of the chain that begins at place i / width. dtable holds the sums of places before. */
struct embedding_backward_args {
    size_t width;
    const uint32_t *ids, *next, *inner;
    const float *dy;
    float *dtable;
};

KERNEL_ELEMENT(embedding_backward)
{
    size_t place = i, column = split(&place, k->width);
    float *to, sum;

    if (k->inner[place] != 0)
        return;
    to = k->dtable + k->ids[place] * k->width + column;
    sum = *to;
    for (size_t at = place; at != CHAIN_END; at = k->next[at])
        sum += k->dy[at * k->width + column];
    *to = sum;
}

/* ---- Sparse rows ---- */

struct sparse_forward_args {
    size_t in, out;
    const uint64_t *start;
    const uint32_t *column;
    const float *value, *w, *b; /* b may be NULL */
    float *y;
    uint32_t *flags;
};

KERNEL_ELEMENT(sparse_forward)
{
    size_t row = i, c = split(&row, k->out);
    float sum = k->b != NULL ? k->b[c] : 0;

    for (uint64_t at = k->start[row]; at < k->start[row + 1]; at++) {
        uint32_t column = k->column[at];

        if (column < k->in)
            sum += k->value[at] * k->w[column * k->out + c];
        else {
            flag_raise(k->flags, FLAG_INDEX);
            sum = NAN;
        }
    }
    k->y[i] = sum;
}

/* The row of entry number `entry`: the last one that starts at or before it. start: [rows + 1]. */
EVERYWHERE size_t
row_of_entry(const uint64_t *start, size_t rows, uint64_t entry)
{
    size_t low = 0, high = rows; /* start[low] <= entry < start[high] */

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (start[middle] <= entry)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* As embedding_backward, over entries `first` and on: those that have their chains' places. */
struct sparse_backward_args {
    size_t rows, out;
    uint64_t first;
    const uint64_t *start;
    const uint32_t *column, *next, *inner;
    const float *value, *dy;
    float *dw;
};

KERNEL_ELEMENT(sparse_backward)
{
    size_t place = i, c = split(&place, k->out);
    float *to, sum;

    if (k->inner[place] != 0)
        return;
    to = k->dw + k->column[k->first + place] * k->out + c;
    sum = *to;
    for (size_t at = place; at != CHAIN_END; at = k->next[at]) {
        uint64_t entry = k->first + at;

        sum += k->value[entry] * k->dy[row_of_entry(k->start, k->rows, entry) * k->out + c];
    }
    *to = sum;
}

/* ---- Dropout: element i is the four of block i ---- */

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
    size_t left = k->n - 4 * i;
    uint32_t words[4];

    dropout_words(k->seed, k->counter, i, words);
    for (size_t e = 0; e < (left < 4 ? left : 4); e++) {
        float kept = k->x[4 * i + e] * k->scale;

        k->y[4 * i + e] = words[e] >= k->below ? kept : 0;
    }
}

/* ---- Replicas that share a device: every tensor becomes the sum, divided ---- */

#define TENSORS_MAX 64

struct tensors_sum_args {
    size_t n;
    float divisor;
    float *x[TENSORS_MAX];
};

KERNEL_ELEMENT(tensors_sum)
{
    float sum = k->x[0][i];

    for (size_t r = 1; r < k->n; r++)
        sum += k->x[r][i];
    sum /= k->divisor;
    for (size_t r = 0; r < k->n; r++)
        k->x[r][i] = sum;
}

/* After a sum that was made elsewhere. */
struct divide_args {
    float divisor;
    float *x;
};

KERNEL_ELEMENT(divide)
{
    k->x[i] /= k->divisor;
}

#endif
