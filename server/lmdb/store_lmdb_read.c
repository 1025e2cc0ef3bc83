/* Reading: snapshots and walks of the owner's thread, readers of other threads. See store_lmdb.h, and store_lmdb_env.h
 * for how a reader and the owner stay apart without a lock. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "server/lmdb/store_lmdb_env.h"

/* ---- Snapshots ---- */

static enum ps_err
snapshot_start(struct store_lmdb *s, struct store_snapshot **out)
{
    struct store_snapshot *snap = s->pool;
    enum ps_err err;

    if (snap != NULL) {
        s->pool = snap->next;
        err = store_lmdb_error(mdb_txn_renew(snap->txn));
    } else {
        snap = calloc(1, sizeof *snap);
        if (snap == NULL)
            return PS_ERR_NOMEM;
        err = store_lmdb_error(mdb_txn_begin(s->env, NULL, MDB_RDONLY, &snap->txn));
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

enum ps_err
store_lmdb_snapshot_ref(struct store *base, struct store_snapshot **out)
{
    struct store_lmdb *s = store_lmdb_of(base);
    struct store_snapshot *snap = s->open;
    enum ps_err err;

    if (snap == NULL || snap->commit != s->commit)
        if ((err = snapshot_start(s, &snap)) != PS_OK)
            return err;
    snap->refs++;
    *out = snap;
    return PS_OK;
}

void
store_lmdb_snapshot_unref(struct store *base, struct store_snapshot *snap)
{
    struct store_lmdb *s = store_lmdb_of(base);
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

enum ps_err
store_lmdb_snapshot_get(struct store *base, struct store_snapshot *snap, const struct store_key *key,
                        struct span *value)
{
    struct store_lmdb *s = store_lmdb_of(base);
    size_t packed;
    MDB_val k = block_val(key, &packed), v;
    enum ps_err err;

    ps_assert(snap->refs > 0);
    err = store_lmdb_error(mdb_get(snap->txn, s->blocks, &k, &v));
    if (err == PS_OK)
        *value = (struct span){v.mv_data, v.mv_size};
    return err;
}

/* ---- Readers of other threads ---- */

enum ps_err
store_lmdb_reader_open(struct store *base, struct store_reader **out)
{
    struct store_lmdb *s = store_lmdb_of(base);
    struct store_reader *r = calloc(1, sizeof *r);
    enum ps_err err;

    if (r == NULL)
        return PS_ERR_NOMEM;
    r->store = s;
    if ((err = store_lmdb_error(mdb_txn_begin(s->env, NULL, MDB_RDONLY, &r->txn))) != PS_OK) {
        free(r);
        return err;
    }
    mdb_txn_reset(r->txn); /* it keeps its place in LMDB's table */
    r->next = s->readers;
    s->readers = r;
    *out = r;
    return PS_OK;
}

void
store_lmdb_reader_done(struct store_reader *r)
{
    if (!r->reading)
        return;
    r->reading = false;
    atomic_fetch_add_explicit(&r->done, 1, memory_order_release);
    mdb_txn_reset(r->txn);
    atomic_store_explicit(&r->pin, 0, memory_order_release);
}

static enum ps_err
reader_renew(struct store_reader *r)
{
    _Atomic uint64_t *published = &r->store->published;
    enum ps_err err;

    atomic_store(&r->pin, atomic_load(published));
    (void)atomic_load(published); /* an owner that published without having seen the pin did so before the renewal */
    if ((err = store_lmdb_error(mdb_txn_renew(r->txn))) != PS_OK) {
        atomic_store_explicit(&r->pin, 0, memory_order_release);
        return err;
    }
    r->reading = true;
    /* The owner has committed and not yet published: wait, since publishing orders its writes before these reads. */
    while (atomic_load_explicit(published, memory_order_acquire) < mdb_txn_id(r->txn))
        sched_yield();
    return PS_OK;
}

enum ps_err
store_lmdb_reader_get(struct store_reader *r, const struct store_key *key, struct span *value)
{
    size_t packed;
    MDB_val k = block_val(key, &packed), v;
    enum ps_err err;

    store_lmdb_reader_done(r);
    if ((err = reader_renew(r)) != PS_OK)
        return err;
    if ((err = store_lmdb_error(mdb_get(r->txn, r->store->blocks, &k, &v))) == PS_OK)
        *value = (struct span){v.mv_data, v.mv_size};
    else
        store_lmdb_reader_done(r);
    return err;
}

void
store_lmdb_reader_close(struct store_reader *r)
{
    struct store_reader **at = &r->store->readers;

    store_lmdb_reader_done(r);
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    mdb_txn_abort(r->txn);
    free(r);
}

void
store_lmdb_readers_passed(const struct store_lmdb *s)
{
    for (struct store_reader *r = s->readers; r != NULL; r = r->next)
        (void)atomic_load_explicit(&r->done, memory_order_acquire);
}

uint64_t
store_lmdb_oldest(const struct store_lmdb *s, uint64_t newest)
{
    uint64_t oldest = newest;

    for (const struct store_snapshot *snap = s->open; snap != NULL; snap = snap->next)
        oldest = MIN(oldest, mdb_txn_id(snap->txn));
    for (struct store_reader *r = s->readers; r != NULL; r = r->next) {
        uint64_t pin = atomic_load(&r->pin);

        if (pin != 0)
            oldest = MIN(oldest, pin);
    }
    return oldest;
}

void
store_lmdb_publish(struct store_lmdb *s)
{
    MDB_envinfo info;

    mdb_env_info(s->env, &info);
    atomic_store(&s->published, info.me_last_txnid);
}

/* ---- Walks ---- */

/* The first touch of a page of the map costs 7 to 11 us, since Linux maps those around it as well; reading the head
 * costs 1 to 2. Where values are small, the pages around hold the next ones. */
#define HEAD_ALONE (64 * KIB)
static_assert(STORE_HEAD == sizeof(struct block_head), "a head is read apart");

struct store_lmdb_walk {
    struct store_lmdb *store;
    bool heads; /* only the heads of values are read */
    _Alignas(16) char head[STORE_HEAD];
    store_visit_block visit_block;
    store_visit_row visit_row;
    void *arg;
};

/* A head that cannot be read so is read in the map. */
static const void *
head_of(struct store_lmdb_walk *w, const MDB_val *v)
{
    off_t at = (const char *)v->mv_data - w->store->map;
    bool apart = w->heads && v->mv_size > HEAD_ALONE;

    return apart && pread(w->store->data_fd, w->head, STORE_HEAD, at) == STORE_HEAD ? w->head : v->mv_data;
}

static bool
walk_visit(struct store_lmdb_walk *w, const MDB_val *k, const MDB_val *v)
{
    struct span value = {head_of(w, v), v->mv_size};
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

/* From a key on, or (NULL) from the beginning. */
static enum ps_err
store_lmdb_read_walk(struct store_lmdb_walk *w, MDB_dbi dbi, const MDB_val *from)
{
    struct store_lmdb *s = w->store;
    MDB_cursor_op step = from != NULL ? MDB_SET_RANGE : MDB_NEXT;
    MDB_val key = from != NULL ? *from : (MDB_val){0, NULL}, value;
    struct store_snapshot *snap;
    MDB_cursor *cursor = NULL;
    enum ps_err err;
    int rc;

    if ((err = store_lmdb_snapshot_ref(&s->base, &snap)) != PS_OK)
        return err;
    rc = mdb_cursor_open(snap->txn, dbi, &cursor);
    while (rc == MDB_SUCCESS && (rc = mdb_cursor_get(cursor, &key, &value, step)) == MDB_SUCCESS) {
        if (!walk_visit(w, &key, &value))
            break;
        step = MDB_NEXT;
    }
    if (cursor != NULL)
        mdb_cursor_close(cursor);
    store_lmdb_snapshot_unref(&s->base, snap);
    return rc == MDB_NOTFOUND ? PS_OK : store_lmdb_error(rc);
}

enum ps_err
store_lmdb_each_block(struct store *base, store_visit_block visit, void *arg)
{
    struct store_lmdb_walk w = {.store = store_lmdb_of(base), .visit_block = visit, .arg = arg};

    return store_lmdb_read_walk(&w, w.store->blocks, NULL);
}

enum ps_err
store_lmdb_each_head(struct store *base, store_visit_block visit, void *arg)
{
    struct store_lmdb_walk w = {.store = store_lmdb_of(base), .visit_block = visit, .arg = arg, .heads = true};

    return store_lmdb_read_walk(&w, w.store->blocks, NULL);
}

enum ps_err
store_lmdb_each_block_from(struct store *base, const struct store_key *from, store_visit_block visit, void *arg)
{
    struct store_lmdb_walk w = {.store = store_lmdb_of(base), .visit_block = visit, .arg = arg};
    size_t packed;
    MDB_val first = block_val(from, &packed);

    return store_lmdb_read_walk(&w, w.store->blocks, &first);
}

enum ps_err
store_lmdb_each_row(struct store *base, enum store_table t, store_visit_row visit, void *arg)
{
    struct store_lmdb_walk w = {.store = store_lmdb_of(base), .visit_row = visit, .arg = arg};

    return store_lmdb_read_walk(&w, w.store->tables[t], NULL);
}
