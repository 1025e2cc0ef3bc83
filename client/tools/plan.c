#include "plan.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- options ---- */

#define FIELD(name) offsetof(struct plan_settings, name)

static const struct option plan_options[] = {
    {.name = "shards",
     .kind = OPTION_INT,
     .argument = "S",
     .fallback = "1",
     .min = 1,
     .max = PLAN_SHARDS_MAX,
     .offset = FIELD(shards),
     .help = "psd processes to start"},
    {.name = "workers",
     .kind = OPTION_INT,
     .argument = "W",
     .fallback = "1",
     .min = 1,
     .max = PLAN_WORKERS_MAX,
     .offset = FIELD(workers),
     .help = "copies of the program to start"},
    {.name = "cpus-per-worker",
     .kind = OPTION_INT,
     .argument = "N",
     .min = 1,
     .max = 4096,
     .offset = FIELD(cpus_per_worker),
     .help = "compute threads of each worker: OPENBLAS_NUM_THREADS and OMP_NUM_THREADS (default: what the environment "
             "says, else this machine's cores divided by the workers, at least 1)"},
    {.name = "psd",
     .kind = OPTION_TEXT,
     .argument = "PATH",
     .offset = FIELD(psd),
     .help = "the server to run (default: $PSD_BIN, else psd beside psrun, in the build tree, or in $PATH)"},
    {.name = "psd-option",
     .kind = OPTION_LIST,
     .argument = "TEXT",
     .offset = FIELD(psd_options),
     .help = "one more argument for each psd, such as --grace=2; may be given many times"},
    {.name = "unix",
     .kind = OPTION_FLAG,
     .offset = FIELD(unix_sockets),
     .help = "connect through Unix sockets instead of TCP on 127.0.0.1"},
    {.name = "cluster",
     .kind = OPTION_TEXT,
     .argument = "NAME",
     .fallback = "local",
     .offset = FIELD(cluster),
     .help = "the cluster's name; a shard refuses workers of another one"},
    {.name = "live-dir",
     .kind = OPTION_TEXT,
     .argument = "DIR",
     .offset = FIELD(live_dir),
     .help = "keep the shards' data in DIR/shard-0 and so on, and leave it there (default: a new directory under "
             "/dev/shm, or under $TMPDIR or /tmp when that has no room, removed at the end)"},
    {.name = "keep-servers",
     .kind = OPTION_FLAG,
     .offset = FIELD(keep_servers),
     .help = "leave the shards running when the workers have ended, and say how to reach and stop them; what they log "
             "goes to files. Ctrl-C still stops all"},
    {.name = "restart-workers",
     .kind = OPTION_INT,
     .argument = "N",
     .fallback = "0",
     .min = 0,
     .max = 1000000,
     .offset = FIELD(restart_workers),
     .help = "start a worker that failed again, up to N times in all; it joins as a new incarnation"},
    {.name = "env",
     .kind = OPTION_LIST,
     .argument = "K=V",
     .offset = FIELD(env),
     .help = "set a variable for every process; may be given many times"},
    {.name = "no-prefix",
     .kind = OPTION_FLAG,
     .offset = FIELD(no_prefix),
     .help = "print lines without the name of the process"},
    {.name = "timeout",
     .kind = OPTION_SECONDS,
     .argument = "SEC",
     .fallback = "0",
     .min = 0,
     .max = INT64_C(1000) * 3600 * 24 * 365,
     .offset = FIELD(timeout_ms),
     .help = "tear all down after this many seconds and exit with 124; 0: never"},
    {.name = "grace",
     .kind = OPTION_SECONDS,
     .argument = "SEC",
     .fallback = "10",
     .min = 0,
     .max = 3600 * 1000,
     .offset = FIELD(grace_ms),
     .help = "seconds between asking a process to stop (TERM) and killing it"},
};

const struct option_command plan_command = {
    .name = "psrun",
    .usage = "[options] -- program [args]",
    .about =
        "Start a cluster on this machine: shards of the parameter server and workers that run the program. Each worker "
        "finds the others through TF_CONFIG; all output comes here, each line behind the name of its process. When the "
        "workers have ended, or one failed, or Ctrl-C is pressed, everything is stopped; no process is left behind, "
        "not even when psrun itself is killed.\n"
        "\n"
        "  psrun --shards 2 --workers 3 -- ./train --epochs 5",
    .after = "Each worker's environment has TF_CONFIG, PSD_CLUSTER, PSD_SHARDS, PSD_WORKERS and PSD_TASK, and, when "
             "psrun prints to a terminal, PSRUN_COLUMNS: the columns that a live progress line, redrawn with \\r, may "
             "take.\n"
             "\n"
             "Exit status: 0 when every worker ended with 0; else the status of the first that failed, 128 + N when "
             "signal N killed it, and the same for a shard that ended early; 124 after --timeout; 130 after Ctrl-C; 2 "
             "when the options are wrong; 1 when the cluster could not be started.",
    .options = plan_options,
    .options_len = ARRAY_LEN(plan_options),
    .program = true,
};

enum ps_err
plan_check(const struct plan_settings *settings, const struct option_rest *rest, struct ps_error *e)
{
    for (size_t i = 0; i < settings->env.len; i++) {
        const char *text = settings->env.text[i], *equals = strchr(text, '=');

        if (equals == NULL || equals == text)
            return ps_fail(e, PS_ERR_INVALID, "--env: expected K=V, got '%.64s'", text);
    }
    if (settings->cluster[0] == '\0')
        return ps_fail(e, PS_ERR_INVALID, "--cluster: a name may not be empty");
    if (rest->len == 0)
        return ps_fail(e, PS_ERR_INVALID, "expected a program to run: psrun [options] -- program [args]");
    return PS_OK;
}

/* ---- strings ---- */

static void *
plan_need(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "psrun: out of memory\n");
        exit(EXIT_FAILURE);
    }
    return memory;
}

static void *
plan_alloc(void *old, size_t n, size_t size)
{
    return plan_need(reallocarray(old, n, size));
}

void
plan_add(struct plan_strings *list, const char *format, ...)
{
    va_list args;
    char *text;

    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    list->text = plan_alloc(list->text, list->len + 2, sizeof *list->text);
    list->text[list->len++] = plan_need(text);
    list->text[list->len] = NULL;
}

void
plan_strings_free(struct plan_strings *list)
{
    for (size_t i = 0; i < list->len; i++)
        free(list->text[i]);
    free(list->text);
    *list = (struct plan_strings){0};
}

/* ---- where the server is ---- */

static void
plan_add_path(const char *env_path, const char *name, struct plan_strings *out)
{
    while (env_path != NULL && *env_path != '\0') {
        size_t len = strcspn(env_path, ":");

        if (len > 0)
            plan_add(out, "%.*s/%s", (int)len, env_path, name);
        env_path += len + (env_path[len] == ':');
    }
}

void
plan_psd_candidates(const char *psd, const char *psd_bin, const char *exe, const char *env_path,
                    struct plan_strings *out)
{
    const char *slash = strrchr(exe, '/');
    int dir = slash != NULL ? (int)(slash - exe) : 0;

    if (psd != NULL && strchr(psd, '/') != NULL) {
        plan_add(out, "%s", psd);
        return;
    }
    if (psd != NULL) {
        plan_add_path(env_path, psd, out);
        return;
    }
    if (psd_bin != NULL && *psd_bin != '\0') {
        plan_add(out, "%s", psd_bin);
        return;
    }
    if (slash != NULL) {
        plan_add(out, "%.*s/psd", dir, exe);
        plan_add(out, "%.*s/../../server/psd", dir, exe); /* build/client/tools/psrun */
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
plan_shard_argv(const struct plan *p, uint32_t shard, int ready_fd, struct plan_strings *out)
{
    char live[4096];

    plan_live_dir(p, shard, live, sizeof live);
    plan_add(out, "%s", p->psd);
    plan_add(out, "--cluster=%s", p->settings->cluster);
    plan_add(out, "--shard=%u", shard);
    plan_add(out, "--shards=%u", (unsigned)p->settings->shards);
    plan_add(out, "--live-dir=%s", live);
    if (p->settings->unix_sockets)
        plan_add(out, "--listen=unix:%s/shard-%u/psd.sock", p->dir, shard);
    else
        plan_add(out, "--listen=127.0.0.1:0");
    plan_add(out, "--ready-fd=%d", ready_fd);
    for (size_t i = 0; i < p->settings->psd_options.len; i++)
        plan_add(out, "%s", p->settings->psd_options.text[i]);
}

/* ---- environment ---- */

/* Take a variable out; key ends with = */
static void
plan_env_unset(struct plan_strings *env, const char *key)
{
    size_t kept = 0, len = strlen(key);

    for (size_t i = 0; i < env->len; i++) {
        if (strncmp(env->text[i], key, len) == 0)
            free(env->text[i]);
        else
            env->text[kept++] = env->text[i];
    }
    env->len = kept;
    if (env->text != NULL)
        env->text[kept] = NULL;
}

static void
plan_env_set(struct plan_strings *env, const char *key, const char *value)
{
    plan_env_unset(env, key);
    plan_add(env, "%s%s", key, value);
}

static bool
plan_env_has(const struct plan_strings *env, const char *key)
{
    for (size_t i = 0; i < env->len; i++)
        if (strncmp(env->text[i], key, strlen(key)) == 0)
            return true;
    return false;
}

static void
plan_env_base(char *const *environment, struct plan_strings *out)
{
    static const char *const ours[] = {
        "TF_CONFIG=", "PSD_CLUSTER=", "PSD_SHARDS=", "PSD_WORKERS=", "PSD_TASK=", "PSRUN_COLUMNS="};

    for (; *environment != NULL; environment++)
        plan_add(out, "%s", *environment);
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        plan_env_unset(out, ours[i]);
}

/* --env comes last, so that it has the last word. */
static void
plan_env_options(const struct plan *p, struct plan_strings *out)
{
    for (size_t i = 0; i < p->settings->env.len; i++) {
        const char *text = p->settings->env.text[i], *value = strchr(text, '=') + 1;
        char *key = plan_alloc(NULL, (size_t)(value - text) + 1, 1);

        memcpy(key, text, (size_t)(value - text));
        key[value - text] = '\0';
        plan_env_set(out, key, value);
        free(key);
    }
}

void
plan_shard_env(const struct plan *p, char *const *environment, struct plan_strings *out)
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
plan_env_threads(const struct plan *p, struct plan_strings *out)
{
    static const char *const keys[] = {"OPENBLAS_NUM_THREADS=", "OMP_NUM_THREADS="};
    char text[16];

    snprintf(text, sizeof text, "%u", plan_threads(p));
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (p->settings->cpus_per_worker > 0 || !plan_env_has(out, keys[i]))
            plan_env_set(out, keys[i], text);
}

void
plan_worker_env(const struct plan *p, uint32_t worker, int columns, char *const *environment, struct plan_strings *out)
{
    char *config = plan_tf_config(p, worker), *shards = plan_shard_list(p), number[16];

    plan_env_base(environment, out);
    plan_env_set(out, "TF_CONFIG=", config);
    plan_env_set(out, "PSD_CLUSTER=", p->settings->cluster);
    plan_env_set(out, "PSD_SHARDS=", shards);
    snprintf(number, sizeof number, "%u", (unsigned)p->settings->workers);
    plan_env_set(out, "PSD_WORKERS=", number);
    snprintf(number, sizeof number, "%u", worker);
    plan_env_set(out, "PSD_TASK=", number);
    snprintf(number, sizeof number, "%d", columns);
    if (columns > 0)
        plan_env_set(out, "PSRUN_COLUMNS=", number);
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
    return plan_need(text);
}

char *
plan_shard_list(const struct plan *p)
{
    size_t size = 1;
    char *text;

    for (uint32_t i = 0; i < (uint32_t)p->settings->shards; i++)
        size += strlen(p->addresses[i]) + 1;
    text = plan_alloc(NULL, size, 1);
    *text = '\0';
    for (uint32_t i = 0; i < (uint32_t)p->settings->shards; i++) {
        strcat(text, i > 0 ? "," : "");
        strcat(text, p->addresses[i]);
    }
    return text;
}
