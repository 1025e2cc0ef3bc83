/* The chief's report when training is over: accuracy, time, bytes, ages, and where the plot is. */
#ifndef CLIENT_EXAMPLES_DIGITS_REPORT_H
#define CLIENT_EXAMPLES_DIGITS_REPORT_H

#include <stdio.h>

#include "client/examples/digits/counts.h"
#include "client/examples/digits/train.h"

/* Before training: one line that says what is trained where. */
void report_start(FILE *file, const struct train *t);

/* Before training, so that a mistake is not found at its end: IO when options->svg cannot be written to. */
enum ps_err report_check_plot(const struct digits_options *o, struct ps_error *error) PS_MUST_USE;

/* Query the counts of every shard, if there are any. */
enum ps_err report_count(const struct train *t, struct digits_counts *out, struct ps_error *error) PS_MUST_USE;

void report_print(FILE *file, const struct train *t, const struct ps_network_result *held_out,
                  const struct digits_counts *c);

/* The loss curve and the held-out accuracy into options->svg, and its full path on the file; nothing when it is "". */
enum ps_err report_plot(FILE *file, const struct train *t, struct ps_error *error) PS_MUST_USE;

#endif
