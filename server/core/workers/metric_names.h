/* What the workers of a job call their metrics (worker_metrics.h), in their order: told in every hello, and kept with
 * the job, in its row, so that they last as long as the sums that they name. Those past the last one have no names.
 *
 * Sums are over all workers, by index: two that call one index by different names would make a sum of neither. So names
 * are the same at all, or those of one go on where those of another end; hello.c says what becomes of others. */
#ifndef SERVER_METRIC_NAMES_H
#define SERVER_METRIC_NAMES_H

#include "common/core/base/base.h"
#include "common/core/wire/wire.h"

struct metric_names {
    char *name[WIRE_METRICS_MAX]; /* [len] */
    size_t len;
};

/* The first that is called otherwise by these, names [n]; SIZE_MAX: none is. */
size_t metric_names_differ(const struct metric_names *m, size_t n, char *const *names);

/* Those that are more than these are taken. Checked: at most WIRE_METRICS_MAX, and none differs. False: no memory. */
bool metric_names_extend(struct metric_names *m, size_t n, char *const *names);

void metric_names_clear(struct metric_names *m);

#endif
