/* Workers of one job, each in a process of its own, which sleep until they are ordered to apply a load together. A
 * failure ends the program with a sentence. */
#ifndef TESTS_BENCH_WORKER_POOL_H
#define TESTS_BENCH_WORKER_POOL_H

#include "tests/bench/bench_options.h"
#include "tests/bench/load.h"

#define WORKERS_MAX 64

struct worker_pool {
    const char *name; /* of the job and its variables */
    uint32_t count;
    pid_t pids[WORKERS_MAX];
    int orders[WORKERS_MAX], answers[WORKERS_MAX];
    uint64_t pushed; /* blocks, by all */
};

/* count workers of the shards; all have declared the variables, blocks of size bytes, when it returns. name: borrowed.
 */
void worker_pool_start(struct worker_pool *c, const struct bench_options *s, const char *shards, const char *name,
                       uint32_t count, size_t size, uint32_t blocks);

/* All at once. Returns messages a second, of all together. */
double worker_pool_run(struct worker_pool *c, const struct bench_load *l, double seconds);

/* Ends the program unless the blocks have taken exactly what was pushed; then they end. */
void worker_pool_stop(struct worker_pool *c);

#endif
