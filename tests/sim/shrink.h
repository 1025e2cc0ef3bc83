/* A failing run made small, so that its trace can be read: fewer faults, steps, workers, shards and variables, as long
 * as it fails with the same sentence.
 *
 *     run_apart(&options, &report);
 *     if (report.failed && shrink(&report, SHRINK_SEEDS))   // report.options: the small run
 *
 * A run of another size draws other numbers, so each size is tried with a few seeds. */
#ifndef TESTS_SIM_SHRINK_H
#define TESTS_SIM_SHRINK_H

#include "tests/sim/run.h"

#define SHRINK_SEEDS 24 /* for each size */

/* run_one() in a process of its own: an assertion that ends it is a failure of the run. */
void run_apart(const struct run_options *o, struct run_report *out);

/* *r: of a run that failed; becomes that of the smallest that was found. True: it is smaller. */
bool shrink(struct run_report *r, uint32_t seeds);

/* Whether both sentences are the same but for numbers and names with numbers in them. */
bool failures_alike(const char *x, const char *y);

#endif
