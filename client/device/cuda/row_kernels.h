/* Kernels of rows, each by the lanes of a warp: softmax, losses, layer normalization, and sums over everything. */
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
            float power = math_exp(x[c] - max);

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
            LANE(part) += math_exp(x[c] - max);
    }
    sum = lanes_sum(part);
    EACH_LANE
    {
        for (size_t c = lane; k->dx != NULL && c < k->n; c += LANES)
            k->dx[i * k->n + c] = (math_exp(x[c] - max) / sum - (c == label ? 1.0f : 0.0f)) * k->scale;
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
            float x = k->x[i * k->n + c], target = k->targets[i * k->n + c], power = math_exp(-fabsf(x));

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

struct norm_forward_args {
    size_t n;
    const float *x, *gamma, *beta;
    float epsilon;
    float *y, *mean, *rstd; /* y may be x */
};

KERNEL_ROW(norm_forward)
{
    const float *x = k->x + i * k->n;
    LANES_HAVE(float, of_x);
    LANES_HAVE(float, of_squares);
    float mean, rstd;

    EACH_LANE
    {
        for (size_t c = lane; c < k->n; c += LANES)
            LANE(of_x) += x[c];
    }
    mean = lanes_sum(of_x) / (float)k->n;
    EACH_LANE
    {
        for (size_t c = lane; c < k->n; c += LANES)
            LANE(of_squares) += (x[c] - mean) * (x[c] - mean);
    }
    rstd = 1 / sqrtf(lanes_sum(of_squares) / (float)k->n + k->epsilon);
    EACH_LANE
    {
        for (size_t c = lane; c < k->n; c += LANES)
            k->y[i * k->n + c] = (x[c] - mean) * rstd * k->gamma[c] + k->beta[c];
        if (lane == 0) {
            k->mean[i] = mean;
            k->rstd[i] = rstd;
        }
    }
}

struct norm_backward_args {
    size_t n;
    const float *x, *gamma, *mean, *rstd, *dy;
    float *dx; /* may be dy */
};

KERNEL_ROW(norm_backward)
{
    const float *x = k->x + i * k->n, *dy = k->dy + i * k->n;
    float mean = k->mean[i], rstd = k->rstd[i], mean_g, mean_gh;
    LANES_HAVE(float, of_g);
    LANES_HAVE(float, of_gh);

    EACH_LANE
    {
        for (size_t c = lane; c < k->n; c += LANES) {
            float g = dy[c] * k->gamma[c];

            LANE(of_g) += g;
            LANE(of_gh) += g * ((x[c] - mean) * rstd);
        }
    }
    mean_g = lanes_sum(of_g) / (float)k->n;
    mean_gh = lanes_sum(of_gh) / (float)k->n;
    EACH_LANE
    {
        for (size_t c = lane; c < k->n; c += LANES)
            k->dx[i * k->n + c] = rstd * (dy[c] * k->gamma[c] - mean_g - (x[c] - mean) * rstd * mean_gh);
    }
}

/* ---- Over everything: element i adds up i, i + parts, i + 2 parts ...; then one row adds up the parts ---- */

struct count_equal_args {
    size_t n, parts;
    const uint32_t *a, *b;
    uint64_t *part;
};

KERNEL_ELEMENT(count_equal)
{
    uint64_t count = 0;

    for (size_t at = i; at < k->n; at += k->parts)
        count += k->a[at] == k->b[at];
    k->part[i] = count;
}

struct count_parts_args {
    size_t parts;
    uint64_t *part; /* the sum becomes part[parts] */
};

KERNEL_ROW(count_parts)
{
    LANES_HAVE(uint64_t, of_lane);
    uint64_t sum;

    (void)i;
    EACH_LANE
    {
        for (size_t c = lane; c < k->parts; c += LANES)
            LANE(of_lane) += k->part[c];
    }
    sum = lanes_sum_count(of_lane);
    EACH_LANE
    {
        if (lane == 0)
            k->part[k->parts] = sum;
    }
}

struct square_sum_args {
    size_t n, parts;
    const float *x;
    double *part;
};

KERNEL_ELEMENT(square_sum)
{
    double sum = 0;

    for (size_t at = i; at < k->n; at += k->parts)
        sum += (double)k->x[at] * (double)k->x[at];
    k->part[i] = sum;
}

struct square_parts_args {
    size_t parts;
    double *part; /* the sum becomes part[parts] */
};

KERNEL_ROW(square_parts)
{
    LANES_HAVE(double, of_lane);
    double sum;

    (void)i;
    EACH_LANE
    {
        for (size_t c = lane; c < k->parts; c += LANES)
            LANE(of_lane) += k->part[c];
    }
    sum = lanes_sum_double(of_lane);
    EACH_LANE
    {
        if (lane == 0)
            k->part[k->parts] = sum;
    }
}

#endif
