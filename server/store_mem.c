/* The store in heap memory.
 *
 * Blocks and rows are the same thing here: cells in one array, sorted by (table, key bytes), each with a chain of
 * versions, newest first:
 *
 *     cell ──► pending (this transaction's) ──► commit 9 ──► commit 4 ...
 *
 * A version lives from the commit that made it to the one that replaced it. One that was replaced goes to the list of
 * the retired and is freed when no snapshot lies within its life. So what get() and snapshot_get() lent stays exactly
 * as long as the interface promises and no longer: under ASan, a reader that is late is found out.
 *
 * Places are filled with a pattern before they are lent, since LMDB lends pages that hold old data: code that counts on
 * zeros fails here at once. They start 16 bytes past a multiple of 64, as in LMDB. */
#include "store_mem.h"

#include <stdlib.h>
#include <string.h>

#include "common/layout.h"

#define TABLE_BLOCKS STORE_TABLES /* cells of blocks come after all rows */
#define PLACE_SHIFT  16           /* a place's address modulo LAYOUT_ALIGN */
#define PLACE_FILL   0xa5

struct cell;

struct version {
    struct cell *cell;
    struct version *older;
    struct version *next; /* in the list of the retired */
    uint64_t born, died;  /* commit numbers; died 0: not replaced */
    bool erased;          /* a tombstone */
    size_t size;
    uint8_t *alloc, *data;
};

struct cell {
    enum store_table table;
    size_t key_len;
    struct version *pending;
    struct version *newest; /* committed */
    bool touched;
    uint8_t key[];
};

struct store_snapshot {
    struct store_snapshot *next;
    uint64_t commit;
    unsigned refs;
};

/* A snapshot that is taken anew at each get. */
struct store_reader {
    struct store_reader *next;
    struct store_mem *store;
    struct store_snapshot *snap; /* NULL: it reads nothing */
};

struct store_mem {
    struct store base;
    uint64_t max_bytes, bytes; /* block values: the most, and now, with the retired and the pending */
    uint64_t commit;
    bool writing;
    uint64_t room; /* left of what begin() was asked for */
    struct cell **cells;
    size_t cells_len, cells_size;
    struct cell **touched; /* by the open transaction */
    size_t touched_len, touched_size;
    struct version *retired;
    struct store_snapshot *snapshots;
    struct store_reader *readers;
    uint64_t fail_in[STORE_MEM_FAILS_ALL];
    bool full;         /* the disk is */
    uint64_t break_in; /* commits until it breaks */
    bool break_keeps;  /* what that one wrote is there in the end */
    bool untrusted;    /* it broke; what was written is pending until it comes to light */
};

static struct store_mem *
mem(struct store *s)
{
    return CONTAINER_OF(s, struct store_mem, base);
}

static bool
fails_now(struct store_mem *m, enum store_mem_fail what)
{
    return m->fail_in[what] > 0 && --m->fail_in[what] == 0;
}

static bool
breaks_now(struct store_mem *m)
{
    return m->break_in > 0 && --m->break_in == 0;
}

/* ---- Keys ---- */

struct wanted {
    enum store_table table;
    const uint8_t *key;
    size_t len;
    uint8_t bytes[8];
};

static struct wanted
wanted_row(enum store_table t, struct span key)
{
    ps_assert(t < STORE_TABLES && key.len >= 1 && key.len <= STORE_ROW_KEY_MAX);
    return (struct wanted){.table = t, .key = key.data, .len = key.len};
}

static void
wanted_block(struct wanted *w, const struct store_key *key)
{
    uint64_t packed = (uint64_t)key->generation << 56 | (uint64_t)key->var << 32 | key->block;

    ps_assert(key->var <= STORE_VAR_MAX);
    for (int i = 0; i < 8; i++)
        w->bytes[i] = (uint8_t)(packed >> (56 - 8 * i));
    w->table = TABLE_BLOCKS;
    w->key = w->bytes;
    w->len = sizeof w->bytes;
}

static struct store_key
block_key(const struct cell *c)
{
    uint64_t packed = 0;

    for (int i = 0; i < 8; i++)
        packed = packed << 8 | c->key[i];
    return (struct store_key){
        .generation = (uint8_t)(packed >> 56),
        .var = (uint32_t)(packed >> 32) & STORE_VAR_MAX,
        .block = (uint32_t)packed,
    };
}

static int
cell_compare(const struct cell *c, const struct wanted *w)
{
    int order;

    if (c->table != w->table)
        return c->table < w->table ? -1 : 1;
    order = memcmp(c->key, w->key, MIN(c->key_len, w->len));
    if (order != 0)
        return order;
    return c->key_len < w->len ? -1 : c->key_len > w->len;
}

/* Index of the first cell that is not before what is wanted. */
static size_t
cell_index(const struct store_mem *m, const struct wanted *w)
{
    size_t low = 0, high = m->cells_len;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (cell_compare(m->cells[middle], w) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct cell *
cell_find(const struct store_mem *m, const struct wanted *w)
{
    size_t i = cell_index(m, w);

    return i < m->cells_len && cell_compare(m->cells[i], w) == 0 ? m->cells[i] : NULL;
}

static bool
grow(void **array, size_t *size, size_t len, size_t item)
{
    size_t more = *size == 0 ? 64 : *size * 2;
    void *bigger;

    if (len < *size)
        return true;
    bigger = realloc(*array, more * item);
    if (bigger == NULL)
        return false;
    *array = bigger;
    *size = more;
    return true;
}

static struct cell *
cell_insert(struct store_mem *m, const struct wanted *w)
{
    size_t i = cell_index(m, w);
    struct cell *c;

    if (!grow((void **)&m->cells, &m->cells_size, m->cells_len, sizeof *m->cells))
        return NULL;
    c = calloc(1, sizeof *c + w->len);
    if (c == NULL)
        return NULL;
    c->table = w->table;
    c->key_len = w->len;
    memcpy(c->key, w->key, w->len);
    memmove(m->cells + i + 1, m->cells + i, (m->cells_len - i) * sizeof *m->cells);
    m->cells[i] = c;
    m->cells_len++;
    return c;
}

/* Take the cell out when no version is left. */
static void
cell_tidy(struct store_mem *m, struct cell *c)
{
    struct wanted w = {.table = c->table, .key = c->key, .len = c->key_len};
    size_t i;

    if (c->pending != NULL || c->newest != NULL || c->touched)
        return;
    i = cell_index(m, &w);
    ps_assert(m->cells[i] == c);
    m->cells_len--;
    memmove(m->cells + i, m->cells + i + 1, (m->cells_len - i) * sizeof *m->cells);
    free(c);
}

/* ---- Versions ---- */

static struct version *
version_new(struct store_mem *m, struct cell *c, size_t size)
{
    struct version *v = calloc(1, sizeof *v);

    if (v == NULL)
        return NULL;
    v->alloc = aligned_alloc(LAYOUT_ALIGN, round_up(size + PLACE_SHIFT, LAYOUT_ALIGN));
    if (v->alloc == NULL) {
        free(v);
        return NULL;
    }
    v->cell = c;
    v->size = size;
    v->data = v->alloc + PLACE_SHIFT;
    if (c->table == TABLE_BLOCKS)
        m->bytes += size;
    return v;
}

static void
version_free(struct store_mem *m, struct version *v)
{
    if (v == NULL)
        return;
    if (v->cell->table == TABLE_BLOCKS)
        m->bytes -= v->size;
    free(v->alloc);
    free(v);
}

/* The version that a snapshot of this commit sees, or NULL. */
static const struct version *
version_at(const struct cell *c, uint64_t commit)
{
    const struct version *v = c->newest;

    while (v != NULL && v->born > commit)
        v = v->older;
    return v != NULL && !v->erased ? v : NULL;
}

static bool
version_seen(const struct store_mem *m, const struct version *v)
{
    for (const struct store_snapshot *s = m->snapshots; s != NULL; s = s->next)
        if (s->refs > 0 && s->commit >= v->born && s->commit < v->died)
            return true;
    return false;
}

static void
version_unlink(struct version *v)
{
    struct version **at = &v->cell->newest;

    while (*at != v)
        at = &(*at)->older;
    *at = v->older;
}

/* A tombstone stays while it hides something older. */
static bool
version_needed(const struct store_mem *m, const struct version *v)
{
    return version_seen(m, v) || (v->erased && v->older != NULL);
}

static bool
sweep_once(struct store_mem *m)
{
    struct version **at = &m->retired;
    bool swept = false;

    while (*at != NULL) {
        struct version *v = *at;
        struct cell *c = v->cell;

        if (version_needed(m, v)) {
            at = &v->next;
            continue;
        }
        *at = v->next;
        version_unlink(v);
        version_free(m, v);
        cell_tidy(m, c);
        swept = true;
    }
    return swept;
}

static void
sweep_retired(struct store_mem *m)
{
    while (sweep_once(m))
        ; /* what went may have freed a tombstone */
}

static void
retire(struct store_mem *m, struct version *v)
{
    v->died = m->commit;
    v->next = m->retired;
    m->retired = v;
}

/* ---- Transactions ---- */

static enum ps_err
touch(struct store_mem *m, struct cell *c)
{
    if (c->touched)
        return PS_OK;
    if (!grow((void **)&m->touched, &m->touched_size, m->touched_len, sizeof *m->touched))
        return PS_ERR_NOMEM;
    m->touched[m->touched_len++] = c;
    c->touched = true;
    return PS_OK;
}

static enum ps_err
mem_begin(struct store *s, uint64_t room_bytes)
{
    struct store_mem *m = mem(s);

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
        struct cell *c = m->touched[i];

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
    struct store_mem *m = mem(s);

    ps_assert(m->writing);
    m->writing = false;
    drop_pending(m);
}

static void
commit_cell(struct store_mem *m, struct cell *c)
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
        retire(m, old);
    if (v->erased)
        retire(m, v);
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
    sweep_retired(m);
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
    struct store_mem *m = mem(s);

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
version_now(const struct cell *c)
{
    struct version *v = c->pending != NULL ? c->pending : c->newest;

    return v != NULL && !v->erased ? v : NULL;
}

static enum ps_err
mem_get(struct store *s, const struct store_key *key, struct span *value)
{
    struct store_mem *m = mem(s);
    struct wanted w;
    struct cell *c;
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

/* Make a version the cell's pending one; what was pending goes. */
static enum ps_err
replace(struct store_mem *m, const struct wanted *w, size_t size, struct version **out)
{
    struct cell *c = cell_find(m, w);
    struct version *v = NULL;
    enum ps_err err;

    if (c == NULL)
        c = cell_insert(m, w);
    if (c == NULL)
        return PS_ERR_NOMEM;
    if ((err = touch(m, c)) != PS_OK)
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
    struct store_mem *m = mem(s);
    struct wanted w;
    struct cell *c;
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
    if ((err = replace(m, &w, size, &v)) != PS_OK)
        return err;
    m->room -= size;
    memset(v->data, PLACE_FILL, size);
    *place = v->data;
    return PS_OK;
}

/* A block that this transaction reserved and now erases stays readable until its end, as in LMDB it might. */
static enum ps_err
erase(struct store_mem *m, const struct wanted *w)
{
    struct cell *c = cell_find(m, w);
    struct version *v;
    enum ps_err err;

    if (c == NULL || version_now(c) == NULL)
        return PS_ERR_NOT_FOUND;
    if ((err = replace(m, w, 0, &v)) != PS_OK)
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
    struct wanted w;

    ps_assert(mem(s)->writing);
    if (fails_now(mem(s), STORE_MEM_FAIL_ERASE))
        return PS_ERR_IO;
    wanted_block(&w, key);
    return erase(mem(s), &w);
}

static enum ps_err
mem_row_put(struct store *s, enum store_table t, struct span key, struct span value)
{
    struct wanted w = wanted_row(t, key);
    struct version *v;
    enum ps_err err;

    ps_assert(mem(s)->writing && value.len <= STORE_ROW_MAX);
    if (fails_now(mem(s), STORE_MEM_FAIL_ROW_PUT))
        return PS_ERR_IO;
    if ((err = replace(mem(s), &w, value.len, &v)) != PS_OK)
        return err;
    if (value.len > 0)
        memcpy(v->data, value.data, value.len);
    return PS_OK;
}

static enum ps_err
mem_row_erase(struct store *s, enum store_table t, struct span key)
{
    struct wanted w = wanted_row(t, key);

    ps_assert(mem(s)->writing);
    if (fails_now(mem(s), STORE_MEM_FAIL_ROW_ERASE))
        return PS_ERR_IO;
    return erase(mem(s), &w);
}

/* ---- Readers ---- */

static enum ps_err
snapshot_ref(struct store_mem *m, struct store_snapshot **out)
{
    struct store_snapshot *snap = m->snapshots;

    if (snap == NULL || snap->commit != m->commit) {
        snap = calloc(1, sizeof *snap);
        if (snap == NULL)
            return PS_ERR_NOMEM;
        snap->commit = m->commit;
        snap->next = m->snapshots;
        m->snapshots = snap;
    }
    snap->refs++;
    *out = snap;
    return PS_OK;
}

static enum ps_err
mem_snapshot_ref(struct store *s, struct store_snapshot **out)
{
    return fails_now(mem(s), STORE_MEM_FAIL_SNAPSHOT_REF) ? PS_ERR_IO : snapshot_ref(mem(s), out);
}

static void
mem_snapshot_unref(struct store *s, struct store_snapshot *snap)
{
    struct store_mem *m = mem(s);
    struct store_snapshot **at = &m->snapshots;

    ps_assert(snap->refs > 0);
    if (--snap->refs > 0)
        return;
    while (*at != snap)
        at = &(*at)->next;
    *at = snap->next;
    free(snap);
    sweep_retired(m);
}

static enum ps_err
snapshot_get(const struct store_mem *m, const struct store_snapshot *snap, const struct store_key *key,
             struct span *value)
{
    struct wanted w;
    const struct cell *c;
    const struct version *v;

    ps_assert(snap->refs > 0);
    wanted_block(&w, key);
    c = cell_find(m, &w);
    v = c != NULL ? version_at(c, snap->commit) : NULL;
    if (v == NULL)
        return PS_ERR_NOT_FOUND;
    *value = (struct span){v->data, v->size};
    return PS_OK;
}

static enum ps_err
mem_snapshot_get(struct store *s, struct store_snapshot *snap, const struct store_key *key, struct span *value)
{
    return fails_now(mem(s), STORE_MEM_FAIL_SNAPSHOT_GET) ? PS_ERR_IO : snapshot_get(mem(s), snap, key, value);
}

static enum ps_err
each_block(struct store_mem *m, size_t i, store_visit_block visit, void *arg)
{
    if (fails_now(m, STORE_MEM_FAIL_EACH))
        return PS_ERR_IO;
    for (; i < m->cells_len; i++) {
        const struct cell *c = m->cells[i];
        const struct version *v = version_at(c, m->commit);
        struct store_key key;

        if (c->table != TABLE_BLOCKS || v == NULL)
            continue;
        key = block_key(c);
        if (!visit(arg, &key, (struct span){v->data, v->size}))
            break;
    }
    return PS_OK;
}

static enum ps_err
mem_each_block(struct store *s, store_visit_block visit, void *arg)
{
    return each_block(mem(s), 0, visit, arg);
}

static enum ps_err
mem_each_block_from(struct store *s, const struct store_key *from, store_visit_block visit, void *arg)
{
    struct wanted w;

    wanted_block(&w, from);
    return each_block(mem(s), cell_index(mem(s), &w), visit, arg);
}

static enum ps_err
mem_each_row(struct store *s, enum store_table t, store_visit_row visit, void *arg)
{
    struct store_mem *m = mem(s);

    if (fails_now(m, STORE_MEM_FAIL_EACH))
        return PS_ERR_IO;
    for (size_t i = 0; i < m->cells_len; i++) {
        const struct cell *c = m->cells[i];
        const struct version *v = version_at(c, m->commit);

        if (c->table != t || v == NULL)
            continue;
        if (!visit(arg, (struct span){c->key, c->key_len}, (struct span){v->data, v->size}))
            break;
    }
    return PS_OK;
}

static enum ps_err
mem_reader_open(struct store *s, struct store_reader **out)
{
    struct store_reader *r;

    if (fails_now(mem(s), STORE_MEM_FAIL_READER_OPEN))
        return PS_ERR_IO;
    if ((r = calloc(1, sizeof *r)) == NULL)
        return PS_ERR_NOMEM;
    r->store = mem(s);
    r->next = r->store->readers;
    r->store->readers = r;
    *out = r;
    return PS_OK;
}

static void
mem_reader_done(struct store_reader *r)
{
    if (r->snap != NULL)
        mem_snapshot_unref(&r->store->base, r->snap);
    r->snap = NULL;
}

static enum ps_err
mem_reader_get(struct store_reader *r, const struct store_key *key, struct span *value)
{
    enum ps_err err;

    mem_reader_done(r);
    if (fails_now(r->store, STORE_MEM_FAIL_READER_GET))
        return PS_ERR_IO;
    if ((err = snapshot_ref(r->store, &r->snap)) != PS_OK)
        return err;
    if ((err = snapshot_get(r->store, r->snap, key, value)) != PS_OK)
        mem_reader_done(r);
    return err;
}

static void
mem_reader_close(struct store_reader *r)
{
    struct store_reader **at = &r->store->readers;

    mem_reader_done(r);
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    free(r);
}

static void
mem_usage(struct store *s, struct store_usage *out)
{
    struct store_mem *m = mem(s);

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
    struct store_mem *m = mem(s);

    ps_assert(!m->writing && m->snapshots == NULL && m->readers == NULL);
    forget_all(m);
    free(m->cells);
    free(m->touched);
    free(m);
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
    .snapshot_ref = mem_snapshot_ref,
    .snapshot_unref = mem_snapshot_unref,
    .snapshot_get = mem_snapshot_get,
    .each_block = mem_each_block,
    .each_block_from = mem_each_block_from,
    .each_row = mem_each_row,
    .reader_open = mem_reader_open,
    .reader_get = mem_reader_get,
    .reader_done = mem_reader_done,
    .reader_close = mem_reader_close,
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

/* ---- What tests do to it ---- */

void
store_mem_fail_at(struct store *s, enum store_mem_fail what, uint64_t nth)
{
    mem(s)->fail_in[what] = nth;
}

void
store_mem_fail_none(struct store *s)
{
    struct store_mem *m = mem(s);

    memset(m->fail_in, 0, sizeof m->fail_in);
    m->break_in = 0;
    m->full = false;
}

void
store_mem_full(struct store *s, bool full)
{
    mem(s)->full = full;
}

void
store_mem_limit(struct store *s, uint64_t max_bytes)
{
    mem(s)->max_bytes = max_bytes;
}

void
store_mem_break_at(struct store *s, uint64_t nth, bool kept)
{
    mem(s)->break_in = nth;
    mem(s)->break_keeps = kept;
}

bool
store_mem_untrusted(struct store *s)
{
    return mem(s)->untrusted;
}

void
store_mem_crash(struct store *s)
{
    struct store_mem *m = mem(s);

    while (m->readers != NULL)
        mem_reader_close(m->readers);
    while (m->snapshots != NULL) {
        m->snapshots->refs = 1;
        mem_snapshot_unref(s, m->snapshots);
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
    forget_all(mem(s));
}
