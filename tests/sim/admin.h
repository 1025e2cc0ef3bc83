/* The administrator of a simulated cluster: takes a checkpoint of all shards while the workers work, and some time
 * later has all of them restore it, as `psctl checkpoint` and `psctl restore` do.
 *
 *     ADMIN_WAITS ─── taken ──► ADMIN_HAS ─── given to all shards ──► ADMIN_RESTORES ─── all done ──┐
 *          ▲                        │ a shard came back older: of no use                            │
 *          └────────────────────────┴───────────────────────────────────────────────────────────────┘
 *
 * The checkpoint is one instant of each shard, read off its committed state; the shards get it as their glue would open
 * it from files. A shard that is killed on the way is given it again, as is one that refused because of its disk.
 *
 * It chooses a moment at which all workers are there, and lets none of them leave before all is done: a job that goes
 * back after some have left would wait for them. No machine loses its power then: its disk holds the state from before
 * (a unit test covers that). */
#ifndef TESTS_SIM_ADMIN_H
#define TESTS_SIM_ADMIN_H

#include "common/core/format/checkpoint.h"
#include "tests/sim/faults.h"
#include "tests/sim/ledger.h"
#include "tests/sim/model.h"
#include "tests/sim/node_shard.h"
#include "tests/sim/node_worker.h"
#include "tests/sim/sim.h"

enum admin_state { ADMIN_WAITS, ADMIN_HAS, ADMIN_RESTORES };

/* A variable's values. */
struct admin_values {
    float *array[1 + LAYOUT_SLOTS_MAX]; /* [elements] f32: weights, slots */
    uint64_t *version, *clock;          /* [blocks] */
    bool *has;                          /* [blocks] */
};

struct admin {
    struct sim *sim;
    struct ledger *ledger;
    const struct sim_model *model;
    struct faults *faults;
    struct node_shard *shards;
    struct node_worker *workers;
    uint64_t random; /* its own, so that runs without an admin stay the same */
    struct sim_timer timer;
    enum admin_state state;
    struct checkpoint manifest;
    struct admin_values values[MODEL_VARS_MAX];
    uint64_t boot[MODEL_SHARDS_MAX]; /* of the checkpoint that each was given last */
};

/* Whether a run of this seed has one. */
bool admin_drawn(uint64_t seed, enum sim_faults level);

/* Set sim, ledger, model, faults, shards and workers first. */
void admin_start(struct admin *a, uint64_t seed);
void admin_stop(struct admin *a);
void admin_finish(struct admin *a); /* once no shard is there any more; accepts a zeroed one */

#endif
