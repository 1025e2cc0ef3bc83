/* Where each process of a cluster is: TF_CONFIG, a list, or the environment's PSD_SHARDS, behind one opaque handle. */
#include "client/api/cluster.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"
#include "common/core/base/utf8.h"
#include "common/core/cluster/tfconfig.h"
#include "common/core/wire/wire.h"
#include "common/system/environment.h"

#define CLUSTER_NAME_DEFAULT "psd"

struct ps_cluster {
    struct tf_config config; /* a list's: workers are a number, their addresses are not known */
    uint32_t workers, task;
    char *name;
};

static enum ps_err
cluster_new(ps_cluster **out, struct ps_error *e)
{
    ps_cluster *c = calloc(1, sizeof *c);

    *out = NULL;
    if (c == NULL || (c->name = strdup(CLUSTER_NAME_DEFAULT)) == NULL) {
        free(c);
        return ps_fail(e, PS_ERR_NOMEM, "out of memory while reading the cluster's configuration");
    }
    *out = c;
    return PS_OK;
}

void
ps_cluster_free(ps_cluster *c)
{
    if (c == NULL)
        return;
    tf_config_finish(&c->config);
    free(c->name);
    free(c);
}

static bool
addresses_copy(const struct tf_addresses *from, struct tf_addresses *to)
{
    if (from->len == 0)
        return true;
    if ((to->text = calloc(from->len, sizeof *to->text)) == NULL)
        return false;
    for (; to->len < from->len; to->len++)
        if (from->text[to->len] != NULL && (to->text[to->len] = strdup(from->text[to->len])) == NULL)
            return false;
    return true;
}

enum ps_err
cluster_copy(const ps_cluster *from, ps_cluster **out, struct ps_error *e)
{
    ps_cluster *c = calloc(1, sizeof *c);
    bool whole = c != NULL && (c->name = strdup(from->name)) != NULL;

    *out = NULL;
    for (int job = 0; whole && job < TF_JOBS; job++)
        whole = addresses_copy(&from->config.jobs[job], &c->config.jobs[job]);
    if (!whole) {
        ps_cluster_free(c);
        return ps_fail(e, PS_ERR_NOMEM, "out of memory while copying a cluster's configuration");
    }
    c->config.type = from->config.type;
    c->config.index = from->config.index;
    c->workers = from->workers;
    c->task = from->task;
    *out = c;
    return PS_OK;
}

/* Hand the cluster over, or free it when it failed. */
static enum ps_err
cluster_finish(ps_cluster *c, enum ps_err err, ps_cluster **out)
{
    if (err != PS_OK) {
        ps_cluster_free(c);
        return err;
    }
    *out = c;
    return PS_OK;
}

/* ---- TF_CONFIG ---- */

/* Number chief and workers as one list, the chief first. */
static enum ps_err
cluster_number(ps_cluster *c, struct ps_error *e)
{
    const struct tf_config *config = &c->config;
    uint32_t chiefs = config->jobs[TF_CHIEF].len;

    c->workers = chiefs + config->jobs[TF_WORKER].len;
    if (config->jobs[TF_PS].len > WIRE_SHARDS_MAX)
        return ps_fail(e, PS_ERR_CONFIG, "TF_CONFIG: cluster.ps: %u shards; a cluster has at most %d",
                       config->jobs[TF_PS].len, WIRE_SHARDS_MAX);
    if (c->workers > WIRE_WORKERS_MAX)
        return ps_fail(e, PS_ERR_CONFIG, "TF_CONFIG: cluster.worker: %u workers; a job has at most %d", c->workers,
                       WIRE_WORKERS_MAX);
    c->task = config->type == TF_WORKER ? chiefs + config->index : 0;
    return PS_OK;
}

enum ps_err
ps_cluster_from_json(const char *json, ps_cluster **out, struct ps_error *error)
{
    ps_cluster *c;
    enum ps_err err;

    *out = NULL;
    if (json == NULL)
        return ps_fail(error, PS_ERR_CONFIG, "TF_CONFIG: not set");
    if ((err = cluster_new(&c, error)) != PS_OK)
        return err;
    if ((err = tf_config_parse(json, &c->config, error)) == PS_OK)
        err = cluster_number(c, error);
    return cluster_finish(c, err, out);
}

/* ---- a list ---- */

/* source and the names of the numbers are those that the reader of an error knows. */
static enum ps_err
cluster_from_list(const char *source, const char *shards, uint32_t workers, uint32_t task, ps_cluster **out,
                  struct ps_error *e)
{
    ps_cluster *c;
    enum ps_err err;

    *out = NULL;
    if (shards == NULL || *shards == '\0')
        return ps_fail(e, PS_ERR_CONFIG, "%s: no shard address is given", source);
    if (workers < 1 || workers > WIRE_WORKERS_MAX)
        return ps_fail(e, PS_ERR_CONFIG, "the number of workers must be 1 to %d, not %u", WIRE_WORKERS_MAX, workers);
    if (task >= workers)
        return ps_fail(e, PS_ERR_CONFIG, "task %u is out of range: workers are numbered from 0 to %u", task,
                       workers - 1);
    if ((err = cluster_new(&c, e)) != PS_OK)
        return err;
    err = tf_config_parse_list(source, shards, &c->config, e);
    if (err == PS_OK && c->config.jobs[TF_PS].len > WIRE_SHARDS_MAX)
        err = ps_fail(e, PS_ERR_CONFIG, "%s: %u shards; a cluster has at most %d", source, c->config.jobs[TF_PS].len,
                      WIRE_SHARDS_MAX);
    c->config.index = task;
    c->workers = workers;
    c->task = task;
    return cluster_finish(c, err, out);
}

enum ps_err
ps_cluster_from_list(const char *shards, uint32_t workers, uint32_t task, ps_cluster **out, struct ps_error *error)
{
    return cluster_from_list("shards", shards, workers, task, out, error);
}

/* ---- the environment ---- */

static enum ps_err
cluster_env_number(const char *name, uint32_t fallback, uint32_t *out, struct ps_error *e)
{
    unsigned long value;
    char *text, *end;
    enum ps_err err;

    *out = fallback;
    if ((err = environment_read(name, &text, e)) != PS_OK || text == NULL)
        return err;
    errno = 0;
    value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno == ERANGE || value > WIRE_WORKERS_MAX)
        err = ps_fail(e, PS_ERR_CONFIG, "%s: expected a whole number from 0 to %d, got '%.64s'", name, WIRE_WORKERS_MAX,
                      text);
    else
        *out = (uint32_t)value;
    free(text);
    return err;
}

static enum ps_err
cluster_from_shards(const char *list, ps_cluster **out, struct ps_error *e)
{
    uint32_t workers, task;
    enum ps_err err;

    if ((err = cluster_env_number("PSD_WORKERS", 1, &workers, e)) != PS_OK)
        return err;
    if ((err = cluster_env_number("PSD_TASK", 0, &task, e)) != PS_OK)
        return err;
    if (workers == 0)
        return ps_fail(e, PS_ERR_CONFIG, "PSD_WORKERS: expected at least 1, got 0");
    if (task >= workers)
        return ps_fail(e, PS_ERR_CONFIG, "PSD_TASK: %u is out of range; PSD_WORKERS is %u", task, workers);
    return cluster_from_list("PSD_SHARDS", list, workers, task, out, e);
}

/* A cluster that gives workers by their indices may leave out others. */
static enum ps_err
cluster_count_workers(ps_cluster *c, struct ps_error *e)
{
    uint32_t workers;
    enum ps_err err;

    if (!c->config.jobs[TF_WORKER].indexed)
        return PS_OK;
    if ((err = cluster_env_number("PSD_WORKERS", c->workers, &workers, e)) != PS_OK)
        return err;
    if (workers < c->workers)
        return ps_fail(e, PS_ERR_CONFIG, "PSD_WORKERS: there are %u workers, and TF_CONFIG lists number %u", workers,
                       c->workers - 1);
    c->workers = workers;
    return PS_OK;
}

static enum ps_err
cluster_from_tf_config(const char *json, ps_cluster **out, struct ps_error *e)
{
    enum ps_err err = ps_cluster_from_json(json, out, e);

    if (err != PS_OK || (err = cluster_count_workers(*out, e)) == PS_OK)
        return err;
    ps_cluster_free(*out);
    *out = NULL;
    return err;
}

/* The values of the environment; NULL: not set. */
struct cluster_env {
    char *json, *shards, *name;
};

static enum ps_err
cluster_env_read(struct cluster_env *env, struct ps_error *e)
{
    enum ps_err err;

    if ((err = environment_read("TF_CONFIG", &env->json, e)) != PS_OK ||
        (err = environment_read("PSD_SHARDS", &env->shards, e)) != PS_OK)
        return err;
    return environment_read("PSD_CLUSTER", &env->name, e);
}

static enum ps_err
cluster_from_values(const struct cluster_env *env, ps_cluster **out, struct ps_error *e)
{
    struct ps_error why;
    enum ps_err err;

    if (env->json != NULL)
        err = cluster_from_tf_config(env->json, out, e);
    else if (env->shards != NULL)
        err = cluster_from_shards(env->shards, out, e);
    else
        err = ps_fail(e, PS_ERR_CONFIG,
                      "neither TF_CONFIG nor PSD_SHARDS is set; one of them says where the "
                      "shards are");
    if (err != PS_OK || env->name == NULL)
        return err;
    if ((err = ps_cluster_set_name(*out, env->name, &why)) != PS_OK) {
        ps_cluster_free(*out);
        *out = NULL;
        return ps_fail(e, PS_ERR_CONFIG, "PSD_CLUSTER: %s", why.text);
    }
    return PS_OK;
}

enum ps_err
ps_cluster_from_env(ps_cluster **out, struct ps_error *error)
{
    struct cluster_env env = {NULL, NULL, NULL};
    enum ps_err err;

    *out = NULL;
    if ((err = cluster_env_read(&env, error)) == PS_OK)
        err = cluster_from_values(&env, out, error);
    free(env.json);
    free(env.shards);
    free(env.name);
    return err;
}

/* ---- accessors ---- */

enum ps_role
ps_cluster_role(const ps_cluster *c)
{
    static const enum ps_role roles[TF_JOBS] = {[TF_CHIEF] = PS_ROLE_CHIEF,
                                                [TF_WORKER] = PS_ROLE_WORKER,
                                                [TF_PS] = PS_ROLE_PS,
                                                [TF_EVALUATOR] = PS_ROLE_EVALUATOR};

    return roles[c->config.type];
}

uint32_t
ps_cluster_task(const ps_cluster *c)
{
    return c->task;
}

uint32_t
ps_cluster_index(const ps_cluster *c)
{
    return c->config.index;
}

uint32_t
ps_cluster_workers(const ps_cluster *c)
{
    return c->workers;
}

uint32_t
ps_cluster_shards(const ps_cluster *c)
{
    return c->config.jobs[TF_PS].len;
}

int
ps_cluster_is_chief(const ps_cluster *c)
{
    if (c->config.type == TF_CHIEF)
        return 1;
    return c->config.type == TF_WORKER && c->config.jobs[TF_CHIEF].len == 0 && c->task == 0;
}

const char *
ps_cluster_shard_address(const ps_cluster *c, uint32_t shard)
{
    return shard < ps_cluster_shards(c) ? c->config.jobs[TF_PS].text[shard] : NULL;
}

const char *
cluster_worker_address(const ps_cluster *c, uint32_t task)
{
    const struct tf_addresses *chiefs = &c->config.jobs[TF_CHIEF], *workers = &c->config.jobs[TF_WORKER];

    if (task < chiefs->len)
        return chiefs->text[task];
    return task - chiefs->len < workers->len ? workers->text[task - chiefs->len] : NULL;
}

const char *
ps_cluster_name(const ps_cluster *c)
{
    return c->name;
}

enum ps_err
ps_cluster_set_name(ps_cluster *c, const char *name, struct ps_error *error)
{
    size_t len = name != NULL ? strlen(name) : 0;
    char *copy;

    if (len == 0)
        return ps_fail(error, PS_ERR_INVALID, "a cluster's name may not be empty");
    if (len > WIRE_CLUSTER_MAX)
        return ps_fail(error, PS_ERR_INVALID, "a cluster's name may have %d bytes, this has %zu", WIRE_CLUSTER_MAX,
                       len);
    if (!utf8_is_printable(name, len))
        return ps_fail(error, PS_ERR_INVALID, "a cluster's name must be UTF-8 without control characters");
    if ((copy = strdup(name)) == NULL)
        return ps_fail(error, PS_ERR_NOMEM, "out of memory while naming a cluster");
    free(c->name);
    c->name = copy;
    return PS_OK;
}
