/* ps_strategy.h: one training loop under every way of distributing it. A strategy is opened by its name; it owns the
 * variables, deals every global batch out to replicas, runs the caller's step function once for each of them, and makes
 * one update of their gradients. Another name, and the same loop trains otherwise.
 *
 *     const char *const names[] = {"loss", "accuracy"};
 *     struct ps_strategy_options options = {
 *         .cluster = cluster, .rows = data.rows, .batch = 96, .metrics = 2, .metric_names = names};
 *     ps_strategy *strategy;
 *     ps_strategy_open("mirrored", &options, &strategy, &error);
 *     for (i = 0; i < ps_strategy_replicas(strategy); i++)
 *         ps_network_new(ps_strategy_device(strategy, i), &spec, &networks[i], &error);
 *     ps_strategy_networks(strategy, networks, "", &optimizer, &error);    // or ps_strategy_variable(), one by one
 *     ps_strategy_start(strategy, &error);
 *     ps_strategy_run(strategy, 500, &(struct ps_strategy_calls){.step = step, .arg = &mine}, &error);
 *     ps_strategy_meet(strategy, &error);
 *     ps_strategy_close(strategy);
 *
 *     enum ps_err step(void *arg, struct ps_replica *r, struct ps_error *error)   // of each replica, on its thread
 *     {
 *         struct ps_slice batch = ps_sampler_slice(sampler, r->epoch, r->batch);    // of one worker; all share it
 *         ... rows batch.index[r->first] to batch.index[r->first + r->rows - 1] ...
 *         ... gradients of r->scale times the sum of these rows' losses at r->values, into r->gradients ...
 *         r->metrics[0] += loss;
 *     }
 *
 * What every strategy promises:
 *
 * - The step's gradient is that of the mean loss over the global batch, every row weighing the same, however unevenly
 *   the rows are dealt out: r->scale has all of it in it. A replica may get no rows; its step function is called
 *   nevertheless.
 * - Metrics are sums in double, added up in the order of the replicas; ps_strategy_totals() has them over all workers
 *   under every strategy.
 * - The same seed, data, replicas and hosts give the same bits in every run, but for parameter_server in async and ssp.
 *   In which strategies the same replicas give the same bits is said at PS_STRATEGY_LIST.
 * - Every call returns by its deadline with a value or an error that names who was waited for; the caller's own
 *   functions take as long as they take.
 *
 * Parameters:
 *   strategy  from ps_strategy_open()
 *   error     filled when the call fails; may be NULL
 * Returns: PS_OK, or the code that *error has, too.
 * Errors exchange:
 *   PS_ERR_TIMEOUT      a worker, or a shard, did not answer in time: names it
 *   PS_ERR_CLOSED       a worker was lost, or a connection: names it
 *   PS_ERR_STEP_FAILED  a worker was lost and PS_LAPSE_FAIL says that the run ends, or fewer than min_workers are left
 *   PS_ERR_MISMATCH     the workers do not agree: on variables, on options, or on the step
 *   PS_ERR_NOMEM        no memory
 *   ps_client_push()    with shards: what a push may get
 *   ps_client_pull()    with shards: what a pull may get
 *   ps_group_open()     multi_worker_mirrored: what the forming of the group may get
 * Threads: one at a time for each strategy. Replicas beside the first one run on threads of their own, while
 *   ps_strategy_run() is called: what the caller's step function changes, such as buffers and networks, belongs to one
 *   replica (r->local); replicas may share what it only reads (ps_dataset_gather()), and samplers (ps_data.h). */
#ifndef PS_STRATEGY_H
#define PS_STRATEGY_H

#include "ps_device.h"
#include "ps_network.h"
#include "psclient.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Every strategy: its name and file (client/strategy/<name>.c), and what it does.
 *
 *     one_device              variables in this process; replicas, if there is more than one, are computed one after
 *                             the other on one device, and their gradients summed
 *     mirrored                a copy of the variables for each replica, each on a device and a thread of its own;
 *                             gradients are summed over the replicas, and every copy takes the same update
 *     central_storage         replicas as in mirrored, variables in one place of this machine: one update, in host
 *                             memory, or on the first replica's device, from which the others take the values
 *     multi_worker_mirrored   mirrored over all workers of the cluster: every worker has one replica or more, gradients
 *                             are all-reduced (ps_group.h), and no shard is in their way
 *     parameter_server        variables on the shards; options.client says when an update happens: async, ssp, sync
 *     local_sgd               every worker takes options.local.steps steps of its own from the shards' variables, with
 *                             the variables' optimizers, then pushes the difference; the shards' optimizer is
 *                             options.local.outer. Always in sync, with options.client.quorum
 *
 * On GPUs, in one_device, mirrored and central_storage: variables of networks (ps_strategy_networks()), their slots and
 * gradients stay in the devices' memory from step to step. Gradients are summed there (between GPUs by NCCL), and
 * updates are made where the slots lie. The host has what it asks for: ps_strategy_start(), the end of
 * ps_strategy_run(), ps_strategy_refresh() and ps_strategy_save() fetch the values. So it is not, and all lies in host
 * memory, where devices are of several kinds, or cannot reduce among each other (several GPUs without NCCL), or where
 * variables were created one by one. A device that breaks ends the run with an error that names it; what it held is in
 * no copy but the last that was fetched, and in checkpoints, which may be restored once it works.
 *
 * With R replicas in all, one_device, mirrored, central_storage, and parameter_server in sync with R workers of one
 * replica each, have the same bits: gradients are summed in the order of the replicas, then divided by R. So has
 * multi_worker_mirrored with R workers of one replica where R is 2, or its group sums in that order
 * (PS_ALGORITHM_DIRECT); else it sums in another order, the same in every run. (PS_CLIP_GIVEN_NORM takes the norm of
 * the step's gradient, in parameter_server that of each push.) Replicas on GPUs have the same bits among each other
 * where they share one; between GPUs NCCL chooses the order, the same in every run. Norms that clip are added up on a
 * GPU in another order than on the CPU.
 *
 * With client.compress, what encodings leave out of gradients (ps_compress.h) each worker keeps and adds to its next
 * ones, for as long as its process lives. In multi_worker_mirrored that is as ps_reducer.h says, and follows the steps
 * that were completed, in the same way on every worker: a step that was broken off and dealt out again is not in it, a
 * step that the others have completed with this worker's gradient is. When the group is formed again, those who stay go
 * on with what they have; a replacement begins with nothing, and what a lost worker had kept, parts of some gradients,
 * never comes. Checkpoints do not hold it. One worker alone sends nothing, and keeps nothing.
 *
 * Known limits of multi_worker_mirrored. Of two workers the one whose other is lost goes on alone: where the network is
 * cut between the two, both may, each with a model of its own; options.min_workers prevents it, and PS_LAPSE_FAIL. A
 * replacement that is started with other variables or options gets MISMATCH; the others go on without it, but where it
 * is started again at once and comes to 16 meetings in a row, they end with MISMATCH, too. Missing workers are looked
 * for now and then; while the place where workers meet is away nobody is found, and those who are there go on. A group
 * that has lost a worker can be formed again only where workers meet: if that place stays away for the time-out, the
 * training ends with the error of meeting.
 *
 * Since: 0.1 */
/* clang-format off */
#define PS_STRATEGY_LIST(X)  \
    X(one_device)            \
    X(mirrored)              \
    X(central_storage)       \
    X(multi_worker_mirrored) \
    X(parameter_server)      \
    X(local_sgd)
/* clang-format on */

/* How local_sgd trains (Stich, ICLR 2019; the outer optimizer: Douillard et al., "DiLoCo", 2023). Zeroed: all defaults.
 *
 * Replicas of a worker go together. In the middle of a round the values are the worker's own, and ps_strategy_refresh()
 * leaves them so; one that is not finished by ps_strategy_meet() is pushed there.
 *
 * Since: 0.1 */
struct ps_local_sgd {
    uint32_t steps;            /* of a round: between two exchanges with the shards; 0: 16 */
    struct ps_optimizer outer; /* zeroed: nesterov:learning_rate=0.7,momentum=0.9. sgd:learning_rate=1 is the mean */
};

/* How a strategy is opened. rows and batch must be given; all else may be zero.
 * Since: 0.1 */
struct ps_strategy_options {
    /* Read while the strategy is opened. NULL: one worker without shards, which the strategies of one machine do not
     * need either. */
    const ps_cluster *cluster;

    /* parameter_server and local_sgd: how the client is opened. All: .job names what is trained in checkpoints, .lapse
     * says what follows when a worker is lost: PS_LAPSE_SHRINK goes on without it, or with its replacement, from the
     * last step that was completed; PS_LAPSE_FAIL ends with an error that names it. .timeout_ms bounds each exchange
     * between workers. .compress says what gradients travel as, to shards or in multi_worker_mirrored between workers
     * (the same at all of them), where there are any. */
    struct ps_client_options client;
    const struct ps_group_options *group; /* multi_worker_mirrored: ps_group.h. NULL: all defaults, which are here: name
                                             client.job; timeout_ms and transport the client's;
                                             settle_ms 250 */
    struct ps_local_sgd local;

    int device_reduce; /* multi_worker_mirrored, nonzero: variables stay on the devices, and these reduce gradients
                          among all workers by themselves, between GPUs by NCCL (ps_device_group.h, direct). For
                          networks on devices that can, the same at all workers, and without compression. They do so
                          once the whole backward pass is done, not while it goes on */

    const char *devices; /* of this process, separated by commas: "cpu", "cuda:0,cuda:1"; NULL: "cpu" */
    uint32_t replicas;   /* of this process, on its devices in turn; 0: one on each. At most PS_STRATEGY_REPLICAS_MAX */
    int threads; /* that compute, of each replica; 0: OPENBLAS_NUM_THREADS, else cores / replicas / neighbours */
    enum ps_precision precision; /* in which the devices multiply; workers may differ in it */
    uint32_t neighbours;         /* worker processes on this machine; 0: all of the cluster's */

    uint64_t rows;    /* examples in an epoch, at least 1 */
    uint64_t batch;   /* in a step, over all replicas, at least 1. The last batch of an epoch holds what is left */
    uint32_t metrics; /* sums that a step makes, at most PS_STRATEGY_METRICS_MAX */

    /* The chief saves a checkpoint into this directory after every so many steps; see ps_strategy_save(). A worker that
     * becomes the chief in the place of another looks whether that one has: so all workers get the same directory.
     * NULL: none */
    const char *checkpoints;
    uint64_t checkpoint_steps;
    uint32_t checkpoints_keep; /* 0: all */

    /* multi_worker_mirrored with PS_LAPSE_SHRINK: the workers that are left go on only while there are as many; with
     * fewer the run ends with STEP_FAILED, after the others have been waited for. More than half of the cluster's: of
     * the parts that a network is cut into at most one goes on. 0: 1 */
    uint32_t min_workers;

    /* [metrics] what they are called, for psctl top, psd's page and Prometheus: each as client.metric_names says, and
     * not "rows", which are reported with them. NULL: they have no names. client.metric_names is not for callers of a
     * strategy (INVALID). */
    const char *const *metric_names;

    /* What all workers must have alike besides what the strategy compares itself: rows, batch, replicas of each worker
     * (with shards), layers, variables, their first values and optimizers, local.steps and local.outer, compression
     * (multi_worker_mirrored), metrics. Typically a fingerprint of the data (ps_dataset_fingerprint()), epochs, seed.
     * [definitions], of which there may be about 20, none of a name of the strategy's own. A worker that was started
     * otherwise gets MISMATCH from ps_strategy_start(), which says in what, from whom, and both values; with shards as
     * ps_client_define() says. */
    const struct ps_definition *definition;
    uint32_t definitions;
    /* With shards: names of fields, separated by commas, in which this worker may differ from others, "rows,data" where
     * workers of an asynchronous job have data of their own. Compared are those that both workers give. NULL: none. */
    const char *may_differ;
};

/* Most replicas of one process, and most metrics of a step.
 * Since: 0.1 */
#define PS_STRATEGY_REPLICAS_MAX 64
#define PS_STRATEGY_METRICS_MAX  16

/* A way of distributing a training, with its variables.
 * Since: 0.1 */
typedef struct ps_strategy ps_strategy;

/* The names of the strategies.
 *
 * Parameters:
 *   i  from 0 on
 * Returns: "mirrored"; NULL past the last. Static.
 * Threads: any.
 * Since: 0.1 */
PS_API const char *ps_strategy_name(size_t i);

/* Open a strategy by its name: connect to whom it needs, open the devices.
 *
 * Parameters:
 *   name     one of PS_STRATEGY_LIST
 *   options  strings and callbacks are borrowed until the strategy is closed, the rest is copied
 *   out      the strategy, which the caller ends with ps_strategy_close() or ps_strategy_abandon()
 * Errors:
 *   PS_ERR_INVALID    no such strategy: lists the names; an option that does not fit
 *   PS_ERR_CONFIG     a cluster without shards for a strategy that needs them, none at all for one of many workers, a
 *                     process that is no worker
 *   PS_ERR_NOMEM      no memory
 *   ps_device_open()  the devices
 *   ps_client_open()  with shards
 *   ps_group_open()   multi_worker_mirrored
 * Threads: any, each for its own strategy; not while another thread changes the environment.
 * Since: 0.1 */
PS_API enum ps_err ps_strategy_open(const char *name, const struct ps_strategy_options *options, ps_strategy **out,
                                    struct ps_error *error) PS_MUST_USE;

/* Say goodbye where that is due and free all that came from the strategy. Networks that were bound to it are freed
 * before.
 *
 * ps_strategy_abandon() does the same without waiting for anybody, after an error.
 *
 * Parameters:
 *   strategy  or NULL
 * Since: 0.1 */
PS_API void ps_strategy_close(ps_strategy *strategy);
PS_API void ps_strategy_abandon(ps_strategy *strategy);

/* ---- What it is -------------------------------------------------------------------------------------------------- */

/* How many replicas and workers there are, and where a replica computes.
 *
 * Parameters:
 *   replica  of this process, from 0 on
 * Returns:
 *   ps_strategy_replicas()      replicas of this process
 *   ps_strategy_replicas_all()  replicas of all workers, as of now
 *   ps_strategy_workers()       workers, as of now: those lost do not count
 *   ps_strategy_device()        the replica's device, owned by the strategy
 * Since: 0.1 */
PS_API uint32_t ps_strategy_replicas(const ps_strategy *strategy);
PS_API uint32_t ps_strategy_replicas_all(const ps_strategy *strategy);
PS_API uint32_t ps_strategy_workers(const ps_strategy *strategy);
PS_API ps_device *ps_strategy_device(const ps_strategy *strategy, uint32_t replica);

/* Whether this worker is the chief, which evaluates, saves and reports.
 *
 * Returns: nonzero at one worker: worker 0, or the lowest that is left of the group.
 * Since: 0.1 */
PS_API int ps_strategy_is_chief(const ps_strategy *strategy);

/* Write a strategy as text: "parameter_server sync(2 of 3)", "mirrored, 2 replicas".
 *
 * Parameters:
 *   text  [size] bytes, terminated, cut off where size ends
 *   size  in bytes, at least 1
 * Returns: text.
 * Since: 0.1 */
PS_API const char *ps_strategy_describe(const ps_strategy *strategy, char *text, size_t size);

/* The client of parameter_server and local_sgd, for questions, and its variables.
 *
 * Parameters:
 *   i  number of the variable
 * Returns:
 *   ps_strategy_client()  the client, owned by the strategy; NULL for other strategies
 *   ps_strategy_var()     a variable of that client; NULL for other strategies
 * Since: 0.1 */
PS_API ps_client *ps_strategy_client(const ps_strategy *strategy);
PS_API ps_var *ps_strategy_var(const ps_strategy *strategy, size_t i);

/* What a strategy has counted.
 * Since: 0.1 */
struct ps_strategy_stats {
    uint64_t steps;                         /* done by this process */
    uint64_t dropped;                       /* pushes of this worker that the age policy or the quorum dropped */
    uint64_t rejoins;                       /* after a lapsed lease */
    uint64_t reforms;                       /* times that the group was formed again */
    uint64_t received;                      /* times that this worker took its variables from another one */
    uint64_t gradient_sent, gradient_plain; /* bytes of gradients that went to shards or other workers; that they would
                                               be uncompressed. Of what devices reduce by themselves: those of rings */
    /* With shards: exchanges that were over with an error, so that nothing of their gradient counts, or a part, or it
     * is not known; and times that a run or a meeting first fetched values that were missing since. */
    uint64_t given_over, resumed;
};

/* What the strategy has counted.
 *
 * Parameters:
 *   out  filled
 * Since: 0.1 */
PS_API void ps_strategy_stats(const ps_strategy *strategy, struct ps_strategy_stats *out);

/* ---- Variables --------------------------------------------------------------------------------------------------- */

/* Create the next variable, before the start; its first values are there after it.
 *
 * Variables are numbered from 0 in the order of creation, which is the same on every worker.
 *
 * Parameters:
 *   spec  what it is; copied
 * Errors:
 *   PS_ERR_INVALID  as of ps_client_declare(), or one of this name was created before, or the strategy is started
 *   PS_ERR_NOMEM    no memory
 * Since: 0.1 */
PS_API enum ps_err ps_strategy_variable(ps_strategy *strategy, const struct ps_var_spec *spec,
                                        struct ps_error *error) PS_MUST_USE;

/* Create all parameters of a network as variables.
 *
 * Every replica's network reads its values and leaves its gradients where the strategy has them: in host memory, or on
 * the device. Once, before the start; no other variables.
 *
 * Parameters:
 *   networks   [ps_strategy_replicas()], all of one shape, each on its replica's device
 *   prefix     stands before each parameter's name; NULL: none
 *   optimizer  of all of them
 * Errors:
 *   PS_ERR_INVALID  there are variables already, the networks differ, one is not on its replica's device, a name or the
 *                   optimizer is not valid
 *   PS_ERR_IO       a device failed
 *   PS_ERR_NOMEM    no memory
 * Since: 0.1 */
PS_API enum ps_err ps_strategy_networks(ps_strategy *strategy, ps_network *const networks[], const char *prefix,
                                        const struct ps_optimizer *optimizer, struct ps_error *error) PS_MUST_USE;

/* How many variables there are.
 *
 * Returns: the number.
 * Since: 0.1 */
PS_API size_t ps_strategy_variables(const ps_strategy *strategy);

/* Where a replica's values are read, and its gradients belong.
 *
 * Replicas may share values. Valid from the start until the strategy is closed. Where variables stay on devices, values
 * are those of the last refresh or end of a run (after one that failed, perhaps in part), and gradients are in the
 * memory of the replica's device.
 *
 * Parameters:
 *   replica  of this process, from 0 on
 * Returns:
 *   ps_strategy_values()     [ps_strategy_variables()] pointers into host memory, 64-byte aligned, each [elements]
 *                            float32, of the strategy
 *   ps_strategy_gradients()  the same
 * Since: 0.1 */
PS_API float *const *ps_strategy_values(const ps_strategy *strategy, uint32_t replica);
PS_API float *const *ps_strategy_gradients(const ps_strategy *strategy, uint32_t replica);

/* Give the variables their first values, the same on every worker, or those that the others have by now.
 *
 * When all variables are created. With many workers it waits for them.
 *
 * Errors:
 *   PS_ERR_INVALID       it was started before, or there are no variables; a field of options.definition is not valid
 *   PS_ERR_MISMATCH      another worker trains otherwise: says which, in what, and both values; or a shard knows a
 *                        variable otherwise
 *   PS_ERR_IO            a device failed
 *   PS_ERR_UNSUPPORTED   device_reduce, and the devices cannot
 *   ps_client_declare()  with shards
 *   ps_group_open()      multi_worker_mirrored
 *   (exchange)           between workers
 * Since: 0.1 */
PS_API enum ps_err ps_strategy_start(ps_strategy *strategy, struct ps_error *error) PS_MUST_USE;

/* ---- Training ---------------------------------------------------------------------------------------------------- */

/* What a step function sees of its replica. It may write to gradients and metrics, nothing else.
 * Since: 0.1 */
struct ps_replica {
    uint32_t local;          /* its number in this process */
    uint32_t index, count;   /* its number among all replicas of all workers, and how many there are in this step */
    ps_device *device;       /* its own while the step function runs */
    uint64_t step;           /* from 0 on */
    uint64_t epoch, batch;   /* step's epoch, and its batch in it */
    uint64_t first, rows;    /* its slice of the global batch; rows may be 0 */
    uint64_t global;         /* rows of the whole batch */
    float scale;             /* of a row's loss */
    uint64_t draw;           /* a number of its own in every step and replica, for dropout */
    float *const *values;    /* as ps_strategy_values(), but of its device's memory where variables stay there */
    float *const *gradients; /* as ps_strategy_gradients(): written whole by the step function, zeros without rows */
    double *metrics;         /* [options.metrics], zeroed before: add to them */
    ps_strategy *strategy;
};

/* The gradient of a variable is final: communication of it may begin while others are still computed.
 *
 * From the step function, at most once a step for each variable; of those not named all is final when it returns. With
 * several replicas in a process it changes nothing: their sum is not there before all have computed.
 *
 * Parameters:
 *   replica  what the step function was given
 *   i        number of the variable
 * Threads: the replica's own.
 * Since: 0.1 */
PS_API void ps_replica_ready(struct ps_replica *replica, size_t i);

/* ps_network_gradient() of the network that was given for this replica, with each parameter named as it becomes ready.
 *
 * Parameters:
 *   replica  what the step function was given
 *   batch    the replica's rows
 *   result   filled; may be NULL
 * Errors:
 *   PS_ERR_INVALID         no network was given for the replica
 *   ps_network_gradient()  the batch, or the device
 * Threads: the replica's own.
 * Since: 0.1 */
PS_API enum ps_err ps_replica_gradient(struct ps_replica *replica, const struct ps_batch *batch,
                                       struct ps_network_result *result, struct ps_error *error) PS_MUST_USE;

/* A step that was completed.
 * Since: 0.1 */
struct ps_step_done {
    uint64_t step;         /* that was done; the next one is step + 1, but after a worker was lost or joined again */
    uint64_t rows;         /* that the metrics are about: of the whole batch, or, in parameter_server and local_sgd, of
                              this worker's replicas */
    const double *metrics; /* [options.metrics]: sums over these rows, in the order of replicas and workers */
};

/* The caller's functions in a run.
 * Since: 0.1 */
struct ps_strategy_calls {
    /* For each replica in each step, on the replica's thread; different replicas at the same time. An error ends the
     * run with it; nothing of the step happens. It must not call the strategy. */
    enum ps_err (*step)(void *arg, struct ps_replica *replica, struct ps_error *error);
    /* After each step, on the caller's thread; may look at values (where they stay on devices, after a refresh) and
     * save, but not run. NULL: nobody asks. */
    enum ps_err (*after)(void *arg, const struct ps_step_done *done, struct ps_error *error);
    void *arg;
};

/* Which step is next, and how many an epoch has.
 *
 * Returns:
 *   ps_strategy_step()        the step that is next: how many the training has done
 *   ps_strategy_steps_each()  steps of an epoch
 * Since: 0.1 */
PS_API uint64_t ps_strategy_step(const ps_strategy *strategy);
PS_API uint64_t ps_strategy_steps_each(const ps_strategy *strategy);

/* Train until ps_strategy_step() is at least `until`.
 *
 * A worker that comes late, or again, begins where the training is. Every replica's values are the newest of this step
 * when it returns. After an error of the exchange with PS_LAPSE_FAIL it may be closed and saved.
 *
 * Another run may follow an error that the session or the group outlives. Without shards the step that failed is done
 * again. In parameter_server and local_sgd its tick has gone out with the push, so that nobody waits for this worker:
 * an exchange with the shards that fails with NONFINITE, LIMIT, TIMEOUT and the like is over, of many blocks only those
 * that were refused are without its gradient, its rows and metrics count, calls.after is not called for it, and the
 * next run (or meeting) first fetches the values that have not come, then goes on behind it. In local_sgd that is the
 * whole round. A step function that fails, or in local_sgd a step whose gradient holds NaN, is done again there, too.
 *
 * Parameters:
 *   until  a step
 *   calls  the caller's functions; any code that they return ends the run with it
 * Errors:
 *   PS_ERR_INVALID      not started, or no step function
 *   PS_ERR_NONFINITE    a step's gradient: nothing of it was applied
 *   PS_ERR_IO           a device failed
 *   (exchange)          whatever else ended the exchange between workers: names who was lost
 *   ps_strategy_save()  options.checkpoints
 * Since: 0.1 */
PS_API enum ps_err ps_strategy_run(ps_strategy *strategy, uint64_t until, const struct ps_strategy_calls *calls,
                                   struct ps_error *error) PS_MUST_USE;

/* Fetch the newest values there are into every replica's, for an evaluation.
 *
 * Where they are in this process's memory they are there already. Networks on devices where variables stay need it for
 * ps_network_values() only.
 *
 * Errors:
 *   PS_ERR_INVALID  not started
 *   PS_ERR_IO       a device failed
 *   (exchange)      with the shards
 * Since: 0.1 */
PS_API enum ps_err ps_strategy_refresh(ps_strategy *strategy, struct ps_error *error) PS_MUST_USE;

/* Wait until all workers that are not lost have come here, each after its last step; then ps_strategy_totals() are the
 * same at each.
 *
 * All meet after the same steps, in the end or on the way.
 *
 * With shards, a process that came in the place of a lost one may meet before its first step, where the others meet
 * after as many steps as it begins with (ps_strategy_step()): if they have met there already, it passes at once, and
 * has the totals of that. If it goes on without, they do not wait for it there, and those who have not met yet may find
 * its next steps in their totals.
 *
 * Errors:
 *   PS_ERR_INVALID  not started
 *   (exchange)      as of a run
 * Since: 0.1 */
PS_API enum ps_err ps_strategy_meet(ps_strategy *strategy, struct ps_error *error) PS_MUST_USE;

/* Sums over all steps of all workers, from the beginning of the training to the last ps_strategy_meet() of this
 * process.
 *
 * Zeros before the first. What an epoch came to is the difference between two meetings; or a step function adds to some
 * metrics in one epoch alone. No network; never fails.
 *
 * Every step that was completed counts once, whatever was killed and started again meanwhile, and so do the steps of
 * workers that are lost since: with shards they are settled there, with the worker's clock and its place in the data;
 * in multi_worker_mirrored, a worker that joins gets them with the variables. They are not in checkpoints: what goes on
 * from one counts from there. In local_sgd a step counts with its round; one that a lapsed lease cost does not.
 *
 * One case is not the same at each: shard 0 loses its power (a kill is nothing) when some workers have got the totals
 * and have gone on, and others have not. These then get the first ones' further steps as well. No value depends on
 * that, and after the next meeting all is as it should be; but where totals decide whether training goes on, let one
 * worker decide.
 *
 * rows, and metrics that are whole numbers, are the same in every strategy whose workers lose no step; others are
 * summed in another order. One that was NaN once stays NaN.
 *
 * Parameters:
 *   rows     filled: rows that were trained on
 *   metrics  [options.metrics], filled
 * Since: 0.1 */
PS_API void ps_strategy_totals(const ps_strategy *strategy, uint64_t *rows, double *metrics);

/* ---- Checkpoints ------------------------------------------------------------------------------------------------- */

/* Write variables and slots to dir/NAME, in the format of ps_client_checkpoint(), which it is where there are shards.
 *
 * The chief does; at other workers nothing happens. Between runs, or from calls.after.
 *
 * Parameters:
 *   dir      there already
 *   options  NULL: all defaults. Where there are no shards name and keep count, and the usual name is "clock-STEP"
 *   name     where it went, freed with ps_free(), NULL at others; may be NULL
 * Errors:
 *   PS_ERR_INVALID          not started, or dir is NULL
 *   ps_client_checkpoint()  what a checkpoint may get
 * Since: 0.1 */
PS_API enum ps_err ps_strategy_save(ps_strategy *strategy, const char *dir, const struct ps_checkpoint_options *options,
                                    char **name, struct ps_error *error) PS_MUST_USE;

/* Begin where a checkpoint ended: its values, slots and step.
 *
 * After the start and before the first run, on every worker. A worker that got its variables from others who are
 * further has nothing to restore: PS_OK. Whichever strategy wrote the checkpoint; its variables must be those of here.
 *
 * Parameters:
 *   path  the checkpoint's directory, or dir/latest
 * Errors:
 *   PS_ERR_DATA         damaged, or not a checkpoint
 *   PS_ERR_VERSION      a format that is not known here
 *   PS_ERR_MISMATCH     a variable is not as here: says which
 *   PS_ERR_IO           a file cannot be read, or a device failed
 *   PS_ERR_UNSUPPORTED  there are shards, into which ps_client_restore() puts it, for all workers at once
 *   PS_ERR_INVALID      not started, or path is NULL
 *   PS_ERR_NOMEM        no memory
 * Since: 0.1 */
PS_API enum ps_err ps_strategy_restore(ps_strategy *strategy, const char *path, struct ps_error *error) PS_MUST_USE;

#ifdef __cplusplus
}
#endif

#endif
