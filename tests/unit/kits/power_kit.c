/* All is copied: a disk outlives the store that it was made from. */
#include "tests/unit/kits/power_kit.h"

#include <string.h>

#include "common/core/cluster/placement.h"

static struct disk_bytes *
power_kit_grow(struct disk_bytes **list, size_t *len)
{
    *list = realloc(*list, (*len + 1) * sizeof **list);
    ck_assert_ptr_nonnull(*list);
    (*list)[*len] = (struct disk_bytes){0};
    return &(*list)[(*len)++];
}

static void
power_kit_fill(struct disk_bytes *x, struct span value)
{
    x->len = value.len;
    x->bytes = malloc(value.len + 1);
    memcpy(x->bytes, value.data, value.len);
}

static void
list_free(struct disk_bytes **list, size_t *len)
{
    for (size_t i = 0; i < *len; i++)
        free((*list)[i].bytes);
    free(*list);
    *list = NULL;
    *len = 0;
}

void
disk_finish(struct power_disk *d)
{
    list_free(&d->blocks, &d->blocks_len);
    list_free(&d->rows, &d->rows_len);
    list_free(&d->pieces, &d->pieces_len);
}

/* ---- The save ---- */

static bool
copy_block(void *arg, const struct store_key *key, struct span value)
{
    struct power_disk *d = arg;
    struct disk_bytes *x;

    if (key->generation >= STORE_GENERATION_REDO)
        return false;
    x = power_kit_grow(&d->blocks, &d->blocks_len);
    x->key = *key;
    power_kit_fill(x, value);
    return true;
}

struct copy_rows {
    struct power_disk *disk;
    enum store_table table;
};

static bool
copy_row(void *arg, struct span key, struct span value)
{
    struct copy_rows *c = arg;
    struct disk_bytes *x = power_kit_grow(&c->disk->rows, &c->disk->rows_len);

    x->table = c->table;
    memcpy(x->row_key, key.data, key.len);
    x->row_key_len = key.len;
    power_kit_fill(x, value);
    return true;
}

void
disk_save(struct power_disk *d, struct kit *k)
{
    struct copy_rows c = {.disk = d};

    kit_turn(k);
    list_free(&d->blocks, &d->blocks_len);
    list_free(&d->rows, &d->rows_len);
    ck_assert_int_eq(k->store->ops->each_block(k->store, copy_block, d), PS_OK);
    for (c.table = STORE_JOBS; c.table < STORE_TABLES; c.table++) /* identity is made again */
        ck_assert_int_eq(k->store->ops->each_row(k->store, c.table, copy_row, &c), PS_OK);
    d->redo = MAX(k->redo, 1);
    d->next = MAX(d->next, d->redo);
}

struct store *
disk_store(const struct power_disk *d)
{
    struct store *store = store_mem_new(256 * MIB);

    for (size_t i = 0; i < d->blocks_len; i++) {
        void *place;

        ck_assert_int_eq(store->ops->begin(store, d->blocks[i].len), PS_OK);
        ck_assert_int_eq(store->ops->reserve(store, &d->blocks[i].key, d->blocks[i].len, &place), PS_OK);
        memcpy(place, d->blocks[i].bytes, d->blocks[i].len);
        ck_assert_int_eq(store->ops->commit(store), PS_OK);
    }
    ck_assert_int_eq(store->ops->begin(store, 0), PS_OK);
    for (size_t i = 0; i < d->rows_len; i++) {
        const struct disk_bytes *x = &d->rows[i];

        ck_assert_int_eq(store->ops->row_put(store, x->table, (struct span){x->row_key, x->row_key_len},
                                             (struct span){x->bytes, x->len}),
                         PS_OK);
    }
    ck_assert_int_eq(store->ops->commit(store), PS_OK);
    return store;
}

/* ---- The redo log ---- */

struct take {
    struct power_disk *disk;
    uint64_t until;
};

static bool
take_piece(void *arg, const struct store_key *key, struct span value)
{
    struct take *t = arg;
    struct disk_bytes *x;

    if (store_redo_number(key) >= t->until)
        return false;
    ck_assert_uint_eq(store_redo_number(key), t->disk->next);
    x = power_kit_grow(&t->disk->pieces, &t->disk->pieces_len);
    x->key = *key;
    power_kit_fill(x, value);
    t->disk->next++;
    return true;
}

void
disk_take(struct power_disk *d, struct kit *k, uint64_t until)
{
    struct take t = {.disk = d, .until = until};
    struct store_key from;

    d->next = MAX(d->next, 1);
    from = store_redo_key(d->next);
    ck_assert_int_eq(k->store->ops->each_block_from(k->store, &from, take_piece, &t), PS_OK);
    ck_assert_uint_eq(d->next, MAX(until, d->next));
}

/* ---- Power loss ---- */

static enum ps_err
power_kit_replay(const struct power_disk *d, struct kit *k, uint64_t *records, struct ps_error *e)
{
    for (size_t i = 0; i < d->pieces_len; i++) {
        struct span piece = {d->pieces[i].bytes, d->pieces[i].len};
        enum ps_err err;

        if (store_redo_number(&d->pieces[i].key) >= d->redo && (err = shard_replay_piece(k->shard, piece, e)) != PS_OK)
            return err;
    }
    return shard_replay_end(k->shard, records, e);
}

static enum ps_err
come_back(const struct power_disk *d, struct kit *k, uint64_t boot, uint64_t *records, struct ps_error *e)
{
    enum ps_err err;

    shard_free(k->shard);
    k->shard = NULL;
    for (uint64_t conn = 0; conn < KIT_CONNS; conn++) {
        kit_drop_answers(k, conn);
        k->open[conn] = k->closed[conn] = false;
    }
    k->store->ops->close(k->store);
    k->store = disk_store(d);
    if (d->fail_nth > 0)
        store_mem_fail_at(k->store, d->fail, d->fail_nth);
    k->config.boot = boot;
    k->config.redo_next = d->next;
    k->redo = 0;
    if ((err = shard_new(&k->config, k->store, k->now_ms, &k->shard, e)) != PS_OK)
        return err;
    if ((err = power_kit_replay(d, k, records, e)) == PS_OK)
        return PS_OK;
    shard_free(k->shard);
    k->shard = NULL;
    return err;
}

enum ps_err
power_loss_error(const struct power_disk *d, struct kit *k, uint64_t boot, struct ps_error *e)
{
    uint64_t records;

    return come_back(d, k, boot, &records, e);
}

uint64_t
power_loss(const struct power_disk *d, struct kit *k, uint64_t boot)
{
    struct ps_error e;
    uint64_t records = 0;

    ck_assert_msg(come_back(d, k, boot, &records, &e) == PS_OK, "%s", e.text);
    kit_turn(k);
    return records;
}

/* ---- What is there ---- */

static bool
hash_block(void *arg, const struct store_key *key, struct span value)
{
    uint64_t *hash = arg;
    const struct block_head *head = value.data;
    uint32_t stride = (uint32_t)round_up(head->len, 16);

    if (key->generation >= STORE_GENERATION_REDO)
        return false;
    *hash = placement_hash(&key->var, sizeof key->var, *hash);
    *hash = placement_hash(&key->block, sizeof key->block, *hash);
    *hash = placement_hash(&head->version, sizeof head->version, *hash);
    for (uint32_t i = 0; i <= head->slots; i++)
        *hash = placement_hash((const uint8_t *)value.data + layout_array(stride, i), head->len * sizeof(float), *hash);
    return true;
}

uint64_t
blocks_hash(struct store *store)
{
    uint64_t hash = 0;

    ck_assert_int_eq(store->ops->each_block(store, hash_block, &hash), PS_OK);
    return hash;
}
