/* The live environment: see store_lmdb.h.
 *
 * An update, happily:
 *
 *     begin    the file has room past LMDB's last page for the worst case (fallocate), then mdb_txn_begin
 *     get      the old value, in the map
 *     reserve  mdb_put(MDB_RESERVE): LMDB frees the old pages for later transactions and lends new ones in the map
 *     commit   the meta page flips; kill -9 leaves either the old one or the new one
 *
 * What LMDB 0.9.24 does, and this file counts on:
 *   - A put over a value whose overflow pages are clean takes new pages; over pages that are dirty in this transaction
 *     it answers with the same place. Pages freed by transaction N are used again from N + 2 on, or when the last
 *     reader older than that has gone: so what get() lent lasts until the end, and what a snapshot lent lasts as long.
 *   - Pages come from the free list first, lowest number first, and only then from past the last page. The map
 *     is larger than the most that we allow, so MDB_MAP_FULL cannot happen in the middle of a transaction; room is our
 *     own count.
 *
 * Each write is counted by the room (store_room.h) first: nothing is written where the file is not backed. */
#include "store_lmdb.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lmdb.h>

#include "common/layout.h"
#include "store_dir.h"
#include "store_room.h"

#define PAGE            LAYOUT_PAGE
#define READERS_DEFAULT 4096
#define MAP_SPARE       (256 * MIB) /* address space past the limit, never allocated */
#define RESERVE_PAGES   2           /* of a reserve: its leaf, and a share of branches */
/* Of a row, without its value: its leaf, branches, a split. */
#define ROW_PAGES (STORE_ROW_ROOM / PAGE - 1)
/* Free-list records that LMDB surely reads before it gives up: 60 for each page of what it looks for, at least 17. */
#define RECORDS_MAX 1000
#define RUNS_ENOUGH 256 /* stop counting here */

static const char *const table_names[STORE_TABLES] = {[STORE_SHARD] = "shard",
                                                      [STORE_JOBS] = "jobs",
                                                      [STORE_VARS] = "vars",
                                                      [STORE_SESSIONS] = "sessions",
                                                      [STORE_CURSORS] = "cursors"};

/* A read transaction of one commit, or (refs 0) one in the pool, reset and ready to renew. */
struct store_snapshot {
    struct store_snapshot *next; /* among the open ones, or in the pool */
    MDB_txn *txn;
    uint64_t commit;
    unsigned refs;
};

struct store_lmdb {
    struct store base;
    MDB_env *env;
    MDB_dbi blocks, tables[STORE_TABLES];
    struct store_dir dir;
    int data_fd; /* LMDB's own */
    struct store_room room;

    MDB_txn *txn; /* the writer's, or NULL */
    bool wrote;   /* in this transaction */

    uint64_t commit;
    struct store_snapshot *open; /* newest first; its first may be of the newest commit */
    struct store_snapshot *pool;
};

static struct store_lmdb *
lmdb(struct store *s)
{
    return CONTAINER_OF(s, struct store_lmdb, base);
}

/* The one place that translates LMDB's codes. */
static enum ps_err
lmdb_error(int rc)
{
    switch (rc) {
    case MDB_SUCCESS:
        return PS_OK;
    case MDB_NOTFOUND:
        return PS_ERR_NOT_FOUND;
    case MDB_MAP_FULL:
    case ENOSPC:
    case EDQUOT:
        return PS_ERR_FULL;
    case MDB_READERS_FULL:
        return PS_ERR_LIMIT;
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
        return PS_ERR_VERSION;
    case ENOMEM:
        return PS_ERR_NOMEM;
    default:
        return PS_ERR_IO;
    }
}

static uint64_t
pages_of(uint64_t bytes)
{
    return (bytes + PAGE - 1) / PAGE;
}

static uint64_t
value_pages(uint64_t size)
{
    return pages_of(size + LAYOUT_PAGE_HEAD);
}

static MDB_val
block_val(const struct store_key *key, size_t *packed)
{
    ps_assert(key->var <= STORE_VAR_MAX);
    *packed = (size_t)key->generation << 56 | (size_t)key->var << 32 | key->block;
    return (MDB_val){sizeof *packed, packed};
}

static MDB_val
row_val(struct span key)
{
    ps_assert(key.len >= 1 && key.len <= STORE_ROW_KEY_MAX);
    return (MDB_val){key.len, (void *)key.data};
}

/* ---- Snapshots ---- */

static enum ps_err
snapshot_start(struct store_lmdb *s, struct store_snapshot **out)
{
    struct store_snapshot *snap = s->pool;
    enum ps_err err;

    if (snap != NULL) {
        s->pool = snap->next;
        err = lmdb_error(mdb_txn_renew(snap->txn));
    } else {
        snap = calloc(1, sizeof *snap);
        if (snap == NULL)
            return PS_ERR_NOMEM;
        err = lmdb_error(mdb_txn_begin(s->env, NULL, MDB_RDONLY, &snap->txn));
    }
    if (err != PS_OK) {
        mdb_txn_abort(snap->txn);
        free(snap);
        return err;
    }
    snap->commit = s->commit;
    snap->refs = 0;
    snap->next = s->open;
    s->open = snap;
    *out = snap;
    return PS_OK;
}

static enum ps_err
lmdb_snapshot_ref(struct store *base, struct store_snapshot **out)
{
    struct store_lmdb *s = lmdb(base);
    struct store_snapshot *snap = s->open;
    enum ps_err err;

    if (snap == NULL || snap->commit != s->commit)
        if ((err = snapshot_start(s, &snap)) != PS_OK)
            return err;
    snap->refs++;
    *out = snap;
    return PS_OK;
}

static void
lmdb_snapshot_unref(struct store *base, struct store_snapshot *snap)
{
    struct store_lmdb *s = lmdb(base);
    struct store_snapshot **at = &s->open;

    ps_assert(snap->refs > 0);
    if (--snap->refs > 0)
        return;
    while (*at != snap)
        at = &(*at)->next;
    *at = snap->next;
    mdb_txn_reset(snap->txn);
    snap->next = s->pool;
    s->pool = snap;
}

static enum ps_err
lmdb_snapshot_get(struct store *base, struct store_snapshot *snap, const struct store_key *key, struct span *value)
{
    struct store_lmdb *s = lmdb(base);
    size_t packed;
    MDB_val k = block_val(key, &packed), v;
    enum ps_err err;

    ps_assert(snap->refs > 0);
    err = lmdb_error(mdb_get(snap->txn, s->blocks, &k, &v));
    if (err == PS_OK)
        *value = (struct span){v.mv_data, v.mv_size};
    return err;
}

/* ---- What the room asks ---- */

static struct store_lmdb *
store_of(struct store_room *r)
{
    return CONTAINER_OF(r, struct store_lmdb, room);
}

static uint64_t
last_page(struct store_room *r)
{
    MDB_envinfo info;

    mdb_env_info(store_of(r)->env, &info);
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

static size_t
oldest_reader(const struct store_lmdb *s, size_t oldest)
{
    for (const struct store_snapshot *snap = s->open; snap != NULL; snap = snap->next)
        oldest = MIN(oldest, mdb_txn_id(snap->txn));
    return oldest;
}

/* How many runs the next transaction may take from the free list: a lower bound, since runs that lie across records
 * count for nothing here. Records freed by the oldest reader's transaction or later are not free yet. */
static uint64_t
free_runs(struct store_room *r, uint64_t run_pages)
{
    struct store_lmdb *s = store_of(r);
    struct store_snapshot *snap;
    MDB_cursor *cursor;
    MDB_val key, value;
    uint64_t runs = 0;
    size_t oldest;
    int records = 0;

    if (lmdb_snapshot_ref(&s->base, &snap) != PS_OK)
        return 0;
    oldest = oldest_reader(s, mdb_txn_id(snap->txn));
    if (mdb_cursor_open(snap->txn, 0, &cursor) == 0) {
        while (runs < RUNS_ENOUGH && records++ < RECORDS_MAX && mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0) {
            if (size_at(key.mv_data, 0) >= oldest)
                break;
            runs += record_runs(value.mv_data, run_pages);
        }
        mdb_cursor_close(cursor);
    }
    lmdb_snapshot_unref(&s->base, snap);
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
    struct store_lmdb *s = store_of(r);
    struct store_snapshot *snap;
    uint64_t pages = 2; /* meta */

    if (lmdb_snapshot_ref(&s->base, &snap) != PS_OK)
        return last_page(r) + 1;
    pages += dbi_pages(snap->txn, 0) + dbi_pages(snap->txn, 1) + dbi_pages(snap->txn, s->blocks);
    for (int t = 0; t < STORE_TABLES; t++)
        pages += dbi_pages(snap->txn, s->tables[t]);
    lmdb_snapshot_unref(&s->base, snap);
    return pages;
}

static const struct store_room_ops room_ops = {
    .last_page = last_page,
    .used_pages = used_pages,
    .free_runs = free_runs,
};

/* ---- The write transaction ---- */

static enum ps_err
lmdb_begin(struct store *base, uint64_t room_bytes)
{
    struct store_lmdb *s = lmdb(base);
    enum ps_err err;

    ps_assert(s->txn == NULL && room_bytes <= STORE_ROOM_MAX);
    if (!store_room_begin(&s->room, pages_of(room_bytes)))
        return PS_ERR_FULL;
    s->wrote = false;
    if ((err = lmdb_error(mdb_txn_begin(s->env, NULL, 0, &s->txn))) != PS_OK)
        s->txn = NULL;
    return err;
}

static enum ps_err
lmdb_commit(struct store *base)
{
    struct store_lmdb *s = lmdb(base);
    enum ps_err err;

    ps_assert(s->txn != NULL);
    err = lmdb_error(mdb_txn_commit(s->txn));
    s->txn = NULL;
    store_room_end(&s->room);
    if (err == PS_OK && s->wrote)
        s->commit++;
    return err;
}

static void
lmdb_abort(struct store *base)
{
    struct store_lmdb *s = lmdb(base);

    ps_assert(s->txn != NULL);
    mdb_txn_abort(s->txn);
    s->txn = NULL;
    store_room_end(&s->room);
}

static enum ps_err
lmdb_get(struct store *base, const struct store_key *key, struct span *value)
{
    struct store_lmdb *s = lmdb(base);
    size_t packed;
    MDB_val k = block_val(key, &packed), v;
    enum ps_err err;

    ps_assert(s->txn != NULL);
    err = lmdb_error(mdb_get(s->txn, s->blocks, &k, &v));
    if (err == PS_OK)
        *value = (struct span){v.mv_data, v.mv_size};
    return err;
}

static enum ps_err
lmdb_reserve(struct store *base, const struct store_key *key, size_t size, void **place)
{
    struct store_lmdb *s = lmdb(base);
    size_t packed;
    MDB_val k = block_val(key, &packed), v = {size, NULL};
    MDB_val old;
    enum ps_err err;

    ps_assert(s->txn != NULL);
    if (s->room.new_refused && mdb_get(s->txn, s->blocks, &k, &old) == MDB_NOTFOUND)
        return PS_ERR_FULL;
    store_room_saw(&s->room, value_pages(size));
    if (!store_room_spend(&s->room, value_pages(size) + RESERVE_PAGES))
        return PS_ERR_FULL;
    s->wrote = true;
    if ((err = lmdb_error(mdb_put(s->txn, s->blocks, &k, &v, MDB_RESERVE))) != PS_OK)
        return err;
    /* The weights after the 48-byte head lie on a 64-byte boundary; all that vectorizes counts on it. */
    ps_assert((uintptr_t)v.mv_data % LAYOUT_ALIGN == LAYOUT_PAGE_HEAD);
    *place = v.mv_data;
    return PS_OK;
}

static enum ps_err
lmdb_erase(struct store *base, const struct store_key *key)
{
    struct store_lmdb *s = lmdb(base);
    size_t packed;
    MDB_val k = block_val(key, &packed);

    ps_assert(s->txn != NULL);
    if (!store_room_spend(&s->room, ROW_PAGES))
        return PS_ERR_FULL;
    s->wrote = true;
    return lmdb_error(mdb_del(s->txn, s->blocks, &k, NULL));
}

static enum ps_err
lmdb_row_put(struct store *base, enum store_table t, struct span key, struct span value)
{
    struct store_lmdb *s = lmdb(base);
    MDB_val k = row_val(key), v = {value.len, (void *)value.data};

    ps_assert(s->txn != NULL && value.len <= STORE_ROW_MAX);
    if (!store_room_spend(&s->room, value_pages(value.len) + ROW_PAGES))
        return PS_ERR_FULL;
    s->wrote = true;
    return lmdb_error(mdb_put(s->txn, s->tables[t], &k, &v, 0));
}

static enum ps_err
lmdb_row_erase(struct store *base, enum store_table t, struct span key)
{
    struct store_lmdb *s = lmdb(base);
    MDB_val k = row_val(key);

    ps_assert(s->txn != NULL);
    if (!store_room_spend(&s->room, ROW_PAGES))
        return PS_ERR_FULL;
    s->wrote = true;
    return lmdb_error(mdb_del(s->txn, s->tables[t], &k, NULL));
}

/* ---- Loading and figures ---- */

struct walk {
    struct store_lmdb *store;
    store_visit_block visit_block;
    store_visit_row visit_row;
    void *arg;
};

static bool
walk_visit(const struct walk *w, const MDB_val *k, const MDB_val *v)
{
    struct span value = {v->mv_data, v->mv_size};
    struct store_key key;
    size_t packed;

    if (w->visit_row != NULL)
        return w->visit_row(w->arg, (struct span){k->mv_data, k->mv_size}, value);
    memcpy(&packed, k->mv_data, sizeof packed);
    key = (struct store_key){
        .generation = (uint8_t)(packed >> 56),
        .var = (uint32_t)(packed >> 32) & STORE_VAR_MAX,
        .block = (uint32_t)packed,
    };
    store_room_saw(&w->store->room, value_pages(value.len));
    return w->visit_block(w->arg, &key, value);
}

static enum ps_err
walk(const struct walk *w, MDB_dbi dbi)
{
    struct store_lmdb *s = w->store;
    struct store_snapshot *snap;
    MDB_cursor *cursor = NULL;
    MDB_val key, value;
    enum ps_err err;
    int rc;

    if ((err = lmdb_snapshot_ref(&s->base, &snap)) != PS_OK)
        return err;
    rc = mdb_cursor_open(snap->txn, dbi, &cursor);
    while (rc == MDB_SUCCESS && (rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == MDB_SUCCESS)
        if (!walk_visit(w, &key, &value))
            break;
    if (cursor != NULL)
        mdb_cursor_close(cursor);
    lmdb_snapshot_unref(&s->base, snap);
    return rc == MDB_NOTFOUND ? PS_OK : lmdb_error(rc);
}

static enum ps_err
lmdb_each_block(struct store *base, store_visit_block visit, void *arg)
{
    struct walk w = {.store = lmdb(base), .visit_block = visit, .arg = arg};

    return walk(&w, w.store->blocks);
}

static enum ps_err
lmdb_each_row(struct store *base, enum store_table t, store_visit_row visit, void *arg)
{
    struct walk w = {.store = lmdb(base), .visit_row = visit, .arg = arg};

    return walk(&w, w.store->tables[t]);
}

static void
lmdb_usage(struct store *base, struct store_usage *out)
{
    struct store_lmdb *s = lmdb(base);

    *out = (struct store_usage){
        .used_bytes = used_pages(&s->room) * PAGE,
        .file_bytes = store_room_file_bytes(&s->room),
        .max_bytes = store_room_max_bytes(&s->room),
    };
}

/* ---- Opening and closing ---- */

static void
free_all(struct store_lmdb *s)
{
    while (s->pool != NULL) {
        struct store_snapshot *snap = s->pool;

        s->pool = snap->next;
        mdb_txn_abort(snap->txn);
        free(snap);
    }
    if (s->env != NULL)
        mdb_env_close(s->env);
    store_dir_close(&s->dir);
    free(s);
}

static void
lmdb_close(struct store *base)
{
    struct store_lmdb *s = lmdb(base);

    ps_assert(s->txn == NULL && s->open == NULL);
    free_all(s);
}

static const struct store_ops lmdb_ops = {
    .begin = lmdb_begin,
    .commit = lmdb_commit,
    .abort = lmdb_abort,
    .get = lmdb_get,
    .reserve = lmdb_reserve,
    .erase = lmdb_erase,
    .row_put = lmdb_row_put,
    .row_erase = lmdb_row_erase,
    .snapshot_ref = lmdb_snapshot_ref,
    .snapshot_unref = lmdb_snapshot_unref,
    .snapshot_get = lmdb_snapshot_get,
    .each_block = lmdb_each_block,
    .each_row = lmdb_each_row,
    .usage = lmdb_usage,
    .close = lmdb_close,
};

/* The reader table is mapped as well, and sparse when LMDB makes it. Closed before LMDB opens it: closing a file drops
 * the POSIX locks that the process has on it. */
static enum ps_err
allocate_readers(const char *dir, uint32_t readers, struct ps_error *e)
{
    char path[PATH_MAX];
    off_t size = (off_t)round_up((readers + 8) * (uint64_t)64, PAGE);
    enum ps_err err = PS_OK;
    int fd;

    snprintf(path, sizeof path, "%s/lock.mdb", dir);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return ps_fail(e, PS_ERR_IO, "cannot write in the live directory %s: %s", dir, strerror(errno));
    if (fallocate(fd, 0, 0, size) < 0 && errno != EOPNOTSUPP)
        err = ps_fail(e, errno == ENOSPC ? PS_ERR_FULL : PS_ERR_IO, "cannot allocate %s: %s", path, strerror(errno));
    close(fd);
    return err;
}

static enum ps_err
open_env(struct store_lmdb *s, const struct store_lmdb_options *o, struct ps_error *e)
{
    uint32_t readers = o->readers_max != 0 ? o->readers_max : READERS_DEFAULT;
    MDB_stat stat;
    enum ps_err err;
    int rc;

    if ((err = allocate_readers(o->dir, readers, e)) != PS_OK)
        return err;
    if ((rc = mdb_env_create(&s->env)) != 0)
        return ps_fail(e, lmdb_error(rc), "cannot set up LMDB: %s", mdb_strerror(rc));
    mdb_env_set_mapsize(s->env, s->room.limit_pages * PAGE + MAP_SPARE);
    mdb_env_set_maxdbs(s->env, STORE_TABLES + 1);
    mdb_env_set_maxreaders(s->env, readers);
    rc = mdb_env_open(s->env, o->dir, MDB_WRITEMAP | MDB_NOSYNC | MDB_NOTLS, 0600);
    if (rc == MDB_INVALID || rc == MDB_VERSION_MISMATCH)
        return ps_fail(e, PS_ERR_VERSION, "%s is not an LMDB environment that this psd can read: %s", s->dir.data_path,
                       mdb_strerror(rc));
    if (rc != 0)
        return ps_fail(e, lmdb_error(rc), "cannot open %s: %s", s->dir.data_path, mdb_strerror(rc));
    mdb_env_stat(s->env, &stat);
    if (stat.ms_psize != PAGE)
        return ps_fail(e, PS_ERR_UNSUPPORTED, "%s has pages of %u bytes; psd's blocks are made for %d",
                       s->dir.data_path, stat.ms_psize, PAGE);
    mdb_reader_check(s->env, NULL);
    mdb_env_get_fd(s->env, &s->data_fd);
    return PS_OK;
}

static enum ps_err
open_tables(struct store_lmdb *s, struct ps_error *e)
{
    MDB_txn *txn = NULL;
    int rc;

    if (!store_room_open(&s->room, s->data_fd))
        return ps_fail(e, PS_ERR_IO, "cannot allocate %s: %s", s->dir.data_path, strerror(errno));
    rc = mdb_txn_begin(s->env, NULL, 0, &txn);
    if (rc == 0)
        rc = mdb_dbi_open(txn, "blocks", MDB_CREATE | MDB_INTEGERKEY, &s->blocks);
    for (int t = 0; t < STORE_TABLES && rc == 0; t++)
        rc = mdb_dbi_open(txn, table_names[t], MDB_CREATE, &s->tables[t]);
    if (rc == 0) {
        rc = mdb_txn_commit(txn);
        txn = NULL;
    }
    mdb_txn_abort(txn);
    if (rc != 0)
        return ps_fail(e, lmdb_error(rc), "cannot prepare %s: %s", s->dir.data_path, mdb_strerror(rc));
    return PS_OK;
}

enum ps_err
store_lmdb_open(const struct store_lmdb_options *o, struct store **out, struct store_dir_report *report,
                struct ps_error *e)
{
    struct store_lmdb *s = calloc(1, sizeof *s);
    enum ps_err err;

    if (s == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "out of memory");
    s->base.ops = &lmdb_ops;
    s->data_fd = -1;
    store_room_init(&s->room, &room_ops);
    if ((err = store_dir_open(&s->dir, o->dir, o->max_bytes, report, e)) != PS_OK)
        goto fail;
    s->room.limit_pages = report->limit_bytes / PAGE;
    if ((err = open_env(s, o, e)) != PS_OK || (err = open_tables(s, e)) != PS_OK)
        goto fail;
    *out = &s->base;
    return PS_OK;
fail:
    store_dir_undo(&s->dir);
    free_all(s);
    return err;
}

void
store_lmdb_undo(struct store *base)
{
    store_dir_undo(&lmdb(base)->dir);
}

bool
store_lmdb_still_there(struct store *base)
{
    struct store_lmdb *s = lmdb(base);

    return store_dir_holds(&s->dir, s->data_fd);
}

enum ps_err
store_lmdb_sync(struct store *base)
{
    struct store_lmdb *s = lmdb(base);
    int rc = mdb_env_sync(s->env, 1);

    return rc != 0 || fsync(s->data_fd) < 0 ? PS_ERR_IO : PS_OK;
}
