/* Workers of one job, each in a process of its own, who sleep until they are told to work a load off together. Whatever
 * fails ends the program with a sentence. */
#ifndef TESTS_BENCH_WORKERS_H
#define TESTS_BENCH_WORKERS_H

#include "tests/bench/load.h"
#include "tests/bench/settings.h"

#define WORKERS_MAX 64

struct workers {
    const char *name; /* of the job and its variables */
    uint32_t count;
    pid_t pids[WORKERS_MAX];
    int orders[WORKERS_MAX], answers[WORKERS_MAX];
    uint64_t pushed; /* blocks, by all */
};

/* count workers of the shards; all have declared the variables, blocks of size bytes, when it returns. name: borrowed.
 */
void workers_start(struct workers *c, const struct settings *s, const char *shards, const char *name, uint32_t count,
                   size_t size, uint32_t blocks);

/* All at once. Returns messages a second, of all together. */
double workers_run(struct workers *c, const struct load *l, double seconds);

/* Ends the program unless the blocks have taken exactly what was pushed; then they go home. */
void workers_stop(struct workers *c);

#endif
