/* A worker over all shards. Each of them counts it, perhaps a moment apart, so that what they count cannot be added up:
 * the worst that any of them reports is shown. Pure. */
#ifndef CLIENT_TOOLS_PSCTL_VIEWS_WORKER_SUM_H
#define CLIENT_TOOLS_PSCTL_VIEWS_WORKER_SUM_H

#include "client/tools/psctl/query/report_fields.h"

struct worker_sum {
    const json_t *first;                       /* a WorkerReport, for its job and number */
    bool connected, lapsed, evicted, finished; /* evicted: that is why it lapsed */
    uint64_t clock, unresolved;
};

void worker_sum_add(struct worker_sum *w, const json_t *report);
const char *worker_sum_state(const struct worker_sum *w); /* "live", "away", "lapsed", "evicted", "finished" */

/* All workers, by job and number; the caller frees them. NULL when out of memory, which reads as none. */
struct worker_sum *worker_sums(const struct shard_answer *answers, uint32_t n, size_t *len);

/* How many of a job are in which state; live are also those that are away: their lease holds. */
struct worker_counts {
    uint64_t live, lapsed, finished;
};
struct worker_counts worker_sums_count(const struct worker_sum *workers, size_t len, const char *job);

/* Whether a job is over: its workers have finished, none is live, and none has lapsed, which needs attention. */
bool worker_counts_over(const struct worker_counts *counts);

#endif
