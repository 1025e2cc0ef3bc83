/* The store in heap memory: its transactions, and the faults that tests inject. Its contents: store_mem_cell.h.
 *
 * Places are filled with a pattern before they are lent, since LMDB lends pages that hold old data: code that counts on
 * zeros fails here at once. */
#include "server/core/store/store_mem.h"

#include <stdlib.h>
#include <string.h>

#include "server/core/store/store_mem_cell.h"

#define PLACE_FILL 0xa5

static bool
breaks_now(struct store_mem *m)
{
    return m->break_in > 0 && --m->break_in == 0;
}

/* ---- Transactions ---- */

static enum ps_err
store_mem_touch(struct store_mem *m, struct store_mem_cell *c)
{
    if (c->touched)
        return PS_OK;
    if (!cells_grow((void **)&m->touched, &m->touched_size, m->touched_len, sizeof *m->touched))
        return PS_ERR_NOMEM;
    m->touched[m->touched_len++] = c;
    c->touched = true;
    return PS_OK;
}

static enum ps_err
mem_begin(struct store *s, uint64_t room_bytes)
{
    struct store_mem *m = store_mem_of(s);

    ps_assert(!m->writing && room_bytes <= STORE_ROOM_MAX);
    if (fails_now(m, STORE_MEM_FAIL_BEGIN) || m->untrusted)
        return PS_ERR_IO;
    if (m->full || m->bytes + room_bytes > m->max_bytes)
        return PS_ERR_FULL;
    m->writing = true;
    m->room = room_bytes;
    return PS_OK;
}

static void
drop_pending(struct store_mem *m)
{
    for (size_t i = 0; i < m->touched_len; i++) {
        struct store_mem_cell *c = m->touched[i];

        version_free(m, c->pending);
        c->pending = NULL;
        c->touched = false;
        cell_tidy(m, c);
    }
    m->touched_len = 0;
}

static void
mem_abort(struct store *s)
{
    struct store_mem *m = store_mem_of(s);

    ps_assert(m->writing);
    m->writing = false;
    drop_pending(m);
}

static void
commit_cell(struct store_mem *m, struct store_mem_cell *c)
{
    struct version *v = c->pending, *old = c->newest;

    c->pending = NULL;
    c->touched = false;
    if (v == NULL)
        return;
    v->born = m->commit;
    v->older = old;
    c->newest = v;
    if (old != NULL && old->died == 0)
        version_retire(m, old);
    if (v->erased)
        version_retire(m, v);
}

static void
keep_pending(struct store_mem *m)
{
    if (m->touched_len == 0)
        return;
    m->commit++;
    for (size_t i = 0; i < m->touched_len; i++)
        commit_cell(m, m->touched[i]);
    m->touched_len = 0;
    versions_sweep(m);
}

static enum ps_err
commit_failed(struct store *s, enum ps_err err)
{
    mem_abort(s);
    return err;
}

static enum ps_err
mem_commit(struct store *s)
{
    struct store_mem *m = store_mem_of(s);

    ps_assert(m->writing);
    if (fails_now(m, STORE_MEM_FAIL_COMMIT))
        return commit_failed(s, PS_ERR_IO);
    if (m->full)
        return commit_failed(s, PS_ERR_FULL);
    m->writing = false;
    if (breaks_now(m)) {
        m->untrusted = true;
        return PS_ERR_IO;
    }
    keep_pending(m);
    return PS_OK;
}

/* What the open transaction sees. */
static struct version *
version_now(const struct store_mem_cell *c)
{
    struct version *v = c->pending != NULL ? c->pending : c->newest;

    return v != NULL && !v->erased ? v : NULL;
}

static enum ps_err
mem_get(struct store *s, const struct store_key *key, struct span *value)
{
    struct store_mem *m = store_mem_of(s);
    struct store_mem_query w;
    struct store_mem_cell *c;
    struct version *v;

    ps_assert(m->writing);
    if (fails_now(m, STORE_MEM_FAIL_GET))
        return PS_ERR_IO;
    wanted_block(&w, key);
    c = cell_find(m, &w);
    v = c != NULL ? version_now(c) : NULL;
    if (v == NULL)
        return PS_ERR_NOT_FOUND;
    *value = (struct span){v->data, v->size};
    return PS_OK;
}

/* Make a version the cell's pending one; the former pending one is freed. */
static enum ps_err
store_mem_replace(struct store_mem *m, const struct store_mem_query *w, size_t size, struct version **out)
{
    struct store_mem_cell *c = cell_find(m, w);
    struct version *v = NULL;
    enum ps_err err;

    if (c == NULL)
        c = cell_insert(m, w);
    if (c == NULL)
        return PS_ERR_NOMEM;
    if ((err = store_mem_touch(m, c)) != PS_OK)
        goto fail;
    err = PS_ERR_NOMEM;
    if ((v = version_new(m, c, size)) == NULL)
        goto fail;
    version_free(m, c->pending);
    c->pending = v;
    *out = v;
    return PS_OK;
fail:
    cell_tidy(m, c);
    return err;
}

static enum ps_err
mem_reserve(struct store *s, const struct store_key *key, size_t size, void **place)
{
    struct store_mem *m = store_mem_of(s);
    struct store_mem_query w;
    struct store_mem_cell *c;
    struct version *v = NULL;
    enum ps_err err;

    ps_assert(m->writing);
    if (fails_now(m, STORE_MEM_FAIL_RESERVE))
        return PS_ERR_IO;
    wanted_block(&w, key);
    c = cell_find(m, &w);
    if (c != NULL && (v = version_now(c)) != NULL)
        ps_assert(v->size == size);
    if (v != NULL && v == c->pending) {
        *place = v->data;
        return PS_OK;
    }
    ps_assert(size <= m->room);
    if ((err = store_mem_replace(m, &w, size, &v)) != PS_OK)
        return err;
    m->room -= size;
    memset(v->data, PLACE_FILL, size);
    *place = v->data;
    return PS_OK;
}

/* A block that this transaction reserved and now erases stays readable until its end, as in LMDB it might. */
static enum ps_err
store_mem_erase(struct store_mem *m, const struct store_mem_query *w)
{
    struct store_mem_cell *c = cell_find(m, w);
    struct version *v;
    enum ps_err err;

    if (c == NULL || version_now(c) == NULL)
        return PS_ERR_NOT_FOUND;
    if ((err = store_mem_replace(m, w, 0, &v)) != PS_OK)
        return err;
    v->erased = true;
    if (c->newest != NULL)
        return PS_OK;
    version_free(m, v); /* it never was committed: nothing to bury */
    c->pending = NULL;
    return PS_OK;
}

static enum ps_err
mem_erase(struct store *s, const struct store_key *key)
{
    struct store_mem_query w;

    ps_assert(store_mem_of(s)->writing);
    if (fails_now(store_mem_of(s), STORE_MEM_FAIL_ERASE))
        return PS_ERR_IO;
    wanted_block(&w, key);
    return store_mem_erase(store_mem_of(s), &w);
}

static enum ps_err
mem_row_put(struct store *s, enum store_table t, struct span key, struct span value)
{
    struct store_mem_query w = wanted_row(t, key);
    struct version *v;
    enum ps_err err;

    ps_assert(store_mem_of(s)->writing && value.len <= STORE_ROW_MAX);
    if (fails_now(store_mem_of(s), STORE_MEM_FAIL_ROW_PUT))
        return PS_ERR_IO;
    if ((err = store_mem_replace(store_mem_of(s), &w, value.len, &v)) != PS_OK)
        return err;
    if (value.len > 0)
        memcpy(v->data, value.data, value.len);
    return PS_OK;
}

static enum ps_err
mem_row_erase(struct store *s, enum store_table t, struct span key)
{
    struct store_mem_query w = wanted_row(t, key);

    ps_assert(store_mem_of(s)->writing);
    if (fails_now(store_mem_of(s), STORE_MEM_FAIL_ROW_ERASE))
        return PS_ERR_IO;
    return store_mem_erase(store_mem_of(s), &w);
}

static void
mem_usage(struct store *s, struct store_usage *out)
{
    struct store_mem *m = store_mem_of(s);

    *out = (struct store_usage){.used_bytes = m->bytes, .file_bytes = m->bytes, .max_bytes = m->max_bytes};
}

static void
forget_all(struct store_mem *m)
{
    drop_pending(m);
    while (m->retired != NULL) { /* tombstones: what they hid is in their cells */
        struct version *v = m->retired;

        m->retired = v->next;
        version_unlink(v);
        version_free(m, v);
    }
    for (size_t i = 0; i < m->cells_len; i++) {
        version_free(m, m->cells[i]->newest);
        free(m->cells[i]);
    }
    m->cells_len = 0;
}

static void
mem_close(struct store *s)
{
    struct store_mem *m = store_mem_of(s);

    ps_assert(!m->writing && m->snapshots == NULL && m->readers == NULL);
    forget_all(m);
    free(m->cells);
    free(m->touched);
    free(m);
}

/* It is in memory. */
static enum ps_err
mem_fetch(struct store *base, struct span value)
{
    (void)base;
    (void)value;
    return PS_OK;
}

static const struct store_ops mem_ops = {
    .begin = mem_begin,
    .commit = mem_commit,
    .abort = mem_abort,
    .get = mem_get,
    .reserve = mem_reserve,
    .erase = mem_erase,
    .row_put = mem_row_put,
    .row_erase = mem_row_erase,
    .snapshot_ref = store_mem_snapshot_ref,
    .snapshot_unref = store_mem_snapshot_unref,
    .snapshot_get = store_mem_snapshot_get,
    .each_block = store_mem_each_block,
    .each_head = store_mem_each_block,
    .each_block_from = store_mem_each_block_from,
    .each_row = store_mem_each_row,
    .reader_open = store_mem_reader_open,
    .reader_get = store_mem_reader_get,
    .reader_done = store_mem_reader_done,
    .reader_close = store_mem_reader_close,
    .fetch = mem_fetch,
    .usage = mem_usage,
    .close = mem_close,
};

struct store *
store_mem_new(uint64_t max_bytes)
{
    struct store_mem *m = calloc(1, sizeof *m);

    if (m == NULL)
        return NULL;
    m->base.ops = &mem_ops;
    m->max_bytes = max_bytes;
    return &m->base;
}

/* ---- Faults that tests inject ---- */

void
store_mem_fail_at(struct store *s, enum store_mem_fail what, uint64_t nth)
{
    store_mem_of(s)->fail_in[what] = nth;
}

void
store_mem_fail_none(struct store *s)
{
    struct store_mem *m = store_mem_of(s);

    memset(m->fail_in, 0, sizeof m->fail_in);
    m->break_in = 0;
    m->full = false;
}

void
store_mem_full(struct store *s, bool full)
{
    store_mem_of(s)->full = full;
}

void
store_mem_limit(struct store *s, uint64_t max_bytes)
{
    store_mem_of(s)->max_bytes = max_bytes;
}

void
store_mem_break_at(struct store *s, uint64_t nth, bool kept)
{
    store_mem_of(s)->break_in = nth;
    store_mem_of(s)->break_keeps = kept;
}

bool
store_mem_untrusted(struct store *s)
{
    return store_mem_of(s)->untrusted;
}

void
store_mem_crash(struct store *s)
{
    struct store_mem *m = store_mem_of(s);

    while (m->readers != NULL)
        store_mem_reader_close(m->readers);
    while (m->snapshots != NULL) {
        m->snapshots->refs = 1;
        store_mem_snapshot_unref(s, m->snapshots);
    }
    if (m->untrusted && m->break_keeps)
        keep_pending(m);
    else
        drop_pending(m);
    m->untrusted = m->writing = false;
}

void
store_mem_wipe(struct store *s)
{
    store_mem_crash(s);
    forget_all(store_mem_of(s));
}
