/* What a network's outputs mean: probabilities, losses with their gradients, the largest. */
#include "client/device_cpu.h"

#include <math.h>

#include "common/base.h"

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
    float sum = 0;

    for (size_t c = 0; c < classes; c++) {
        p[c] = expf(x[c] - max);
        sum += p[c];
    }
    return sum;
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

static float
row_sum_exp(size_t classes, const float *x, float max)
{
    float sum = 0;

    for (size_t c = 0; c < classes; c++)
        sum += expf(x[c] - max);
    return sum;
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

        loss[r] = logf(sum) - at_label;
        if (dx == NULL)
            continue;
        for (size_t c = 0; c < classes; c++)
            dx[c] = (dx[c] / sum - (c == labels[r] ? 1.0f : 0.0f)) * scale;
        dx += classes;
    }
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
