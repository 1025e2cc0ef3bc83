#include "tests/unit/kits/instant.h"

#include <stdlib.h>
#include <string.h>

#include "common/core/cluster/placement.h"
#include "common/core/model/layout.h"
#include "server/core/store/row_sum.h"
#include "tests/unit/kits/check_main.h"

struct instant_copy {
    struct instant *to;
    uint8_t generation;
};

void
instant_free(struct instant *x)
{
    for (size_t i = 0; i < x->len; i++)
        free(x->blocks[i].bytes);
    free(x->blocks);
    *x = (struct instant){0};
}

struct instant_block *
instant_find(const struct instant *x, uint32_t var, uint32_t block)
{
    for (size_t i = 0; i < x->len; i++)
        if (x->blocks[i].var == var && x->blocks[i].block == block)
            return &x->blocks[i];
    return NULL;
}

static bool
is_newer(const struct block_head *a, const struct block_head *b)
{
    return a->version > b->version || (a->version == b->version && a->clock > b->clock);
}

static bool
copy_block(void *arg, const struct store_key *key, struct span value)
{
    const struct instant_copy *copy = arg;
    struct instant *x = copy->to;
    struct instant_block *b = instant_find(x, key->var, key->block);

    if (key->generation >= STORE_GENERATION_REDO)
        return false;
    if (copy->generation != INSTANT_NEWEST && key->generation != copy->generation)
        return true;
    if (b == NULL) {
        x->blocks = realloc(x->blocks, (x->len + 1) * sizeof *x->blocks);
        b = &x->blocks[x->len++];
        *b =
            (struct instant_block){.var = key->var, .block = key->block, .size = value.len, .bytes = malloc(value.len)};
    } else if (!is_newer(value.data, (const void *)b->bytes)) {
        return true;
    }
    memcpy(b->bytes, value.data, value.len);
    return true;
}

struct instant_rows {
    enum store_table table;
    uint64_t sum; /* so that the order of tables does not matter */
};

static bool
add_row(void *arg, struct span key, struct span value)
{
    struct instant_rows *r = arg;
    uint64_t hash = placement_hash(&r->table, sizeof r->table, 1);

    (void)row_sum_take(r->table, key, &value, NULL);
    hash = placement_hash(key.data, key.len, hash);
    r->sum += placement_hash(value.data, value.len, hash);
    return true;
}

struct instant
instant_of(struct store *store, uint8_t generation)
{
    struct instant x = {0};
    struct instant_copy copy = {&x, generation};
    struct instant_rows r = {0};

    ck_assert_int_eq(store->ops->each_block(store, copy_block, &copy), PS_OK);
    for (r.table = STORE_JOBS; r.table < STORE_TABLES; r.table++)
        ck_assert_int_eq(store->ops->each_row(store, r.table, add_row, &r), PS_OK);
    x.rows = r.sum;
    return x;
}

void
instant_check_equal(const struct instant *a, const struct instant *b)
{
    ck_assert_uint_eq(a->rows, b->rows);
    ck_assert_uint_eq(a->len, b->len);
    for (size_t i = 0; i < a->len; i++) {
        const struct instant_block *x = &a->blocks[i], *y = instant_find(b, x->var, x->block);

        ck_assert_ptr_nonnull(y);
        ck_assert_uint_eq(x->size, y->size);
        ck_assert_mem_eq(x->bytes, y->bytes, x->size);
    }
}

void
instant_check_rows(const struct instant *x, const struct shard_save *save)
{
    struct instant_rows r = {0};

    for (size_t i = 0; i < save->rows_len; i++) {
        r.table = save->rows[i].table;
        add_row(&r, save->rows[i].key, save->rows[i].value);
    }
    ck_assert_uint_eq(r.sum, x->rows);
}

static bool
count_value(void *arg, const struct store_key *key, struct span value)
{
    size_t *n = arg;

    (void)value;
    *n += key->generation < STORE_GENERATION_REDO;
    return true;
}

size_t
instant_values(struct store *store)
{
    size_t n = 0;

    ck_assert_int_eq(store->ops->each_block(store, count_value, &n), PS_OK);
    return n;
}
