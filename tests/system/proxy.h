/* A network with faults: a process between workers and shards, one port for each shard, which disturbs the bytes as
 * ordered through shared memory, at any time.
 *
 *     proxy_start(&proxy, &shards);        // proxy.addresses: the addresses for the workers
 *     proxy.faults->delay_ms = 20;
 *     proxy_reset(&proxy);                 // every connection that there is
 *     proxy_stop(&proxy);
 *
 * Directions: TO_SHARD from workers, TO_WORKER the shards' answers. */
#ifndef TESTS_SYSTEM_PROXY_H
#define TESTS_SYSTEM_PROXY_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/system/shard_processes.h"

enum proxy_direction { TO_SHARD, TO_WORKER, PROXY_DIRECTIONS };

/* 0: not done. Read again for every chunk of bytes. */
struct proxy_faults {
    _Atomic uint32_t delay_ms, jitter_ms;   /* each chunk arrives later, in order */
    _Atomic uint32_t bytes_per_ms;          /* of a connection and direction */
    _Atomic uint32_t bytewise;              /* every byte is a write of its own; for as many as can be in time */
    _Atomic uint32_t cut[PROXY_DIRECTIONS]; /* nothing passes, silently; at 0 it continues where it was */
    _Atomic uint32_t deaf;                  /* new connections are accepted and never read */
    _Atomic uint32_t resets;                /* raised: all connections are reset */
    _Atomic uint32_t half_open; /* raised: the shard's side of all is closed, the worker's is silent until a reset */
    _Atomic uint64_t connections, chunks; /* seen */
};

struct proxy {
    pid_t pid;
    struct proxy_faults *faults;
    char addresses[SHARDS_MAX * 64];
};

/* Fails the running Check test when it cannot start. */
void proxy_start(struct proxy *p, const struct shards *s);
void proxy_stop(struct proxy *p);

void proxy_reset(struct proxy *p);
void proxy_half_open(struct proxy *p);

/* As it was at first. */
void proxy_heal(struct proxy *p);

#endif
