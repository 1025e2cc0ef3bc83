/* The durable store's writer. The effects of a transaction are taken over when it has committed, not before. */
#include "server/core/durability/durable.h"

#include <stdlib.h>
#include <string.h>

#include "common/core/base/mutation.h"
#include "common/core/model/layout.h"
#include "proto/store.pb-c.h"
#include "server/core/durability/identity.h"
#include "server/core/store/metadata_rows.h"
#include "server/core/store/row_sum.h"

#define ERASE_MAX 1024 /* values that one transaction erases */

static_assert(DURABLE_FORMAT == SHARD_FORMAT, "one number says both");

/* ---- Facts ---- */

static enum ps_err
put_manifest(struct durable *d, const char *name, const struct durable_manifest *m)
{
    Psd__ManifestRow row = PSD__MANIFEST_ROW__INIT;

    row.format = DURABLE_FORMAT_SUMS;
    row.live = m->format;
    row.generation = m->generation;
    row.save = m->save;
    row.boot = m->boot;
    row.redo = m->redo;
    row.blocks = m->blocks;
    row.bytes = m->bytes;
    row.unix_ms = m->unix_ms;
    row.blocks_sum = m->blocks_sum;
    row.rows = m->rows;
    row.rows_sum = m->rows_sum;
    return metadata_rows_put(d->store, name, &row.base);
}

static enum ps_err
put_staged_boot(struct durable *d, uint64_t boot)
{
    struct durable_manifest m = {.boot = boot};

    return put_manifest(d, durable_staged_name, &m);
}

/* How far the log goes, so that it is noticed when its end is lost. */
static enum ps_err
put_log_end(struct durable *d)
{
    struct durable_manifest m = {.redo = d->txn.redo_next};

    return d->txn.redo_next > d->redo_next ? put_manifest(d, durable_log_name, &m) : PS_OK;
}

/* ---- Transactions ---- */

enum ps_err
durable_begin(struct durable *d, uint64_t bytes)
{
    ps_assert(bytes <= DURABLE_TXN_MAX);
    d->txn = (struct durable_txn){.redo_next = d->redo_next};
    return d->store->ops->begin(d->store, bytes);
}

void
durable_abort(struct durable *d)
{
    d->store->ops->abort(d->store);
}

static void
durable_next_txn(struct durable *d)
{
    d->staged_boot = d->manifest.save != 0 ? d->manifest.boot : 0;
    d->manifest = d->txn.manifest;
    d->redo_first = MAX(d->redo_first, d->manifest.redo);
    d->redo_next = MAX(d->redo_next, d->manifest.redo);
    d->sweep.needed = d->txn.rows_gone;
    d->sweep.rows_len = d->txn.rows_len;
    d->sweep.rows_hash = d->txn.rows_hash;
    d->saving = false;
}

enum ps_err
durable_commit(struct durable *d)
{
    enum ps_err err = put_log_end(d);

    if (err != PS_OK) {
        durable_abort(d);
        return err;
    }
    if ((err = d->store->ops->commit(d->store)) != PS_OK)
        return err;
    d->staged += d->txn.staged;
    d->staged_sum += d->txn.staged_sum;
    d->redo_next = d->txn.redo_next;
    if (d->txn.finishes)
        durable_next_txn(d);
    return PS_OK;
}

static enum ps_err
durable_end_txn(struct durable *d, enum ps_err err)
{
    if (err == PS_OK)
        return durable_commit(d);
    durable_abort(d);
    return err;
}

/* ---- Erasing ---- */

/* Keys to erase: those of one generation, and of pieces only those below a number. */
struct doomed {
    struct store_key *keys;
    uint32_t len;
    uint8_t generation;
    uint64_t before; /* of pieces */
    bool more;
};

static bool
durable_mark_erased(void *arg, const struct store_key *key, struct span value)
{
    struct doomed *x = arg;

    (void)value;
    if (key->generation != x->generation ||
        (x->generation == STORE_GENERATION_REDO && store_redo_number(key) >= x->before))
        return false;
    x->more = x->len == ERASE_MAX;
    if (!x->more)
        x->keys[x->len++] = *key;
    return !x->more;
}

static enum ps_err
erase_all(struct durable *d, const struct doomed *x)
{
    enum ps_err err = PS_OK;

    for (uint32_t i = 0; i < x->len && err == PS_OK; i++)
        err = d->store->ops->erase(d->store, &x->keys[i]);
    return err;
}

/* Erases up to ERASE_MAX of those; then, if there are no more, the fact that names the boot of the staged blocks. */
static enum ps_err
erase_some(struct durable *d, struct doomed *x, const uint64_t *boot)
{
    struct store_key from = {.generation = x->generation};
    enum ps_err err;

    if ((x->keys = malloc(ERASE_MAX * sizeof *x->keys)) == NULL)
        return PS_ERR_NOMEM;
    if ((err = d->store->ops->each_block_from(d->store, &from, durable_mark_erased, x)) != PS_OK)
        goto out;
    if (x->len == 0 && boot == NULL)
        goto out;
    if ((err = durable_begin(d, MIB)) != PS_OK)
        goto out;
    err = erase_all(d, x);
    if (err == PS_OK && !x->more && boot != NULL)
        err = put_staged_boot(d, *boot);
    err = durable_end_txn(d, err);
out:
    free(x->keys);
    return err;
}

enum ps_err
durable_cut(struct durable *d, bool *more)
{
    struct doomed x = {.generation = STORE_GENERATION_REDO, .before = d->manifest.redo};
    enum ps_err err = erase_some(d, &x, NULL);

    *more = err == PS_OK && x.more;
    return err == PS_OK && !*more && !d->saving ? durable_sweep(d, NULL, more) : err;
}

enum ps_err
durable_begin_save(struct durable *d, uint64_t boot, bool *more)
{
    struct doomed x = {.generation = durable_staging_generation(d)};
    enum ps_err err;

    *more = false;
    d->staged = d->staged_sum = 0;
    d->verified = (struct shard_verified){0};
    d->saving = true;
    if (d->staged_boot == boot || MUTATION(STAGED_BY_ANOTHER))
        return PS_OK;
    if ((err = erase_some(d, &x, &boot)) != PS_OK)
        return err;
    *more = x.more;
    if (!x.more)
        d->staged_boot = boot;
    return PS_OK;
}

/* ---- The end of a save ---- */

/* Rows of one table that the save does not have; both come in the order of keys. */
struct stale {
    const struct shard_save *save;
    size_t row, end;   /* among the save's */
    struct span *keys; /* heap copies */
    size_t len, size;
    bool nomem;
};

static int
durable_compare(struct span a, struct span b)
{
    int order = memcmp(a.data, b.data, MIN(a.len, b.len));

    if (order != 0)
        return order;
    return a.len < b.len ? -1 : a.len > b.len;
}

static bool
keep_key(struct stale *x, struct span key)
{
    void *copy;

    if (x->len == x->size) {
        size_t size = MAX(2 * x->size, 16u);
        struct span *bigger = realloc(x->keys, size * sizeof *bigger);

        if (bigger == NULL)
            return false;
        x->keys = bigger;
        x->size = size;
    }
    if ((copy = malloc(key.len)) == NULL)
        return false;
    memcpy(copy, key.data, key.len);
    x->keys[x->len++] = (struct span){copy, key.len};
    return true;
}

static bool
find_stale(void *arg, struct span key, struct span value)
{
    struct stale *x = arg;

    (void)value;
    while (x->row < x->end && durable_compare(x->save->rows[x->row].key, key) < 0)
        x->row++;
    if (x->row < x->end && durable_compare(x->save->rows[x->row].key, key) == 0)
        return true;
    x->nomem = !keep_key(x, key);
    return !x->nomem;
}

static enum ps_err
erase_stale(struct durable *d, enum store_table table, const struct shard_save *save, size_t row, size_t end)
{
    struct stale x = {.save = save, .row = row, .end = end};
    enum ps_err err = d->store->ops->each_row(d->store, table, find_stale, &x);

    if (err == PS_OK && x.nomem)
        err = PS_ERR_NOMEM;
    d->txn.rows_gone |= table == STORE_VARS && x.len > 0;
    for (size_t i = 0; i < x.len; i++) {
        if (err == PS_OK)
            err = d->store->ops->row_erase(d->store, table, x.keys[i]);
        free((void *)(uintptr_t)x.keys[i].data);
    }
    free(x.keys);
    return err;
}

static enum ps_err
durable_put_row(struct durable *d, const struct shard_save_row *row)
{
    uint8_t *bytes = malloc(row->value.len + ROW_SUM_BYTES);
    enum ps_err err;

    if (bytes == NULL)
        return PS_ERR_NOMEM;
    if (row->value.len > 0)
        memcpy(bytes, row->value.data, row->value.len);
    d->txn.manifest.rows_sum += row_sum_append(row->table, row->key, bytes, row->value.len);
    d->txn.manifest.rows++;
    err = d->store->ops->row_put(d->store, row->table, row->key, (struct span){bytes, row->value.len + ROW_SUM_BYTES});
    free(bytes);
    return err;
}

/* A table's rows lie together, in the order of their keys. */
static enum ps_err
replace_rows(struct durable *d, const struct shard_save *save, enum store_table table)
{
    size_t first = 0, end;
    enum ps_err err;

    while (first < save->rows_len && save->rows[first].table != table)
        first++;
    for (end = first; end < save->rows_len && save->rows[end].table == table;)
        end++;
    err = erase_stale(d, table, save, first, end);
    for (size_t i = first; i < end && err == PS_OK; i++)
        err = durable_put_row(d, &save->rows[i]);
    return err;
}

enum ps_err
durable_finish(struct durable *d, const struct shard_save *save, uint64_t unix_ms)
{
    enum ps_err err = PS_OK;

    ps_assert(d->saving && d->staged_boot == save->boot && d->staged + d->txn.staged == save->blocks);
    d->txn.finishes = true;
    d->txn.rows_len = SIZE_MAX;
    d->txn.rows_hash = durable_sweep_hash(save, &d->txn.rows_len);
    d->txn.manifest = (struct durable_manifest){.save = save->number,
                                                .boot = save->boot,
                                                .redo = MUTATION(LOG_NOT_CUT) ? d->redo_first : save->redo,
                                                .blocks = save->blocks,
                                                .bytes = save->bytes,
                                                .unix_ms = unix_ms,
                                                .generation = durable_staging_generation(d),
                                                .format = save->format,
                                                .sums = true,
                                                .blocks_sum = d->staged_sum + d->txn.staged_sum};
    for (enum store_table table = STORE_JOBS; table < STORE_TABLES && err == PS_OK; table++)
        err = replace_rows(d, save, table);
    if (err == PS_OK)
        err = put_manifest(d, durable_manifest_name, &d->txn.manifest);
    /* The save that counted until now lies where the next one is staged. */
    if (err == PS_OK)
        err = put_staged_boot(d, d->manifest.save != 0 ? d->manifest.boot : 0);
    return err;
}
