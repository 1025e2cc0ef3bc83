/* Peers that do harm, each kind in a process of its own: test_hostile and the bench measure their cost for the others.
 *
 *     pid_t pid = hostile_start(HOSTILE_FLOOD, address, "test");
 *     ...                                     // work, and measure
 *     hostile_stop(pid); */
#ifndef TESTS_SYSTEM_HOSTILE_H
#define TESTS_SYSTEM_HOSTILE_H

#include <sys/types.h>

/* clang-format off */
#define HOSTILE_LIST(X) /* id, name, connections at once, what they do */ \
    X(SLOW_READERS, "slow readers",      8,   "ask for the first variable's blocks and fetch no answer") \
    X(TRICKLE,      "trickling readers", 8,   "do so, and fetch 1 KiB every 10 ms") \
    X(FLOOD,        "floods",            4,   "send pings, a thousand in a write, as fast as they go") \
    X(SILENT,       "half-open",         200, "without a hello, with half a frame, silent after a hello") \
    X(LIARS,        "liars",             16,  "promise 1 GiB and bring a byte a millisecond; come again when closed") \
    X(GARBAGE,      "garbage",           1,   "send no frame, one after the other") \
    X(CHURN,        "churn",             1,   "connect, hello, gone: one after the other")
/* clang-format on */

enum hostile_kind {
#define X(id, name, connections, about) HOSTILE_##id,
    HOSTILE_LIST(X)
#undef X
        HOSTILE_KINDS
};
extern const char *const hostile_names[HOSTILE_KINDS];
extern const int hostile_connections[HOSTILE_KINDS];

/* address: "127.0.0.1:4001". -1: no process could be made. It dies with its parent. */
pid_t hostile_start(enum hostile_kind kind, const char *address, const char *cluster);
void hostile_stop(pid_t pid);

#endif
