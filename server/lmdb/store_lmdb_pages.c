/* How many pages the environment uses, and how many of those free inside the file the next transaction may take: the
 * ops of store_room.h. */
#include <string.h>

#include "server/lmdb/store_lmdb_env.h"

/* Free-list records that LMDB surely reads before it gives up: 60 for each page of what it looks for, at least 17. */
#define RECORDS_MAX 1000
#define RUNS_ENOUGH 256 /* stop counting here */

static struct store_lmdb *
env_of(struct store_room *r)
{
    return CONTAINER_OF(r, struct store_lmdb, room);
}

static uint64_t
last_page(struct store_room *r)
{
    MDB_envinfo info;

    mdb_env_info(env_of(r)->env, &info);
    return info.me_last_pgno;
}

static size_t
size_at(const void *data, size_t i)
{
    size_t value; /* LMDB aligns what lies in a leaf to 2 bytes only */

    memcpy(&value, (const char *)data + i * sizeof value, sizeof value);
    return value;
}

/* Runs of run_pages in one record of the free list: a count, then page numbers in descending order. */
static uint64_t
record_runs(const void *record, uint64_t run_pages)
{
    uint64_t runs = 0, length = 0;
    size_t last = 0;

    for (size_t i = 1, n = size_at(record, 0); i <= n; i++) {
        size_t page = size_at(record, i);

        length = length > 0 && page + 1 == last ? length + 1 : 1;
        last = page;
        if (length == run_pages) {
            runs++;
            length = 0;
        }
    }
    return runs;
}

/* How many runs the next transaction may take from the free list: a lower bound, since runs that lie across records
 * count for nothing here. Records freed by the oldest reader's transaction or later are not free yet. */
static uint64_t
free_runs(struct store_room *r, uint64_t run_pages)
{
    struct store_lmdb *s = env_of(r);
    struct store_snapshot *snap;
    MDB_cursor *cursor;
    MDB_val key, value;
    uint64_t runs = 0;
    uint64_t oldest;
    int records = 0;

    if (store_lmdb_snapshot_ref(&s->base, &snap) != PS_OK)
        return 0;
    oldest = store_lmdb_oldest(s, mdb_txn_id(snap->txn));
    if (mdb_cursor_open(snap->txn, 0, &cursor) == 0) {
        while (runs < RUNS_ENOUGH && records++ < RECORDS_MAX && mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0) {
            if (size_at(key.mv_data, 0) >= oldest)
                break;
            runs += record_runs(value.mv_data, run_pages);
        }
        mdb_cursor_close(cursor);
    }
    store_lmdb_snapshot_unref(&s->base, snap);
    return runs;
}

static uint64_t
dbi_pages(MDB_txn *txn, MDB_dbi dbi)
{
    MDB_stat stat;

    if (mdb_stat(txn, dbi, &stat) != MDB_SUCCESS)
        return 0;
    return stat.ms_branch_pages + stat.ms_leaf_pages + stat.ms_overflow_pages;
}

/* LMDB counts the pages of each tree, so this takes no walk: 0 is the free list's tree, 1 the tree of trees. */
static uint64_t
used_pages(struct store_room *r)
{
    struct store_lmdb *s = env_of(r);
    struct store_snapshot *snap;
    uint64_t pages = 2; /* meta */

    if (store_lmdb_snapshot_ref(&s->base, &snap) != PS_OK)
        return last_page(r) + 1;
    pages += dbi_pages(snap->txn, 0) + dbi_pages(snap->txn, 1) + dbi_pages(snap->txn, s->blocks);
    for (int t = 0; t < STORE_TABLES; t++)
        pages += dbi_pages(snap->txn, s->tables[t]);
    store_lmdb_snapshot_unref(&s->base, snap);
    return pages;
}

const struct store_room_ops store_lmdb_room_ops = {
    .last_page = last_page,
    .used_pages = used_pages,
    .free_runs = free_runs,
};
