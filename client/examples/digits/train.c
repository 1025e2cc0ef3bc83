#include "train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base.h"

#include "worker.h"

/* ---- Setting up ---- */

size_t
train_slice_max(const struct digits_options *o, uint64_t rows, uint32_t workers, uint32_t task)
{
    uint64_t first, count;

    ps_shard_range(MIN(o->batch, rows), workers, task, &first, &count);
    return (size_t)MAX(count, 1);
}

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

enum ps_err
train_init(struct train *t, struct ps_error *error)
{
    const struct digits_options *o = t->options;
    size_t slice = train_slice_max(o, t->data->rows, t->workers, t->task);
    enum ps_err err;

    err = ps_sampler_new(t->data->rows, o->batch, t->workers, t->task, o->seed, &t->sampler, error);
    if (err != PS_OK)
        return err;
    t->steps_each = ps_sampler_steps(t->sampler);
    t->steps = t->steps_each * o->epochs;
    t->x = aligned_alloc(64, round_up(slice * t->data->columns * sizeof *t->x, 64));
    t->labels = calloc(slice, sizeof *t->labels);
    if (t->x == NULL || t->labels == NULL)
        return ps_fail(error, PS_ERR_NOMEM, "no memory for a batch of %zu images", slice);
    if (!t->chief)
        return PS_OK;
    progress_init(&t->progress, stdout);
    if (!history_init(&t->history, t->steps, o->epochs))
        return ps_fail(error, PS_ERR_NOMEM, "no memory for the history of %llu steps", (unsigned long long)t->steps);
    return PS_OK;
}

void
train_finish(struct train *t)
{
    ps_sampler_free(t->sampler);
    free(t->x);
    free(t->labels);
    free(t->history.epoch);
    free(t->history.loss);
    free(t->history.smooth);
    free(t->history.epoch_at);
    free(t->history.accuracy);
}

/* ---- Watching: worker 0 only ---- */

/* Where one update of a shard's block came from a whole batch (sync), or from the slice of one worker. */
double
train_examples(const struct train *t)
{
    uint64_t quorum = t->options->quorum == 0 ? t->workers : t->options->quorum;
    double per_update = (double)t->data->rows / (double)t->steps_each / t->workers;

    if (t->options->mode == PS_SYNC)
        per_update *= quorum;
    return (double)(t->version - t->first_version) * per_update;
}

/* Newest version of the first variable, and what it says about the age of the push before: each update raised it by
 * one, this worker's own among them. */
static void
watch_version(struct train *t)
{
    uint64_t newest = 0;

    ps_var_versions(t->vars[0], NULL, &newest);
    if (newest > t->version)
        t->smooth_age += 0.1 * ((double)(newest - t->version - 1) - t->smooth_age);
    t->version = MAX(newest, t->version);
}

/* Averages over about an epoch, 100 steps at most; the first values start them. */
static void
watch_loss(struct train *t, uint64_t clock, const struct ps_network_result *result)
{
    struct train_history *h = &t->history;
    double weight = fmax(2.0 / (double)(t->steps_each + 1), 0.02), loss, accuracy;

    if (result->rows == 0)
        return;
    loss = result->loss / (double)result->rows;
    accuracy = (double)result->correct / (double)result->rows;
    if (h->steps == 0)
        weight = 1;
    t->smooth_loss += weight * (loss - t->smooth_loss);
    t->smooth_accuracy += weight * (accuracy - t->smooth_accuracy);
    if (h->steps >= t->steps)
        return; /* a rejoin may repeat steps */
    h->epoch[h->steps] = (double)(clock + 1) / (double)t->steps_each;
    h->loss[h->steps] = loss;
    h->smooth[h->steps] = t->smooth_loss;
    h->steps++;
}

static void
show(struct train *t, uint64_t clock)
{
    double now = worker_now_s(), seconds = now - t->started_s;
    struct progress_state s = {.epoch = MIN(clock / t->steps_each + 1, t->options->epochs),
                               .epochs = t->options->epochs,
                               .done = (double)clock / (double)t->steps,
                               .examples_per_s = seconds > 0 ? train_examples(t) / seconds : 0,
                               .loss = t->smooth_loss,
                               .accuracy = t->smooth_accuracy,
                               .age = t->smooth_age};

    progress_show(&t->progress, now, &s);
}

/* Held-out accuracy of the weights that are here now. */
static enum ps_err
watch_accuracy(struct train *t, uint64_t clock, struct ps_network_result *result, struct ps_error *error)
{
    struct train_history *h = &t->history;
    struct ps_batch all = {
        .rows = (size_t)t->held_out->rows, .x = t->held_out->features, .labels = t->held_out->labels};
    enum ps_err err;

    err = ps_network_evaluate(t->network, &all, result, error);
    if (err != PS_OK || h->epochs > t->options->epochs)
        return err;
    h->epoch_at[h->epochs] = (double)clock / (double)t->steps_each;
    h->accuracy[h->epochs] = 100.0 * (double)result->correct / (double)result->rows;
    h->epochs++;
    return PS_OK;
}

/* ---- Training ---- */

static enum ps_err
pull(struct train *t, int now, struct ps_error *error)
{
    struct ps_pull_options options = {.now = now};

    return ps_client_pull(t->client, ps_network_params(t->network), t->vars, ps_network_values(t->network), &options,
                          error);
}

/* Wait for one of the three, and free it. */
static enum ps_err
finish_op(ps_op *op, enum ps_err before, struct ps_error *error)
{
    enum ps_err err = before;

    if (before == PS_OK)
        err = ps_op_wait(op, -1, error);
    ps_op_free(op);
    return err;
}

/* Push, tick and pull travel together: a shard takes them in this order, so one round trip does for all three, and the
 * pull holds this worker's own update. */
static enum ps_err
exchange(struct train *t, struct ps_error *error)
{
    struct ps_cursor ends = worker_cursor(t->next, t->steps_each);
    struct ps_push_options options = {.cursor = &ends};
    size_t n = ps_network_params(t->network);
    ps_op *push = NULL, *tick = NULL, *next = NULL;
    enum ps_err err;

    err = ps_client_push_start(t->client, n, t->vars, ps_network_gradients(t->network), &options, &push, error);
    if (err == PS_OK)
        err = ps_client_tick_start(t->client, &tick, error);
    if (err == PS_OK)
        err = ps_client_pull_start(t->client, n, t->vars, ps_network_values(t->network), NULL, &next, error);
    err = finish_op(push, err, error);
    if (err == PS_ERR_STALE || err == PS_ERR_LATE) {
        t->dropped++; /* what the age policy or the quorum is there for */
        err = PS_OK;
    }
    err = finish_op(tick, err, error);
    return finish_op(next, err, error);
}

static enum ps_err
step(struct train *t, struct ps_error *error)
{
    uint64_t at = t->next;
    struct ps_slice slice = ps_sampler_slice(t->sampler, at / t->steps_each, at % t->steps_each);
    struct ps_batch batch = {.rows = slice.count, .x = t->x, .labels = t->labels};
    struct ps_network_result result;
    enum ps_err err;

    if (t->chief && at % t->steps_each == 0 && (err = watch_accuracy(t, at, &result, error)) != PS_OK)
        return err;
    ps_dataset_gather(t->data, slice.count, slice.index, t->x, t->labels);
    err = ps_network_gradient(t->network, &batch, ps_slice_scale_mean(&slice, t->workers), at * t->workers + t->task,
                              &result, error);
    if (err != PS_OK)
        return err;
    if ((err = exchange(t, error)) != PS_OK)
        return err;
    t->next++;
    if (!t->chief)
        return PS_OK;
    watch_version(t);
    watch_loss(t, at, &result);
    show(t, t->next);
    return PS_OK;
}

/* The others went on without this worker: join again where the slowest of them is, with the data that is next. */
static enum ps_err
rejoin(struct train *t, struct ps_error *error)
{
    enum ps_err err = ps_client_rejoin(t->client, -1, error);

    t->rejoins++;
    if (err != PS_OK)
        return err;
    t->next = worker_next_step(t->client, t->steps_each, t->steps);
    return pull(t, 0, error);
}

enum ps_err
train_run(struct train *t, struct ps_error *error)
{
    enum ps_err err;

    t->next = worker_next_step(t->client, t->steps_each, t->steps);
    if ((err = pull(t, 0, error)) == PS_ERR_LEASE_LAPSED)
        err = rejoin(t, error);
    t->started_s = worker_now_s();
    ps_var_versions(t->vars[0], NULL, &t->first_version);
    t->version = t->first_version;
    while (err == PS_OK && t->next < t->steps) {
        err = step(t, error);
        if (err == PS_ERR_LEASE_LAPSED)
            err = rejoin(t, error);
    }
    t->seconds = worker_now_s() - t->started_s;
    if (t->chief)
        progress_end(&t->progress);
    return err;
}

enum ps_err
train_meet(struct train *t, struct ps_error *error)
{
    enum ps_err err;

    while ((err = worker_meet(t->client, t->options->mode, (int)t->options->timeout_ms, t->vars[0],
                              ps_network_values(t->network)[0], error)) == PS_ERR_LEASE_LAPSED)
        if ((err = rejoin(t, error)) != PS_OK)
            return err;
    return err;
}

enum ps_err
train_evaluate(struct train *t, struct ps_network_result *result, struct ps_error *error)
{
    enum ps_err err;

    if ((err = pull(t, 1, error)) != PS_OK)
        return err;
    watch_version(t);
    t->seconds = worker_now_s() - t->started_s;
    return watch_accuracy(t, t->steps, result, error);
}
