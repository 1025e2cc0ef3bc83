/* Workers under fire: three jobs on the same shards, one for each mode, each under a psrun of its own that
 * starts its workers again. An observer looks at what the blocks hold and compares it with the ledgers.
 *
 *     struct fire f = {.shards = &shards, .ps = shards.addresses, .rng = {seed}};
 *     fire_start(&f);
 *     fire_look(&f);          // as often as wanted, while faults strike shards, workers and connections
 *     fire_end(&f);           // all stop at a clock; then every block is compared with the ledgers, exactly
 *
 * Failures fail the running Check test. */
#ifndef TESTS_SYSTEM_FIRE_JOBS_H
#define TESTS_SYSTEM_FIRE_JOBS_H

#include <sys/types.h>

#include "client/include/psclient/psclient.h"
#include "tests/system/fire_ledger.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/kits/check_main.h"

enum { FIRE_JOBS = 3, FIRE_WAIT_MS = 60000 };

struct fire_workers {
    const char *name;
    char path[256]; /* of its ledger */
    int fd;
    struct fire_ledger *ledger;
    pid_t psrun;
    ps_client *observer;
    ps_var *vars[FIRE_VARS];
};

struct fire {
    struct shards *shards;
    bool durable;   /* struct fire_ledger */
    const char *ps; /* the addresses that the workers use; the observers ask the shards themselves */
    struct test_rng rng;
    struct fire_workers crews[FIRE_JOBS];
    float *values;
    uint64_t pushes, lives, rolled_back; /* after fire_end() */
};

/* psd's options that shards under fire need. */
extern const char *const fire_shard_options[];

void fire_pause_ms(uint64_t ms);

/* How often an environment variable says; `usual` when it is not set. */
uint32_t fire_times(const char *variable, uint32_t usual);

/* So many times in all, in rounds of at most n, each a cluster of its own. */
void fire_rounds(uint32_t times, uint32_t n, void (*play)(uint32_t round, uint32_t n));

/* All jobs work, and are observed. */
void fire_start(struct fire *f);

/* Any job; one of its workers, or its psrun and all below, is killed, and is started again. */
struct fire_workers *fire_any(struct fire *f);
void fire_kill_worker(struct fire *f, const struct fire_workers *c);
void fire_kill_psrun(struct fire *f, struct fire_workers *c);

/* Each of its workers has begun a push that it had not begun before. */
void fire_await_pushes(const struct fire_workers *c);

/* No worker saw a promise broken, and a random variable of a random job holds what it must. */
void fire_look(struct fire *f);

void fire_end(struct fire *f);

#endif
