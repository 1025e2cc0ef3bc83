#include "client/tools/psrun/plan.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- where the server is ---- */

static void
plan_add_path(const char *env_path, const char *name, struct words *out)
{
    while (env_path != NULL && *env_path != '\0') {
        size_t len = strcspn(env_path, ":");

        if (len > 0)
            words_add(out, "%.*s/%s", (int)len, env_path, name);
        env_path += len + (env_path[len] == ':');
    }
}

void
plan_psd_candidates(const char *psd, const char *psd_bin, const char *exe, const char *env_path, struct words *out)
{
    const char *slash = strrchr(exe, '/');
    int dir = slash != NULL ? (int)(slash - exe) : 0;

    if (psd != NULL && strchr(psd, '/') != NULL) {
        words_add(out, "%s", psd);
        return;
    }
    if (psd != NULL) {
        plan_add_path(env_path, psd, out);
        return;
    }
    if (psd_bin != NULL && *psd_bin != '\0') {
        words_add(out, "%s", psd_bin);
        return;
    }
    if (slash != NULL) {
        words_add(out, "%.*s/psd", dir, exe);
        words_add(out, "%.*s/../../server/psd", dir, exe); /* build/client/tools/psrun */
    }
    plan_add_path(env_path, "psd", out);
}

/* ---- shards ---- */

const struct task *
plan_shard(const struct plan *p, uint32_t shard)
{
    ps_assert(shard < p->deal.shards);
    return &p->deal.tasks[shard];
}

const struct task *
plan_worker(const struct plan *p, uint32_t worker)
{
    ps_assert(worker < p->deal.workers);
    return &p->deal.tasks[p->deal.shards + worker];
}

static const char *
plan_run_dir(const struct plan *p, uint32_t shard)
{
    return plan_shard(p, shard)->remote ? p->remote_dir : p->dir;
}

void
plan_shard_dir(const struct plan *p, uint32_t shard, char *out, size_t size)
{
    snprintf(out, size, "%s/shard-%u", plan_run_dir(p, shard), shard);
}

void
plan_live_dir(const struct plan *p, uint32_t shard, char *out, size_t size)
{
    if (p->settings->live_dir != NULL)
        snprintf(out, size, "%s/shard-%u", p->settings->live_dir, shard);
    else
        snprintf(out, size, "%s/shard-%u/live", plan_run_dir(p, shard), shard);
}

void
plan_durable_dir(const struct plan *p, uint32_t shard, char *out, size_t size)
{
    *out = '\0';
    if (p->settings->durable_dir != NULL)
        snprintf(out, size, "%s/shard-%u", p->settings->durable_dir, shard);
}

void
plan_shard_dirs(const struct plan *p, uint32_t shard, struct words *dirs, char *remove_dir, size_t size)
{
    bool own = p->settings->live_dir != NULL;
    char path[PLAN_PATH_MAX];

    /* Elsewhere a shard with a live directory of its own needs none of the run's: it has no log and no socket there. */
    *remove_dir = '\0';
    if (!own || !plan_shard(p, shard)->remote) {
        words_add(dirs, "%s", plan_run_dir(p, shard));
        plan_shard_dir(p, shard, remove_dir, size);
        words_add(dirs, "%s", remove_dir);
    }
    plan_durable_dir(p, shard, path, sizeof path);
    if (*path != '\0') {
        words_add(dirs, "%s", p->settings->durable_dir);
        words_add(dirs, "%s", path);
    }
    if (own)
        words_add(dirs, "%s", p->settings->live_dir);
    plan_live_dir(p, shard, path, sizeof path);
    words_add(dirs, "%s", path);
}

/* The address that was said, or known from its life before; on all of the host's with --listen-any. */
static void
plan_listen(const struct plan *p, uint32_t shard, struct words *out)
{
    const struct task *t = plan_shard(p, shard);
    bool named = t->host.name[0] != '\0';
    const char *name = !named ? "127.0.0.1" : t->host.name;
    char text[ADDRESS_MAX];

    if (p->settings->unix_sockets) {
        words_add(out, "--listen=unix:%s/shard-%u/psd.sock", p->dir, shard);
        return;
    }
    if (named && p->settings->listen_any)
        name = strchr(name, ':') != NULL ? "::" : "0.0.0.0";
    host_address(name, t->host.port, text);
    words_add(out, "--listen=%s", text);
}

void
plan_shard_argv(const struct plan *p, uint32_t shard, int ready_fd, struct words *out)
{
    const char *elsewhere = p->settings->remote_psd != NULL ? p->settings->remote_psd : "";
    char live[PLAN_PATH_MAX], durable[PLAN_PATH_MAX];

    plan_live_dir(p, shard, live, sizeof live);
    plan_durable_dir(p, shard, durable, sizeof durable);
    words_add(out, "%s", plan_shard(p, shard)->remote ? elsewhere : p->psd);
    words_add(out, "--cluster=%s", p->settings->cluster);
    words_add(out, "--shard=%u", shard);
    words_add(out, "--shards=%u", p->deal.shards);
    words_add(out, "--live-dir=%s", live);
    if (*durable != '\0')
        words_add(out, "--durable-dir=%s", durable);
    plan_listen(p, shard, out);
    words_add(out, "--ready-fd=%d", ready_fd);
    for (size_t i = 0; i < p->settings->psd_options.len; i++)
        words_add(out, "%s", p->settings->psd_options.text[i]);
}

uint32_t
plan_memory_shards(const struct plan *p, uint32_t shard)
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
    return plan_shard(p, shard)->together;
}

enum ps_err
plan_shard_listens(struct plan *p, uint32_t shard, const char *ready, struct ps_error *e)
{
    struct task *t = &p->deal.tasks[shard];
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
    if (p->deal.remote && host_is_loopback(address.host) && !host_is_loopback(t->host.name))
        return ps_fail(e, PS_ERR_UNREACHABLE,
                       "it listens on %s, where no other machine reaches it: that is what '%s' means there; give an "
                       "address instead of the name, or --listen-any",
                       ready, t->host.name);
    host_address(t->host.name, address.port, t->address);
    return PS_OK;
}

/* ---- environment ---- */

void
plan_env_base(char *const *environment, struct words *out)
{
    static const char *const ours[] = {
        "TF_CONFIG=", "PSD_CLUSTER=", "PSD_SHARDS=", "PSD_WORKERS=", "PSD_TASK=", "PSD_TRACE_FILE=", "PSRUN_COLUMNS="};

    for (; *environment != NULL; environment++)
        words_add(out, "%s", *environment);
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        words_unset(out, ours[i]);
}

/* What shards and workers prove to each other to have. Never on a command line, which everybody may read. */
static void
plan_env_token(const struct plan *p, struct words *out)
{
    if (p->token != NULL)
        words_set(out, "PSD_TOKEN=", p->token);
}

/* --env comes last, so that it has the last word. */
static void
plan_env_options(const struct plan *p, struct words *out)
{
    for (size_t i = 0; i < p->settings->env.len; i++)
        words_put(out, p->settings->env.text[i]);
}

/* Each process has a file of its own. */
static void
plan_set_trace(const struct plan *p, const char *what, uint32_t number, struct words *env)
{
    char path[PLAN_PATH_MAX];

    if (p->trace_dir == NULL)
        return;
    snprintf(path, sizeof path, "%s/%s-%u.json", p->trace_dir, what, number);
    words_set(env, "PSD_TRACE_FILE=", path);
}

void
plan_shard_env(const struct plan *p, uint32_t shard, char *const *environment, struct words *out)
{
    plan_env_base(environment, out);
    words_unset(out, "STATE_DIRECTORY=");
    plan_set_trace(p, "shard", shard, out);
    plan_env_token(p, out);
    plan_env_options(p, out);
}

uint32_t
plan_threads(const struct plan *p)
{
    uint32_t here = 0;

    if (p->settings->cpus_per_worker > 0)
        return (uint32_t)p->settings->cpus_per_worker;
    for (uint32_t i = 0; i < p->deal.workers; i++)
        here += !plan_worker(p, i)->remote;
    return MAX(p->cpus / MAX(here, 1U), 1U);
}

void
plan_set_threads(struct words *env, uint32_t threads, bool always)
{
    static const char *const keys[] = {"OPENBLAS_NUM_THREADS=", "OMP_NUM_THREADS="};
    char text[16];

    snprintf(text, sizeof text, "%u", threads);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (always || !words_has(env, keys[i]))
            words_set(env, keys[i], text);
}

static void
plan_set_number(struct words *env, const char *key, uint32_t value)
{
    char text[16];

    snprintf(text, sizeof text, "%u", value);
    words_set(env, key, text);
}

/* The number that the client library gives a worker: the chief is 0, the workers follow. An evaluator has none. */
static void
plan_set_task(const struct plan *p, uint32_t worker, struct words *env)
{
    uint32_t numbered = 0;

    for (uint32_t i = 0; i < p->deal.workers; i++)
        numbered += plan_worker(p, i)->job != TF_EVALUATOR;
    plan_set_number(env, "PSD_WORKERS=", numbered);
    if (plan_worker(p, worker)->job != TF_EVALUATOR)
        plan_set_number(env, "PSD_TASK=", worker);
}

void
plan_worker_env(const struct plan *p, uint32_t worker, int columns, char *const *environment, struct words *out)
{
    char *config = plan_tf_config(p, worker), *shards = plan_shard_list(p);
    bool said = p->settings->cpus_per_worker > 0;

    plan_env_base(environment, out);
    words_set(out, "TF_CONFIG=", config);
    words_set(out, "PSD_CLUSTER=", p->settings->cluster);
    plan_env_token(p, out);
    if (p->deal.shards > 0)
        words_set(out, "PSD_SHARDS=", shards);
    if (p->work_dir != NULL)
        words_set(out, "PWD=", p->work_dir);
    plan_set_task(p, worker, out);
    plan_set_trace(p, "worker", worker, out);
    if (columns > 0)
        plan_set_number(out, "PSRUN_COLUMNS=", (uint32_t)columns);
    if (said || !plan_worker(p, worker)->remote)
        plan_set_threads(out, plan_threads(p), said);
    plan_env_options(p, out);
    free(config);
    free(shards);
}

/* ---- the cluster as text ---- */

char *
plan_tf_config(const struct plan *p, uint32_t worker)
{
    const struct task *self = plan_worker(p, worker);
    json_t *cluster = json_object(), *root;
    char *text;

    for (uint32_t i = 0; i < p->deal.shards + p->deal.workers; i++) {
        const struct task *t = &p->deal.tasks[i];
        json_t *list = json_object_get(cluster, tf_job_name(t->job));

        if (list == NULL)
            json_object_set_new(cluster, tf_job_name(t->job), list = json_array());
        json_array_append_new(list, json_string(t->address));
    }
    root = json_pack("{s:o,s:{s:s,s:i}}", "cluster", cluster, "task", "type", tf_job_name(self->job), "index",
                     (int)self->index);
    text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return words_need(text);
}

char *
plan_shard_list(const struct plan *p)
{
    size_t size = 1;
    char *text;

    for (uint32_t i = 0; i < p->deal.shards; i++)
        size += strlen(plan_shard(p, i)->address) + 1;
    text = words_alloc(NULL, size, 1);
    *text = '\0';
    for (uint32_t i = 0; i < p->deal.shards; i++) {
        strcat(text, i > 0 ? "," : "");
        strcat(text, plan_shard(p, i)->address);
    }
    return text;
}

/* ---- on other machines ---- */

static char *const plan_no_environment[] = {NULL};

void
plan_carried(char *const *environment, struct words *out)
{
    static const char *const names[] = {"PSD_TLS_CA=", "PSD_TLS_CERT=", "PSD_TLS_KEY=", "PSD_TLS_NAME="};

    for (; *environment != NULL; environment++)
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
            if (strncmp(*environment, names[i], strlen(names[i])) == 0)
                words_put(out, *environment);
}

void
plan_shard_order(const struct plan *p, uint32_t shard, int ready_fd, struct remote_order *out)
{
    char remove_dir[PLAN_PATH_MAX];

    *out = (struct remote_order){.shard = true,
                                 .hold = p->settings->restart_shards > 0,
                                 .silence_ms = (uint32_t)p->settings->silence_ms,
                                 .memory_shards = plan_memory_shards(p, shard)};
    plan_shard_dirs(p, shard, &out->dirs, remove_dir, sizeof remove_dir);
    out->dir = words_need(strdup(p->work_dir));
    out->remove_dir = words_need(strdup(remove_dir));
    plan_shard_env(p, shard, plan_no_environment, &out->env);
    plan_shard_argv(p, shard, ready_fd, &out->argv);
}

void
plan_worker_order(const struct plan *p, uint32_t worker, int columns, struct remote_order *out)
{
    *out = (struct remote_order){.dir = words_need(strdup(p->work_dir)),
                                 .remove_dir = words_need(strdup("")),
                                 .silence_ms = (uint32_t)p->settings->silence_ms,
                                 .workers = p->settings->cpus_per_worker > 0 ? 0 : plan_worker(p, worker)->together};
    plan_worker_env(p, worker, columns, p->carried != NULL ? p->carried : plan_no_environment, &out->env);
    for (size_t i = 0; p->program[i] != NULL; i++)
        words_add(&out->argv, "%s", p->program[i]);
}

void
plan_ssh_argv(const struct plan *p, const struct task *task, struct words *out)
{
    host_ssh_argv(&(struct host_ssh){.command = p->settings->ssh,
                                     .connect_ms = p->settings->connect_ms,
                                     .silence_ms = p->settings->silence_ms,
                                     .login = task->host.login,
                                     .psrun = p->settings->remote_psrun},
                  out);
}
