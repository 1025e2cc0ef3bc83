/* The names that the workers of a job give their metrics (worker_metrics.h), in their order: sent in every hello, and
 * kept with the job, in its row, so that they last as long as the sums that they name. Those past the last one have no
 * names.
 *
 * Sums are over all workers, by index: two that call one index by different names would make a sum of neither. So names
 * are the same at all, or those of one go on where those of another end; hello.c handles others. */
#ifndef SERVER_CORE_WORKERS_METRIC_NAMES_H
#define SERVER_CORE_WORKERS_METRIC_NAMES_H

#include "common/core/base/base.h"
#include "common/core/wire/wire.h"

struct metric_names {
    char *name[WIRE_METRICS_MAX]; /* [len] */
    size_t len;
};

/* The first whose name differs from that in names [n]; SIZE_MAX: none does. */
size_t metric_names_differ(const struct metric_names *m, size_t n, char *const *names);

/* Take over the names past those that are known. Checked: at most WIRE_METRICS_MAX, and none differs. False: no
 * memory. */
bool metric_names_extend(struct metric_names *m, size_t n, char *const *names);

void metric_names_clear(struct metric_names *m);

#endif
