/* The bounds of any all-reduce between processes of one machine, as teams (team.h).
 *
 * limit_sockets: each rank sends to the next as much as a ring does, 2 (n - 1) / n of the values, over one TCP
 * connection, and reads as much from the one before, at the same time; no rank waits for a part before it sends the
 * next. Nothing is added, or the first half of the incoming values is, and the other half is read into its place.
 * limit_memory: the values lie in memory that all ranks share; each adds up its part of them all, and copies the
 * others'. */
#ifndef TESTS_BENCH_BARE_H
#define TESTS_BENCH_BARE_H

#include "tests/bench/team.h"

struct limit_sockets {
    int to[TEAM_RANKS_MAX],
        from[TEAM_RANKS_MAX]; /* of each rank: its ends of the connections to the next, from the one before */
    int spin;                 /* poll without sleeping */
    int add;
};

/* spin and add are set. congestion: of the TCP connections. Ends the program when it cannot. */
void limit_sockets_open(struct limit_sockets *s, uint32_t ranks, const char *congestion);
void limit_sockets_close(struct limit_sockets *s, uint32_t ranks);
extern const struct team_kind limit_sockets_kind; /* arg: struct limit_sockets */

struct limit_memory {
    void *shared;
    size_t size;
    uint64_t count_max;
};

void limit_memory_open(struct limit_memory *m, uint32_t ranks, uint64_t count_max);
void limit_memory_close(struct limit_memory *m);
extern const struct team_kind limit_memory_kind; /* arg: struct limit_memory */

#endif
