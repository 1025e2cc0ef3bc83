/* What a strategy was asked for: names, ranges, defaults. */
#include <stdio.h>
#include <string.h>

#include "client/strategy/strategy.h"
#include "common/core/base/comma_list.h"
#include "common/core/base/nearest.h"
#include "common/core/codec/codec.h"
#include "common/core/wire/wire_text.h"

struct strategy_row {
    const char *name;
    const struct strategy_ops *ops;
};

static const struct strategy_row rows[] = {
#define STRATEGY_ROW(name) {#name, &strategy_##name},
    PS_STRATEGY_LIST(STRATEGY_ROW)
#undef STRATEGY_ROW
};

const char *
ps_strategy_name(size_t i)
{
    return i < ARRAY_LEN(rows) ? rows[i].name : NULL;
}

static enum ps_err
unknown_strategy(const char *name, struct ps_error *e)
{
    struct nearest nearest = nearest_to(name);
    char names[256] = "", meant[NEAREST_TEXT_MAX];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t used = strlen(names);

        snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", rows[i].name);
        nearest_offer(&nearest, rows[i].name);
    }
    return ps_fail(e, PS_ERR_INVALID, "there is no strategy \"%.64s\"; strategies are: %s%s", name, names,
                   nearest_text(&nearest, "", meant));
}

static const struct strategy_row *
find_row(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

static enum ps_err
check_sizes(const struct ps_strategy_options *o, struct ps_error *e)
{
    enum ps_err err;

    if (o->rows == 0 || o->batch == 0)
        return ps_fail(e, PS_ERR_INVALID, "%llu rows in batches of %llu: both are at least 1",
                       (unsigned long long)o->rows, (unsigned long long)o->batch);
    if (o->replicas > PS_STRATEGY_REPLICAS_MAX)
        return ps_fail(e, PS_ERR_INVALID, "%u replicas: a process has at most %d", o->replicas,
                       PS_STRATEGY_REPLICAS_MAX);
    if (o->metrics > PS_STRATEGY_METRICS_MAX)
        return ps_fail(e, PS_ERR_INVALID, "%u metrics: a step has at most %d", o->metrics, PS_STRATEGY_METRICS_MAX);
    if (o->threads < 0 || o->client.timeout_ms < 0)
        return ps_fail(e, PS_ERR_INVALID, "threads (%d) and the time-out (%d ms) may not be negative", o->threads,
                       o->client.timeout_ms);
    if ((err = codec_check(&o->client.compress, e)) != PS_OK)
        return err;
    if (o->device_reduce && o->client.compress.kind != PS_COMPRESS_NONE)
        return ps_fail(e, PS_ERR_INVALID, "gradients that devices reduce by themselves are not compressed");
    if (o->checkpoints != NULL && o->checkpoint_steps == 0)
        return ps_fail(e, PS_ERR_INVALID, "checkpoints go to %.300s, but after how many steps is not said",
                       o->checkpoints);
    return PS_OK;
}

/* Whether the cluster is one that the strategy can work in. */
static enum ps_err
check_cluster(const struct strategy_row *row, const ps_cluster *cluster, struct ps_error *e)
{
    uint32_t workers = cluster != NULL ? ps_cluster_workers(cluster) : 1;
    enum ps_role role = cluster != NULL ? ps_cluster_role(cluster) : PS_ROLE_WORKER;

    if ((row->ops->traits & STRATEGY_SHARDS) && (cluster == NULL || ps_cluster_shards(cluster) == 0))
        return ps_fail(e, PS_ERR_CONFIG, "%s keeps its variables on shards, and the cluster has none", row->name);
    if (!(row->ops->traits & STRATEGY_WORKERS) && workers > 1)
        return ps_fail(e, PS_ERR_CONFIG,
                       "%s is for one worker, and the cluster has %u: each would train a model of its own", row->name,
                       workers);
    if (role != PS_ROLE_CHIEF && role != PS_ROLE_WORKER)
        return ps_fail(e, PS_ERR_CONFIG, "this process is no worker of the cluster: it does not train");
    return PS_OK;
}

/* Strategies whose survivors may be too few. */
static enum ps_err
check_survivors(const ps_strategy *s, struct ps_error *e)
{
    uint32_t least = s->options.min_workers;

    if (least > 1 && (!(s->ops->traits & STRATEGY_WORKERS) || (s->ops->traits & STRATEGY_SHARDS)))
        return ps_fail(e, PS_ERR_INVALID, "min_workers (%u) is for multi_worker_mirrored, not for %s", least, s->name);
    if (least > s->workers)
        return ps_fail(e, PS_ERR_INVALID, "min_workers is %u, and the cluster has %u", least, s->workers);
    return PS_OK;
}

/* Rows and metrics are reported to the shards, with their names; the rows in any case. */
static enum ps_err
name_totals(ps_strategy *s, struct ps_error *e)
{
    struct ps_strategy_options *o = &s->options;
    uint32_t named = o->metric_names != NULL ? o->metrics : 0;

    if (o->client.metric_names != NULL || o->client.metrics_named != 0)
        return ps_fail(e, PS_ERR_INVALID, "a strategy's metrics are named by its metric_names, not by its client's");
    s->totals_names[0] = "rows";
    for (uint32_t i = 0; i < named; i++)
        s->totals_names[1 + i] = o->metric_names[i];
    o->client.metric_names = s->totals_names;
    o->client.metrics_named = 1 + named;
    return wire_metric_names_check(o->client.metrics_named, s->totals_names, e);
}

/* The number of replicas, and what else follows from the rest. */
static enum ps_err
fill_in(ps_strategy *s, struct ps_error *e)
{
    struct ps_strategy_options *o = &s->options;
    uint32_t devices;

    if (o->devices == NULL || o->devices[0] == '\0')
        o->devices = "cpu";
    devices = comma_list_len(o->devices);
    if (!(s->ops->traits & STRATEGY_THREADS) && devices > 1)
        return ps_fail(e, PS_ERR_INVALID, "%s computes on one device, not on \"%.64s\"", s->name, o->devices);
    if (devices > PS_STRATEGY_REPLICAS_MAX)
        return ps_fail(e, PS_ERR_INVALID, "%u devices: a process has at most %d", devices, PS_STRATEGY_REPLICAS_MAX);
    if (o->replicas == 0)
        o->replicas = devices;
    if (o->replicas < devices)
        return ps_fail(e, PS_ERR_INVALID, "%u replicas on %u devices (%.64s): some would have nothing to do",
                       o->replicas, devices, o->devices);
    if (o->neighbours == 0)
        o->neighbours = s->workers;
    if (o->client.timeout_ms == 0)
        o->client.timeout_ms = 60000;
    if (o->min_workers == 0)
        o->min_workers = 1;
    if (o->client.job == NULL)
        o->client.job = "train";
    s->replicas = o->replicas;
    s->devices_len = s->ops->traits & STRATEGY_THREADS ? s->replicas : 1;
    s->copies = s->ops->traits & STRATEGY_COPIES ? s->replicas : 1;
    s->steps_each = (o->rows + MIN(o->batch, o->rows) - 1) / MIN(o->batch, o->rows);
    return PS_OK;
}

enum ps_err
strategy_read_options(ps_strategy *s, const char *name, const struct ps_strategy_options *options, struct ps_error *e)
{
    const struct strategy_row *row = find_row(name != NULL ? name : "");
    const ps_cluster *cluster;
    enum ps_err err;

    if (row == NULL)
        return unknown_strategy(name != NULL ? name : "", e);
    if (options == NULL)
        return ps_fail(e, PS_ERR_INVALID, "a strategy needs options: at least how many rows and in what batches");
    cluster = options->cluster;
    if ((err = check_sizes(options, e)) != PS_OK || (err = check_cluster(row, cluster, e)) != PS_OK)
        return err;
    s->name = row->name;
    s->ops = row->ops;
    s->options = *options;
    s->options.cluster = NULL;
    s->workers = cluster != NULL ? ps_cluster_workers(cluster) : 1;
    s->task = cluster != NULL ? ps_cluster_task(cluster) : 0;
    s->chief = cluster == NULL || ps_cluster_is_chief(cluster);
    if ((err = check_survivors(s, e)) != PS_OK || (err = name_totals(s, e)) != PS_OK)
        return err;
    return fill_in(s, e);
}
