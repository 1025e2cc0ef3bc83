/* Rows of the LMDB store. Each is counted at its worst before it is written; what it did not take is given back
 * (store_lmdb_tree.c). */
#include "server/lmdb/store_lmdb_env.h"

#define LONG_VALUE (PAGE / 4) /* from half a page on, LMDB keeps a row's value in pages of its own */

static MDB_val
row_val(struct span key)
{
    ps_assert(key.len >= 1 && key.len <= STORE_ROW_KEY_MAX);
    return (MDB_val){key.len, (void *)key.data};
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
    store_lmdb_readers_passed(s);
    store_lmdb_tree_touch(s, (int)t);
    err = store_lmdb_error(mdb_put(s->txn, s->tables[t], &k, &v, 0));
    store_lmdb_tree_give_back(s, (int)t, ROW_PAGES, pages, key.len + value.len > LONG_VALUE);
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
    store_lmdb_readers_passed(s);
    store_lmdb_tree_touch(s, (int)t);
    err = store_lmdb_error(mdb_del(s->txn, s->tables[t], &k, NULL));
    store_lmdb_tree_give_back(s, (int)t, ROW_PAGES, 0, false);
    return err;
}
