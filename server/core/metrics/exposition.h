/* Prometheus' text format, version 0.0.4: families of samples, one after the other, into memory that grows. Pure.
 *
 *     exposition_family(&x, "psd_pulls_total", EXPOSITION_COUNTER, "Pulls that were answered.");
 *     exposition_count(&x, 42, "job", name, NULL);               psd_pulls_total{job="train"} 42
 *     ...
 *     if (x.failed) ...                                          // memory ran out, or EXPOSITION_MAX was reached
 *     exposition_finish(&x);
 *
 * All samples of a family come before the next one begins, and no name twice: that is the caller's to keep. Labels are
 * pairs of name and value up to a NULL; values may hold anything: bytes that are no UTF-8 and control characters become
 * '?'. */
#ifndef SERVER_CORE_METRICS_EXPOSITION_H
#define SERVER_CORE_METRICS_EXPOSITION_H

#include "common/core/base/base.h"

#define EXPOSITION_TYPE      "text/plain; version=0.0.4; charset=utf-8"
#define EXPOSITION_MAX       (16 * MIB) /* of text; no page of ours comes near */
#define EXPOSITION_VALUE_MAX 511        /* bytes of a label's value; the rest is cut off */

enum exposition_kind { EXPOSITION_COUNTER, EXPOSITION_GAUGE, EXPOSITION_HISTOGRAM };

struct exposition {
    char *text; /* terminated, unless it is NULL: nothing was written */
    size_t len, size;
    bool failed;
    const char *name; /* of the family */
};

/* name and help are borrowed until the next family. */
void exposition_family(struct exposition *x, const char *name, enum exposition_kind kind, const char *help);

/* One sample of the family. */
void exposition_count(struct exposition *x, uint64_t value, ...) __attribute__((sentinel));
void exposition_real(struct exposition *x, double value, ...) __attribute__((sentinel));

/* One histogram of the family. counts are of each bucket by itself, the last one of what is above all bounds. */
struct exposition_histogram {
    const double *bounds;   /* [buckets - 1], rising */
    const uint64_t *counts; /* [buckets] */
    size_t buckets;
    double sum;
};
void exposition_histogram(struct exposition *x, const struct exposition_histogram *h, ...) __attribute__((sentinel));

void exposition_finish(struct exposition *x); /* accepts a zeroed one */

#endif
