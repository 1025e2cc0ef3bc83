/* Every view of psctl, one file each: the shards' answers as tables. At least one shard was reached, but for status. */
#ifndef CLIENT_TOOLS_VIEWS_VIEWS_H
#define CLIENT_TOOLS_VIEWS_VIEWS_H

#include <stdio.h>

#include "client/tools/ask.h"

void view_status(const struct answer *answers, uint32_t n, FILE *out);
void view_variables(const struct answer *answers, uint32_t n, FILE *out);
void view_stats(const struct answer *answers, uint32_t n, FILE *out);
void view_workers(const struct answer *answers, uint32_t n, FILE *out);
void view_blocked(const struct answer *answers, uint32_t n, FILE *out);
void view_ping(const struct answer *answers, uint32_t n, FILE *out);

/* Of one shard's round trips, microseconds; pings_len >= 1. */
struct ping_summary {
    double least, median, most;
};
struct ping_summary ping_sum_up(const struct answer *a);

#endif
