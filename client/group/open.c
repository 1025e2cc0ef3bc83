/* The public calls that make an epoch of a group. */
#include <string.h>

#include "client/api/cluster.h"
#include "client/api/trace_recorder.h"
#include "client/group/group_state.h"
#include "client/group/rendezvous/rendezvous.h"

/* Meet, and connect. The group has no epoch before, and none after an error. */
static enum ps_err
group_meet_and_connect(ps_group *g, uint32_t ranks_min, uint64_t timeout_ms, struct ps_error *e)
{
    struct rendezvous_ask ask = {
        .ranks_min = ranks_min, .settle_ms = g->options.settle_ms, .epoch = MAX(g->epoch, g->passed)};
    struct group_membership table = {0};
    enum ps_err err;

    uv_update_time(&g->loop);
    ask.deadline_ms = uv_now(&g->loop) + timeout_ms;
    if ((err = form_meet(g, &ask, &table, &g->failed)) == PS_OK)
        err = group_form(g, &table, ask.deadline_ms, &g->failed);
    if (err != PS_OK && e != NULL)
        *e = g->failed;
    return err;
}

enum ps_err
ps_group_open(const ps_cluster *cluster, const struct ps_group_options *options, ps_group **out, struct ps_error *error)
{
    ps_group *g;
    enum ps_err err;

    if (cluster == NULL || out == NULL)
        return ps_fail(error, PS_ERR_INVALID, "opening a group needs a cluster and a pointer for the group");
    *out = NULL;
    if ((err = group_new(ps_cluster_name(cluster), options, &g, error)) != PS_OK)
        return err;
    if ((err = cluster_copy(cluster, &g->cluster, error)) != PS_OK ||
        (err = group_meet_and_connect(g, g->options.ranks_min, (uint64_t)g->options.timeout_ms, error)) != PS_OK) {
        group_free(g);
        return err;
    }
    trace_recorder_open(ps_cluster_task(cluster));
    g->recorded = true;
    *out = g;
    return PS_OK;
}

enum ps_err
ps_group_reform(ps_group *g, uint32_t ranks_min, int timeout_ms, struct ps_error *error)
{
    if (g == NULL)
        return ps_fail(error, PS_ERR_INVALID, "there is no group");
    if (ranks_min > PS_GROUP_RANKS_MAX)
        return ps_fail(error, PS_ERR_INVALID, "at least %u ranks are wanted; a group has at most %d", ranks_min,
                       PS_GROUP_RANKS_MAX);
    group_unform(g);
    return group_meet_and_connect(g, ranks_min, timeout_ms < 0 ? (uint64_t)g->options.timeout_ms : (uint64_t)timeout_ms,
                                  error);
}
