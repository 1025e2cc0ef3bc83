/* A Redis as a peer: SET where psd pushes, GET where it pulls, both for a push-and-pull, pipelined through hiredis. It
 * stores bytes and does no arithmetic; nothing is written to a disk. A failure after it has started ends the program.
 *
 * Keys are filled before they are read: redis_fill(). Without hiredis redis_none.c takes its place, and redis_start()
 * reports that. */
#ifndef TESTS_BENCH_REDIS_H
#define TESTS_BENCH_REDIS_H

#include <stdbool.h>
#include <sys/types.h>

#include "tests/bench/bench_options.h"
#include "tests/bench/load.h"
#include "tests/bench/report.h"

struct redisContext;

struct redis {
    pid_t pid; /* 0: there is none */
    int port;
    char socket[512];
};

struct redis_link {
    struct redisContext *context;
};

/* False, with a note in the report, when there is none on this machine. */
bool redis_start(struct redis *r, const struct bench_options *s, struct bench_report *report);
void redis_stop(struct redis *r); /* accepts one that was not started */

/* Connect, over TCP or its Unix socket. */
void redis_open(struct redis_link *link, const struct redis *r, const struct bench_options *s, bool is_unix);
void redis_close(struct redis_link *link);

/* As worker_run() and worker_round_trips(). */
double redis_run(struct redis_link *link, const struct bench_load *l, double seconds);
size_t redis_round_trips(struct redis_link *link, const struct bench_load *l, double seconds, double *times,
                         size_t most);

/* Set every key of the load, and see that each holds what was set. */
void redis_fill(struct redis_link *link, const struct bench_load *l);

#endif
