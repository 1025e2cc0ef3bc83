#include "series.h"

#include <stddef.h>
#include <stdlib.h>

int
series_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double
series_quantile(const struct series *s, double q)
{
    struct series sorted = *s;

    qsort(sorted.value, (size_t)s->n, sizeof s->value[0], series_compare);
    return sorted.value[(int)((s->n - 1) * q + 0.5)];
}

double
series_spread(const struct series *s)
{
    return (series_quantile(s, 0.75) - series_quantile(s, 0.25)) / series_quantile(s, 0.5);
}

double
series_ratio(const struct series *a, const struct series *b)
{
    struct series ratios = {.n = a->n};

    for (int i = 0; i < a->n; i++)
        ratios.value[i] = a->value[i] / b->value[i];
    return series_quantile(&ratios, 0.5);
}
