/* Products with sparse rows: one pass over the entries, in their order. */
#include "client/device/cpu/device_cpu.h"

#include <string.h>

#include "common/core/base/base.h"

/* One output, as in logistic regression: a row is a sum of its own. */
static void
forward_one(size_t rows, size_t in, const uint64_t *start, const uint32_t *column, const float *value, const float *w,
            float b, float *y)
{
    for (size_t r = 0; r < rows; r++) {
        float sum = b;

        for (uint64_t i = start[r]; i < start[r + 1]; i++) {
            ps_assert(column[i] < in);
            sum += value[i] * w[column[i]];
        }
        y[r] = sum;
    }
}

void
cpu_sparse_forward(ps_device *d, size_t rows, size_t in, size_t out, const uint64_t *start, const uint32_t *column,
                   const float *value, const float *w, const float *b, float *y)
{
    (void)d;
    if (out == 1) {
        forward_one(rows, in, start, column, value, w, b != NULL ? *b : 0, y);
        return;
    }
    for (size_t r = 0; r < rows; r++) {
        float *restrict to = y + r * out;

        if (b != NULL)
            memcpy(to, b, out * sizeof *to);
        else
            memset(to, 0, out * sizeof *to);
        for (uint64_t i = start[r]; i < start[r + 1]; i++) {
            ps_assert(column[i] < in);
            for (size_t k = 0; k < out; k++)
                to[k] += value[i] * w[column[i] * out + k];
        }
    }
}

void
cpu_sparse_backward(ps_device *d, size_t rows, size_t in, size_t out, const uint64_t *start, const uint32_t *column,
                    const float *value, const float *dy, float *dw, float *db)
{
    memset(dw, 0, in * out * sizeof *dw);
    for (size_t r = 0; r < rows; r++)
        for (uint64_t i = start[r]; i < start[r + 1]; i++) {
            float *restrict to = dw + column[i] * out;

            ps_assert(column[i] < in);
            for (size_t k = 0; k < out; k++)
                to[k] += value[i] * dy[r * out + k];
        }
    if (db != NULL)
        cpu_bias_backward(d, rows, out, dy, db);
}
