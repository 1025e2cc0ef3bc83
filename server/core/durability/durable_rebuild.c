/* Rebuilding a live store from the durable one: blocks first, then rows, and the identity last, so that a part is never
 * taken for the whole. The live store is written in transactions of a turn's size. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/core/base/mutation.h"
#include "proto/store.pb-c.h"
#include "server/core/durability/durable.h"
#include "server/core/durability/identity.h"
#include "server/core/turn/row.h"

struct durable_rebuild {
    struct durable *d;
    struct store *live;
    durable_progress progress;
    void *arg;
    uint64_t blocks;
    uint64_t room; /* left in the open transaction */
    bool begun;
    enum store_table table;
    struct store_key lost; /* var 0: no block is */
    enum ps_err err;
};

static enum ps_err
durable_rebuild_commit(struct durable_rebuild *r)
{
    enum ps_err err;

    if (!r->begun)
        return PS_OK;
    r->begun = false;
    if ((err = r->live->ops->commit(r->live)) != PS_OK)
        return err;
    if (r->progress != NULL && !r->progress(r->arg, r->blocks, r->d->manifest.blocks))
        return PS_ERR_CANCELLED;
    return PS_OK;
}

/* Reserve so many bytes in a transaction; in a nearly full store it gets room for these alone. */
static enum ps_err
durable_rebuild_reserve(struct durable_rebuild *r, uint64_t bytes)
{
    const struct store_ops *ops = r->live->ops;
    uint64_t most = STORE_ROOM_TURN;
    enum ps_err err;

    if (r->begun && r->room >= bytes) {
        r->room -= bytes;
        return PS_OK;
    }
    if ((err = durable_rebuild_commit(r)) != PS_OK)
        return err;
    if ((err = ops->begin(r->live, most)) == PS_ERR_FULL)
        err = ops->begin(r->live, most = bytes);
    if (err != PS_OK)
        return err;
    r->begun = true;
    r->room = most - bytes;
    return PS_OK;
}

static bool
copy_block(void *arg, const struct store_key *key, struct span value)
{
    struct durable_rebuild *r = arg;
    struct store_key to = {.var = key->var, .block = key->block};
    void *place;

    if (key->generation != r->d->manifest.generation)
        return false;
    if ((r->err = r->d->store->ops->fetch(r->d->store, value)) != PS_OK) {
        r->lost = *key;
        return false;
    }
    if ((r->err = durable_rebuild_reserve(r, value.len)) == PS_OK &&
        (r->err = r->live->ops->reserve(r->live, &to, value.len, &place)) == PS_OK) {
        memcpy(place, value.data, value.len);
        r->blocks++;
    }
    return r->err == PS_OK;
}

/* ---- Values that the disk has lost ---- */

struct durable_rebuild_lookup {
    uint32_t id;
    char name[WIRE_NAME_MAX + 1];
};

static bool
find_name(void *arg, struct span key, struct span value)
{
    struct durable_rebuild_lookup *l = arg;
    Psd__VariableRow *row = row_id(key) == l->id ? psd__variable_row__unpack(NULL, value.len, value.data) : NULL;

    if (row != NULL && row->declare != NULL)
        snprintf(l->name, sizeof l->name, "%s", row->declare->name);
    if (row != NULL)
        psd__variable_row__free_unpacked(row, NULL);
    return row_id(key) != l->id;
}

static enum ps_err
block_lost(const struct durable_rebuild *r, struct ps_error *e)
{
    struct durable_rebuild_lookup l = {.id = r->lost.var, .name = "?"};

    (void)r->d->store->ops->each_row(r->d->store, STORE_VARS, find_name, &l);
    return ps_fail(e, r->err, "save %" PRIu64 " is damaged: block %" PRIu32 " of variable '%.128s' is lost",
                   r->d->manifest.save, r->lost.block, l.name);
}

/* ---- All of it ---- */

static enum ps_err
copy_blocks(struct durable_rebuild *r, struct ps_error *e)
{
    struct store_key from = {.generation = r->d->manifest.generation};
    enum ps_err err = r->d->store->ops->each_block_from(r->d->store, &from, copy_block, r);

    if (r->lost.var != 0)
        return block_lost(r, e);
    if (err == PS_OK)
        err = r->err;
    if (err != PS_OK)
        return ps_fail(e, err, "save %" PRIu64 " could not be copied: %s", r->d->manifest.save, ps_strerror(err));
    if (r->blocks != r->d->manifest.blocks)
        return ps_fail(e, PS_ERR_IO, "save %" PRIu64 " is damaged: %" PRIu64 " of its %" PRIu64 " blocks are there",
                       r->d->manifest.save, r->blocks, r->d->manifest.blocks);
    return PS_OK;
}

static bool
copy_row(void *arg, struct span key, struct span value)
{
    struct durable_rebuild *r = arg;

    r->err = r->d->store->ops->fetch(r->d->store, value);
    if (r->err == PS_OK)
        r->err = durable_rebuild_reserve(r, STORE_ROW_ROOM + value.len);
    if (r->err == PS_OK)
        r->err = r->live->ops->row_put(r->live, r->table, key, value);
    return r->err == PS_OK;
}

static enum ps_err
copy_rows(struct durable_rebuild *r)
{
    enum ps_err err = PS_OK;

    for (r->table = STORE_JOBS; r->table < STORE_TABLES && err == PS_OK; r->table++) {
        err = r->d->store->ops->each_row(r->d->store, r->table, copy_row, r);
        if (err == PS_OK)
            err = r->err;
    }
    return err;
}

static enum ps_err
put_identity(struct durable_rebuild *r, uint64_t boot)
{
    struct identity live = {.format = r->d->manifest.drops ? SHARD_FORMAT_DROPS : SHARD_FORMAT,
                            .cluster = r->d->cluster,
                            .shard = r->d->shard,
                            .shards = r->d->shards,
                            .id = boot};
    enum ps_err err = durable_rebuild_reserve(r, 2 * STORE_ROW_ROOM);

    return err == PS_OK ? identity_put(r->live, identity_live, &live) : err;
}

enum ps_err
durable_rebuild(struct durable *d, struct store *live, uint64_t boot, durable_progress progress, void *arg,
                struct ps_error *e)
{
    struct durable_rebuild r = {.d = d, .live = live, .progress = progress, .arg = arg};
    enum ps_err err;

    if (d->manifest.save == 0)
        return ps_fail(e, PS_ERR_NOT_FOUND, "the durable environment holds no save");
    if ((err = copy_blocks(&r, e)) != PS_OK)
        goto out;
    if ((err = copy_rows(&r)) != PS_OK ||
        (err = put_identity(&r, MUTATION(OLD_BOOT_KEPT) ? d->manifest.boot : boot)) != PS_OK ||
        (err = durable_rebuild_commit(&r)) != PS_OK)
        ps_fail(e, err, "the rows of save %" PRIu64 " could not be copied: %s", d->manifest.save, ps_strerror(err));
out:
    if (r.begun)
        live->ops->abort(live);
    return err;
}
