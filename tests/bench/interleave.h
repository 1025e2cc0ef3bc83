/* Ways take turns, round by round, so that other load on the machine affects all alike: rounds alternate in direction,
 * after a short turn each to warm up. */
#ifndef TESTS_BENCH_INTERLEAVE_H
#define TESTS_BENCH_INTERLEAVE_H

#include <stddef.h>

#include "tests/bench/bench_options.h"
#include "tests/bench/series.h"
#include "tests/bench/variant.h"

struct interleave {
    struct series series[FIGURES_MAX][WAYS_MAX]; /* empty for a way that was not sampled */
};

/* figures: of one sample. */
void interleave_run(const struct bench_options *s, const struct bench_variant *ways, size_t n, size_t figures,
                    struct interleave *out);

#endif
