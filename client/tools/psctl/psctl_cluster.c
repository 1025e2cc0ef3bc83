/* Which shards psctl asks: those of --shards, else of TF_CONFIG or PSD_SHARDS, else the one that psd is by itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/psctl/psctl.h"
#include "client/tools/shared/strlist.h"
#include "common/core/cluster/tfconfig.h"
#include "common/system/environment.h"

/* "host:port,host:port" */
static char *
psctl_join(const struct tf_addresses *list)
{
    size_t size = 1;
    char *text, *at;

    for (uint32_t i = 0; i < list->len; i++)
        size += strlen(list->text[i]) + 1;
    text = at = strlist_alloc(NULL, size, 1);
    *at = '\0';
    for (uint32_t i = 0; i < list->len; i++)
        at += sprintf(at, "%s%s", i > 0 ? "," : "", list->text[i]);
    return text;
}

/* The shards of a TF_CONFIG without a task: it describes the cluster, and psctl is none of its processes. NULL:
 * TF_CONFIG is not like that, or lists none. */
static char *
psctl_listed_shards(void)
{
    const char *json = getenv("TF_CONFIG");
    struct tf_config config = {0};
    char *list = NULL;
    bool task;

    if (!environment_has("TF_CONFIG"))
        return NULL;
    if (tf_config_parse_cluster(json, &config, &task, NULL) == PS_OK && !task)
        list = psctl_join(&config.jobs[TF_PS]);
    tf_config_finish(&config);
    return list;
}

/* The shard that a psd without options is. must_be: it is asked whether it is there. */
static enum ps_err
psctl_usual_cluster(const struct psctl_settings *settings, bool must_be, ps_cluster **out, struct ps_error *e)
{
    struct ps_client_options options = {
        .observer = 1, .any_cluster = 1, .transport = PS_TRANSPORT_TCP, .timeout_ms = (int)settings->timeout_ms};
    struct ps_error why;
    ps_client *client;
    enum ps_err err;

    if ((err = ps_cluster_from_list(PSCTL_USUAL_SHARD, 1, 0, out, e)) != PS_OK || !must_be)
        return err;
    err = ps_client_open(*out, &options, &client, &why);
    if (err == PS_OK)
        ps_client_close(client);
    if (err != PS_ERR_UNREACHABLE)
        return PS_OK; /* there is one, whatever it says */
    ps_cluster_free(*out);
    *out = NULL;
    return ps_fail(
        e, PS_ERR_INVALID,
        "neither --shards nor TF_CONFIG nor PSD_SHARDS says where the shards are, and no shard is at " PSCTL_USUAL_SHARD
        ", where psd listens by itself");
}

enum ps_err
psctl_cluster(const struct psctl_settings *settings, bool must_be, ps_cluster **out, struct ps_error *e)
{
    enum ps_err err;
    char *listed;

    *out = NULL;
    if (settings->shards != NULL)
        return ps_cluster_from_list(settings->shards, 1, 0, out, e);
    if (!environment_has("TF_CONFIG") && !environment_has("PSD_SHARDS"))
        return psctl_usual_cluster(settings, must_be, out, e);
    listed = psctl_listed_shards();
    if (listed == NULL)
        err = ps_cluster_from_env(out, e);
    else
        err = *listed == '\0' ? PS_OK : ps_cluster_from_list(listed, 1, 0, out, e);
    free(listed);
    if (err != PS_OK || (*out != NULL && ps_cluster_shards(*out) > 0))
        return err;
    ps_cluster_free(*out);
    *out = NULL;
    return ps_fail(e, PS_ERR_CONFIG, "TF_CONFIG: cluster.ps: missing; it lists the addresses of the psd shards");
}
