/* Staging the values of a save, and writing pieces of the redo log: here they get their checksums. */
#include <string.h>

#include "common/core/model/layout.h"
#include "server/core/durability/durable.h"
#include "server/core/journal/redo_record.h"
#include "server/core/store/value_sum.h"

static_assert(offsetof(struct block_head, sum) == VALUE_SUM_AT && offsetof(struct redo_head, sum) == VALUE_SUM_AT,
              "a checksum lies at the same place in both");

/* ---- Blocks ---- */

static enum ps_err
durable_put(struct durable *d, const struct store_key *key, struct span value, void **place)
{
    enum ps_err err = d->store->ops->reserve(d->store, key, value.len, place);

    if (err == PS_OK)
        memcpy(*place, value.data, value.len);
    return err;
}

/* What an earlier psd has staged has no checksum, and is written again. */
static bool
is_same(struct span there, struct span value)
{
    const struct block_head *x = there.data, *y = value.data;

    return there.len == value.len && x->version == y->version && x->clock == y->clock && x->summed;
}

static void
durable_staged(struct durable *d, struct span there)
{
    d->txn.staged++;
    d->txn.staged_sum += value_sum_there(there);
}

static struct store_key
staged_key(const struct durable *d, const struct store_key *key)
{
    return (struct store_key){.var = key->var, .block = key->block, .generation = durable_staging_generation(d)};
}

enum ps_err
durable_stage_same(struct durable *d, const struct store_key *key, struct span value, bool *same)
{
    struct store_key to = staged_key(d, key);
    struct span there;
    enum ps_err err = d->store->ops->get(d->store, &to, &there);

    ps_assert(d->saving);
    if (err == PS_OK)
        err = d->store->ops->fetch(d->store, (struct span){there.data, sizeof(struct block_head)});
    *same = err == PS_OK && is_same(there, value);
    if (*same)
        durable_staged(d, there);
    return err == PS_ERR_NOT_FOUND ? PS_OK : err;
}

static enum ps_err
stage_anew(struct durable *d, const struct store_key *to, struct span value, size_t *written)
{
    void *place;
    enum ps_err err = durable_put(d, to, value, &place);

    if (err != PS_OK)
        return err;
    ((struct block_head *)place)->summed = 1;
    value_sum_put(to, place, value.len);
    durable_staged(d, (struct span){place, value.len});
    *written = value.len;
    return PS_OK;
}

enum ps_err
durable_stage(struct durable *d, const struct store_key *key, struct span value, size_t *written)
{
    struct store_key to = staged_key(d, key);
    bool same;
    enum ps_err err = durable_stage_same(d, key, value, &same);

    *written = 0;
    return err != PS_OK || same ? err : stage_anew(d, &to, value, written);
}

/* ---- Verifying ---- */

/* The checksum that the live value would have in this store. */
static uint32_t
stage_sum_of_live(const struct store_key *to, struct span value)
{
    struct block_head head;

    memcpy(&head, value.data, sizeof head);
    head.summed = 1;
    return value_sum_parts(to, &head, value);
}

static void
stage_found(uint64_t *count, struct store_key *first, const struct store_key *key)
{
    if ((*count)++ == 0)
        *first = *key;
}

/* A block that lies there with the version that the live one has. */
static enum ps_err
verify_same(struct durable *d, const struct store_key *to, struct span there, struct span value, size_t *took)
{
    struct shard_verified *v = &d->verified;
    enum ps_err err = d->store->ops->fetch(d->store, there);

    if (err != PS_OK)
        return err;
    v->blocks++;
    if (!value_sum_holds(to, there)) {
        stage_found(&v->mended, &v->first_mended, to);
        return stage_anew(d, to, value, took);
    }
    v->bytes += *took = value.len;
    if (stage_sum_of_live(to, value) != value_sum_there(there))
        stage_found(&v->differ, &v->first_differs, to);
    durable_staged(d, there);
    return PS_OK;
}

/* The save that counts may have the block with this version, though it is staged anew: what is well there is better
 * than a live one that differs. */
static enum ps_err
verify_against_save(struct durable *d, const struct store_key *to, struct span *value)
{
    struct store_key from = {.var = to->var, .block = to->block, .generation = d->manifest.generation};
    struct shard_verified *v = &d->verified;
    struct span there;
    enum ps_err err = d->manifest.save != 0 ? d->store->ops->get(d->store, &from, &there) : PS_ERR_NOT_FOUND;

    if (err == PS_OK)
        err = d->store->ops->fetch(d->store, there);
    if (err != PS_OK)
        return err == PS_ERR_NOT_FOUND ? PS_OK : err;
    if (d->manifest.boot != d->staged_boot || !is_same(there, *value))
        return PS_OK;
    v->blocks++;
    if (!value_sum_holds(&from, there)) {
        stage_found(&v->mended, &v->first_mended, to); /* by this save, which comes in place of that one */
    } else if (stage_sum_of_live(to, *value) != value_sum_there(there)) {
        stage_found(&v->differ, &v->first_differs, to);
        *value = there;
    }
    return PS_OK;
}

static enum ps_err
verify_anew(struct durable *d, const struct store_key *to, struct span value, size_t *took)
{
    enum ps_err err = verify_against_save(d, to, &value);

    return err == PS_OK ? stage_anew(d, to, value, took) : err;
}

enum ps_err
durable_stage_verified(struct durable *d, const struct store_key *key, struct span value, size_t *took)
{
    struct store_key to = staged_key(d, key);
    struct span there;
    enum ps_err err = d->store->ops->get(d->store, &to, &there);

    ps_assert(d->saving);
    *took = 0;
    if (err == PS_ERR_NOT_FOUND)
        return verify_anew(d, &to, value, took);
    if (err == PS_OK)
        err = d->store->ops->fetch(d->store, (struct span){there.data, sizeof(struct block_head)});
    if (err != PS_OK)
        return err;
    return is_same(there, value) ? verify_same(d, &to, there, value, took) : verify_anew(d, &to, value, took);
}

/* ---- The redo log ---- */

enum ps_err
durable_redo(struct durable *d, uint64_t number, struct span piece)
{
    struct store_key key = store_redo_key(number);
    void *place;
    enum ps_err err = durable_put(d, &key, piece, &place);

    ps_assert(number >= 1 && number <= STORE_REDO_MAX);
    if (err != PS_OK)
        return err;
    ((struct redo_head *)place)->format |= REDO_SUMMED;
    value_sum_put(&key, place, piece.len);
    d->txn.redo_next = MAX(d->txn.redo_next, number + 1);
    return PS_OK;
}
