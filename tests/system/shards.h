/* Real psd processes for a system test: started on free ports of the loopback interface, each with a live directory of
 * its own in memory, and gone when the test is.
 *
 *     struct shards s;
 *     shards_start(&s, 2);             // s.addresses: "127.0.0.1:4001,127.0.0.1:4002"
 *     ...
 *     shards_stop(&s);
 *
 * PSD_BIN names the executable; without it, build/server/psd. */
#ifndef TESTS_SYSTEM_SHARDS_H
#define TESTS_SYSTEM_SHARDS_H

#include <stdint.h>
#include <sys/types.h>

#define SHARDS_MAX     8
#define SHARDS_CLUSTER "test"

struct shards {
    uint32_t count;
    pid_t pids[SHARDS_MAX];
    char directory[64];              /* holds the live directories */
    char addresses[SHARDS_MAX * 64]; /* separated by commas */
};

/* Fails the running Check test when a shard does not start. */
void shards_start(struct shards *s, uint32_t count);

/* TERM, wait, and assert that each exited with 0; remove the directories. */
void shards_stop(struct shards *s);

#endif
