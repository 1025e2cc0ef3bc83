/* The faults of a run and their times: a few at random times, each of a kind that the level allows. */
#ifndef TESTS_SIM_FAULTS_H
#define TESTS_SIM_FAULTS_H

#include "tests/sim/model.h"
#include "tests/sim/net.h"
#include "tests/sim/node_shard.h"
#include "tests/sim/node_worker.h"
#include "tests/sim/sim.h"

enum sim_faults {
    FAULTS_NONE,    /* an even, quick network */
    FAULTS_DELAYS,  /* latencies, stragglers, frames in pieces */
    FAULTS_CUTS,    /* and connections that are cut or fall silent, shards that cannot be reached, stopped processes */
    FAULTS_CRASHES, /* delays, and processes that die, shards that drain, stores that fail */
    FAULTS_ALL,
    FAULTS_LEVELS
};

/* Power loss right after a kill, for each shard. */
struct faults_follow {
    struct sim_timer timer;
    struct sim_timer patience; /* for a kill that waits for a record, which may never come */
    enum node_shard_kill otherwise;
    struct faults *faults;
    struct node_shard *shard;
};

struct faults {
    struct sim *sim;
    struct sim_net *net;
    enum sim_faults level;
    struct node_shard *shards;
    uint32_t shards_len;
    struct node_worker *workers;
    uint32_t workers_len;
    struct sim_timer timer;
    uint64_t every_us; /* on average */
    uint32_t burst_per_mille;
    uint32_t most; /* 0: as drawn */
    uint32_t left, came;
    uint32_t lost_workers; /* that do not come back: at least one does */
    uint32_t powers;       /* losses: a worker that is lost after one may not be known to any disk */
    uint64_t random;       /* for faults that follow a kill: its own, so that runs without them stay the same */
    bool follows;
    struct faults_follow follow[MODEL_SHARDS_MAX];
};

/* Set sim, net, level, shards and workers first. */
void faults_start(struct faults *f, uint64_t seed);
void faults_stop(struct faults *f);

bool faults_may_lapse(enum sim_faults level);
bool faults_fail_stores(enum sim_faults level);

/* How a level's network, shards and workers are. */
void faults_net_profile(enum sim_faults level, struct sim *s, struct net_profile *out);
void faults_shard_profile(enum sim_faults level, struct sim *s, struct node_shard_profile *out);
void faults_worker_profile(enum sim_faults level, struct sim *s, struct worker_profile *out);

#endif
