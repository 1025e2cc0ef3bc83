/* The weight of a push by its age (updates that the block took since the version that the gradient was computed from),
 * and the histogram of ages. Pure. Sources: 1/(1+age): Zhang et al., "Staleness-aware async-SGD", IJCAI 2016. */
#ifndef COMMON_CORE_MODEL_AGE_H
#define COMMON_CORE_MODEL_AGE_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

/* Numbers are those of the protocol's AgeKind. */
enum age_kind { AGE_NONE, AGE_INVERSE, AGE_EXPONENTIAL, AGE_CUTOFF, AGE_KIND_MAX };

struct age_policy {
    enum age_kind kind;
    double parameter;
};

/* "none", "inverse", "exponential:0.9", "cutoff:8", checked. PS_ERR_INVALID with what was expected. */
enum ps_err age_parse(const char *text, struct age_policy *out, struct ps_error *e) PS_MUST_USE;

enum ps_err age_check(const struct age_policy *p, struct ps_error *e) PS_MUST_USE;

/* The factor for the gradient, or -1 when the push is dropped. */
float age_scale(const struct age_policy *p, uint64_t age);

/* Powers of two: bucket 0 counts age 0, bucket i counts 2^(i-1) to 2^i - 1. */
#define AGE_BUCKETS 33
struct age_histogram {
    uint64_t count[AGE_BUCKETS];
    uint64_t sum;
};
int age_bucket(uint64_t age);
void age_count(struct age_histogram *h, uint64_t age);

#endif
