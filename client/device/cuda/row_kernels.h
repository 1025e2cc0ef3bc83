/* Kernels of rows, each by the lanes of a warp: softmax, losses, layer normalization. */
#ifndef CLIENT_DEVICE_CUDA_ROW_KERNELS_H
#define CLIENT_DEVICE_CUDA_ROW_KERNELS_H

#include "client/device/cuda/shared.h"
#include "client/device/ps_device_module.h"

/* ---- Softmax ---- */

/* The largest of row x: [n]. NaNs are left out: the sum of exp(x - largest) contains them. */
#define ROW_MAX(name, n, x)                                                                                            \
    LANES_HAVE(float, name##_of);                                                                                      \
    float name;                                                                                                        \
    EACH_LANE                                                                                                          \
    {                                                                                                                  \
        LANE(name##_of) = -INFINITY;                                                                                   \
        for (size_t c_ = lane; c_ < (n); c_ += LANES)                                                                  \
            if ((x)[c_] > LANE(name##_of))                                                                             \
                LANE(name##_of) = (x)[c_];                                                                             \
    }                                                                                                                  \
    name = lanes_max(name##_of)

struct softmax_args {
    size_t n;
    const float *x;
    float *p;
};

KERNEL_ROW(softmax)
{
    const float *x = k->x + i * k->n;
    float *p = k->p + i * k->n, sum;
    LANES_HAVE(float, part);
    ROW_MAX(max, k->n, x);

    EACH_LANE
    {
        for (size_t c = lane; c < k->n; c += LANES) {
            float power = math_exp_below(x[c] - max);

            p[c] = power;
            LANE(part) += power;
        }
    }
    sum = lanes_sum(part);
    EACH_LANE
    {
        for (size_t c = lane; c < k->n; c += LANES)
            p[c] /= sum;
    }
}

struct softmax_loss_args {
    size_t n;
    const float *x;
    const uint32_t *labels;
    float scale;
    float *loss, *dx; /* dx may be x, may be NULL */
    uint32_t *flags;
};

KERNEL_ROW(softmax_loss)
{
    const float *x = k->x + i * k->n;
    uint32_t label = k->labels[i];
    LANES_HAVE(float, part);
    float at_label, sum;
    ROW_MAX(max, k->n, x);

    at_label = label < k->n ? x[label] - max : NAN; /* before dx is written, which may be x */
    EACH_LANE
    {
        for (size_t c = lane; c < k->n; c += LANES)
            LANE(part) += math_exp_below(x[c] - max);
    }
    sum = lanes_sum(part);
    EACH_LANE
    {
        for (size_t c = lane; k->dx != NULL && c < k->n; c += LANES)
            k->dx[i * k->n + c] = (math_exp_below(x[c] - max) / sum - (c == label ? 1.0f : 0.0f)) * k->scale;
        if (lane == 0) {
            k->loss[i] = (float)elementary_log((double)sum) - at_label;
            if (label >= k->n)
                flag_raise(k->flags, FLAG_INDEX);
        }
    }
}

/* ---- Sigmoid and cross-entropy ---- */

struct sigmoid_loss_args {
    size_t n;
    const float *x, *targets;
    float scale;
    float *loss, *dx; /* dx may be x, may be NULL */
};

/* max(x, 0) - x t + log(1 + e^-|x|), whose gradient is s(x) - t (client/device/cpu/device_cpu_loss.c). */
KERNEL_ROW(sigmoid_loss)
{
    LANES_HAVE(float, part);
    float sum;

    EACH_LANE
    {
        for (size_t c = lane; c < k->n; c += LANES) {
            float x = k->x[i * k->n + c], target = k->targets[i * k->n + c], power = math_exp_below(-fabsf(x));

            LANE(part) += (x < 0 ? 0 : x) - x * target + math_log1p(power);
            if (k->dx != NULL)
                k->dx[i * k->n + c] = ((x < 0 ? power : 1.0f) / (1.0f + power) - target) * k->scale;
        }
    }
    sum = lanes_sum(part);
    EACH_LANE
    {
        if (lane == 0)
            k->loss[i] = sum;
    }
}

/* ---- The largest ---- */

/* Floats as numbers in the same order; 0 is below all. The two zeros are one. */
EVERYWHERE uint64_t
argmax_key(float x, size_t at)
{
    float positive = x + 0.0f; /* -0 becomes 0 */
    uint32_t bits;

    memcpy(&bits, &positive, sizeof bits);
    bits = bits >> 31 ? ~bits : bits | 0x80000000u;
    return (uint64_t)bits << 32 | (UINT32_MAX - (uint32_t)at); /* of equals, the first is the largest */
}

struct argmax_args {
    size_t n;
    const float *x;
    uint32_t *best;
};

/* As a loop with > would have it: a NaN is never larger, and when the first is one, nothing is larger than that. */
KERNEL_ROW(argmax)
{
    const float *x = k->x + i * k->n;
    LANES_HAVE(uint64_t, key);
    uint64_t largest;

    EACH_LANE
    {
        for (size_t c = lane; c < k->n; c += LANES)
            if (x[c] == x[c]) {
                uint64_t found = argmax_key(x[c], c);

                LANE(key) = found > LANE(key) ? found : LANE(key);
            }
    }
    largest = lanes_max_key(key);
    EACH_LANE
    {
        if (lane == 0)
            k->best[i] = largest == 0 || x[0] != x[0] ? 0 : UINT32_MAX - (uint32_t)largest;
    }
}

/* ---- Layer normalization (client/device/cpu/device_cpu_norm.c) ---- */

/* A row is read from memory once where its lanes can keep it: `keeps` quads each, of rows that are whole quads; 0: a
 * row of any length and place. Lane l has quads l, l + LANES ..., whether they are kept or not, so the order of adding
 * is the same. */
#define NORM_KEEPS(keeps) ((size_t)4 * LANES * (keeps))

#define EACH_NORM_QUAD(j, at)                                                                                          \
    UNROLLED for (size_t j = 0, at = lane; j < (keeps > 0 ? keeps : (QUADS(k->n) - 1) / LANES + 1); j++, at += LANES)

/* Quad `at` of row x: [n]; 0 behind its end. One that is kept is loaded without a branch, so that the loads of all do
 * not wait for one another. */
EVERYWHERE struct quad
norm_quad(const float *x, size_t at, size_t n, size_t keeps)
{
    struct quad q = {{0}};

    if (keeps == 0)
        return at < QUADS(n) ? quad_load(x, at, n) : q;
    q = ((const struct quad *)(const void *)x)[at < n / 4 ? at : 0];
    EACH_OF_QUAD
    {
        q.of[e] = at < n / 4 ? q.of[e] : 0;
    }
    return q;
}

EVERYWHERE void
norm_store(float *x, size_t at, size_t n, size_t keeps, struct quad q)
{
    if (at >= QUADS(n))
        return;
    if (keeps == 0)
        quad_store(x, at, n, q);
    else
        ((struct quad *)(void *)x)[at] = q;
}

struct norm_forward_args {
    size_t n;
    const float *x, *gamma, *beta;
    float epsilon;
    float *y, *mean, *rstd; /* y may be x */
};

ROWS_ONLY void
norm_forward_keeping(const struct norm_forward_args *k, size_t i, const size_t keeps, struct quad *kept)
{
#define NORM_X(j, at) (keeps > 0 ? kept[KEPT_AT(keeps, j)] : norm_quad(x, at, k->n, 0))
    const float *x = k->x + i * k->n;
    LANES_HAVE(float, of_x);
    LANES_HAVE(float, of_squares);
    float mean, rstd;

    EACH_LANE
    {
        if (keeps > 0)
            EACH_NORM_QUAD(j, at)
        kept[KEPT_AT(keeps, j)] = norm_quad(x, at, k->n, keeps);
        EACH_NORM_QUAD(j, at)
        {
            struct quad q = NORM_X(j, at);

            EACH_OF_QUAD
            {
                LANE(of_x) += q.of[e];
            }
        }
    }
    mean = lanes_sum(of_x) / (float)k->n;
    EACH_LANE
    {
        EACH_NORM_QUAD(j, at)
        {
            struct quad q = NORM_X(j, at);

            EACH_OF_QUAD
            {
                float off = q.of[e] - mean;

                LANE(of_squares) += 4 * at + e < k->n ? off * off : 0;
            }
        }
    }
    rstd = 1 / sqrtf(lanes_sum(of_squares) / (float)k->n + k->epsilon);
    EACH_LANE
    {
        EACH_NORM_QUAD(j, at)
        {
            struct quad q = NORM_X(j, at), gamma = norm_quad(k->gamma, at, k->n, keeps),
                        beta = norm_quad(k->beta, at, k->n, keeps);

            EACH_OF_QUAD
            {
                q.of[e] = (q.of[e] - mean) * rstd * gamma.of[e] + beta.of[e];
            }
            norm_store(k->y + i * k->n, at, k->n, keeps, q);
        }
        if (lane == 0) {
            k->mean[i] = mean;
            k->rstd[i] = rstd;
        }
    }
#undef NORM_X
}

struct norm_backward_args {
    size_t n;
    const float *x, *gamma, *mean, *rstd, *dy;
    float *dx; /* may be dy */
};

EVERYWHERE struct quad
norm_quad_of_g(const struct norm_backward_args *k, const float *dy, size_t at, size_t keeps)
{
    struct quad g = norm_quad(dy, at, k->n, keeps), gamma = norm_quad(k->gamma, at, k->n, keeps);

    EACH_OF_QUAD
    {
        g.of[e] *= gamma.of[e];
    }
    return g;
}

/* What is kept is dy times gamma: x besides would be too much for the registers. */
ROWS_ONLY void
norm_backward_keeping(const struct norm_backward_args *k, size_t i, const size_t keeps, struct quad *kept)
{
#define NORM_G(j, at) (keeps > 0 ? kept[KEPT_AT(keeps, j)] : norm_quad_of_g(k, dy, at, 0))
    const float *x = k->x + i * k->n, *dy = k->dy + i * k->n;
    float mean = k->mean[i], rstd = k->rstd[i], mean_g, mean_gh;
    LANES_HAVE(float, of_g);
    LANES_HAVE(float, of_gh);

    EACH_LANE
    {
        if (keeps > 0)
            EACH_NORM_QUAD(j, at)
        kept[KEPT_AT(keeps, j)] = norm_quad_of_g(k, dy, at, keeps);
        EACH_NORM_QUAD(j, at)
        {
            struct quad q = norm_quad(x, at, k->n, keeps), g = NORM_G(j, at);

            EACH_OF_QUAD
            {
                LANE(of_g) += g.of[e];
                LANE(of_gh) += g.of[e] * ((q.of[e] - mean) * rstd);
            }
        }
    }
    mean_g = lanes_sum(of_g) / (float)k->n;
    mean_gh = lanes_sum(of_gh) / (float)k->n;
    EACH_LANE
    {
        EACH_NORM_QUAD(j, at)
        {
            struct quad q = norm_quad(x, at, k->n, keeps), g = NORM_G(j, at);

            EACH_OF_QUAD
            {
                q.of[e] = rstd * (g.of[e] - mean_g - (q.of[e] - mean) * rstd * mean_gh);
            }
            norm_store(k->dx + i * k->n, at, k->n, keeps, q);
        }
    }
#undef NORM_G
}

#define norm_forward_1_args    norm_forward_args
#define norm_forward_8_args    norm_forward_args
#define norm_forward_32_args   norm_forward_args
#define norm_forward_any_args  norm_forward_args
#define norm_backward_1_args   norm_backward_args
#define norm_backward_8_args   norm_backward_args
#define norm_backward_32_args  norm_backward_args
#define norm_backward_any_args norm_backward_args

#define NORM_KERNELS(name, keeps)                                                                                      \
    KERNEL_ROW(norm_forward_##name)                                                                                    \
    {                                                                                                                  \
        struct quad kept[LANES_KEEP(keeps)];                                                                           \
                                                                                                                       \
        norm_forward_keeping(k, i, keeps, kept);                                                                       \
    }                                                                                                                  \
                                                                                                                       \
    KERNEL_ROW(norm_backward_##name)                                                                                   \
    {                                                                                                                  \
        struct quad kept[LANES_KEEP(keeps)];                                                                           \
                                                                                                                       \
        norm_backward_keeping(k, i, keeps, kept);                                                                      \
    }

NORM_KERNELS(1, 1)
NORM_KERNELS(8, 8)
NORM_KERNELS(32, 32)
NORM_KERNELS(any, 0)
#undef NORM_KERNELS

#endif
