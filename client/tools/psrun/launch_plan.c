#include "client/tools/psrun/launch_plan.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- where the server is ---- */

static void
launch_plan_add_path(const char *env_path, const char *name, struct strlist *out)
{
    while (env_path != NULL && *env_path != '\0') {
        size_t len = strcspn(env_path, ":");

        if (len > 0)
            strlist_add(out, "%.*s/%s", (int)len, env_path, name);
        env_path += len + (env_path[len] == ':');
    }
}

void
launch_plan_psd_candidates(const char *psd, const char *psd_bin, const char *exe, const char *env_path,
                           struct strlist *out)
{
    const char *slash = strrchr(exe, '/');
    int dir = slash != NULL ? (int)(slash - exe) : 0;

    if (psd != NULL && strchr(psd, '/') != NULL) {
        strlist_add(out, "%s", psd);
        return;
    }
    if (psd != NULL) {
        launch_plan_add_path(env_path, psd, out);
        return;
    }
    if (psd_bin != NULL && *psd_bin != '\0') {
        strlist_add(out, "%s", psd_bin);
        return;
    }
    if (slash != NULL) {
        strlist_add(out, "%.*s/psd", dir, exe);
        strlist_add(out, "%.*s/../../server/psd", dir, exe); /* build/client/tools/psrun */
    }
    launch_plan_add_path(env_path, "psd", out);
}

/* ---- shards ---- */

const struct assigned_task *
launch_plan_shard(const struct launch_plan *p, uint32_t shard)
{
    ps_assert(shard < p->assigned.shards);
    return &p->assigned.tasks[shard];
}

const struct assigned_task *
launch_plan_worker(const struct launch_plan *p, uint32_t worker)
{
    ps_assert(worker < p->assigned.workers);
    return &p->assigned.tasks[p->assigned.shards + worker];
}

static const char *
launch_plan_run_dir(const struct launch_plan *p, uint32_t shard)
{
    return launch_plan_shard(p, shard)->remote ? p->remote_dir : p->dir;
}

void
launch_plan_shard_dir(const struct launch_plan *p, uint32_t shard, char *out, size_t size)
{
    snprintf(out, size, "%s/shard-%u", launch_plan_run_dir(p, shard), shard);
}

void
launch_plan_live_dir(const struct launch_plan *p, uint32_t shard, char *out, size_t size)
{
    if (p->settings->live_dir != NULL)
        snprintf(out, size, "%s/shard-%u", p->settings->live_dir, shard);
    else
        snprintf(out, size, "%s/shard-%u/live", launch_plan_run_dir(p, shard), shard);
}

void
launch_plan_durable_dir(const struct launch_plan *p, uint32_t shard, char *out, size_t size)
{
    *out = '\0';
    if (p->settings->durable_dir != NULL)
        snprintf(out, size, "%s/shard-%u", p->settings->durable_dir, shard);
}

void
launch_plan_shard_dirs(const struct launch_plan *p, uint32_t shard, struct strlist *dirs, char *remove_dir, size_t size)
{
    bool own = p->settings->live_dir != NULL;
    char path[LAUNCH_PLAN_PATH_MAX];

    /* Elsewhere a shard with a live directory of its own needs none of the run's: it has no log and no socket there. */
    *remove_dir = '\0';
    if (!own || !launch_plan_shard(p, shard)->remote) {
        strlist_add(dirs, "%s", launch_plan_run_dir(p, shard));
        launch_plan_shard_dir(p, shard, remove_dir, size);
        strlist_add(dirs, "%s", remove_dir);
    }
    launch_plan_durable_dir(p, shard, path, sizeof path);
    if (*path != '\0') {
        strlist_add(dirs, "%s", p->settings->durable_dir);
        strlist_add(dirs, "%s", path);
    }
    if (own)
        strlist_add(dirs, "%s", p->settings->live_dir);
    launch_plan_live_dir(p, shard, path, sizeof path);
    strlist_add(dirs, "%s", path);
}

/* The address that was given, or known from an earlier start; on all of the host's with --listen-any. */
static void
launch_plan_listen(const struct launch_plan *p, uint32_t shard, struct strlist *out)
{
    const struct assigned_task *t = launch_plan_shard(p, shard);
    bool named = t->host.name[0] != '\0';
    const char *name = !named ? "127.0.0.1" : t->host.name;
    char text[ADDRESS_MAX];

    if (p->settings->unix_sockets) {
        strlist_add(out, "--listen=unix:%s/shard-%u/psd.sock", p->dir, shard);
        return;
    }
    if (named && p->settings->listen_any)
        name = strchr(name, ':') != NULL ? "::" : "0.0.0.0";
    host_spec_address(name, t->host.port, text);
    strlist_add(out, "--listen=%s", text);
}

void
launch_plan_shard_argv(const struct launch_plan *p, uint32_t shard, int ready_fd, struct strlist *out)
{
    const char *elsewhere = p->settings->remote_psd != NULL ? p->settings->remote_psd : "";
    char live[LAUNCH_PLAN_PATH_MAX], durable[LAUNCH_PLAN_PATH_MAX];

    launch_plan_live_dir(p, shard, live, sizeof live);
    launch_plan_durable_dir(p, shard, durable, sizeof durable);
    strlist_add(out, "%s", launch_plan_shard(p, shard)->remote ? elsewhere : p->psd);
    strlist_add(out, "--cluster=%s", p->settings->cluster);
    strlist_add(out, "--shard=%u", shard);
    strlist_add(out, "--shards=%u", p->assigned.shards);
    strlist_add(out, "--live-dir=%s", live);
    if (*durable != '\0')
        strlist_add(out, "--durable-dir=%s", durable);
    launch_plan_listen(p, shard, out);
    strlist_add(out, "--ready-fd=%d", ready_fd);
    for (size_t i = 0; i < p->settings->psd_options.len; i++)
        strlist_add(out, "%s", p->settings->psd_options.text[i]);
}

uint32_t
launch_plan_memory_shards(const struct launch_plan *p, uint32_t shard)
{
    static const char *const theirs[] = {"--memory", "--config"};
    const struct option_list *options = &p->settings->psd_options;

    for (size_t i = 0; i < options->len; i++)
        for (size_t j = 0; j < ARRAY_LEN(theirs); j++) {
            size_t len = strlen(theirs[j]);

            if (strncmp(options->text[i], theirs[j], len) == 0 &&
                (options->text[i][len] == '=' || options->text[i][len] == '\0'))
                return 0;
        }
    return launch_plan_shard(p, shard)->together;
}

enum ps_err
launch_plan_shard_listens(struct launch_plan *p, uint32_t shard, const char *ready, struct ps_error *e)
{
    struct assigned_task *t = &p->assigned.tasks[shard];
    struct address address;
    enum ps_err err;

    if ((err = address_parse(ready, &address, e)) != PS_OK)
        return err;
    t->host.port = address.port;
    if (t->host.name[0] == '\0') {
        snprintf(t->address, sizeof t->address, "%s", ready);
        return PS_OK;
    }
    /* Debian's /etc/hosts gives a machine's own name to 127.0.1.1. */
    if (p->assigned.remote && host_spec_is_loopback(address.host) && !host_spec_is_loopback(t->host.name))
        return ps_fail(e, PS_ERR_UNREACHABLE,
                       "it listens on %s, where no other machine reaches it: that is what '%s' means there; give an "
                       "address instead of the name, or --listen-any",
                       ready, t->host.name);
    host_spec_address(t->host.name, address.port, t->address);
    return PS_OK;
}

/* ---- environment ---- */

void
launch_plan_env_base(char *const *environment, struct strlist *out)
{
    static const char *const ours[] = {
        "TF_CONFIG=", "PSD_CLUSTER=", "PSD_SHARDS=", "PSD_WORKERS=", "PSD_TASK=", "PSD_TRACE_FILE=", "PSRUN_COLUMNS="};

    for (; *environment != NULL; environment++)
        strlist_add(out, "%s", *environment);
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        strlist_unset_env(out, ours[i]);
}

/* The token that shards and workers prove to have. Never on a command line, which every user may read. */
static void
launch_plan_env_token(const struct launch_plan *p, struct strlist *out)
{
    if (p->token != NULL)
        strlist_set_env(out, "PSD_TOKEN=", p->token);
}

/* --env comes last, so that it overrides the rest. */
static void
launch_plan_env_options(const struct launch_plan *p, struct strlist *out)
{
    for (size_t i = 0; i < p->settings->env.len; i++)
        strlist_put_env(out, p->settings->env.text[i]);
}

/* Each process has a file of its own. */
static void
launch_plan_set_trace(const struct launch_plan *p, const char *what, uint32_t number, struct strlist *env)
{
    char path[LAUNCH_PLAN_PATH_MAX];

    if (p->trace_dir == NULL)
        return;
    snprintf(path, sizeof path, "%s/%s-%u.json", p->trace_dir, what, number);
    strlist_set_env(env, "PSD_TRACE_FILE=", path);
}

void
launch_plan_shard_env(const struct launch_plan *p, uint32_t shard, char *const *environment, struct strlist *out)
{
    launch_plan_env_base(environment, out);
    strlist_unset_env(out, "STATE_DIRECTORY=");
    launch_plan_set_trace(p, "shard", shard, out);
    launch_plan_env_token(p, out);
    launch_plan_env_options(p, out);
}

uint32_t
launch_plan_threads(const struct launch_plan *p)
{
    uint32_t here = 0;

    if (p->settings->cpus_per_worker > 0)
        return (uint32_t)p->settings->cpus_per_worker;
    for (uint32_t i = 0; i < p->assigned.workers; i++)
        here += !launch_plan_worker(p, i)->remote;
    return MAX(p->cpus / MAX(here, 1U), 1U);
}

void
launch_plan_set_threads(struct strlist *env, uint32_t threads, bool always)
{
    static const char *const keys[] = {"OPENBLAS_NUM_THREADS=", "OMP_NUM_THREADS="};
    char text[16];

    snprintf(text, sizeof text, "%u", threads);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (always || !strlist_has_key(env, keys[i]))
            strlist_set_env(env, keys[i], text);
}

static void
launch_plan_set_number(struct strlist *env, const char *key, uint32_t value)
{
    char text[16];

    snprintf(text, sizeof text, "%u", value);
    strlist_set_env(env, key, text);
}

/* The number that the client library gives a worker: the chief is 0, the workers follow. An evaluator has none. */
static void
launch_plan_set_task(const struct launch_plan *p, uint32_t worker, struct strlist *env)
{
    uint32_t numbered = 0;

    for (uint32_t i = 0; i < p->assigned.workers; i++)
        numbered += launch_plan_worker(p, i)->job != TF_EVALUATOR;
    launch_plan_set_number(env, "PSD_WORKERS=", numbered);
    if (launch_plan_worker(p, worker)->job != TF_EVALUATOR)
        launch_plan_set_number(env, "PSD_TASK=", worker);
}

void
launch_plan_worker_env(const struct launch_plan *p, uint32_t worker, int columns, char *const *environment,
                       struct strlist *out)
{
    char *config = launch_plan_tf_config(p, worker), *shards = launch_plan_shard_list(p);
    bool said = p->settings->cpus_per_worker > 0;

    launch_plan_env_base(environment, out);
    strlist_set_env(out, "TF_CONFIG=", config);
    strlist_set_env(out, "PSD_CLUSTER=", p->settings->cluster);
    launch_plan_env_token(p, out);
    if (p->assigned.shards > 0)
        strlist_set_env(out, "PSD_SHARDS=", shards);
    if (p->work_dir != NULL)
        strlist_set_env(out, "PWD=", p->work_dir);
    launch_plan_set_task(p, worker, out);
    launch_plan_set_trace(p, "worker", worker, out);
    if (columns > 0)
        launch_plan_set_number(out, "PSRUN_COLUMNS=", (uint32_t)columns);
    if (said || !launch_plan_worker(p, worker)->remote)
        launch_plan_set_threads(out, launch_plan_threads(p), said);
    launch_plan_env_options(p, out);
    free(config);
    free(shards);
}

/* ---- the cluster as text ---- */

char *
launch_plan_tf_config(const struct launch_plan *p, uint32_t worker)
{
    const struct assigned_task *self = launch_plan_worker(p, worker);
    json_t *cluster = json_object(), *root;
    char *text;

    for (uint32_t i = 0; i < p->assigned.shards + p->assigned.workers; i++) {
        const struct assigned_task *t = &p->assigned.tasks[i];
        json_t *list = json_object_get(cluster, tf_job_name(t->job));

        if (list == NULL)
            json_object_set_new(cluster, tf_job_name(t->job), list = json_array());
        json_array_append_new(list, json_string(t->address));
    }
    root = json_pack("{s:o,s:{s:s,s:i}}", "cluster", cluster, "task", "type", tf_job_name(self->job), "index",
                     (int)self->index);
    text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return strlist_need(text);
}

char *
launch_plan_shard_list(const struct launch_plan *p)
{
    size_t size = 1;
    char *text;

    for (uint32_t i = 0; i < p->assigned.shards; i++)
        size += strlen(launch_plan_shard(p, i)->address) + 1;
    text = strlist_alloc(NULL, size, 1);
    *text = '\0';
    for (uint32_t i = 0; i < p->assigned.shards; i++) {
        strcat(text, i > 0 ? "," : "");
        strcat(text, launch_plan_shard(p, i)->address);
    }
    return text;
}

/* ---- on other machines ---- */

static char *const launch_plan_no_environment[] = {NULL};

void
launch_plan_carried(char *const *environment, struct strlist *out)
{
    static const char *const names[] = {"PSD_TLS_CA=", "PSD_TLS_CERT=", "PSD_TLS_KEY=", "PSD_TLS_NAME="};

    for (; *environment != NULL; environment++)
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
            if (strncmp(*environment, names[i], strlen(names[i])) == 0)
                strlist_put_env(out, *environment);
}

void
launch_plan_shard_order(const struct launch_plan *p, uint32_t shard, int ready_fd, struct remote_order *out)
{
    char remove_dir[LAUNCH_PLAN_PATH_MAX];

    *out = (struct remote_order){.shard = true,
                                 .hold = p->settings->restart_shards > 0,
                                 .silence_ms = (uint32_t)p->settings->silence_ms,
                                 .memory_shards = launch_plan_memory_shards(p, shard)};
    launch_plan_shard_dirs(p, shard, &out->dirs, remove_dir, sizeof remove_dir);
    out->dir = strlist_need(strdup(p->work_dir));
    out->remove_dir = strlist_need(strdup(remove_dir));
    launch_plan_shard_env(p, shard, launch_plan_no_environment, &out->env);
    launch_plan_shard_argv(p, shard, ready_fd, &out->argv);
}

void
launch_plan_worker_order(const struct launch_plan *p, uint32_t worker, int columns, struct remote_order *out)
{
    *out = (struct remote_order){.dir = strlist_need(strdup(p->work_dir)),
                                 .remove_dir = strlist_need(strdup("")),
                                 .silence_ms = (uint32_t)p->settings->silence_ms,
                                 .workers =
                                     p->settings->cpus_per_worker > 0 ? 0 : launch_plan_worker(p, worker)->together};
    launch_plan_worker_env(p, worker, columns, p->carried != NULL ? p->carried : launch_plan_no_environment, &out->env);
    for (size_t i = 0; p->program[i] != NULL; i++)
        strlist_add(&out->argv, "%s", p->program[i]);
}

void
launch_plan_ssh_argv(const struct launch_plan *p, const struct assigned_task *task, struct strlist *out)
{
    host_spec_ssh_argv(&(struct host_spec_ssh){.command = p->settings->ssh,
                                               .connect_ms = p->settings->connect_ms,
                                               .silence_ms = p->settings->silence_ms,
                                               .login = task->host.login,
                                               .psrun = p->settings->remote_psrun},
                       out);
}
