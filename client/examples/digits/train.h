/* The training loop: one for every strategy.
 *
 *     pull the weights
 *     until this worker has done its last step:
 *         forward and backward on this worker's slice of the batch
 *         push the gradients, tick the clock, pull the next weights: three operations in flight at once
 *
 * What the strategy changes is when the shards answer. Each push says where its step's data ends, and the shards keep
 * that with the updates: a worker that was killed and started again, or whose lease lapsed, goes on after the last step
 * that counted, so that every image counts once an epoch. */
#ifndef DIGITS_TRAIN_H
#define DIGITS_TRAIN_H

#include "client/ps_data.h"
#include "client/ps_network.h"

#include "options.h"
#include "progress.h"

#define TRAIN_PARAMS_MAX (PS_LAYERS_MAX * PS_LAYER_PARAMS_MAX)

/* What worker 0 saw, for the plot. */
struct train_history {
    size_t steps, epochs;          /* filled so far, at most all steps, all epochs + 1 */
    double *epoch, *loss, *smooth; /* [steps]: where (in epochs), loss of the slice, smoothed */
    double *epoch_at, *accuracy;   /* [epochs]: held-out accuracy before and after each epoch */
};

struct train {
    /* given */
    const struct digits_options *options;
    const struct ps_dataset *data, *held_out;
    uint32_t workers, task;
    bool chief; /* shows progress and keeps the history */
    ps_client *client;
    ps_network *network;
    ps_var *vars[TRAIN_PARAMS_MAX];

    /* its own */
    ps_sampler *sampler;
    uint64_t next;              /* step to do */
    float *x;                   /* [slice, features] */
    uint32_t *labels;           /* [slice] */
    uint64_t steps_each, steps; /* of an epoch, of all */
    struct train_history history;
    struct progress progress;
    double started_s, seconds; /* when the first pull was answered; from then on */
    uint64_t first_version, version;
    double smooth_loss, smooth_accuracy, smooth_age;
    uint64_t dropped, rejoins; /* pushes of this worker */
};

/* Sets aside all that a step needs. The given members are set; declared is not needed yet. */
enum ps_err train_init(struct train *t, struct ps_error *error) PS_MUST_USE;
void train_finish(struct train *t); /* accepts a zeroed one */

/* Most rows that a slice of this worker may have, before train_init(). */
size_t train_slice_max(const struct digits_options *o, uint64_t rows, uint32_t workers, uint32_t task);

/* All steps that are left. Variables are declared. */
enum ps_err train_run(struct train *t, struct ps_error *error) PS_MUST_USE;

/* Wait until all workers that are not lost have done theirs. */
enum ps_err train_meet(struct train *t, struct ps_error *error) PS_MUST_USE;

/* Pull the newest weights and count the held-out examples that they get right. */
enum ps_err train_evaluate(struct train *t, struct ps_network_result *result, struct ps_error *error) PS_MUST_USE;

/* Examples that the updates so far were computed from, over all workers. */
double train_examples(const struct train *t);

#endif
