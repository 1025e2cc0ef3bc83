/* Write transactions of the LMDB store: see store_lmdb.h.
 *
 * An update of the live environment that succeeds:
 *
 *     begin    the file has room past LMDB's last page for the worst case (fallocate), then mdb_txn_begin
 *     get      the old value, in the map
 *     reserve  mdb_cursor_put(MDB_RESERVE): LMDB frees the old pages for later transactions and lends new ones in
 *              the map
 *     commit   the meta page flips; kill -9 leaves either the old one or the new one
 *
 * In the durable environment, reserve lends heap memory; commit writes it to pages that no committed state uses, syncs
 * the file, and writes the meta page through a descriptor that is synced at each write.
 *
 * Behaviour of LMDB 0.9.24 on which these files rely:
 *   - A put over a value whose overflow pages are clean takes new pages; over pages that are dirty in this transaction
 *     it returns the same place. Pages freed by transaction N are used again from N + 2 on, or when the last
 *     reader older than that has gone: so what get() lent lasts until the end, and what a snapshot lent lasts as long.
 *   - Pages come from the free list first, lowest number first, and only then from past the last page. The map
 *     is larger than the limit, so MDB_MAP_FULL cannot happen in the middle of a transaction; store_room.h counts the
 *     space.
 *   - A transaction of STORE_ROOM_MAX dirties far fewer pages than LMDB keeps in a list (131,071 entries, a value's
 *     pages being one), so none is spilled to the file before the commit.
 *   - A commit that fails has aborted. When the data could not be written or synced, LMDB would go on; when the meta
 *     page could not, it writes back the old one and refuses all that follows (MDB_PANIC). A short write, as a full
 *     disk causes, becomes EIO: another reason to allocate first.
 *
 * Each write is counted by store_room.h first: nothing is written where the file is not backed. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "server/lmdb/store_lmdb_env.h"
#include "server/lmdb/store_lmdb_guard.h"

#define RESERVE_PAGES 2 /* of a reserve: its leaf, and a share of branches */

/* ---- Errors ---- */

/* The one place that translates LMDB's codes. */
enum ps_err
store_lmdb_error(int rc)
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

enum ps_err
store_lmdb_no_room(struct store_lmdb *s)
{
    uint64_t limit = s->room.limit_pages * PAGE, most = store_room_max_bytes(&s->room);

    if (s->room.refused != 0 && s->room.refused != ENOSPC)
        return ps_fail(&s->why, PS_ERR_FULL, "cannot allocate more of %s: %s", s->dir.data_path,
                       strerror(s->room.refused));
    if (most < limit)
        return ps_fail(&s->why, PS_ERR_FULL, "%s is full: its filesystem gives it %" PRIu64 " MiB in all",
                       s->dir.data_path, (uint64_t)(most / MIB));
    return ps_fail(&s->why, PS_ERR_FULL, "%s is full: it may take %" PRIu64 " MiB", s->dir.data_path,
                   (uint64_t)(limit / MIB));
}

static enum ps_err
store_lmdb_failed(struct store_lmdb *s, const char *doing, int rc)
{
    return ps_fail(&s->why, store_lmdb_error(rc), "cannot %s %s: %s", doing, s->dir.data_path, mdb_strerror(rc));
}

/* Whether LMDB refuses all that comes: it does after a failed write of its meta page, which may be on disk or not. */
static bool
store_lmdb_panics(struct store_lmdb *s)
{
    MDB_txn *txn = NULL;
    int rc = mdb_txn_begin(s->env, NULL, 0, &txn);

    if (rc == 0)
        mdb_txn_abort(txn);
    return rc == MDB_PANIC;
}

/* A full disk harms nothing: LMDB writes new data beside the old, and the meta page last. After any other error of the
 * disk, the page cache may differ from the disk, now or after the next sync (Rebello et al., USENIX ATC 2020), so this
 * file is not used any more. */
static enum ps_err
commit_failed(struct store_lmdb *s, int rc)
{
    enum ps_err err = store_lmdb_failed(s, "write to", rc);

    if (s->durable && rc > 0 && rc != ENOMEM)
        s->untrusted = err != PS_ERR_FULL || store_lmdb_panics(s);
    return s->untrusted ? PS_ERR_IO : err;
}

bool
store_lmdb_untrusted(struct store *base)
{
    return store_lmdb_of(base)->untrusted;
}

const char *
store_lmdb_why(struct store *base)
{
    return store_lmdb_of(base)->why.text;
}

/* ---- Transactions ---- */

static enum ps_err
lmdb_begin(struct store *base, uint64_t room_bytes)
{
    struct store_lmdb *s = store_lmdb_of(base);
    int rc;

    ps_assert(s->txn == NULL && room_bytes <= STORE_ROOM_MAX);
    if (s->untrusted)
        return PS_ERR_IO;
    if (!store_room_begin(&s->room, (room_bytes + PAGE - 1) / PAGE))
        return store_lmdb_no_room(s);
    s->wrote = false;
    memset(s->trees, 0, sizeof s->trees);
    if ((rc = mdb_txn_begin(s->env, NULL, 0, &s->txn)) != 0) {
        s->txn = NULL;
        return store_lmdb_failed(s, "begin a transaction of", rc);
    }
    return PS_OK;
}

/* The cursor ended with the transaction. */
static void
store_lmdb_ended(struct store_lmdb *s)
{
    s->txn = NULL;
    s->cursor = NULL;
    s->found = false;
}

void
store_lmdb_guard(const struct store_lmdb *s)
{
    MDB_envinfo info;

    if (!s->durable)
        return;
    mdb_env_info(s->env, &info);
    store_lmdb_guard_write(s->data_fd, s->map, info.me_last_txnid);
}

static enum ps_err
lmdb_commit(struct store *base)
{
    struct store_lmdb *s = store_lmdb_of(base);
    int rc;

    ps_assert(s->txn != NULL);
    store_lmdb_readers_passed(s);
    rc = mdb_txn_commit(s->txn);
    store_lmdb_ended(s);
    store_room_end(&s->room);
    if (rc != 0)
        return commit_failed(s, rc);
    if (!s->wrote)
        return PS_OK;
    s->commit++;
    store_lmdb_publish(s);
    store_lmdb_guard(s);
    return PS_OK;
}

static void
lmdb_abort(struct store *base)
{
    struct store_lmdb *s = store_lmdb_of(base);

    ps_assert(s->txn != NULL);
    mdb_txn_abort(s->txn);
    store_lmdb_ended(s);
    store_room_end(&s->room);
}

/* ---- Blocks and rows ---- */

/* The search for a block begins where the last one was found: neighbours are usually asked for together. */
static int
open_cursor(struct store_lmdb *s)
{
    return s->cursor != NULL ? 0 : mdb_cursor_open(s->txn, s->blocks, &s->cursor);
}

static enum ps_err
lmdb_get(struct store *base, const struct store_key *key, struct span *value)
{
    struct store_lmdb *s = store_lmdb_of(base);
    size_t packed;
    MDB_val k = block_val(key, &packed), v;
    int rc;

    ps_assert(s->txn != NULL);
    s->found = false;
    if ((rc = open_cursor(s)) != 0 || (rc = mdb_cursor_get(s->cursor, &k, &v, MDB_SET)) != 0)
        return store_lmdb_error(rc);
    s->found = true;
    s->found_key = packed;
    *value = (struct span){v.mv_data, v.mv_size};
    return PS_OK;
}

static enum ps_err
lmdb_reserve(struct store *base, const struct store_key *key, size_t size, void **place)
{
    struct store_lmdb *s = store_lmdb_of(base);
    size_t packed;
    MDB_val k = block_val(key, &packed), v = {size, NULL};
    MDB_val old;
    bool there = s->found && s->found_key == packed; /* the cursor stands there */
    int rc;

    ps_assert(s->txn != NULL);
    if (s->room.new_refused && mdb_get(s->txn, s->blocks, &k, &old) == MDB_NOTFOUND)
        return store_lmdb_no_room(s);
    store_room_saw(&s->room, value_pages(size));
    if (!store_room_spend(&s->room, value_pages(size) + RESERVE_PAGES))
        return store_lmdb_no_room(s);
    s->wrote = true;
    s->found = false;
    store_lmdb_readers_passed(s);
    store_lmdb_tree_touch(s, STORE_LMDB_BLOCKS);
    if ((rc = open_cursor(s)) != 0 ||
        (rc = mdb_cursor_put(s->cursor, &k, &v, MDB_RESERVE | (there ? MDB_CURRENT : 0))) != 0)
        return store_lmdb_failed(s, "write to", rc);
    store_lmdb_tree_give_back(s, STORE_LMDB_BLOCKS, RESERVE_PAGES, value_pages(size), true);
    /* In the map, the weights after the 48-byte head lie on a 64-byte boundary: vectorized code relies on it. */
    ps_assert(s->durable || (uintptr_t)v.mv_data % LAYOUT_ALIGN == LAYOUT_PAGE_HEAD);
    store_lmdb_readers_passed(s); /* also before what the caller writes there */
    *place = v.mv_data;
    return PS_OK;
}

static enum ps_err
lmdb_erase(struct store *base, const struct store_key *key)
{
    struct store_lmdb *s = store_lmdb_of(base);
    size_t packed;
    MDB_val k = block_val(key, &packed);
    enum ps_err err;

    ps_assert(s->txn != NULL);
    if (!store_room_spend(&s->room, ROW_PAGES))
        return store_lmdb_no_room(s);
    s->wrote = true;
    s->found = false;
    store_lmdb_readers_passed(s);
    store_lmdb_tree_touch(s, STORE_LMDB_BLOCKS);
    err = store_lmdb_error(mdb_del(s->txn, s->blocks, &k, NULL));
    store_lmdb_tree_give_back(s, STORE_LMDB_BLOCKS, ROW_PAGES, 0, false);
    return err;
}

/* A file may take more than its limit: of an earlier start, or the filesystem's own blocks for it. */
static void
lmdb_usage(struct store *base, struct store_usage *out)
{
    struct store_lmdb *s = store_lmdb_of(base);
    uint64_t file_bytes = store_room_file_bytes(&s->room);

    *out = (struct store_usage){
        .used_bytes = s->room.ops->used_pages(&s->room) * PAGE,
        .file_bytes = file_bytes,
        .max_bytes = MAX(store_room_max_bytes(&s->room), file_bytes),
    };
}

const struct store_ops store_lmdb_ops = {
    .begin = lmdb_begin,
    .commit = lmdb_commit,
    .abort = lmdb_abort,
    .get = lmdb_get,
    .reserve = lmdb_reserve,
    .erase = lmdb_erase,
    .row_put = store_lmdb_row_put,
    .row_erase = store_lmdb_row_erase,
    .snapshot_ref = store_lmdb_snapshot_ref,
    .snapshot_unref = store_lmdb_snapshot_unref,
    .snapshot_get = store_lmdb_snapshot_get,
    .each_block = store_lmdb_each_block,
    .each_head = store_lmdb_each_head,
    .each_block_from = store_lmdb_each_block_from,
    .each_row = store_lmdb_each_row,
    .reader_open = store_lmdb_reader_open,
    .reader_get = store_lmdb_reader_get,
    .reader_done = store_lmdb_reader_done,
    .reader_close = store_lmdb_reader_close,
    .fetch = store_lmdb_fetch,
    .usage = lmdb_usage,
    .close = store_lmdb_close,
};
