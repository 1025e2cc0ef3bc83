#include "client/examples/digits/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/base/base.h"

#include "client/examples/digits/model.h"
#include "client/examples/shared/worker.h"

/* The sums of a step; the last three in the last epoch alone. */
enum { METRIC_LOSS, METRIC_CORRECT, METRIC_LAST_ROWS, METRIC_LAST_LOSS, METRIC_LAST_CORRECT, METRICS };

/* As means over rows, which is how they are shown. */
static const char *const metric_names[METRICS] = {[METRIC_LOSS] = "loss",
                                                  [METRIC_CORRECT] = "accuracy",
                                                  [METRIC_LAST_ROWS] = "last_epoch_rows",
                                                  [METRIC_LAST_LOSS] = "last_epoch_loss",
                                                  [METRIC_LAST_CORRECT] = "last_epoch_correct"};

bool
train_is_chief(const struct train *t)
{
    return t->strategy != NULL && !t->silent && ps_strategy_is_chief(t->strategy);
}

/* ---- Setting up ---- */

static bool
history_init(struct train_history *h, uint64_t steps, uint64_t epochs)
{
    h->epoch = calloc(steps, sizeof *h->epoch);
    h->loss = calloc(steps, sizeof *h->loss);
    h->smooth = calloc(steps, sizeof *h->smooth);
    h->epoch_at = calloc(epochs + 1, sizeof *h->epoch_at);
    h->accuracy = calloc(epochs + 1, sizeof *h->accuracy);
    return h->epoch != NULL && h->loss != NULL && h->smooth != NULL && h->epoch_at != NULL && h->accuracy != NULL;
}

/* Events that no call reports, but for reconnects. The chief reports them for all; but only each worker knows which of
 * its pushes a shard that was restored to an older state has lost. Training goes on from there. */
static void
on_event(void *arg, const struct ps_error *event)
{
    struct train *t = arg;
    bool lapsed = event->code == PS_ERR_LEASE_LAPSED && train_is_chief(t),
         rolled_back = event->code == PS_ERR_ROLLED_BACK || event->code == PS_ERR_RESTORED;

    if (!lapsed && !rolled_back)
        return;
    if (train_is_chief(t))
        progress_end(&t->progress);
    worker_print_error("digits", rolled_back ? (long)t->task : -1, event);
}

static enum ps_err
open_strategy(struct train *t, const ps_cluster *cluster, struct ps_error *e)
{
    const struct digits_options *o = t->options;
    uint64_t batch = MIN(o->batch, t->data->rows);
    struct ps_strategy_options options = {
        .cluster = cluster,
        .client = {.job = o->job,
                   .mode = o->mode,
                   .bound = (uint32_t)o->bound,
                   .quorum = (uint32_t)o->quorum,
                   .lapse = o->lapse,
                   .age = o->age,
                   .age_parameter = o->age_parameter,
                   .timeout_ms = (int)o->timeout_ms,
                   .lease_ms = o->lease_ms,
                   .durable = o->durable,
                   .compress = o->compress,
                   .on_event = on_event,
                   .on_event_arg = t},
        .local = o->local,
        .group = t->group,
        .device_reduce = o->device_reduce,
        .min_workers = (uint32_t)o->min_workers,
        .devices = o->device,
        .replicas = (uint32_t)o->replicas,
        .precision = o->precision,
        .threads = (int)o->threads,
        .rows = t->data->rows,
        .batch = o->batch,
        .metrics = METRICS,
        .metric_names = metric_names,
        .definition = t->definition.field,
        .may_differ = o->may_differ,
        .checkpoints = o->checkpoints,
        .checkpoint_steps = (t->data->rows + batch - 1) / batch,
    };

    worker_define(&t->definition, t->fingerprint, o->epochs, o->seed);
    options.definitions = t->definition.len;
    t->task = cluster != NULL ? ps_cluster_task(cluster) : 0;
    return ps_strategy_open(o->strategy, &options, &t->strategy, e);
}

static enum ps_err
alloc_batch(const struct train *t, uint32_t i, struct train_batch *b, size_t rows, struct ps_error *e)
{
    ps_device *device = ps_strategy_device(t->strategy, i);
    void *x, *labels;
    enum ps_err err;

    if ((err = ps_device_alloc_host(device, rows * t->data->columns * sizeof *b->x, &x, e)) != PS_OK)
        return err;
    b->x = x;
    if ((err = ps_device_alloc_host(device, rows * sizeof *b->labels, &labels, e)) != PS_OK)
        return err;
    b->labels = labels;
    return PS_OK;
}

/* Slices grow when workers are lost, up to the whole batch. */
static enum ps_err
init_replica(struct train *t, uint32_t i, struct ps_error *e)
{
    const struct digits_options *o = t->options;
    struct train_replica *r = &t->replica[i];
    size_t rows = (size_t)MIN(o->batch, t->data->rows);
    enum ps_err err;

    for (int k = 0; k < 2; k++)
        if ((err = alloc_batch(t, i, &r->batch[k], rows, e)) != PS_OK)
            return err;
    return model_new(ps_strategy_device(t->strategy, i), o->layers, t->data,
                     MAX(t->data->classes, t->held_out->classes), MAX(rows, 64), o->seed, &r->network, e);
}

static enum ps_err
init_replicas(struct train *t, struct ps_error *e)
{
    const struct digits_options *o = t->options;
    ps_network *networks[PS_STRATEGY_REPLICAS_MAX];
    enum ps_err err;

    if ((err = ps_sampler_new(t->data->rows, (size_t)o->batch, 1, 0, o->seed, &t->sampler, e)) != PS_OK)
        return err;
    t->replicas = ps_strategy_replicas(t->strategy);
    if ((t->replica = calloc(t->replicas, sizeof *t->replica)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for %u replicas", t->replicas);
    for (uint32_t i = 0; i < t->replicas && err == PS_OK; i++) {
        err = init_replica(t, i, e);
        networks[i] = t->replica[i].network;
    }
    return err == PS_OK ? ps_strategy_networks(t->strategy, networks, "", &o->optimizer, e) : err;
}

enum ps_err
train_open(struct train *t, const ps_cluster *cluster, struct ps_error *error)
{
    enum ps_err err;

    if ((err = open_strategy(t, cluster, error)) != PS_OK || (err = init_replicas(t, error)) != PS_OK)
        return err;
    t->steps_each = ps_strategy_steps_each(t->strategy);
    t->steps = t->steps_each * t->options->epochs;
    if (!t->silent)
        progress_init(&t->progress, stdout);
    if (!history_init(&t->history, t->steps, t->options->epochs))
        return ps_fail(error, PS_ERR_NOMEM, "no memory for the history of %llu steps", (unsigned long long)t->steps);
    if ((err = ps_strategy_start(t->strategy, error)) != PS_OK)
        return err;
    if (t->options->restore != NULL && (err = ps_strategy_restore(t->strategy, t->options->restore, error)) != PS_OK)
        return err;
    t->began = ps_strategy_step(t->strategy);
    t->started_s = worker_now_s();
    return PS_OK;
}

void
train_close(struct train *t, bool goodbye)
{
    for (uint32_t i = 0; i < t->replicas && t->replica != NULL; i++) {
        ps_network_free(t->replica[i].network);
        for (int k = 0; k < 2; k++) {
            ps_device_free_host(ps_strategy_device(t->strategy, i), t->replica[i].batch[k].x);
            ps_device_free_host(ps_strategy_device(t->strategy, i), t->replica[i].batch[k].labels);
        }
    }
    free(t->replica);
    ps_sampler_free(t->sampler);
    if (goodbye)
        ps_strategy_close(t->strategy);
    else
        ps_strategy_abandon(t->strategy);
    free(t->history.epoch);
    free(t->history.loss);
    free(t->history.smooth);
    free(t->history.epoch_at);
    free(t->history.accuracy);
}

/* ---- Watching: the chief only ---- */

/* On shards one update of a block is of a whole batch (sync), or of the slice of one worker; elsewhere a step is a
 * batch. */
double
train_examples(const struct train *t)
{
    const struct digits_options *o = t->options;
    uint32_t workers = ps_strategy_workers(t->strategy);
    uint64_t quorum = o->quorum == 0 ? workers : o->quorum;
    double per_step = (double)t->data->rows / (double)t->steps_each * MAX(o->local.steps, 1);
    bool sync = o->mode == PS_SYNC || o->local.steps > 0;

    if (ps_strategy_client(t->strategy) == NULL)
        return (double)(ps_strategy_step(t->strategy) - t->began) * per_step;
    return (double)(t->version - t->first_version) * per_step / workers * (double)(sync ? quorum : 1);
}

/* Newest version of the first variable, and from it the age of the push before: each update raised it by one, this
 * worker's own among them. */
static void
watch_version(struct train *t)
{
    ps_var *var = ps_strategy_var(t->strategy, 0);
    uint64_t newest = 0;

    if (var != NULL)
        ps_var_versions(var, NULL, &newest);
    if (newest > t->version)
        t->smooth_age += 0.1 * ((double)(newest - t->version - 1) - t->smooth_age);
    t->version = MAX(newest, t->version);
}

/* Averages over about an epoch, 100 steps at most; the first values start them. */
static void
watch_loss(struct train *t, const struct ps_step_done *done)
{
    struct train_history *h = &t->history;
    double weight = fmax(2.0 / (double)(t->steps_each + 1), 0.02), loss, accuracy;

    if (done->rows == 0)
        return;
    loss = done->metrics[METRIC_LOSS] / (double)done->rows;
    accuracy = done->metrics[METRIC_CORRECT] / (double)done->rows;
    if (h->steps == 0)
        weight = 1;
    t->smooth_loss += weight * (loss - t->smooth_loss);
    t->smooth_accuracy += weight * (accuracy - t->smooth_accuracy);
    if (h->steps >= t->steps)
        return; /* a rejoin may repeat steps */
    h->epoch[h->steps] = (double)(done->step + 1) / (double)t->steps_each;
    h->loss[h->steps] = loss;
    h->smooth[h->steps] = t->smooth_loss;
    h->steps++;
}

static void
train_show(struct train *t, uint64_t step)
{
    double now = worker_now_s(), seconds = now - t->started_s;
    struct progress_state s = {.epoch = MIN(step / t->steps_each + 1, t->options->epochs),
                               .epochs = t->options->epochs,
                               .done = (double)step / (double)t->steps,
                               .examples_per_s = seconds > 0 ? train_examples(t) / seconds : 0,
                               .loss = t->smooth_loss,
                               .accuracy = t->smooth_accuracy,
                               .age = t->smooth_age};

    progress_show(&t->progress, now, &s);
}

/* Held-out accuracy of the weights that are here now. */
static enum ps_err
watch_accuracy(struct train *t, uint64_t step, struct ps_network_result *result, struct ps_error *error)
{
    struct train_history *h = &t->history;
    struct ps_batch all = {
        .rows = (size_t)t->held_out->rows, .x = t->held_out->features, .labels = t->held_out->labels};
    enum ps_err err;

    err = ps_network_evaluate(t->replica[0].network, &all, result, error);
    if (err != PS_OK || h->epochs > t->options->epochs)
        return err;
    h->epoch_at[h->epochs] = (double)step / (double)t->steps_each;
    h->accuracy[h->epochs] = 100.0 * (double)result->correct / (double)result->rows;
    h->epochs++;
    return PS_OK;
}

/* ---- Training ---- */

/* Rows [first, first + rows) of the batch of a step, counted from 0 over all epochs. */
static struct train_batch *
gather_batch(struct train *t, struct train_replica *mine, uint64_t step, uint64_t first, uint64_t rows)
{
    struct train_batch *b = &mine->batch[step % 2];
    struct ps_slice whole = ps_sampler_slice(t->sampler, step / t->steps_each, step % t->steps_each);

    if (b->step == step + 1 && b->first == first && b->rows == rows)
        return b;
    ps_dataset_gather(t->data, (size_t)rows, whole.index + first, b->x, b->labels);
    b->step = step + 1;
    b->first = first;
    b->rows = rows;
    return b;
}

static struct ps_batch
seen_batch(const struct train_batch *b)
{
    return (struct ps_batch){.rows = (size_t)b->rows, .x = b->x, .labels = b->labels};
}

/* What this replica computes next, unless its share changes, goes to its device meanwhile. */
static enum ps_err
prefetch_next(struct train *t, struct train_replica *mine, const struct ps_replica *r, struct ps_error *error)
{
    uint64_t next = r->step + 1, all = MIN(t->options->batch, t->data->rows), first, rows;
    struct ps_batch batch;

    if (next >= t->steps || ps_device_is_host(r->device))
        return PS_OK;
    ps_shard_range(MIN(all, t->data->rows - next % t->steps_each * all), r->count, r->index, &first, &rows);
    batch = seen_batch(gather_batch(t, mine, next, first, rows));
    return ps_network_prefetch(mine->network, &batch, error);
}

/* The gradient of one replica's slice; on its thread. */
static enum ps_err
train_step(void *arg, struct ps_replica *r, struct ps_error *error)
{
    struct train *t = arg;
    struct train_replica *mine = &t->replica[r->local];
    struct ps_batch batch = seen_batch(gather_batch(t, mine, r->step, r->first, r->rows));
    struct ps_network_result result;
    enum ps_err err;

    if ((err = prefetch_next(t, mine, r, error)) != PS_OK)
        return err;
    if ((err = ps_replica_gradient(r, &batch, &result, error)) != PS_OK)
        return err;
    r->metrics[METRIC_LOSS] += result.loss;
    r->metrics[METRIC_CORRECT] += (double)result.correct;
    if (r->epoch + 1 == t->options->epochs) {
        r->metrics[METRIC_LAST_ROWS] += (double)r->rows;
        r->metrics[METRIC_LAST_LOSS] += result.loss;
        r->metrics[METRIC_LAST_CORRECT] += (double)result.correct;
    }
    return PS_OK;
}

static enum ps_err
train_after(void *arg, const struct ps_step_done *done, struct ps_error *error)
{
    struct train *t = arg;

    (void)error;
    if (!train_is_chief(t))
        return PS_OK;
    watch_version(t);
    watch_loss(t, done);
    train_show(t, done->step + 1);
    return PS_OK;
}

enum ps_err
train_run(struct train *t, struct ps_error *error)
{
    const struct ps_strategy_calls calls = {.step = train_step, .after = train_after, .arg = t};
    struct ps_network_result result;
    enum ps_err err = PS_OK;
    uint64_t at;

    if (ps_strategy_var(t->strategy, 0) != NULL)
        ps_var_versions(ps_strategy_var(t->strategy, 0), NULL, &t->first_version);
    t->version = t->first_version;
    while (err == PS_OK && (at = ps_strategy_step(t->strategy)) < t->steps) {
        if (train_is_chief(t) && at % t->steps_each == 0)
            err = watch_accuracy(t, at, &result, error);
        if (err == PS_OK)
            err = ps_strategy_run(t->strategy, MIN((at / t->steps_each + 1) * t->steps_each, t->steps), &calls, error);
    }
    t->seconds = worker_now_s() - t->started_s;
    if (train_is_chief(t))
        progress_end(&t->progress);
    return err;
}

enum ps_err
train_meet(struct train *t, struct ps_error *error)
{
    return ps_strategy_meet(t->strategy, error);
}

struct train_totals
train_totals(const struct train *t)
{
    double metrics[METRICS];
    uint64_t rows;

    ps_strategy_totals(t->strategy, &rows, metrics);
    return (struct train_totals){.rows = rows,
                                 .loss = metrics[METRIC_LOSS],
                                 .correct = metrics[METRIC_CORRECT],
                                 .last_rows = metrics[METRIC_LAST_ROWS],
                                 .last_loss = metrics[METRIC_LAST_LOSS],
                                 .last_correct = metrics[METRIC_LAST_CORRECT]};
}

enum ps_err
train_evaluate(struct train *t, struct ps_network_result *result, struct ps_error *error)
{
    enum ps_err err;

    if ((err = ps_strategy_refresh(t->strategy, error)) != PS_OK)
        return err;
    watch_version(t);
    t->seconds = worker_now_s() - t->started_s;
    return watch_accuracy(t, t->steps, result, error);
}
