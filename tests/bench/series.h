/* Samples of one figure: medians, spreads, and ratios of those that were taken in turns. */
#ifndef TESTS_BENCH_SERIES_H
#define TESTS_BENCH_SERIES_H

#include <stddef.h>

#define SERIES_MAX 101

struct series {
    double value[SERIES_MAX]; /* in the order of the rounds */
    int n;
};

void series_add(struct series *s, double value);

/* The value that a part q of them does not exceed. */
double series_quantile(const struct series *s, double q);
double series_median(const struct series *s);

/* Between the quartiles, as a part of the median. */
double series_spread(const struct series *s);

/* The median over the rounds of a / b: the two of a round ran right after each other, so that other load on the machine
 * affects both. */
double series_ratio(const struct series *a, const struct series *b);

/* Sorts the n >= 1 values; the value that a part q of them does not exceed. */
double quantile(double *values, size_t n, double q);

#endif
