/* Rounds of a measurement: medians, spreads, and ratios of those that were measured in turns. */
#ifndef TESTS_BENCH_SERIES_H
#define TESTS_BENCH_SERIES_H

#define SERIES_MAX 101

struct series {
    double value[SERIES_MAX]; /* in the order of the rounds */
    int n;
};

/* The value that a part q of them does not exceed. */
double series_quantile(const struct series *s, double q);

/* Between the quartiles, as a part of the median. */
double series_spread(const struct series *s);

/* The median over the rounds of a / b: the two of a round ran right after each other, so that what else the machine did
 * meanwhile weighs on both. */
double series_ratio(const struct series *a, const struct series *b);

/* For qsort(): ascending doubles. */
int series_compare(const void *a, const void *b);

#endif
