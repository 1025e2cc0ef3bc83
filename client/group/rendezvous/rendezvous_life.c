/* A rendezvous from its making to its end. */
#include <stdlib.h>
#include <string.h>

#include "client/api/cluster.h"
#include "client/group/rendezvous/rendezvous_internal.h"
#include "common/core/wire/wire_text.h"

/* ---- Beginning ---- */

static enum ps_err
check_cluster(const struct rendezvous *r, struct ps_error *e)
{
    const ps_cluster *c = r->config.cluster;
    enum ps_role role = ps_cluster_role(c);
    struct address address;
    struct ps_error why;
    enum ps_err err;

    if (role != PS_ROLE_WORKER && role != PS_ROLE_CHIEF)
        return ps_fail(e, PS_ERR_CONFIG, "this process is no worker of the cluster: a group is one of workers");
    if (r->workers > PS_GROUP_RANKS_MAX)
        return ps_fail(e, PS_ERR_LIMIT, "the cluster has %u workers; a group has at most %d", r->workers,
                       PS_GROUP_RANKS_MAX);
    if ((err = wire_name_check("group", r->config.name, e)) != PS_OK)
        return err;
    for (uint32_t task = 0; !r->by_shard && r->workers > 1 && task < r->workers; task++) {
        const char *text = cluster_worker_address(c, task);

        if (text == NULL)
            return ps_fail(e, PS_ERR_CONFIG, "the cluster has no shards, and does not say where worker %u is", task);
        if (address_parse(text, &address, &why) != PS_OK || address.is_unix || address.port == 0)
            return ps_fail(e, PS_ERR_CONFIG, "workers cannot meet at '%.128s', the address of worker %u", text, task);
    }
    return PS_OK;
}

static bool
copy_text(const char **text)
{
    return *text == NULL || (*text = strdup(*text)) != NULL;
}

/* Whatever becomes of it, all three are ours or NULL afterwards. */
static bool
copy_config(struct rendezvous *r, const struct rendezvous_config *config)
{
    bool copied;

    r->config = *config;
    copied = copy_text(&r->config.name);
    copied = copy_text(&r->config.listen) && copied;
    return copy_text(&r->config.congestion) && copied;
}

static uint32_t
given_or(uint32_t given, uint32_t usual)
{
    return given != 0 ? given : usual;
}

static void
rendezvous_state_of(struct rendezvous *r)
{
    const struct rendezvous_config *k = &r->config;

    r->state = (struct rendezvous_state){.by_shard = r->by_shard,
                                         .task = r->task,
                                         .connect_ms = RENDEZVOUS_CONNECT_MS,
                                         .again_ms = given_or(k->again_ms, RENDEZVOUS_AGAIN_MS),
                                         .answer_ms = given_or(k->answer_ms, RENDEZVOUS_ANSWER_MS),
                                         .taken_ms = given_or(k->taken_ms, RENDEZVOUS_TAKEN_MS),
                                         .retry_ms = RENDEZVOUS_RETRY_MS,
                                         .retry_ms_max = RENDEZVOUS_RETRY_MS_MAX};
}

static bool
rendezvous_begin(struct rendezvous *r)
{
    const struct rendezvous_config *k = &r->config;
    struct coordinator_config host = {.pool = k->pool,
                                      .cluster = ps_cluster_name(k->cluster),
                                      .name = k->name,
                                      .task = r->task,
                                      .workers = r->workers,
                                      .seed = k->seed,
                                      .met = rendezvous_coordinator_met,
                                      .failed = rendezvous_failed,
                                      .arg = r};
    struct listen_address_config site = {.pool = k->pool,
                                         .acceptor = k->acceptor,
                                         .listen = k->listen,
                                         .listed = cluster_worker_address(k->cluster, r->task),
                                         .any = r->by_shard,
                                         .found = rendezvous_address_found,
                                         .failed = rendezvous_failed,
                                         .arg = r,
                                         .handles = &r->handles};

    if (!listen_address_init(&r->listen_at, &site))
        return false;
    uv_timer_init(k->pool->loop, &r->timer); /* cannot fail */
    r->timer.data = r;
    r->handles++;
    if (!r->by_shard && r->workers > 1) {
        coordinator_init(&r->host, &host);
        r->coordinates = true;
        acceptor_route(k->acceptor, MSG_MEET, coordinator_accept, &r->host);
    }
    return true;
}

enum ps_err
rendezvous_new(const struct rendezvous_config *config, struct rendezvous **out, struct ps_error *e)
{
    struct rendezvous *r = calloc(1, sizeof *r);
    enum ps_err err;

    *out = NULL;
    if (r == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a group");
    r->workers = ps_cluster_workers(config->cluster);
    r->task = ps_cluster_task(config->cluster);
    r->by_shard = ps_cluster_shards(config->cluster) > 0;
    r->ended = true;
    r->result = PS_ERR_CANCELLED;
    if (!copy_config(r, config))
        err = ps_fail(e, PS_ERR_NOMEM, "no memory for a group");
    else if ((err = check_cluster(r, e)) == PS_OK && !rendezvous_begin(r))
        err = ps_fail(e, PS_ERR_NOMEM, "no memory for a group");
    if (err != PS_OK) {
        rendezvous_free(r);
        return err;
    }
    rendezvous_state_of(r);
    *out = r;
    return PS_OK;
}

/* ---- End ---- */

static void
handle_closed(uv_handle_t *handle)
{
    struct rendezvous *r = handle->data;

    r->handles--;
}

void
rendezvous_close(struct rendezvous *r)
{
    rendezvous_drop_query(r);
    listen_address_close(&r->listen_at);
    rendezvous_state_end(&r->state);
    if (r->coordinates) {
        acceptor_route(r->config.acceptor, MSG_MEET, NULL, NULL);
        coordinator_close(&r->host);
    }
    uv_close((uv_handle_t *)&r->timer, handle_closed);
}

bool
rendezvous_closed(const struct rendezvous *r)
{
    return r->handles == 0 && (!r->coordinates || coordinator_closed(&r->host));
}

void
rendezvous_free(struct rendezvous *r)
{
    free((char *)(uintptr_t)r->config.name);
    free((char *)(uintptr_t)r->config.listen);
    free((char *)(uintptr_t)r->config.congestion);
    group_membership_finish(&r->table);
    free(r);
}
