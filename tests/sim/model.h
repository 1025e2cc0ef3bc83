/* The simulated job: its mode, its variables, and gradients from which the ledger can read off afterwards which pushes
 * were counted.
 *
 * In async and ssp the optimizer is SGD with a rate that is a power of two, and gradients are small integers, so that
 * sums are exact in float32 and do not depend on the order. Within a block,
 *
 *     element 0, 2, 4 ...   every gradient is 1: each holds the number of updates, so a torn block disagrees with
 *                           itself
 *     element 1, 3, 5 ...   the nth push to the variable adds 4^(n mod 11) to element 2 (n / 11) + 1 and 0 to the
 *                           others: a digit of its own, which afterwards is 0 or 1, or 2 when it was applied twice
 *
 * In sync gradients are arbitrary floats by (seed, push, element), any optimizer is drawn, and the ledger finds the one
 * set of gradients whose mean in worker order gives the block's bits. */
#ifndef TESTS_SIM_MODEL_H
#define TESTS_SIM_MODEL_H

#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"
#include "common/core/model/layout.h"
#include "tests/sim/sim.h"

#define MODEL_VARS_MAX    4
#define MODEL_WORKERS_MAX 16
#define MODEL_SHARDS_MAX  16
#define MODEL_ROUNDS_MAX  3
#define MODEL_BOUND_MAX   5  /* that a set may ask for */
#define MODEL_DIGITS      11 /* in one element: sums stay below 2^24 */
#define MODEL_METRICS     2  /* of a worker that have names */

struct sim_model_var {
    char name[24];
    struct ps_var_spec spec;
    struct layout layout;
    uint64_t elements;
    uint32_t start; /* of its placement */
};

struct sim_model {
    const char *cluster, *job;
    enum ps_mode mode;
    uint32_t shards, workers, steps;
    uint32_t rounds;                 /* how often it runs; each time all workers train for so many steps more */
    uint32_t size[MODEL_ROUNDS_MAX]; /* of the workers, the first so many take part in the round; 0: all */
    bool resizes;                    /* not in all rounds as many */
    bool overlap;                    /* a worker runs again as soon as it has finished; else once all have */
    uint32_t bound, quorum;
    enum ps_lapse lapse;
    enum ps_age age;
    double age_parameter;
    uint64_t seed; /* of the gradients */
    uint32_t vars_len;
    struct sim_model_var vars[MODEL_VARS_MAX];
};

/* The names of every worker's first metrics. */
extern const char *const model_metric_names[MODEL_METRICS];

/* Draw the rest; mode, shards, workers and steps are set. */
void model_draw(struct sim_model *m, struct sim *s);

/* How many workers, and gradients of a step, a round has; and which round a clock is in. */
uint32_t model_workers(const struct sim_model *m, uint32_t round);
uint32_t model_quorum(const struct sim_model *m, uint32_t round);
uint32_t model_round(const struct sim_model *m, uint64_t clock);

/* Whether pushes leave digits (all modes but sync). */
bool model_counts(const struct sim_model *m);

/* The gradient of the number-th push to a variable, all elements. out: [var->elements] f32. */
void model_gradient(const struct sim_model *m, uint32_t var, uint64_t number, float *out);
/* One block of it. out: [block's len] f32. */
void model_gradient_block(const struct sim_model *m, uint32_t var, uint64_t number, uint32_t block, float *out);

/* The values that an assign has for a block, whose number among the run's assigns is id, from 1. async, ssp: all are
 * the same, its level, which no first value is. out: [block's len] f32. */
float model_assigned_level(uint32_t id);
void model_assigned_block(const struct sim_model *m, uint32_t var, uint32_t id, uint32_t block, float *out);

/* Where the digit of a push lies in a block of this length. False: the block is too short to hold it. */
bool model_digit(uint64_t number, uint32_t len, uint32_t *element, uint32_t *digit);

uint32_t model_shard(const struct sim_model *m, uint32_t var, uint64_t block);

/* First values of one block. out: [block's len] f32. */
void model_first_values(const struct sim_model *m, uint32_t var, uint32_t block, float *out);

#endif
