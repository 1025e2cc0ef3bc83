/* A second job beside the simulated one, made to be dropped: again and again a worker of its own declares variables,
 * pushes to them and ticks, and in some runs gives both values; then an administrator drops the job on all shards, as
 * `psctl drop` does, when the worker has said goodbye, or by force while it works.
 *
 *     SCRAP_WAITS ─── time ──► SCRAP_LIVES ─── steps are done, or time ──► SCRAP_DROPS ─── all shards answered ──┐
 *          ▲                                                                                                     │
 *          └───────────────────────────── nothing of it may be left in any store ────────────────────────────────┘
 *
 * What must hold: a worker whose job was dropped by force is told DROPPED, and nothing else ends it; the values of a
 * life begin with the first ones, or with those that were given last, and count that life's pushes since then once
 * each, whatever was killed; when all shards have answered, none has a row or a block of the job, or a block or a value
 * that waits without a variable. After a power loss an earlier life may be there again, as far as it was on disk: until
 * the next life only the stores are looked at. */
#ifndef TESTS_SIM_SCRAP_H
#define TESTS_SIM_SCRAP_H

#include "tests/sim/faults.h"
#include "tests/sim/node_shard.h"
#include "tests/sim/node_worker.h"
#include "tests/sim/sim.h"

#define SCRAP_VARS 2

enum scrap_state { SCRAP_WAITS, SCRAP_LIVES, SCRAP_DROPS };

struct scrap {
    struct node_worker worker, boss;
    struct sim_model model; /* of its job */
    struct node_shard *shards;
    uint64_t random; /* its own */
    bool gives;      /* values, drawn from here: */
    uint64_t give_random;
    float *given[SCRAP_VARS]; /* what is on its way */
    enum scrap_state state;
    uint64_t until_us;
    uint32_t lives, drops; /* that were */

    /* Of this life. */
    uint32_t losses; /* that shards had had when the last life was to be dropped: after more it may be there again */
    uint64_t steps;  /* until it says goodbye */
    bool forced;     /* it is dropped while it works */
    bool all_pulled; /* the values of this step */
    bool may_give;   /* it may give values in this step */
    uint32_t gave;   /* how often it has */
    float level;     /* what it gave last, which pushes since then count down from; NAN: that is not known */
    uint64_t applied[SCRAP_VARS], maybe[SCRAP_VARS]; /* pushes, since then */
    uint64_t durable[SCRAP_VARS];                    /* of those that were applied */
    uint32_t disks;                                  /* that were lost before */

    /* Of this drop. */
    uint32_t losses_then; /* that shards had had when it was asked for */
    bool answered[MODEL_SHARDS_MAX], kept[MODEL_SHARDS_MAX];
    bool over[MODEL_SHARDS_MAX], joined[MODEL_SHARDS_MAX]; /* the worker, when it was asked; else it may join later */
    uint64_t ask_us[MODEL_SHARDS_MAX];                     /* a shard that refused is asked again then */
};

/* Whether a run of this seed has one. */
bool scrap_drawn(uint64_t seed, enum sim_faults level);

/* Set shards first, and then worker and boss by node_worker_init() with these profiles; the worker has this model. */
extern const struct worker_profile scrap_worker_profile, scrap_boss_profile;
void scrap_draw(struct scrap *x, const struct sim_model *of, uint64_t seed);
void scrap_start(struct scrap *x);
void scrap_stop(struct scrap *x); /* the run is over; accepts one that was not started */

#endif
