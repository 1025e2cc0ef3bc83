/* One way of doing what a table of the bench compares: psd, the bare limit, a peer; or psd with another option. Ways
 * take turns (interleave.h), and a table says how their figures relate (report.h). */
#ifndef TESTS_BENCH_VARIANT_H
#define TESTS_BENCH_VARIANT_H

#include <sys/types.h>

#define WAYS_MAX    16
#define AGAINST_MAX 5
#define FIGURES_MAX 4 /* of one sample */

struct bench_variant {
    const char *name;                 /* borrowed as long as the report lives */
    const char *against[AGAINST_MAX]; /* the ways that its figures are divided by */
    double x;                         /* its place on the axis of a table whose axis counts ways */
    /* Work for about so many seconds and return the figures in the table's unit. NULL: not available here. */
    void (*sample)(void *arg, double seconds, double *figures);
    void *arg;
    pid_t server; /* stopped while other ways are sampled: a spinning one would take a core from them. 0: none */
};

#endif
