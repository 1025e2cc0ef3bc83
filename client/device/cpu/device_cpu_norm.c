/* Layer normalization: each row by its own mean and deviation. With h = (x - mean) rstd and g = dy gamma,
 *
 *     y  = gamma h + beta
 *     dx = rstd (g - mean of g - h mean of (g h))
 *     dgamma = sum over rows of dy h,  dbeta = sum over rows of dy */
#include "client/device/cpu/device_cpu.h"
#include "client/device/cpu/device_cpu_math.h"

/* The mean first: the sum of squares minus the square of the sum would lose the small deviations of large numbers. */
static float
mean_square_from(size_t n, const float *x, float mean)
{
    float lane[MATH_LANES] = {0};

    for (size_t i = 0; i < n; i += MATH_LANES)
        for (size_t k = 0; k < MIN(n - i, MATH_LANES); k++)
            lane[k] += (x[i + k] - mean) * (x[i + k] - mean);
    return math_add_lanes(lane) / (float)n;
}

void
cpu_layer_norm_forward(ps_device *d, size_t rows, size_t n, const float *x, const float *gamma, const float *beta,
                       float epsilon, float *y, float *mean, float *rstd)
{
    (void)d;
    for (size_t r = 0; r < rows; r++, x += n, y += n) {
        float m = math_sum(n, x) / (float)n, s = 1 / sqrtf(mean_square_from(n, x, m) + epsilon);

        ELEMENTWISE
        for (size_t i = 0; i < n; i++)
            y[i] = (x[i] - m) * s * gamma[i] + beta[i];
        mean[r] = m;
        rstd[r] = s;
    }
}

/* dx of one row. */
static void
row_backward(size_t n, const float *x, const float *gamma, float mean, float rstd, const float *dy, float *dx)
{
    float of_g[MATH_LANES] = {0}, of_gh[MATH_LANES] = {0}, mean_g, mean_gh;

    for (size_t i = 0; i < n; i += MATH_LANES)
        for (size_t k = 0; k < MIN(n - i, MATH_LANES); k++) {
            float g = dy[i + k] * gamma[i + k];

            of_g[k] += g;
            of_gh[k] += g * ((x[i + k] - mean) * rstd);
        }
    mean_g = math_add_lanes(of_g) / (float)n;
    mean_gh = math_add_lanes(of_gh) / (float)n;
    ELEMENTWISE
    for (size_t i = 0; i < n; i++)
        dx[i] = rstd * (dy[i] * gamma[i] - mean_g - (x[i] - mean) * rstd * mean_gh);
}

/* sum: [columns] += column sums of dy h. */
static void
add_products(size_t rows, size_t columns, size_t n, const float *restrict x, const float *restrict mean,
             const float *restrict rstd, const float *restrict dy, float *restrict sum)
{
    float part[CPU_SUM_COLUMNS] = {0};

    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            part[c] += dy[r * n + c] * ((x[r * n + c] - mean[r]) * rstd[r]);
    for (size_t c = 0; c < columns; c++)
        sum[c] += part[c];
}

void
cpu_layer_norm_backward(ps_device *d, size_t rows, size_t n, const float *x, const float *gamma, const float *mean,
                        const float *rstd, const float *dy, float *dx, float *dgamma, float *dbeta)
{
    memset(dgamma, 0, n * sizeof *dgamma);
    for (size_t c = 0; c < n; c += CPU_SUM_COLUMNS)
        for (size_t r = 0; r < rows; r += CPU_SUM_ROWS)
            add_products(MIN(rows - r, CPU_SUM_ROWS), MIN(n - c, CPU_SUM_COLUMNS), n, x + r * n + c, mean + r, rstd + r,
                         dy + r * n + c, dgamma + c);
    cpu_bias_backward(d, rows, n, dy, dbeta);
    for (size_t r = 0; dx != NULL && r < rows; r++) /* last: dx may be dy */
        row_backward(n, x + r * n, gamma, mean[r], rstd[r], dy + r * n, dx + r * n);
}
