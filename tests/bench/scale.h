/* The position of a value in the picture, and the round values at the axis. Pure. */
#ifndef TESTS_BENCH_SCALE_H
#define TESTS_BENCH_SCALE_H

#include <stdbool.h>
#include <stddef.h>

#define TICKS_MAX 12

struct scale {
    double low, high; /* values, low < high; above 0 with log */
    bool log;
    double from, to; /* where they lie */
};

/* From the values' ends, rounded outwards to ticks; from 0 unless log. */
struct scale scale_of(double low, double high, bool log, double from, double to);

double scale_at(const struct scale *s, double value);

/* Ascending, at most TICKS_MAX: 1, 2 or 5 times a power of ten; with log powers of ten, as far apart as space requires,
 * and of two when binary. Returns how many. */
size_t scale_ticks(const struct scale *s, bool binary, double ticks[TICKS_MAX]);

#endif
