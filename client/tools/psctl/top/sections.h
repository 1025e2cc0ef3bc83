/* The tables of top's page. Each says how many rows it has, and prints those that fit. */
#ifndef CLIENT_TOOLS_PSCTL_TOP_SECTIONS_H
#define CLIENT_TOOLS_PSCTL_TOP_SECTIONS_H

#include "client/tools/psctl/query/rates.h"
#include "client/tools/psctl/top/top.h"
#include "client/tools/psctl/views/cells.h"
#include "client/tools/psctl/views/worker_sum.h"
#include "client/tools/shared/table.h"

/* What the tables are made from. */
struct top_source {
    const struct answer_sample *now;
    struct rates rates;
    struct worker_sum *workers; /* all, by job and number */
    size_t workers_len;
    enum top_sort sort;
    bool all; /* also jobs that are over, see worker_counts_over(): they come last; else they are left out */
};
bool top_is_over(const struct top_source *src, const char *job);

struct top_worker {
    struct worker_sum sum;
    bool over;           /* its job is */
    uint64_t lag;        /* clocks behind the fastest of its job */
    const json_t *waits; /* its longest wait, of a BLOCKED report; NULL: it does not wait */
};

/* The workers to be shown, not sorted yet; the caller frees them. NULL when out of memory, which reads as none. */
struct top_worker *top_workers(const struct top_source *src, size_t *len);
size_t top_variables_count(const struct top_source *src);

/* Tables of the first `shown` rows in the order of sort. */
struct text_table *top_shards_table(const struct top_source *src, size_t shown);
struct text_table *top_workers_table(struct top_worker *workers, size_t len, enum top_sort sort, size_t shown);
struct text_table *top_variables_table(const struct top_source *src, size_t shown);

/* A line for each job whose workers add something up, at most so many. Returns how many. */
size_t top_print_sums(const struct top_source *src, size_t most, const struct printer *page);

#endif
