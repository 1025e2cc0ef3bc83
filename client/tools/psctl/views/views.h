/* Every view of psctl, one file each: the shards' answers as tables. At least one shard was reached, but for status. */
#ifndef CLIENT_TOOLS_PSCTL_VIEWS_VIEWS_H
#define CLIENT_TOOLS_PSCTL_VIEWS_VIEWS_H

#include "client/tools/psctl/query/query_all.h"
#include "client/tools/shared/printer.h"

void view_status(const struct shard_answer *answers, uint32_t n, const struct printer *page);
void view_variables(const struct shard_answer *answers, uint32_t n, const struct printer *page);
void view_stats(const struct shard_answer *answers, uint32_t n, const struct printer *page);
void view_workers(const struct shard_answer *answers, uint32_t n, const struct printer *page);
void view_blocked(const struct shard_answer *answers, uint32_t n, const struct printer *page);
void view_jobs(const struct shard_answer *answers, uint32_t n, const struct printer *page);
void view_ping(const struct shard_answer *answers, uint32_t n, const struct printer *page);

/* "0", "1", "2-3", "4-7": the ages that a bucket of the histogram counts. */
void age_range(size_t bucket, char *out, size_t size);

/* What a BlockedReport waits for: workers, or the shard's own work in words (size: at least 64). Returns whether a
 * clock ends it. */
void blocked_for(const json_t *report, char *out, size_t size);
bool blocked_has_clock(const json_t *report);

/* Of one shard's round trips, microseconds; pings_len >= 1. */
struct ping_summary {
    double least, median, most;
};
struct ping_summary ping_sum_up(const struct shard_answer *a);

#endif
