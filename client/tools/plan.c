#include "plan.h"

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

void
plan_shard_dir(const struct plan *p, uint32_t shard, char *out, size_t size)
{
    snprintf(out, size, "%s/shard-%u", p->dir, shard);
}

void
plan_live_dir(const struct plan *p, uint32_t shard, char *out, size_t size)
{
    if (p->settings->live_dir != NULL)
        snprintf(out, size, "%s/shard-%u", p->settings->live_dir, shard);
    else
        snprintf(out, size, "%s/shard-%u/live", p->dir, shard);
}

void
plan_shard_argv(const struct plan *p, uint32_t shard, int ready_fd, struct words *out)
{
    char live[4096];

    plan_live_dir(p, shard, live, sizeof live);
    words_add(out, "%s", p->psd);
    words_add(out, "--cluster=%s", p->settings->cluster);
    words_add(out, "--shard=%u", shard);
    words_add(out, "--shards=%u", (unsigned)p->settings->shards);
    words_add(out, "--live-dir=%s", live);
    if (p->settings->unix_sockets)
        words_add(out, "--listen=unix:%s/shard-%u/psd.sock", p->dir, shard);
    else
        words_add(out, "--listen=127.0.0.1:0");
    words_add(out, "--ready-fd=%d", ready_fd);
    for (size_t i = 0; i < p->settings->psd_options.len; i++)
        words_add(out, "%s", p->settings->psd_options.text[i]);
}

/* ---- environment ---- */

static void
plan_env_base(char *const *environment, struct words *out)
{
    static const char *const ours[] = {
        "TF_CONFIG=", "PSD_CLUSTER=", "PSD_SHARDS=", "PSD_WORKERS=", "PSD_TASK=", "PSRUN_COLUMNS="};

    for (; *environment != NULL; environment++)
        words_add(out, "%s", *environment);
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        words_unset(out, ours[i]);
}

/* --env comes last, so that it has the last word. */
static void
plan_env_options(const struct plan *p, struct words *out)
{
    for (size_t i = 0; i < p->settings->env.len; i++) {
        const char *text = p->settings->env.text[i], *value = strchr(text, '=') + 1;
        char *key = words_alloc(NULL, (size_t)(value - text) + 1, 1);

        memcpy(key, text, (size_t)(value - text));
        key[value - text] = '\0';
        words_set(out, key, value);
        free(key);
    }
}

void
plan_shard_env(const struct plan *p, char *const *environment, struct words *out)
{
    plan_env_base(environment, out);
    plan_env_options(p, out);
}

uint32_t
plan_threads(const struct plan *p)
{
    if (p->settings->cpus_per_worker > 0)
        return (uint32_t)p->settings->cpus_per_worker;
    return (uint32_t)MAX(p->cpus / (uint64_t)p->settings->workers, (uint64_t)1);
}

static void
plan_env_threads(const struct plan *p, struct words *out)
{
    static const char *const keys[] = {"OPENBLAS_NUM_THREADS=", "OMP_NUM_THREADS="};
    char text[16];

    snprintf(text, sizeof text, "%u", plan_threads(p));
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (p->settings->cpus_per_worker > 0 || !words_has(out, keys[i]))
            words_set(out, keys[i], text);
}

void
plan_worker_env(const struct plan *p, uint32_t worker, int columns, char *const *environment, struct words *out)
{
    char *config = plan_tf_config(p, worker), *shards = plan_shard_list(p), number[16];

    plan_env_base(environment, out);
    words_set(out, "TF_CONFIG=", config);
    words_set(out, "PSD_CLUSTER=", p->settings->cluster);
    words_set(out, "PSD_SHARDS=", shards);
    snprintf(number, sizeof number, "%u", (unsigned)p->settings->workers);
    words_set(out, "PSD_WORKERS=", number);
    snprintf(number, sizeof number, "%u", worker);
    words_set(out, "PSD_TASK=", number);
    snprintf(number, sizeof number, "%d", columns);
    if (columns > 0)
        words_set(out, "PSRUN_COLUMNS=", number);
    plan_env_threads(p, out);
    plan_env_options(p, out);
    free(config);
    free(shards);
}

/* ---- the cluster as text ---- */

char *
plan_tf_config(const struct plan *p, uint32_t worker)
{
    json_t *workers = json_array(), *shards = json_array(), *root;
    char address[32], *text;

    for (uint32_t i = 0; i < (uint32_t)p->settings->workers; i++) {
        snprintf(address, sizeof address, "127.0.0.1:%u", p->ports[i]);
        json_array_append_new(workers, json_string(address));
    }
    for (uint32_t i = 0; i < (uint32_t)p->settings->shards; i++)
        json_array_append_new(shards, json_string(p->addresses[i]));
    root = json_pack("{s:{s:o,s:o},s:{s:s,s:i}}", "cluster", "worker", workers, "ps", shards, "task", "type", "worker",
                     "index", (int)worker);
    text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return words_need(text);
}

char *
plan_shard_list(const struct plan *p)
{
    size_t size = 1;
    char *text;

    for (uint32_t i = 0; i < (uint32_t)p->settings->shards; i++)
        size += strlen(p->addresses[i]) + 1;
    text = words_alloc(NULL, size, 1);
    *text = '\0';
    for (uint32_t i = 0; i < (uint32_t)p->settings->shards; i++) {
        strcat(text, i > 0 ? "," : "");
        strcat(text, p->addresses[i]);
    }
    return text;
}
