/* logistic: a worker that trains a logistic regression on sparse examples (LIBSVM files) through psd:
 *
 *     psrun --shards 2 --workers 3 -- logistic --strategy ssp:4
 *
 * But for its command line (options.c) it uses nothing but the installed headers. Every worker loads the data, takes
 * its slice of each batch, and runs
 *
 *     pull w and b; forward and backward on the slice; push both gradients; tick
 *
 * until it has done its last step. Each push says where its step's data ends, so a worker that was killed and started
 * again goes on after the last step that counted. Worker 0 then measures on the held-out examples. Exit status: 0, 1
 * for an error (one line on stderr), 2 for a command line or an environment that it cannot start with. */
#include <stdio.h>
#include <stdlib.h>

#include "client/examples/logistic/model.h"
#include "client/examples/logistic/options.h"
#include "client/examples/shared/shipped.h"
#include "client/examples/shared/worker.h"

#define MEET_MS      60000      /* that the slowest worker may need when this one is done */
#define COLUMNS_MOST (1u << 26) /* without --columns: a model costs 20 bytes a column here, and more on the shards */

/* All that a worker holds; zeroed at first, so that it can be torn down at any point. */
struct logistic_worker {
    struct logistic_options options;
    ps_cluster *cluster;
    uint32_t workers, task;
    ps_client *client;
    ps_device *device;
    ps_sampler *sampler;
    struct ps_sparse train, held_out, batch;
    struct ps_binary binary;
    struct worker_definition definition; /* what all workers must have alike */
    struct logistic_model model;
    uint64_t steps_each, steps; /* of an epoch, of all */
    uint64_t next;              /* to do */
};

/* ---- Data ---- */

/* Wrong labels of the held-out part are reported now, not after all the training. */
static enum ps_err
check_labels(const struct logistic_worker *w, struct ps_error *error)
{
    float *targets = malloc((size_t)w->held_out.rows * sizeof *targets);
    enum ps_err err;

    if (targets == NULL)
        return ps_fail(error, PS_ERR_NOMEM, "no memory for %llu labels", (unsigned long long)w->held_out.rows);
    err = ps_binary_targets(&w->held_out, &w->binary, targets, error);
    free(targets);
    return err;
}

/* Both parts are read together: a column is the same one in both. */
static enum ps_err
logistic_load(struct logistic_worker *w, struct ps_error *error)
{
    const struct logistic_options *o = &w->options;
    char train[SHIPPED_PATH_MAX], held_out[SHIPPED_PATH_MAX];
    struct ps_libsvm_options read = {.base = o->base, .columns = o->columns, .columns_max = COLUMNS_MOST};
    const char *const paths[] = {o->train != NULL ? o->train : shipped_find("wdbc/train.svm", train),
                                 o->held_out != NULL ? o->held_out : shipped_find("wdbc/held-out.svm", held_out)};
    struct ps_sparse parts[2];
    enum ps_err err;

    if ((err = ps_libsvm_read_parts(2, paths, &read, parts, error)) != PS_OK)
        return err;
    w->train = parts[0];
    w->held_out = parts[1];
    worker_define(&w->definition, ps_sparse_fingerprint(&w->train), o->epochs, o->seed);
    worker_define_number(&w->definition, "rows", w->train.rows);
    worker_define_number(&w->definition, "batch", o->batch);
    if ((err = ps_binary_fit(&w->train, &w->binary, error)) != PS_OK)
        return err;
    return check_labels(w, error);
}

/* The held-out part is scaled as the training part is. */
static enum ps_err
logistic_scale(struct logistic_worker *w, struct ps_error *error)
{
    struct ps_scaling scaling = {0};
    enum ps_err err;

    if ((err = ps_sparse_scaling_fit(&w->train, &scaling, error)) != PS_OK)
        return err;
    if ((err = ps_sparse_scale(&w->train, &scaling, error)) == PS_OK)
        err = ps_sparse_scale(&w->held_out, &scaling, error);
    ps_scaling_free(&scaling);
    return err;
}

/* ---- Setting up ---- */

static enum ps_err
logistic_prepare(struct logistic_worker *w, struct ps_error *error)
{
    const struct logistic_options *o = &w->options;
    size_t rows_max;
    enum ps_err err;

    if ((err = logistic_scale(w, error)) != PS_OK)
        return err;
    err = ps_sampler_new(w->train.rows, (size_t)o->batch, w->workers, w->task, o->seed, &w->sampler, error);
    if (err != PS_OK)
        return err;
    w->steps_each = ps_sampler_steps(w->sampler);
    w->steps = w->steps_each * o->epochs;
    rows_max = ps_sampler_slice_max(w->sampler);
    if ((err = ps_sparse_batch_new(&w->train, rows_max, &w->batch, error)) != PS_OK)
        return err;
    if (w->held_out.rows > rows_max)
        rows_max = (size_t)w->held_out.rows;
    err = ps_device_open("cpu", &(struct ps_device_options){.workers = (int)w->workers}, &w->device, error);
    return err != PS_OK ? err : model_init(&w->model, w->device, rows_max, error);
}

/* A shard was restored to an older state: report what is lost, and go on. */
static void
on_event(void *arg, const struct ps_error *event)
{
    const struct logistic_worker *w = arg;

    if (event->code == PS_ERR_ROLLED_BACK || event->code == PS_ERR_RESTORED)
        worker_print_error("logistic", w->task, event);
}

static enum ps_err
logistic_join(struct logistic_worker *w, struct ps_error *error)
{
    struct ps_client_options options = {
        .job = "logistic",
        .mode = w->options.mode,
        .bound = w->options.bound,
        .durable = w->options.durable,
        .on_event = on_event,
        .on_event_arg = w,
    };
    enum ps_err err = ps_client_open(w->cluster, &options, &w->client, error);

    if (err == PS_OK && !w->options.may_differ)
        err = ps_client_define(w->client, w->definition.len, w->definition.field, -1, error);
    if (err != PS_OK)
        return err;
    return model_declare(&w->model, w->client, w->train.columns, &w->options.optimizer, error);
}

/* ---- Training ---- */

static enum ps_err
logistic_pull(struct logistic_worker *w, int now, struct ps_error *error)
{
    return ps_client_pull(w->client, MODEL_VARS, w->model.vars, w->model.values, &(struct ps_pull_options){.now = now},
                          error);
}

static enum ps_err
logistic_step(struct logistic_worker *w, struct ps_error *error)
{
    struct ps_slice slice = ps_sampler_slice(w->sampler, w->next / w->steps_each, w->next % w->steps_each);
    struct ps_cursor ends = worker_cursor(w->next, w->steps_each);
    struct ps_push_options options = {.cursor = &ends};
    const float *gradients[MODEL_VARS] = {w->model.gradients[0], w->model.gradients[1]};
    struct model_result result;
    enum ps_err err;

    if ((err = logistic_pull(w, 0, error)) != PS_OK)
        return err;
    ps_sparse_gather(&w->train, slice.count, slice.index, &w->batch);
    err = model_run(&w->model, &w->batch, &w->binary, ps_slice_scale_mean(&slice, w->workers), &result, error);
    if (err != PS_OK)
        return err;
    err = ps_client_push(w->client, MODEL_VARS, w->model.vars, gradients, &options, error);
    if (err == PS_OK || err == PS_ERR_STALE) /* too old for an age policy that psctl has set: its drops are meant */
        err = ps_client_tick(w->client, error);
    w->next += err == PS_OK;
    return err;
}

/* Wait until all workers that are not lost have done their steps. */
static enum ps_err
logistic_meet(struct logistic_worker *w, struct ps_error *error)
{
    enum ps_err err;

    while ((err = worker_meet(w->client, w->options.mode, MEET_MS, w->model.vars[0], w->model.values[0], error)) ==
           PS_ERR_LEASE_LAPSED)
        if ((err = ps_client_rejoin(w->client, -1, error)) != PS_OK)
            return err;
    return err;
}

/* A worker whose lease lapsed joins again where the slowest of the others is, and goes on with its own data. */
static enum ps_err
logistic_train(struct logistic_worker *w, struct ps_error *error)
{
    enum ps_err err = PS_OK;

    w->next = worker_next_step(w->client, w->steps_each, w->steps);
    while (err == PS_OK && w->next < w->steps) {
        err = logistic_step(w, error);
        if (err == PS_ERR_LEASE_LAPSED && (err = ps_client_rejoin(w->client, -1, error)) == PS_OK)
            w->next = worker_next_step(w->client, w->steps_each, w->steps);
    }
    return err != PS_OK ? err : logistic_meet(w, error);
}

/* ---- Reporting ---- */

static void
print_start(const struct logistic_worker *w)
{
    static const char *const modes[] = {"async", "ssp", "sync"};

    printf("%llu examples of %llu columns, %.1f of them not 0 in an example; %llu held out\n",
           (unsigned long long)w->train.rows, (unsigned long long)w->train.columns,
           (double)w->train.entries / (double)w->train.rows, (unsigned long long)w->held_out.rows);
    printf("%u worker%s, %u shard%s, %s, %llu steps of %llu examples\n", w->workers, w->workers == 1 ? "" : "s",
           ps_client_shards(w->client), ps_client_shards(w->client) == 1 ? "" : "s", modes[w->options.mode],
           (unsigned long long)w->steps, (unsigned long long)w->options.batch);
    fflush(stdout);
}

static enum ps_err
print_result(struct logistic_worker *w, double seconds, struct ps_error *error)
{
    struct model_result r;
    size_t zero = 0;
    enum ps_err err;

    if ((err = logistic_pull(w, 1, error)) != PS_OK)
        return err;
    if ((err = model_run(&w->model, &w->held_out, &w->binary, 0, &r, error)) != PS_OK)
        return err;
    for (size_t i = 0; i < w->model.columns; i++)
        zero += w->model.values[0][i] == 0;
    printf("held out: %.2f %% right (%zu of %zu), mean loss %.4f; %zu of %zu weights are 0; %.2f s\n",
           100.0 * (double)r.correct / (double)r.rows, r.correct, r.rows, r.loss / (double)r.rows, zero,
           w->model.columns, seconds);
    return PS_OK;
}

static enum ps_err
logistic_run(struct logistic_worker *w, struct ps_error *error)
{
    double started;
    enum ps_err err;

    w->workers = ps_cluster_workers(w->cluster);
    w->task = ps_cluster_task(w->cluster);
    if ((err = logistic_load(w, error)) != PS_OK || (err = logistic_join(w, error)) != PS_OK ||
        (err = logistic_prepare(w, error)) != PS_OK)
        return err;
    if (w->task == 0)
        print_start(w);
    started = worker_now_s();
    if ((err = logistic_train(w, error)) != PS_OK)
        return err;
    return w->task == 0 ? print_result(w, worker_now_s() - started, error) : PS_OK;
}

static void
tear_down(struct logistic_worker *w, enum ps_err err)
{
    if (err == PS_OK)
        ps_client_close(w->client);
    else
        ps_client_abandon(w->client); /* the others need not wait for an answer to a goodbye */
    model_finish(&w->model);
    ps_device_close(w->device);
    ps_sampler_free(w->sampler);
    ps_sparse_free(&w->train);
    ps_sparse_free(&w->held_out);
    ps_sparse_free(&w->batch);
    ps_cluster_free(w->cluster);
}

int
main(int argc, char **argv)
{
    struct logistic_worker w = {0};
    struct ps_error error = {0};
    enum ps_err err;
    int status;

    err = logistic_options_parse(argc, argv, &w.options, &error);
    if (!worker_goes_on(&logistic_command, &w.options.line, err, &error, &status))
        return status;
    if ((status = worker_find_cluster("logistic", &w.cluster)) != EXIT_SUCCESS) {
        ps_cluster_free(w.cluster);
        return status;
    }
    if ((err = logistic_run(&w, &error)) != PS_OK)
        worker_print_error("logistic", w.task, &error);
    tear_down(&w, err);
    return err == PS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
