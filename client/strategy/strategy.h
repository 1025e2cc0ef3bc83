/* The inside of a ps_strategy: what strategy.c keeps, what each strategy provides, and the modules that they share.
 *
 *     options.c            the options, checked
 *     replica_threads.c    threads, one for each replica
 *     replicas.c           devices; a step's slices; the step functions of all replicas, the sum of their gradients
 *     model.c              variables: values, gradients, optimizers; one update of all copies
 *     device_resident.c    the same where they stay on the replicas' devices
 *     checkpoint.c         a checkpoint of what is in this process
 *     training_definition.c  what all workers must have alike
 *     totals.c             rows and metrics, summed up over steps and workers
 *     shard_exchange.c     the shards: one exchange with them, and where training goes on
 *     <name>.c             one for each strategy: a row of operations
 *
 * Adding one is a row of PS_STRATEGY_LIST and a file that defines its operations. */
#ifndef CLIENT_STRATEGY_STRATEGY_H
#define CLIENT_STRATEGY_STRATEGY_H

#include "client/core/shards/local_optimizer.h"
#include "client/core/shards/variable.h"
#include "client/include/psclient/ps_strategy.h"
#include "common/core/base/base.h"

struct replica_threads;
struct device_resident;
struct training_definition;

/* ---- What a strategy is ---- */

enum strategy_trait {
    STRATEGY_THREADS = 1, /* replicas run on threads of their own, and each on its device in turn; else one by one, on
                             one device */
    STRATEGY_COPIES = 2,  /* every replica has values and slots of its own; else all share one copy */
    STRATEGY_SLOTS = 4,   /* the variables' optimizers are at work in this process */
    STRATEGY_WORKERS = 8, /* it is for all workers of a cluster; others train in each worker by itself */
    STRATEGY_SHARDS = 16  /* and needs shards */
};

/* NULL: nothing to do. Errors leave the strategy to be closed. */
struct strategy_ops {
    unsigned traits; /* of enum strategy_trait */
    /* Connect. Options are checked, devices open; the number of replicas of this process is known. */
    enum ps_err (*open)(ps_strategy *s, const ps_cluster *cluster, struct ps_error *e);
    /* All variables are there, with their first values where STRATEGY_SLOTS says so; s->next is 0. */
    enum ps_err (*start)(ps_strategy *s, struct ps_error *e);
    /* The gradient of variable i is final, in a step function of a process with one replica. NULL: not needed. */
    void (*ready)(ps_strategy *s, size_t i);
    /* What workers must have alike besides what all strategies compare (training_definition.h). */
    void (*define)(const ps_strategy *s, struct training_definition *d);
    /* Do step s->next, and raise it; or leave it, or change it, where something was recovered from. */
    enum ps_err (*step)(ps_strategy *s, bool *done, struct ps_error *e);
    /* Before a run and a meeting: what a step that failed has left open. */
    enum ps_err (*resume)(ps_strategy *s, struct ps_error *e);
    enum ps_err (*refresh)(ps_strategy *s, struct ps_error *e);
    enum ps_err (*meet)(ps_strategy *s, struct ps_error *e);
    /* NULL: checkpoint.c's, which takes replica 0's copy. */
    enum ps_err (*save)(ps_strategy *s, const char *dir, const struct ps_checkpoint_options *options, char **name,
                        struct ps_error *e);
    /* Behind the strategy's name; to text of size bytes. NULL: how many replicas. */
    void (*describe)(const ps_strategy *s, char *text, size_t size);
    void (*close)(ps_strategy *s, bool goodbye); /* also after a failed open */
};

#define STRATEGY_OPS(name) extern const struct strategy_ops strategy_##name;
PS_STRATEGY_LIST(STRATEGY_OPS)
#undef STRATEGY_OPS

/* ---- What it keeps ---- */

/* One copy of all variables. */
struct strategy_copy {
    float **values;                     /* [variables] */
    struct local_optimizer **optimizer; /* [variables]; NULL without STRATEGY_SLOTS */
};

#define STRATEGY_TOTALS_MAX (1 + PS_STRATEGY_METRICS_MAX) /* rows, and metrics behind them */

struct strategy_replica {
    struct ps_replica seen; /* what its step function receives */
    ps_device *device;
    ps_network *network;        /* that reads and writes here; NULL: none is bound */
    struct strategy_copy *copy; /* that it reads */
    float **gradients;          /* [variables]; NULL each where they stay on its device */
    bool placed;                /* the gradients lie in memory that the strategy does not own */
    double metrics[PS_STRATEGY_METRICS_MAX];
    enum ps_err err; /* of its step function */
    struct ps_error error;
};

struct ps_strategy {
    const char *name;
    const struct strategy_ops *ops;
    struct ps_strategy_options options; /* cluster is NULL, defaults are filled in */
    void *own;                          /* the strategy's: it makes it in open, and frees it in close */

    /* variables */
    struct variables table; /* their definitions, by name */
    struct core_var **vars; /* [vars_len] in the order of their creation */
    size_t vars_len;
    bool started;
    bool recorded; /* it counts among those that train (trace_recorder.h) */

    /* replicas */
    struct replica_threads *threads;
    ps_device *devices[PS_STRATEGY_REPLICAS_MAX];
    struct strategy_replica replica[PS_STRATEGY_REPLICAS_MAX];
    struct strategy_copy copy[PS_STRATEGY_REPLICAS_MAX];
    struct device_resident
        *resident; /* device_resident.h; NULL: all variables lie in host memory. Else copy[0] is what was fetched */
    uint32_t replicas, copies, devices_len;
    uint32_t index, count; /* of replica 0 among all; of all */

    /* workers */
    uint32_t task, workers; /* this one's number; as of now */
    bool chief;
    bool inherits;     /* it is the chief since another one was: has that saved what was due after the last step? */
    ps_client *client; /* NULL: there are no shards */
    ps_var **client_vars;
    struct ps_tensors *tensors; /* for variables that stay on devices; NULL: none do */
    bool behind;                /* the values that belong to this worker's last tick have not arrived */

    /* the training */
    uint64_t next, steps_each;
    uint32_t round; /* steps between two exchanges with the shards, each of which raises this worker's clock by one */
    float divisor;  /* that the sum of gradients is divided by before it is applied, here or on the shards: the loss is
                       scaled by it over the global batch */
    const struct ps_strategy_calls *calls; /* of the run */
    struct ps_step_done done;              /* of the last step */
    double metrics[PS_STRATEGY_METRICS_MAX];
    double counted[STRATEGY_TOTALS_MAX]; /* of all steps and workers; with shards, of this worker since its last tick */
    double totals[STRATEGY_TOTALS_MAX];  /* of all steps and workers, when they met last */
    const char *totals_names[STRATEGY_TOTALS_MAX]; /* borrowed: those of the options behind that of the rows */
    struct strategy_met {
        uint64_t step;  /* that was next when this process last entered a meeting, */
        uint32_t times; /* and how many it entered at that step */
    } met;
    struct ps_strategy_stats stats;
};

/* ---- options.c ---- */

/* The options, checked and with defaults; s is zeroed. Sets name, ops, options, workers, task, replicas. */
enum ps_err strategy_read_options(ps_strategy *s, const char *name, const struct ps_strategy_options *options,
                                  struct ps_error *e) PS_MUST_USE;

/* ---- replicas.c ---- */

enum ps_err strategy_open_replicas(ps_strategy *s, struct ps_error *e) PS_MUST_USE;
void strategy_close_replicas(ps_strategy *s);

/* Compute step s->next on all replicas: its slices by s->index and s->count, its scale by s->divisor. The sum of the
 * gradients, in the order of replicas, is in those of replica 0, or on all devices; s->metrics are theirs. Raises
 * nothing. The first error of a step function. */
enum ps_err strategy_compute(ps_strategy *s, struct ps_error *e) PS_MUST_USE;

/* ---- model.c ---- */

enum ps_err strategy_add_variable(ps_strategy *s, const struct ps_var_spec *spec, struct ps_error *e) PS_MUST_USE;
void strategy_free_variables(ps_strategy *s);

/* Replica 0's gradients, and so their sum, lie in this memory from now on: [vars] pointers to [elements] f32, borrowed
 * until the strategy is closed. */
void strategy_place_gradients(ps_strategy *s, float *const *gradients);

/* First values of all copies, and their slots. */
enum ps_err strategy_initialize(ps_strategy *s, struct ps_error *e) PS_MUST_USE;

/* One update of every copy by replica 0's gradients, times scale, as of step s->next. NONFINITE: nothing changed. */
enum ps_err strategy_update(ps_strategy *s, float scale, struct ps_error *e) PS_MUST_USE;

/* Make all copies as the first one is. */
enum ps_err strategy_spread(ps_strategy *s, struct ps_error *e) PS_MUST_USE;

/* The first copy is of now, its values alone or the slots, too. */
enum ps_err strategy_gather(ps_strategy *s, bool slots, struct ps_error *e) PS_MUST_USE;

/* ---- totals.c ---- */

size_t strategy_totals_len(const ps_strategy *s);

/* The step of s->done is completed. */
void strategy_count_step(ps_strategy *s);

/* The counts are reported, or are to be forgotten: begin at 0. */
void strategy_count_none(ps_strategy *s);

/* All have met. totals: [strategy_totals_len()] */
void strategy_totals_are(ps_strategy *s, const double *totals);

/* ---- one_device.c ---- */

/* A step that involves no other process: compute, divide, update. */
enum ps_err strategy_step_here(ps_strategy *s, bool *done, struct ps_error *e) PS_MUST_USE;

/* ---- shard_exchange.c: for STRATEGY_SHARDS ---- */

/* Connect; this worker's place among all replicas. */
enum ps_err shard_exchange_open(ps_strategy *s, const ps_cluster *cluster, struct ps_error *e) PS_MUST_USE;
void shard_exchange_close(ps_strategy *s, bool goodbye);

/* As the operation of this name: how many replicas each worker has. */
void shard_exchange_define(const ps_strategy *s, struct training_definition *d);

/* As the operation of this name: the gradient leaves the device while others are computed. */
void shard_exchange_ready(ps_strategy *s, size_t i);

/* Declare all variables, with this optimizer on the shards (NULL: their own), and pull; s->next is where this worker's
 * data goes on. */
enum ps_err shard_exchange_start(ps_strategy *s, const struct ps_optimizer *optimizer, struct ps_error *e) PS_MUST_USE;

/* Push the gradients of replica 0, on its device where variables stay there, which are of the data before step ends_at,
 * tick, and pull the values: in flight together, one round trip. A push that the job's policy drops is counted. over:
 * the tick was sent, also with an error: this data is never pushed again, and the counts are reported. s->behind then
 * says whether values are missing. */
enum ps_err shard_exchange_step(ps_strategy *s, uint64_t ends_at, bool *over, struct ps_error *e) PS_MUST_USE;

/* Fetch the values that did not arrive in an exchange. */
enum ps_err shard_exchange_resume(ps_strategy *s, struct ps_error *e) PS_MUST_USE;

/* After LEASE_LAPSED: join again, pull, and set s->next to where this worker's data goes on, as often as it takes.
 * Another err is returned as it is. */
enum ps_err shard_exchange_rejoin(ps_strategy *s, enum ps_err err, struct ps_error *e) PS_MUST_USE;

enum ps_err shard_exchange_refresh(ps_strategy *s, struct ps_error *e) PS_MUST_USE; /* the values of now */
enum ps_err shard_exchange_meet(ps_strategy *s, struct ps_error *e) PS_MUST_USE;
enum ps_err shard_exchange_save(ps_strategy *s, const char *dir, const struct ps_checkpoint_options *options,
                                char **name, struct ps_error *e) PS_MUST_USE;

/* ---- checkpoint.c ---- */

enum ps_err strategy_save_copy(ps_strategy *s, const char *dir, const struct ps_checkpoint_options *options,
                               char **name, struct ps_error *e) PS_MUST_USE;
/* Whether dir has the checkpoint that this step is saved as, whole. */
bool strategy_copy_is_saved(const ps_strategy *s, const char *dir);

enum ps_err strategy_restore_copy(ps_strategy *s, const char *path, struct ps_error *e) PS_MUST_USE;

#endif
