/* One small row, written once and read at every start. */
#include "server/core/durability/identity.h"

#include <string.h>

#include "server/core/shard_state.h"
#include "server/core/store/metadata_rows.h"

const char *const identity_live = "identity", *const identity_durable = "durable";

enum ps_err
identity_put(struct store *store, const char *name, const struct identity *who)
{
    Psd__ShardRow row = PSD__SHARD_ROW__INIT;

    row.format = who->format;
    row.cluster = (char *)who->cluster;
    row.shard = who->shard;
    row.shards = who->shards;
    row.boot = who->id;
    return metadata_rows_put(store, name, &row.base);
}

enum ps_err
identity_raise(struct shard *s, uint32_t format)
{
    struct identity who = {.format = MAX(s->format, format),
                           .cluster = s->cluster,
                           .shard = s->config.shard,
                           .shards = s->config.shards,
                           .id = s->boot};

    s->format = who.format;
    return identity_put(s->store, identity_live, &who);
}

enum ps_err
identity_get(struct store *store, const char *name, Psd__ShardRow **out)
{
    ProtobufCMessage *row;
    enum ps_err err = metadata_rows_get(store, name, &psd__shard_row__descriptor, &row);

    *out = (Psd__ShardRow *)row;
    return err;
}

void
identity_reload(struct shard *s)
{
    Psd__ShardRow *row;

    if (identity_get(s->store, identity_live, &row) != PS_OK || row == NULL)
        return;
    s->format = row->format;
    psd__shard_row__free_unpacked(row, NULL);
}

enum ps_err
identity_check(const Psd__ShardRow *row, const struct identity *wanted, const char *what, struct ps_error *e)
{
    uint32_t newest = MAX(wanted->format, wanted->newest);

    if (row->format < wanted->format || row->format > newest)
        return ps_fail(e, PS_ERR_VERSION, "%s has format %u, this psd knows format %u", what, row->format, newest);
    if (strcmp(row->cluster, wanted->cluster) != 0 || row->shard != wanted->shard || row->shards != wanted->shards)
        return ps_fail(e, PS_ERR_CLUSTER,
                       "%s belongs to shard %u of %u of cluster '%.128s', not to %u of %u of '%.128s'", what,
                       row->shard, row->shards, row->cluster, wanted->shard, wanted->shards, wanted->cluster);
    return PS_OK;
}
