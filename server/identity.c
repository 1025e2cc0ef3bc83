/* One small row, written once and read at every start. */
#include "identity.h"

#include <string.h>

const struct span identity_live = {"identity", 8}, identity_durable = {"durable", 7};

enum ps_err
identity_put(struct store *store, struct span key, const struct identity *who)
{
    Psd__ShardRow row = PSD__SHARD_ROW__INIT;
    uint8_t bytes[512];
    size_t len;

    row.format = who->format;
    row.cluster = (char *)who->cluster;
    row.shard = who->shard;
    row.shards = who->shards;
    row.boot = who->id;
    len = psd__shard_row__get_packed_size(&row);
    ps_assert(len <= sizeof bytes);
    psd__shard_row__pack(&row, bytes);
    return store->ops->row_put(store, STORE_SHARD, key, (struct span){bytes, len});
}

struct find {
    struct span key;
    Psd__ShardRow *row;
    bool nomem;
};

static bool
find_row(void *arg, struct span key, struct span value)
{
    struct find *f = arg;

    if (key.len != f->key.len || memcmp(key.data, f->key.data, key.len) != 0)
        return true;
    f->row = psd__shard_row__unpack(NULL, value.len, value.data);
    f->nomem = f->row == NULL;
    return false;
}

enum ps_err
identity_get(struct store *store, struct span key, Psd__ShardRow **out)
{
    struct find f = {.key = key};
    enum ps_err err = store->ops->each_row(store, STORE_SHARD, find_row, &f);

    *out = f.row;
    return err == PS_OK && f.nomem ? PS_ERR_NOMEM : err;
}

enum ps_err
identity_check(const Psd__ShardRow *row, const struct identity *wanted, const char *what, struct ps_error *e)
{
    if (row->format != wanted->format)
        return ps_fail(e, PS_ERR_VERSION, "%s has format %u, this psd knows format %u", what, row->format,
                       wanted->format);
    if (strcmp(row->cluster, wanted->cluster) != 0 || row->shard != wanted->shard || row->shards != wanted->shards)
        return ps_fail(e, PS_ERR_CLUSTER,
                       "%s belongs to shard %u of %u of cluster '%.128s', not to %u of %u of '%.128s'", what,
                       row->shard, row->shards, row->cluster, wanted->shard, wanted->shards, wanted->cluster);
    return PS_OK;
}
