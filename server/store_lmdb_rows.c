/* Rows of the LMDB store. Each is counted at its worst before it is written: a leaf, all branches above it, a split.
 *
 * In the durable mode, where a save writes all rows in one transaction, what was not taken is given back after each:
 * a hundred thousand rows would have the file backed for 2.7 GB of pages, and take 16 MB. A transaction copies a page
 * of a tree once, and then writes into the copy, so however many rows it writes, they take no more than
 *
 *     the pages that the tree had      each copied
 *   + those that it has grown by       also what it grew by after it had shrunk
 *   + the pages of long values, which lie outside
 *
 * In the live mode few rows are written at a time, and a page too few would be SIGBUS. */
#include "store_lmdb_env.h"

#define LONG_VALUE (PAGE / 4) /* from half a page on, LMDB keeps a row's value in pages of its own */

static MDB_val
row_val(struct span key)
{
    ps_assert(key.len >= 1 && key.len <= STORE_ROW_KEY_MAX);
    return (MDB_val){key.len, (void *)key.data};
}

static uint64_t
tree_pages(const struct store_lmdb *s, enum store_table t)
{
    MDB_stat stat = {0};

    (void)mdb_stat(s->txn, s->tables[t], &stat);
    return stat.ms_branch_pages + stat.ms_leaf_pages;
}

static uint64_t
taken(const struct store_tree *tree)
{
    return MIN(tree->at_worst, tree->had + tree->grown) + tree->values;
}

static void
touch(const struct store_lmdb *s, enum store_table t, struct store_tree *tree)
{
    if (tree->touched || !s->durable)
        return;
    tree->touched = true;
    tree->had = tree->has = tree_pages(s, t);
}

/* So much was counted for what has just been done to this table. */
static void
give_back(struct store_lmdb *s, enum store_table t, uint64_t counted, uint64_t value)
{
    struct store_tree *tree = &s->trees[t];
    uint64_t before = taken(tree), now, took;

    if (!s->durable)
        return;
    now = tree_pages(s, t);
    tree->grown += now > tree->has ? now - tree->has : 0;
    tree->has = now;
    tree->at_worst += ROW_PAGES;
    tree->values += value;
    took = taken(tree) - before;
    store_room_give_back(&s->room, counted - MIN(took, counted));
}

enum ps_err
store_lmdb_row_put(struct store *base, enum store_table t, struct span key, struct span value)
{
    struct store_lmdb *s = store_lmdb_of(base);
    MDB_val k = row_val(key), v = {value.len, (void *)value.data};
    uint64_t pages = value_pages(value.len);
    enum ps_err err;

    ps_assert(s->txn != NULL && value.len <= STORE_ROW_MAX);
    if (!store_room_spend(&s->room, pages + ROW_PAGES))
        return store_lmdb_no_room(s);
    s->wrote = true;
    touch(s, t, &s->trees[t]);
    err = store_lmdb_error(mdb_put(s->txn, s->tables[t], &k, &v, 0));
    give_back(s, t, pages + ROW_PAGES, key.len + value.len > LONG_VALUE ? pages : 0);
    return err;
}

enum ps_err
store_lmdb_row_erase(struct store *base, enum store_table t, struct span key)
{
    struct store_lmdb *s = store_lmdb_of(base);
    MDB_val k = row_val(key);
    enum ps_err err;

    ps_assert(s->txn != NULL);
    if (!store_room_spend(&s->room, ROW_PAGES))
        return store_lmdb_no_room(s);
    s->wrote = true;
    touch(s, t, &s->trees[t]);
    err = store_lmdb_error(mdb_del(s->txn, s->tables[t], &k, NULL));
    give_back(s, t, ROW_PAGES, 0);
    return err;
}
