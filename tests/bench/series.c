#include "tests/bench/series.h"

#include <stdlib.h>

#include "common/core/base/base.h"

static int
series_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double
quantile(double *values, size_t n, double q)
{
    qsort(values, n, sizeof *values, series_compare);
    return values[(size_t)((double)(n - 1) * q + 0.5)];
}

void
series_add(struct series *s, double value)
{
    ps_assert(s->n < SERIES_MAX);
    s->value[s->n++] = value;
}

double
series_quantile(const struct series *s, double q)
{
    struct series sorted = *s;

    return quantile(sorted.value, (size_t)sorted.n, q);
}

double
series_median(const struct series *s)
{
    return series_quantile(s, 0.5);
}

double
series_spread(const struct series *s)
{
    double median = series_median(s);

    return median > 0 ? (series_quantile(s, 0.75) - series_quantile(s, 0.25)) / median : 0;
}

double
series_ratio(const struct series *a, const struct series *b)
{
    struct series ratios = {.n = 0};

    for (int i = 0; i < MIN(a->n, b->n); i++)
        series_add(&ratios, a->value[i] / b->value[i]);
    return series_median(&ratios);
}
