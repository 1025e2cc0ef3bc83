/* The bare limit that psd is measured against: two processes, one socket, the same bytes, the same optimizer on heap
 * memory, and nothing else. No exactly-once, no transactions, no versions, no sessions, no kill -9.
 *
 * Both ends run a poll loop over one non-blocking stream, reading and writing at once. A message is
 *
 *     struct pump_head | count block indices (u32) | count * size bytes, when the kind carries them that way
 *
 * The server keeps `blocks` blocks of `size` bytes and applies SGD in place; or, to measure the cost of never exposing
 * half an update to a reader or kill -9, out of place, alternating between two memories. */
#ifndef TESTS_BENCH_PUMP_H
#define TESTS_BENCH_PUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/bench/load.h"

struct pump_options {
    const char *congestion; /* of the TCP sockets; NULL: the system's */
    bool is_unix;           /* a Unix socket instead of TCP */
    bool spin;              /* both ends poll without sleeping */
    bool beside;            /* updates are not in place */
    size_t bytes_max;       /* largest payload of one message */
    size_t model_bytes;     /* what the server's blocks take in all */
};

struct pump {
    pid_t server;
    int fd;
    struct pump_options options;
    uint8_t *in; /* where replies go, bytes_max */
};

/* Start the server process and connect. Exits the program with a sentence when that fails. */
void pump_start(struct pump *p, const struct pump_options *options);
void pump_stop(struct pump *p);

/* Send messages for `seconds`, wait for all replies. Returns seconds per message. */
double pump_run(struct pump *p, const struct bench_load *load, double seconds);

/* One message at a time: the seconds that each took, up to `most` of them. Returns how many. */
size_t pump_round_trips(struct pump *p, const struct bench_load *load, double seconds, double *times, size_t most);

#endif
