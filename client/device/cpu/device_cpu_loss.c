/* Functions of a network's outputs: probabilities, losses with their gradients, the largest. */
#include "client/device/cpu/device_cpu.h"
#include "client/device/cpu/device_cpu_math.h"
#include "common/core/model/elementary.h"

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
    ELEMENTWISE
    for (size_t c = 0; c < classes; c++)
        p[c] = math_exp(x[c] - max);
    return math_sum(classes, p);
}

void
cpu_softmax(ps_device *d, size_t rows, size_t classes, const float *x, float *p)
{
    (void)d;
    for (size_t r = 0; r < rows; r++, x += classes, p += classes) {
        float sum = row_exp(classes, x, row_max(classes, x), p);
        for (size_t c = 0; c < classes; c++)
            p[c] /= sum;
    }
}

/* As row_exp() without storing the powers, to the same bits. */
static float
row_sum_exp(size_t classes, const float *x, float max)
{
    float lane[MATH_LANES] = {0};

    for (size_t i = 0; i < classes; i += MATH_LANES)
        for (size_t k = 0; k < MIN(classes - i, MATH_LANES); k++)
            lane[k] += math_exp(x[i + k] - max);
    return math_add_lanes(lane);
}

void
cpu_softmax_cross_entropy(ps_device *d, size_t rows, size_t classes, const float *x, const uint32_t *labels,
                          float scale, float *loss, float *dx)
{
    (void)d;
    for (size_t r = 0; r < rows; r++, x += classes) {
        ps_assert(labels[r] < classes);
        float max = row_max(classes, x), at_label = x[labels[r]] - max; /* dx may be x: read before */
        float sum = dx != NULL ? row_exp(classes, x, max, dx) : row_sum_exp(classes, x, max);

        loss[r] = (float)elementary_log((double)sum) - at_label;
        if (dx == NULL)
            continue;
        for (size_t c = 0; c < classes; c++)
            dx[c] = (dx[c] / sum - (c == labels[r] ? 1.0f : 0.0f)) * scale;
        dx += classes;
    }
}

/* -t log s(x) - (1 - t) log(1 - s(x)) for the sigmoid s, which is max(x, 0) - x t + log(1 + e^-|x|): nothing overflows,
 * and no log meets a 0. gradient: s(x) - t. */
static float
sigmoid_loss(float x, float target, float *gradient)
{
    float power = math_exp(-fabsf(x));

    *gradient = (x < 0 ? power : 1.0f) / (1.0f + power) - target;
    return (x < 0 ? 0 : x) - x * target + math_log1p(power);
}

/* One row. Each part is read before it is written: dx may be x. */
static float
row_sigmoid_cross_entropy(size_t n, const float *x, const float *targets, float scale, float *dx)
{
    float lane[MATH_LANES] = {0}, gradient[MATH_LANES];

    for (size_t i = 0; i < n; i += MATH_LANES) {
        size_t part = MIN(n - i, MATH_LANES);

        for (size_t k = 0; k < part; k++)
            lane[k] += sigmoid_loss(x[i + k], targets[i + k], &gradient[k]);
        for (size_t k = 0; dx != NULL && k < part; k++)
            dx[i + k] = gradient[k] * scale;
    }
    return math_add_lanes(lane);
}

void
cpu_sigmoid_cross_entropy(ps_device *d, size_t rows, size_t n, const float *x, const float *targets, float scale,
                          float *loss, float *dx)
{
    (void)d;
    for (size_t r = 0; r < rows; r++)
        loss[r] = row_sigmoid_cross_entropy(n, x + r * n, targets + r * n, scale, dx != NULL ? dx + r * n : NULL);
}

void
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
