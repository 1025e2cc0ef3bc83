/* Ways take turns, round by round, so that what else the machine does falls on all alike: rounds that go there and
 * back, after a short turn each to warm up. */
#ifndef TESTS_BENCH_TURNS_H
#define TESTS_BENCH_TURNS_H

#include <stddef.h>

#include "tests/bench/series.h"
#include "tests/bench/settings.h"
#include "tests/bench/way.h"

struct turns {
    struct series series[FIGURES_MAX][WAYS_MAX]; /* empty for a way that was not sampled */
};

/* figures: of one sample. */
void turns_take(const struct settings *s, const struct way *ways, size_t n, size_t figures, struct turns *out);

#endif
