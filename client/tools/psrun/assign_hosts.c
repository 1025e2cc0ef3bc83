#include "client/tools/psrun/assign_hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/base/comma_list.h"

/* ---- tasks ---- */

static struct assigned_task *
assign_hosts_add(struct host_assignment *d, enum tf_job job, uint32_t index)
{
    uint32_t n = d->shards + d->workers;

    d->tasks = strlist_alloc(d->tasks, n + 1, sizeof *d->tasks);
    d->tasks[n] = (struct assigned_task){.job = job, .index = index};
    if (job == TF_PS)
        d->shards++;
    else
        d->workers++;
    return &d->tasks[n];
}

void
assign_hosts_finish(struct host_assignment *d)
{
    free(d->tasks);
    *d = (struct host_assignment){0};
}

void
assign_hosts_name(const struct assigned_task *t, char *out, size_t size)
{
    const char *job = t->job == TF_PS ? "shard" : tf_job_name(t->job);

    if (t->remote)
        snprintf(out, size, "%s %u@%s", job, t->index, t->host.name);
    else
        snprintf(out, size, "%s %u", job, t->index);
}

static enum ps_err
assign_hosts_check_count(const struct host_assignment *d, struct ps_error *e)
{
    if (d->workers == 0)
        return ps_fail(e, PS_ERR_INVALID, "the cluster has no chief and no worker to run the program");
    if (d->shards > PSRUN_SHARDS_MAX || d->workers > PSRUN_WORKERS_MAX)
        return ps_fail(e, PS_ERR_INVALID, "the cluster has %u shards and %u workers; psrun starts at most %d and %d",
                       d->shards, d->workers, PSRUN_SHARDS_MAX, PSRUN_WORKERS_MAX);
    return PS_OK;
}

/* ---- from settings ---- */

static void
assign_hosts_local(struct host_assignment *d, enum tf_job job, int64_t n)
{
    for (uint32_t i = 0; i < MAX(n, INT64_C(1)); i++)
        (void)assign_hosts_add(d, job, i);
}

/* One task for each entry of a list of addresses. */
static enum ps_err
assign_hosts_list(struct host_assignment *d, enum tf_job job, const char *option, const char *list, struct ps_error *e)
{
    char item[ADDRESS_MAX * 2], place[64];
    enum ps_err err = PS_OK;

    for (uint32_t i = 0; err == PS_OK && comma_list_next(&list, item, sizeof item); i++) {
        struct assigned_task *t = assign_hosts_add(d, job, i);

        snprintf(place, sizeof place, "%s[%u]", option, i);
        err = host_spec_parse_address(place, item, &t->host, e);
        if (err == PS_OK && job != TF_PS && t->host.port == 0)
            err = ps_fail(e, PS_ERR_INVALID, "%s: '%s' has port 0, which nobody can connect to", place, item);
        if (t->host.port != 0)
            host_spec_address(t->host.name, t->host.port, t->address);
    }
    return err;
}

/* Shards that run already. */
static enum ps_err
assign_hosts_given(struct host_assignment *d, const char *list, struct ps_error *e)
{
    char item[ADDRESS_MAX];
    struct address address;
    enum ps_err err = PS_OK;

    d->given = true;
    for (uint32_t i = 0; err == PS_OK && comma_list_next(&list, item, sizeof item); i++) {
        struct assigned_task *t = assign_hosts_add(d, TF_PS, i);

        if ((err = address_parse(item, &address, e)) != PS_OK)
            return err;
        if (!address.is_unix && address.port == 0)
            return ps_fail(e, PS_ERR_INVALID, "--ps[%u]: '%s' has port 0, which nobody can connect to", i, item);
        if (!address.is_unix)
            snprintf(t->host.name, sizeof t->host.name, "%s", address.host);
        snprintf(t->address, sizeof t->address, "%s", item);
    }
    return err;
}

/* The i-th host gets the i-th, the (i + n)-th ... shard and worker. */
static void
assign_hosts_round(struct host_assignment *d, enum tf_job job, int64_t n, const struct host_spec *hosts,
                   uint32_t hosts_len, int64_t port)
{
    for (uint32_t i = 0; i < MAX(n, INT64_C(1)); i++) {
        struct assigned_task *t = assign_hosts_add(d, job, i);

        t->host = hosts[i % hosts_len];
        if (job != TF_PS)
            host_spec_address(t->host.name, (uint16_t)(port + i / hosts_len), t->address);
    }
}

static enum ps_err
assign_hosts_hosts(struct host_assignment *d, const struct psrun_options *s, struct ps_error *e)
{
    char item[ADDRESS_MAX * 2], place[64];
    const char *list = s->hosts;
    struct host_spec *hosts = NULL;
    enum ps_err err = PS_OK;
    uint32_t n = 0;

    for (; err == PS_OK && comma_list_next(&list, item, sizeof item); n++) {
        hosts = strlist_alloc(hosts, n + 1, sizeof *hosts);
        snprintf(place, sizeof place, "--hosts[%u]", n);
        err = host_spec_parse(place, item, &hosts[n], e);
        for (uint32_t i = 0; err == PS_OK && i < n; i++)
            if (strcmp(hosts[i].name, hosts[n].name) == 0)
                err = ps_fail(e, PS_ERR_INVALID, "%s: '%s' was already given", place, item);
    }
    if (err == PS_OK && s->ps == NULL && !s->no_shards)
        assign_hosts_round(d, TF_PS, s->shards, hosts, n, 0);
    else if (err == PS_OK && s->ps != NULL)
        err = assign_hosts_given(d, s->ps, e);
    if (err == PS_OK)
        assign_hosts_round(d, TF_WORKER, s->workers, hosts, n, s->worker_port);
    free(hosts);
    return err;
}

/* ---- from TF_CONFIG ---- */

static enum ps_err
assign_hosts_job(struct host_assignment *d, enum tf_job job, const struct tf_addresses *addresses, struct ps_error *e)
{
    enum ps_err err = PS_OK;
    char place[64];

    for (uint32_t i = 0; err == PS_OK && i < addresses->len; i++) {
        struct assigned_task *t = assign_hosts_add(d, job, i);

        snprintf(place, sizeof place, "TF_CONFIG: cluster.%s[%u]", tf_job_name(job), i);
        if ((err = host_spec_parse_address(place, addresses->text[i], &t->host, e)) == PS_OK)
            host_spec_address(t->host.name, t->host.port, t->address);
    }
    return err;
}

static enum ps_err
assign_hosts_config(struct host_assignment *d, const char *text, struct ps_error *e)
{
    static const enum tf_job jobs[] = {TF_PS, TF_CHIEF, TF_WORKER, TF_EVALUATOR};
    struct tf_config config;
    enum ps_err err;
    bool task;

    err = tf_config_parse_cluster(text, &config, &task, e);
    for (size_t i = 0; err == PS_OK && i < ARRAY_LEN(jobs); i++)
        err = assign_hosts_job(d, jobs[i], &config.jobs[jobs[i]], e);
    tf_config_finish(&config);
    return err;
}

enum ps_err
assign_hosts_from_env(const struct psrun_options *s, const char *config, bool *use, struct ps_error *e)
{
    struct tf_config parsed;
    enum ps_err err;
    bool task;

    *use = false;
    if (config == NULL || *config == '\0' || s->shards != 0 || s->workers != 0 || s->hosts != NULL ||
        s->ps_hosts != NULL || s->ps != NULL || s->cluster_config != NULL)
        return PS_OK;
    err = tf_config_parse_cluster(config, &parsed, &task, e);
    tf_config_finish(&parsed);
    *use = !task;
    return task ? PS_OK : err;
}

/* ---- together ---- */

static bool
assign_hosts_is_shard(const struct assigned_task *t)
{
    return t->job == TF_PS;
}

static bool
assign_hosts_same_machine(const struct assigned_task *a, const struct assigned_task *b)
{
    return a->remote == b->remote && (!a->remote || strcmp(a->host.name, b->host.name) == 0);
}

static void
assign_hosts_place(struct host_assignment *d, const struct psrun_options *s, const char *own)
{
    uint32_t n = d->shards + d->workers;

    for (uint32_t i = 0; i < n; i++) {
        struct assigned_task *t = &d->tasks[i];

        t->remote = !(d->given && assign_hosts_is_shard(t)) && t->host.name[0] != '\0' &&
                    (s->ssh_all || !host_spec_is_here(t->host.name, own));
        d->remote |= t->remote;
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++)
            d->tasks[i].together += assign_hosts_is_shard(&d->tasks[i]) == assign_hosts_is_shard(&d->tasks[j]) &&
                                    assign_hosts_same_machine(&d->tasks[i], &d->tasks[j]);
}

/* Workers on other machines must be able to reach the shards. */
static enum ps_err
assign_hosts_check_reach(const struct host_assignment *d, const struct psrun_options *s, struct ps_error *e)
{
    const struct assigned_task *far = NULL;

    if (d->remote && (s->unix_sockets || s->keep_servers))
        return ps_fail(e, PS_ERR_INVALID, "--%s is for clusters on one machine",
                       s->unix_sockets ? "unix" : "keep-servers");
    for (uint32_t i = d->shards; i < d->shards + d->workers; i++)
        if (d->tasks[i].remote && !host_spec_is_loopback(d->tasks[i].host.name))
            far = &d->tasks[i];
    for (uint32_t i = 0; far != NULL && i < d->shards; i++)
        if (d->tasks[i].host.name[0] == '\0' || host_spec_is_loopback(d->tasks[i].host.name))
            return ps_fail(e, PS_ERR_INVALID,
                           "shard %u is at '%s', where %s cannot reach it: give a name that all machines know", i,
                           d->given ? d->tasks[i].address : d->tasks[i].host.name, far->host.name);
    return PS_OK;
}

static enum ps_err
assign_hosts_check_twice(const struct host_assignment *d, struct ps_error *e)
{
    for (uint32_t i = 0; i < d->shards + d->workers; i++)
        for (uint32_t j = 0; j < i; j++)
            if (d->tasks[i].address[0] != '\0' && strcmp(d->tasks[i].address, d->tasks[j].address) == 0)
                return ps_fail(e, PS_ERR_INVALID, "'%s' is given twice; every process needs its own address",
                               d->tasks[i].address);
    return PS_OK;
}

enum ps_err
assign_hosts_all(const struct psrun_options *s, const char *config, const char *own, struct host_assignment *out,
                 struct ps_error *e)
{
    enum ps_err err = PS_OK;

    *out = (struct host_assignment){0};
    if (config != NULL) {
        err = assign_hosts_config(out, config, e);
    } else if (s->hosts != NULL) {
        err = assign_hosts_hosts(out, s, e);
    } else {
        if (s->ps != NULL)
            err = assign_hosts_given(out, s->ps, e);
        else if (s->ps_hosts != NULL)
            err = assign_hosts_list(out, TF_PS, "--ps-hosts", s->ps_hosts, e);
        else if (!s->no_shards)
            assign_hosts_local(out, TF_PS, s->shards);
        if (err == PS_OK && s->worker_hosts != NULL)
            err = assign_hosts_list(out, TF_WORKER, "--worker-hosts", s->worker_hosts, e);
        else if (err == PS_OK)
            assign_hosts_local(out, TF_WORKER, s->workers);
    }
    if (err == PS_OK)
        err = assign_hosts_check_count(out, e);
    if (err != PS_OK)
        return err;
    assign_hosts_place(out, s, own);
    if ((err = assign_hosts_check_twice(out, e)) != PS_OK)
        return err;
    return assign_hosts_check_reach(out, s, e);
}
