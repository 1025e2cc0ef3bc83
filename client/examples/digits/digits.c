/* digits: a worker that trains a network on handwritten digits through psd. Start it under psrun:
 *
 *     psrun --shards 2 --workers 3 -- digits --strategy async
 *
 * Every worker loads the data, opens the client, declares the network's parameters and runs the one loop of train.c.
 * Worker 0 also shows progress and, when all have come to the barrier at the end, reports. Others are silent unless
 * something fails. Exit status: 0, 1 for an error (one line on stderr), 2 for a command line or an environment that it
 * cannot start with. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base.h"

#include "model.h"
#include "options.h"
#include "report.h"
#include "shipped.h"
#include "train.h"
#include "worker.h"

/* All that a worker holds; zeroed at first, so that it can be torn down at any point. */
struct worker {
    struct digits_options options;
    ps_cluster *cluster;
    ps_device *device;
    struct ps_dataset data, held_out;
    struct train train;
};

/* What no call reports; reconnects are no news. Worker 0 speaks for all, but what a shard that came back older has lost
 * of its pushes only each worker knows. Training goes on from there. */
static void
on_event(void *arg, const struct ps_error *event)
{
    struct train *t = arg;
    bool lapsed = event->code == PS_ERR_LEASE_LAPSED && t->chief,
         rolled_back = event->code == PS_ERR_ROLLED_BACK || event->code == PS_ERR_RESTORED;

    if (!lapsed && !rolled_back)
        return;
    if (t->chief)
        progress_end(&t->progress);
    worker_say_error("digits", rolled_back ? (long)t->task : -1, event);
}

/* ---- Data ---- */

/* Pixels become 0 to 1 by what the training part holds. */
static enum ps_err
scale(struct worker *w, struct ps_error *error)
{
    struct ps_scaling scaling = {0};
    enum ps_err err = ps_scaling_fit(&w->data, PS_SCALE_UNIT, &scaling, error);

    if (err == PS_OK)
        err = ps_dataset_scale(&w->data, &scaling, error);
    if (err == PS_OK)
        err = ps_dataset_scale(&w->held_out, &scaling, error);
    ps_scaling_free(&scaling);
    return err;
}

static enum ps_err
load(struct worker *w, struct ps_error *error)
{
    char path[SHIPPED_PATH_MAX];
    const char *directory = w->options.data != NULL ? w->options.data : shipped_find("digits", path);
    enum ps_err err;

    if ((err = ps_dataset_load_idx(directory, PS_TRAIN, &w->data, error)) != PS_OK)
        return err;
    if ((err = ps_dataset_load_idx(directory, PS_HELD_OUT, &w->held_out, error)) != PS_OK)
        return err;
    if (w->data.columns != w->held_out.columns)
        return ps_fail(error, PS_ERR_DATA, "%s: images to train on have %llu pixels, held-out ones %llu", directory,
                       (unsigned long long)w->data.columns, (unsigned long long)w->held_out.columns);
    return scale(w, error);
}

/* ---- Setting up ---- */

static enum ps_err
create_network(struct worker *w, struct ps_error *error)
{
    struct train *t = &w->train;
    const struct digits_options *o = &w->options;
    struct ps_device_options device_options = {.threads = (int)o->threads, .workers = (int)t->workers};
    size_t rows = MAX(train_slice_max(o, w->data.rows, t->workers, t->task), 64);
    enum ps_err err;

    if ((err = ps_device_open(o->device, &device_options, &w->device, error)) != PS_OK)
        return err;
    return model_new(w->device, o->layers, &w->data, MAX(w->data.classes, w->held_out.classes), rows, o->seed,
                     &t->network, error);
}

static enum ps_err
join(struct worker *w, struct ps_error *error)
{
    struct train *t = &w->train;
    const struct digits_options *o = &w->options;
    struct ps_client_options options = {
        .job = o->job,
        .mode = o->mode,
        .bound = (uint32_t)o->bound,
        .quorum = (uint32_t)o->quorum,
        .lapse = o->lapse,
        .age = o->age,
        .age_parameter = o->age_parameter,
        .timeout_ms = (int)o->timeout_ms,
        .durable = o->durable,
        .on_event = on_event,
        .on_event_arg = t,
    };
    enum ps_err err;

    if ((err = ps_client_open(w->cluster, &options, &t->client, error)) != PS_OK)
        return err;
    return ps_network_declare(t->network, t->client, "", &o->optimizer, t->vars, error);
}

static enum ps_err
set_up(struct worker *w, struct ps_error *error)
{
    struct train *t = &w->train;
    enum ps_err err;

    t->options = &w->options;
    t->data = &w->data;
    t->held_out = &w->held_out;
    t->workers = ps_cluster_workers(w->cluster);
    t->task = ps_cluster_task(w->cluster);
    t->chief = ps_cluster_is_chief(w->cluster);
    if (t->chief && (err = report_check_plot(t, error)) != PS_OK)
        return err;
    if ((err = load(w, error)) != PS_OK)
        return err;
    if ((err = create_network(w, error)) != PS_OK)
        return err;
    if ((err = train_init(t, error)) != PS_OK)
        return err;
    return join(w, error);
}

/* ---- Running ---- */

static enum ps_err
report(struct worker *w, struct ps_error *error)
{
    struct ps_network_result held_out;
    struct counts counts;
    enum ps_err err;

    if ((err = train_evaluate(&w->train, &held_out, error)) != PS_OK)
        return err;
    if ((err = report_count(&w->train, &counts, error)) != PS_OK)
        return err;
    report_print(stdout, &w->train, &held_out, &counts);
    return report_plot(stdout, &w->train, error);
}

static enum ps_err
run(struct worker *w, struct ps_error *error)
{
    struct train *t = &w->train;
    enum ps_err err;

    if ((err = set_up(w, error)) != PS_OK)
        return err;
    if (t->chief)
        report_start(stdout, t, ps_device_describe(w->device));
    if ((err = train_run(t, error)) != PS_OK)
        return err;
    if ((err = train_meet(t, error)) != PS_OK)
        return err;
    return t->chief ? report(w, error) : PS_OK;
}

static void
tear_down(struct worker *w, enum ps_err err)
{
    if (err == PS_OK)
        ps_client_close(w->train.client);
    else
        ps_client_abandon(w->train.client); /* the others need not wait for an answer to a goodbye */
    train_finish(&w->train);
    ps_network_free(w->train.network);
    ps_device_close(w->device);
    ps_dataset_free(&w->data);
    ps_dataset_free(&w->held_out);
    ps_cluster_free(w->cluster);
}

int
main(int argc, char **argv)
{
    struct worker w = {0};
    struct ps_error error = {0};
    enum ps_err err;
    int status;

    if (digits_options_parse(argc, argv, &w.options, &error) != PS_OK) {
        fprintf(stderr, "digits: %s\n", error.text);
        return EXIT_USAGE;
    }
    if (w.options.line.asked != COMMAND_RUN)
        return command_answer(&digits_command, &w.options.line, stdout);
    if ((status = worker_find_cluster("digits", &w.cluster)) == EXIT_SUCCESS) {
        if ((err = run(&w, &error)) != PS_OK) {
            progress_end(&w.train.progress);
            worker_say_error("digits", w.train.task, &error);
            status = EXIT_FAILURE;
        }
        tear_down(&w, err);
        return status;
    }
    ps_cluster_free(w.cluster);
    return status;
}
