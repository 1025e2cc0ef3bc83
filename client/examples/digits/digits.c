/* digits: a worker that trains a network on handwritten digits through psd. Start it under psrun:
 *
 *     psrun --shards 2 --workers 3 -- digits --strategy async
 *     digits --strategy mirrored --replicas 4
 *
 * Every worker loads the data, opens the strategy and runs the one loop of train.c. The chief also shows progress and,
 * when all have met at the end, reports. Others are silent unless something fails. Exit status: 0, 1 for an error (one
 * line on stderr), 2 for a command line or an environment that it cannot start with. */
#include <stdio.h>
#include <stdlib.h>

#include "common/core/base/base.h"

#include "client/examples/digits/model.h"
#include "client/examples/digits/options.h"
#include "client/examples/digits/report.h"
#include "client/examples/digits/train.h"
#include "client/examples/shared/shipped.h"
#include "client/examples/shared/worker.h"

/* All that a worker holds; zeroed at first, so that it can be torn down at any point. */
struct digits_worker {
    struct digits_options options;
    ps_cluster *cluster;
    struct ps_dataset data, held_out;
    struct train train;
};

/* ---- Data ---- */

/* Pixels become 0 to 1, by the range of the training part. */
static enum ps_err
digits_scale(struct digits_worker *w, struct ps_error *error)
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
digits_load(struct digits_worker *w, struct ps_error *error)
{
    char path[SHIPPED_PATH_MAX];
    const char *directory = w->options.data != NULL ? w->options.data : shipped_find("digits", path);
    enum ps_err err;

    if ((err = ps_dataset_load_idx(directory, PS_TRAIN, &w->data, error)) != PS_OK)
        return err;
    if ((err = ps_dataset_load_idx(directory, PS_HELD_OUT, &w->held_out, error)) != PS_OK)
        return err;
    if ((err = ps_dataset_check_alike(&w->data, &w->held_out, error)) != PS_OK)
        return err;
    w->train.fingerprint = ps_dataset_fingerprint(&w->data);
    return digits_scale(w, error);
}

/* ---- Setting up ---- */

static enum ps_err
set_up(struct digits_worker *w, struct ps_error *error)
{
    struct train *t = &w->train;
    enum ps_err err;
    bool chief;

    t->options = &w->options;
    t->data = &w->data;
    t->held_out = &w->held_out;
    if ((chief = w->cluster == NULL || ps_cluster_is_chief(w->cluster)) &&
        (err = report_check_plot(&w->options, error)) != PS_OK)
        return err;
    if ((err = digits_load(w, error)) != PS_OK)
        return err;
    return train_open(t, w->cluster, error);
}

/* ---- Running ---- */

static enum ps_err
digits_report(struct digits_worker *w, struct ps_error *error)
{
    struct ps_network_result held_out;
    struct digits_counts counts;
    enum ps_err err;

    if ((err = train_evaluate(&w->train, &held_out, error)) != PS_OK)
        return err;
    if ((err = report_count(&w->train, &counts, error)) != PS_OK)
        return err;
    report_print(stdout, &w->train, &held_out, &counts);
    return report_plot(stdout, &w->train, error);
}

static enum ps_err
digits_run(struct digits_worker *w, struct ps_error *error)
{
    struct train *t = &w->train;
    enum ps_err err;

    if ((err = set_up(w, error)) != PS_OK)
        return err;
    if (train_is_chief(t))
        report_start(stdout, t);
    if ((err = train_run(t, error)) != PS_OK)
        return err;
    if ((err = train_meet(t, error)) != PS_OK)
        return err;
    return train_is_chief(t) ? digits_report(w, error) : PS_OK;
}

static void
tear_down(struct digits_worker *w, enum ps_err err)
{
    train_close(&w->train, err == PS_OK);
    ps_dataset_free(&w->data);
    ps_dataset_free(&w->held_out);
    ps_cluster_free(w->cluster);
}

/* A strategy of one process needs no cluster; it may have one anyway. */
static int
find_cluster(struct digits_worker *w)
{
    if (!digits_options_need_cluster(&w->options) && !worker_has_cluster())
        return EXIT_SUCCESS;
    return worker_find_cluster("digits", &w->cluster);
}

int
main(int argc, char **argv)
{
    struct digits_worker w = {0};
    struct ps_error error = {0};
    enum ps_err err;
    int status;

    err = digits_options_parse(argc, argv, &w.options, &error);
    if (!worker_goes_on(&digits_command, &w.options.line, err, &error, &status))
        return status;
    if ((status = find_cluster(&w)) == EXIT_SUCCESS) {
        if ((err = digits_run(&w, &error)) != PS_OK) {
            progress_end(&w.train.progress);
            worker_print_error("digits", w.cluster != NULL ? (long)ps_cluster_task(w.cluster) : -1, &error);
            status = EXIT_FAILURE;
        }
        tear_down(&w, err);
        return status;
    }
    ps_cluster_free(w.cluster);
    return status;
}
