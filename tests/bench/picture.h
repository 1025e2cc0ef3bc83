/* The report as one SVG: a panel for each table, in two columns. Tables with an axis become lines over it, their values
 * by the logarithm where they span decades; others become bars. Whiskers reach from quartile to quartile, and pointing
 * at a mark shows its figure. Colours follow the viewer's preference for light or dark. */
#ifndef TESTS_BENCH_PICTURE_H
#define TESTS_BENCH_PICTURE_H

#include "tests/bench/report.h"

/* Into a file. Ends the bench when it cannot be written. */
void picture_save(const struct bench_report *r, const char *path);

#endif
