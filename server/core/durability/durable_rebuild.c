/* Rebuilding a live store from the durable one: blocks first, then rows, and the identity last, so that a part is never
 * taken for the whole. The live store is written in transactions of a turn's size.
 *
 * Every value is held against its checksum, and their sums against the manifest's. For a block that is damaged the same
 * one of the other generation is taken, if it has the checksum that the damaged one names, or lies there unchanged
 * since the same boot staged both; what was taken is found wrong by the manifest's sum, if it is. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/core/base/mutation.h"
#include "common/core/model/layout.h"
#include "proto/store.pb-c.h"
#include "server/core/durability/durable.h"
#include "server/core/durability/identity.h"
#include "server/core/store/row_sum.h"
#include "server/core/store/value_sum.h"
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
    uint64_t blocks_sum, rows, rows_sum;
    struct store_key lost; /* var 0: no block is */
    uint64_t mended;       /* from the other generation, */
    struct store_key first_mended;
    bool unreadable; /* it is on the disk, which cannot read it; else it has another checksum */
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

/* ---- Blocks ---- */

/* The value is what was staged under this key. That of a save without checksums may have one: it was staged later. */
static bool
rebuild_holds(const struct durable_rebuild *r, const struct store_key *key, struct span value)
{
    const struct block_head *head = value.data;

    if (!layout_is_value_size(value.len))
        return false;
    return head->summed ? value_sum_holds(key, value) : !r->d->manifest.sums;
}

/* The other generation's value holds, and is the same. */
static bool
rebuild_is_same(const struct durable_rebuild *r, struct span damaged, struct span other)
{
    const struct block_head *x = damaged.data, *y = other.data;

    if (!layout_is_value_size(damaged.len) || damaged.len != other.len || !y->summed)
        return false;
    return x->sum == y->sum ||
           (r->d->staged_boot == r->d->manifest.boot && x->version == y->version && x->clock == y->clock);
}

/* A damaged block, from the generation that is not the save's: it may lie there unchanged. */
static enum ps_err
rebuild_mend(struct durable_rebuild *r, struct store_snapshot *snap, const struct store_key *key, struct span *value)
{
    const struct store_ops *ops = r->d->store->ops;
    struct store_key from = *key;
    struct span other;
    enum ps_err err;

    from.generation ^= 1;
    if ((err = ops->snapshot_get(r->d->store, snap, &from, &other)) != PS_OK ||
        (err = ops->fetch(r->d->store, other)) != PS_OK)
        return err;
    if (!rebuild_holds(r, &from, other) || !rebuild_is_same(r, *value, other))
        return PS_ERR_NOT_FOUND;
    *value = other;
    if (r->mended++ == 0)
        r->first_mended = *key;
    return PS_OK;
}

static enum ps_err
rebuild_put(struct durable_rebuild *r, const struct store_key *key, struct span value)
{
    struct store_key to = {.var = key->var, .block = key->block};
    struct block_head *head;
    void *place;
    enum ps_err err;

    if ((err = durable_rebuild_reserve(r, value.len)) != PS_OK ||
        (err = r->live->ops->reserve(r->live, &to, value.len, &place)) != PS_OK)
        return err;
    memcpy(place, value.data, value.len);
    head = place;
    r->blocks_sum += head->sum;
    head->summed = 0;
    head->sum = 0;
    r->blocks++;
    return PS_OK;
}

static enum ps_err
rebuild_mend_and_put(struct durable_rebuild *r, const struct store_key *key, struct span value)
{
    struct store_snapshot *snap;
    enum ps_err err = r->d->store->ops->snapshot_ref(r->d->store, &snap);

    if (err != PS_OK)
        return err;
    if (rebuild_mend(r, snap, key, &value) == PS_OK)
        err = rebuild_put(r, key, value);
    else {
        r->lost = *key;
        err = PS_ERR_IO;
    }
    r->d->store->ops->snapshot_unref(r->d->store, snap);
    return err;
}

static bool
copy_block(void *arg, const struct store_key *key, struct span value)
{
    struct durable_rebuild *r = arg;

    if (key->generation != r->d->manifest.generation)
        return false;
    if ((r->err = r->d->store->ops->fetch(r->d->store, value)) != PS_OK) {
        r->lost = *key;
        r->unreadable = true;
        return false;
    }
    r->err = rebuild_holds(r, key, value) ? rebuild_put(r, key, value) : rebuild_mend_and_put(r, key, value);
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

/* Which block it is. */
static void
rebuild_say_block(const struct durable_rebuild *r, const struct store_key *key, char *out, size_t size)
{
    struct durable_rebuild_lookup l = {.id = key->var, .name = "?"};

    (void)r->d->store->ops->each_row(r->d->store, STORE_VARS, find_name, &l);
    snprintf(out, size, "block %" PRIu32 " of variable '%.128s'", key->block, l.name);
}

static enum ps_err
block_lost(const struct durable_rebuild *r, struct ps_error *e)
{
    char block[DURABLE_BLOCK_TEXT_MAX];

    rebuild_say_block(r, &r->lost, block, sizeof block);
    return ps_fail(e, r->err, "save %" PRIu64 " is damaged: %s %s", r->d->manifest.save, block,
                   r->unreadable ? "is lost" : "does not have its checksum, and lies nowhere else");
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
    if (r->d->manifest.sums && r->blocks_sum != r->d->manifest.blocks_sum)
        return ps_fail(e, PS_ERR_IO, "save %" PRIu64 " is damaged: among its blocks are some of another save",
                       r->d->manifest.save);
    return PS_OK;
}

/* ---- Rows ---- */

static bool
rebuild_row_holds(struct durable_rebuild *r, struct span key, struct span *value)
{
    uint32_t sum = 0;
    enum row_sum_state state = row_sum_take(r->table, key, value, &sum);

    r->rows++;
    r->rows_sum += sum;
    return state == ROW_SUM_HOLDS || (state == ROW_SUM_NONE && !r->d->manifest.sums);
}

static bool
copy_row(void *arg, struct span key, struct span value)
{
    struct durable_rebuild *r = arg;

    r->err = r->d->store->ops->fetch(r->d->store, value);
    if (r->err == PS_OK && !rebuild_row_holds(r, key, &value))
        r->err = PS_ERR_IO;
    if (r->err == PS_OK)
        r->err = durable_rebuild_reserve(r, STORE_ROW_ROOM + value.len);
    if (r->err == PS_OK)
        r->err = r->live->ops->row_put(r->live, r->table, key, value);
    return r->err == PS_OK;
}

static const char *const rebuild_tables[STORE_TABLES] = {[STORE_JOBS] = "jobs",
                                                         [STORE_VARS] = "variables",
                                                         [STORE_SESSIONS] = "workers",
                                                         [STORE_CURSORS] = "places in the data"};

static enum ps_err
rebuild_rows_failed(const struct durable_rebuild *r, enum ps_err err, struct ps_error *e)
{
    uint64_t save = r->d->manifest.save;

    if (err == PS_ERR_IO)
        return ps_fail(e, err, "save %" PRIu64 " is damaged: a row of its %s cannot be read, or lacks its checksum",
                       save, rebuild_tables[r->table]);
    return ps_fail(e, err, "the rows of save %" PRIu64 " could not be copied: %s", save, ps_strerror(err));
}

static enum ps_err
copy_rows(struct durable_rebuild *r, struct ps_error *e)
{
    const struct durable_manifest *m = &r->d->manifest;
    enum ps_err err;

    for (r->table = STORE_JOBS; r->table < STORE_TABLES; r->table++) {
        err = r->d->store->ops->each_row(r->d->store, r->table, copy_row, r);
        if (err != PS_OK || r->err != PS_OK)
            return rebuild_rows_failed(r, err != PS_OK ? err : r->err, e);
    }
    if (m->sums && (r->rows != m->rows || r->rows_sum != m->rows_sum))
        return ps_fail(e, PS_ERR_IO, "save %" PRIu64 " is damaged: some of its rows are missing, or of another save",
                       m->save);
    return PS_OK;
}

static enum ps_err
put_identity(struct durable_rebuild *r, uint64_t boot)
{
    struct identity live = {.format = MAX(r->d->manifest.format, (uint32_t)SHARD_FORMAT),
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
    if ((err = copy_blocks(&r, e)) != PS_OK || (err = copy_rows(&r, e)) != PS_OK)
        goto out;
    if ((err = put_identity(&r, MUTATION(OLD_BOOT_KEPT) ? d->manifest.boot : boot)) != PS_OK ||
        (err = durable_rebuild_commit(&r)) != PS_OK)
        ps_fail(e, err, "save %" PRIu64 " could not be copied: %s", d->manifest.save, ps_strerror(err));
out:
    if ((d->mended = r.mended) > 0)
        rebuild_say_block(&r, &r.first_mended, d->first_mended, sizeof d->first_mended);
    if (r.begun)
        live->ops->abort(live);
    return err;
}
