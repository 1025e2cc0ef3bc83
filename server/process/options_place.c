/* Which shard of which cluster this process is, as the environment says it: TF_CONFIG or PSD_SHARDS, and PSD_CLUSTER.
 */
#include <inttypes.h>
#include <string.h>

#include "common/core/base/comma_list.h"
#include "common/core/cluster/address.h"
#include "common/core/cluster/tfconfig.h"
#include "server/process/options.h"

static bool
is_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

/* Where a process that the cluster knows as `address` listens: peers connect from other machines, so on all interfaces,
 * unless the address itself is a loopback one. */
static void
listen_for(const char *text, const struct address *address, char *out, size_t size)
{
    if (address->is_unix || is_loopback(address->host))
        snprintf(out, size, "%s", text);
    else
        snprintf(out, size, "[::]:%u", address->port);
}

/* source: the variable that the text is from, for errors. */
static enum ps_err
set_named(struct options *o, const char *source, const char *name, const char *text, struct ps_error *e)
{
    return options_set(o, command_find(&psd_command, name, strlen(name)), source, FROM_ENVIRONMENT, text, e);
}

/* Whether both are on one host, as far as their texts tell. */
static bool
is_same_host(const struct address *a, const struct address *b)
{
    if (a->is_unix || b->is_unix)
        return a->is_unix && b->is_unix;
    return strcmp(a->host, b->host) == 0 || (is_loopback(a->host) && is_loopback(b->host));
}

static uint64_t
count_here(const struct tf_addresses *ps, const struct address *own)
{
    struct address other;
    struct ps_error e;
    uint64_t n = 0;

    for (uint32_t i = 0; i < ps->len; i++)
        n += address_parse(ps->text[i], &other, &e) == PS_OK && is_same_host(&other, own);
    return n;
}

/* Only processes of this host reach such addresses, so all shards of the cluster are on it. */
static bool
is_local_only(const char *listen)
{
    char text[ADDRESS_MAX + 1];
    struct address a;
    struct ps_error e;

    while (comma_list_next(&listen, text, sizeof text))
        if (*text != '\0' && strcmp(text, "none") != 0 &&
            (address_parse(text, &a, &e) != PS_OK || !(a.is_unix || is_loopback(a.host))))
            return false;
    return true;
}

/* Where nothing else is said, HTTP is served at this shard's entry of the list of pages. */
static enum ps_err
place_http(struct options *o, struct ps_error *e)
{
    const char *entry = o->http_shards;
    char text[ADDRESS_MAX + 1];
    uint64_t len;

    if (entry == NULL)
        return PS_OK;
    len = comma_list_len(entry);
    if (len != o->shards)
        return ps_fail(e, PS_ERR_CONFIG,
                       "--http-shards lists %" PRIu64 " addresses, and the cluster has %" PRIu64 " shards", len,
                       o->shards);
    for (uint64_t i = 0; i <= o->shard; i++)
        (void)comma_list_next(&entry, text, sizeof text);
    return options_given(o, "http") ? PS_OK : set_named(o, "--http-shards", "http", text, e);
}

/* What the environment's place says is checked and completed. */
static enum ps_err
place_done(struct options *o, struct ps_error *e)
{
    enum ps_err err = options_check_place(o, e);

    return err == PS_OK ? place_http(o, e) : err;
}

/* Without a list: shards that one can only reach from this host are on it. */
static enum ps_err
place_alone(struct options *o, struct ps_error *e)
{
    o->shards_here = is_local_only(o->listen) ? o->shards : 1;
    return place_done(o, e);
}

/* This process is the one at `index` in the list of the cluster's shards. */
static enum ps_err
apply_place(struct options *o, const char *source, const struct tf_addresses *ps, uint64_t index, struct ps_error *e)
{
    struct address address;
    char text[ADDRESS_MAX];
    enum ps_err err;

    if ((err = address_parse(ps->text[index], &address, e)) != PS_OK)
        return err;
    o->shards_here = count_here(ps, &address);
    listen_for(ps->text[index], &address, text, sizeof text);
    if (address.is_unix && o->unix_path != NULL && strcmp(address.path, o->unix_path) == 0)
        snprintf(text, sizeof text, "none"); /* --unix listens there */
    if ((err = set_named(o, source, "listen", text, e)) != PS_OK)
        return err;
    if (!options_given(o, "advertise") && (err = set_named(o, source, "advertise", ps->text[index], e)) != PS_OK)
        return err;
    snprintf(text, sizeof text, "%u", ps->len);
    return set_named(o, source, "shards", text, e);
}

static enum ps_err
apply_task(struct options *o, const struct tf_config *tf, struct ps_error *e)
{
    char text[16];
    enum ps_err err;

    if (tf->type != TF_PS)
        return ps_fail(e, PS_ERR_CONFIG, "TF_CONFIG: task.type is \"%s\"; psd is a \"ps\"", tf_job_name(tf->type));
    snprintf(text, sizeof text, "%u", tf->index);
    if ((err = set_named(o, "TF_CONFIG", "shard", text, e)) != PS_OK)
        return err;
    return apply_place(o, "TF_CONFIG", &tf->jobs[TF_PS], tf->index, e);
}

enum ps_err
options_apply_cluster(struct options *o, const char *name, struct ps_error *e)
{
    if (name == NULL || *name == '\0')
        return PS_OK;
    return set_named(o, "PSD_CLUSTER", "cluster", name, e);
}

enum ps_err
options_apply_tf_config(struct options *o, const char *text, struct ps_error *e)
{
    struct tf_config tf = {0};
    enum ps_err err;

    if (text == NULL || options_given(o, "listen") || options_given(o, "unix") || options_given(o, "shard") ||
        options_given(o, "shards"))
        return place_alone(o, e);
    err = tf_config_parse(text, &tf, e);
    if (err == PS_OK)
        err = apply_task(o, &tf, e);
    tf_config_finish(&tf);
    return err != PS_OK ? err : place_done(o, e);
}

enum ps_err
options_apply_shards(struct options *o, const char *list, struct ps_error *e)
{
    struct tf_config tf = {0};
    enum ps_err err;

    if (list == NULL || *list == '\0' || options_given(o, "listen") || options_given(o, "shards"))
        return place_alone(o, e);
    err = tf_config_parse_list("PSD_SHARDS", list, &tf, e);
    if (err == PS_OK && o->shard >= tf.jobs[TF_PS].len)
        err = ps_fail(e, PS_ERR_CONFIG, "PSD_SHARDS: there is no shard %" PRIu64 " in it: it lists %u", o->shard,
                      tf.jobs[TF_PS].len);
    if (err == PS_OK)
        err = apply_place(o, "PSD_SHARDS", &tf.jobs[TF_PS], o->shard, e);
    tf_config_finish(&tf);
    return err != PS_OK ? err : place_done(o, e);
}
