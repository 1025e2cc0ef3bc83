/* Dense layers and biases. */
#include "client/device/cpu/device_cpu.h"

#include <string.h>

#include "common/core/base/base.h"

void
cpu_dense_forward(ps_device *d, size_t rows, size_t in, size_t out, const float *x, const float *w, const float *b,
                  float *y)
{
    (void)d;
    if (b != NULL)
        for (size_t r = 0; r < rows; r++)
            memcpy(y + r * out, b, out * sizeof *y);
    cpu_product(false, false, rows, out, in, x, w, b != NULL ? 1 : 0, y);
}

void
cpu_dense_backward(ps_device *d, size_t rows, size_t in, size_t out, const float *x, const float *w, const float *dy,
                   float *dx, float *dw, float *db)
{
    cpu_product(true, false, in, out, rows, x, dy, 0, dw);
    if (db != NULL)
        cpu_bias_backward(d, rows, out, dy, db);
    if (dx != NULL)
        cpu_product(false, true, rows, in, out, dy, w, 0, dx);
}

void
cpu_bias_forward(ps_device *d, size_t rows, size_t n, const float *x, const float *b, float *y)
{
    (void)d;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < n; i++)
            y[r * n + i] = x[r * n + i] + b[i];
}

static void
add_rows(size_t rows, size_t columns, size_t stride, const float *restrict dy, float *restrict sum)
{
    float part[CPU_SUM_COLUMNS] = {0};

    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            part[c] += dy[r * stride + c];
    for (size_t c = 0; c < columns; c++)
        sum[c] += part[c];
}

void
cpu_bias_backward(ps_device *d, size_t rows, size_t n, const float *dy, float *db)
{
    (void)d;
    memset(db, 0, n * sizeof *db);
    for (size_t c = 0; c < n; c += CPU_SUM_COLUMNS)
        for (size_t r = 0; r < rows; r += CPU_SUM_ROWS)
            add_rows(MIN(rows - r, CPU_SUM_ROWS), MIN(n - c, CPU_SUM_COLUMNS), n, dy + r * n + c, db + c);
}
