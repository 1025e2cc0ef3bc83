/* One run of the simulator: a cluster and a job drawn from a seed, trained to the end under faults, and checked. */
#ifndef TESTS_SIM_RUN_H
#define TESTS_SIM_RUN_H

#include "tests/sim/faults.h"
#include "tests/sim/ledger.h"
#include "tests/sim/node_worker.h"

enum run_mode { RUN_ASYNC, RUN_SSP, RUN_SYNC, RUN_MIXED };

struct run_options {
    uint64_t seed;
    enum run_mode mode;
    enum sim_faults faults;
    uint32_t shards, workers, steps, vars; /* 0: drawn */
    uint32_t faults_max;                   /* 0: as many as are drawn */
    enum sim_lie lie;
    bool trace;
};

struct run_report {
    struct run_options options; /* with what was drawn: the same run again */
    bool failed;
    char failure[2048];
    uint64_t hash, lines, virtual_ms;
    struct ledger_counts ledger;
    uint64_t observed;               /* pulls of the observer */
    uint64_t flips, refused, mended; /* bits of disks, and starts over them */
    uint64_t kills, power_losses, crashes, rejoins, connections, turns, failed_commits;
};

void run_one(const struct run_options *o, struct run_report *out);

#endif
