/* The training loop: one for every strategy.
 *
 *     open the strategy of this name, a network for each of its replicas, start
 *     at the beginning of each epoch: the chief counts held-out examples
 *     run to the end of the epoch: each replica makes the gradient of its slice of every batch
 *     meet the other workers; the chief reports
 *
 * The strategy decides where variables are and how the replicas' gradients are combined. A worker that was killed and
 * started again goes on where the training is: ps_strategy_step() says how far, not a count of our own. */
#ifndef CLIENT_EXAMPLES_DIGITS_TRAIN_H
#define CLIENT_EXAMPLES_DIGITS_TRAIN_H

#include "ps_data.h"
#include "ps_strategy.h"

#include "client/examples/digits/options.h"
#include "client/examples/digits/progress.h"
#include "client/examples/shared/worker.h"

/* The chief's records, for the plot. */
struct train_history {
    size_t steps, epochs;          /* filled so far, at most all steps, all epochs + 1 */
    double *epoch, *loss, *smooth; /* [steps]: where (in epochs), loss of the step's rows, smoothed */
    double *epoch_at, *accuracy;   /* [epochs]: held-out accuracy before and after each epoch */
};

/* A batch, or a replica's slice of it, in memory that the replica's device reads. */
struct train_batch {
    float *x;         /* [batch, features] */
    uint32_t *labels; /* [batch] */
    uint64_t step;    /* whose it is, from 1 on; 0: it is empty */
    uint64_t first;   /* its rows of that step's batch */
    uint64_t rows;
};

/* The data of a replica; no other thread touches it. */
struct train_replica {
    ps_network *network;
    struct train_batch batch[2]; /* of even and odd steps: one is computed with while the other is on its way */
};

struct train {
    /* given */
    const struct digits_options *options;
    const struct ps_dataset *data, *held_out;
    uint64_t fingerprint;                 /* of the data as it was read */
    const struct ps_group_options *group; /* NULL: as usual */
    bool silent;                          /* no progress is shown and nothing evaluated */

    /* its own */
    struct worker_definition definition;
    ps_strategy *strategy;
    ps_sampler *sampler;           /* all replicas ask it */
    struct train_replica *replica; /* [replicas] */
    uint32_t replicas, task;
    uint64_t steps_each, steps; /* of an epoch, of all */
    struct train_history history;
    struct digits_progress progress;
    double started_s, seconds; /* when the variables had their first values; from then on */
    uint64_t began;            /* the step that this worker began with */
    uint64_t first_version, version;
    double smooth_loss, smooth_accuracy, smooth_age;
};

/* Open the strategy, make a network and a batch for each replica, give the variables their values. cluster: NULL for a
 * strategy of one process. */
enum ps_err train_open(struct train *t, const ps_cluster *cluster, struct ps_error *error) PS_MUST_USE;

/* goodbye: false after an error. Accepts a zeroed one. */
void train_close(struct train *t, bool goodbye);

/* All steps that are left. */
enum ps_err train_run(struct train *t, struct ps_error *error) PS_MUST_USE;

/* Wait until all workers that are not lost have done their steps. */
enum ps_err train_meet(struct train *t, struct ps_error *error) PS_MUST_USE;

/* The totals of all workers, as of train_meet(): rows, the sum of their losses, and how many of them were classified
 * correctly in training; of all epochs, and of the last one. */
struct train_totals {
    uint64_t rows;
    double loss, correct;
    double last_rows, last_loss, last_correct;
};
struct train_totals train_totals(const struct train *t);

/* Fetch the newest weights and count the held-out examples that they classify correctly. */
enum ps_err train_evaluate(struct train *t, struct ps_network_result *result, struct ps_error *error) PS_MUST_USE;

/* Whether this worker shows progress, evaluates and reports. */
bool train_is_chief(const struct train *t);

/* Examples that the updates so far were computed from, over all workers. */
double train_examples(const struct train *t);

#endif
