/* psctl top: one page that shows where a cluster's work is and which workers delay it, from the shards' reports at two
 * times. Pure, but for the stream that the page writes to.
 *
 *     cluster "lab": 2 of 2 shards up, 1 job, 3 workers: 2 live, 1 lapsed
 *     1,204 pushes/s, 9.41 MiB/s pushed, 88.1 MiB/s pulled
 *     0 refused/s, 0 dropped/s, age median 1, 99th 4-7
 *     digits: rows 1,791,000, loss 0.0753 (now 0.0024)
 *
 *     SHARD  MEMORY ...       rates.h: how fast counters rise
 *     JOB  WORKER  CLOCK ...
 *     JOB  VARIABLE ... */
#ifndef CLIENT_TOOLS_PSCTL_TOP_TOP_H
#define CLIENT_TOOLS_PSCTL_TOP_TOP_H

#include "client/tools/psctl/query/query_all.h"
#include "client/tools/shared/printer.h"

/* The queries TOP needs: STATUS, STATS, JOBS, WORKERS, BLOCKED, VARIABLES. */
extern const unsigned top_queries;

enum top_sort {
    TOP_BY_LOAD,   /* busiest shards and variables, workers that are furthest behind */
    TOP_BY_MEMORY, /* fullest shards, largest variables; workers as by load */
    TOP_BY_NAME    /* shards in order, workers by job and number, variables by job and name */
};

struct top_choice {
    enum top_sort sort;
    bool all; /* also jobs that are over: whose workers have finished, none of them lapsed; they come last */
};

/* rows: lines at most, 0: as many as there are. before: NULL when there was none, then there are no rates. */
void top_print(const struct answer_sample *before, const struct answer_sample *now, const struct top_choice *choice,
               size_t rows, const struct printer *page);

/* psctl's document of the shards' answers to TOP, each with "per_second": the rates of its counters since before, null
 * where one is not known. The caller's. */
json_t *top_json(const struct answer_sample *before, const struct answer_sample *now);

#endif
