/* Snapshots, walks and readers of the store in memory: see store_mem_cell.h. */
#include <stdlib.h>

#include "server/core/store/store_mem_cell.h"

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

enum ps_err
store_mem_snapshot_ref(struct store *s, struct store_snapshot **out)
{
    return fails_now(store_mem_of(s), STORE_MEM_FAIL_SNAPSHOT_REF) ? PS_ERR_IO : snapshot_ref(store_mem_of(s), out);
}

void
store_mem_snapshot_unref(struct store *s, struct store_snapshot *snap)
{
    struct store_mem *m = store_mem_of(s);
    struct store_snapshot **at = &m->snapshots;

    ps_assert(snap->refs > 0);
    if (--snap->refs > 0)
        return;
    while (*at != snap)
        at = &(*at)->next;
    *at = snap->next;
    free(snap);
    versions_sweep(m);
}

static enum ps_err
snapshot_get(const struct store_mem *m, const struct store_snapshot *snap, const struct store_key *key,
             struct span *value)
{
    struct store_mem_query w;
    const struct store_mem_cell *c;
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

enum ps_err
store_mem_snapshot_get(struct store *s, struct store_snapshot *snap, const struct store_key *key, struct span *value)
{
    return fails_now(store_mem_of(s), STORE_MEM_FAIL_SNAPSHOT_GET) ? PS_ERR_IO
                                                                   : snapshot_get(store_mem_of(s), snap, key, value);
}

static enum ps_err
each_block(struct store_mem *m, size_t i, store_visit_block visit, void *arg)
{
    if (fails_now(m, STORE_MEM_FAIL_EACH))
        return PS_ERR_IO;
    for (; i < m->cells_len; i++) {
        const struct store_mem_cell *c = m->cells[i];
        const struct version *v = version_at(c, m->commit);
        struct store_key key;

        if (c->table != TABLE_BLOCKS || v == NULL)
            continue;
        key = cell_block_key(c);
        if (!visit(arg, &key, (struct span){v->data, v->size}))
            break;
    }
    return PS_OK;
}

enum ps_err
store_mem_each_block(struct store *s, store_visit_block visit, void *arg)
{
    return each_block(store_mem_of(s), 0, visit, arg);
}

enum ps_err
store_mem_each_block_from(struct store *s, const struct store_key *from, store_visit_block visit, void *arg)
{
    struct store_mem_query w;

    wanted_block(&w, from);
    return each_block(store_mem_of(s), cell_index(store_mem_of(s), &w), visit, arg);
}

enum ps_err
store_mem_each_row(struct store *s, enum store_table t, store_visit_row visit, void *arg)
{
    struct store_mem *m = store_mem_of(s);

    if (fails_now(m, STORE_MEM_FAIL_EACH))
        return PS_ERR_IO;
    for (size_t i = 0; i < m->cells_len; i++) {
        const struct store_mem_cell *c = m->cells[i];
        const struct version *v = version_at(c, m->commit);

        if (c->table != t || v == NULL)
            continue;
        if (!visit(arg, (struct span){c->key, c->key_len}, (struct span){v->data, v->size}))
            break;
    }
    return PS_OK;
}

enum ps_err
store_mem_reader_open(struct store *s, struct store_reader **out)
{
    struct store_reader *r;

    if (fails_now(store_mem_of(s), STORE_MEM_FAIL_READER_OPEN))
        return PS_ERR_IO;
    if ((r = calloc(1, sizeof *r)) == NULL)
        return PS_ERR_NOMEM;
    r->store = store_mem_of(s);
    r->next = r->store->readers;
    r->store->readers = r;
    *out = r;
    return PS_OK;
}

void
store_mem_reader_done(struct store_reader *r)
{
    if (r->snap != NULL)
        store_mem_snapshot_unref(&r->store->base, r->snap);
    r->snap = NULL;
}

enum ps_err
store_mem_reader_get(struct store_reader *r, const struct store_key *key, struct span *value)
{
    enum ps_err err;

    store_mem_reader_done(r);
    if (fails_now(r->store, STORE_MEM_FAIL_READER_GET))
        return PS_ERR_IO;
    if ((err = snapshot_ref(r->store, &r->snap)) != PS_OK)
        return err;
    if ((err = snapshot_get(r->store, r->snap, key, value)) != PS_OK)
        store_mem_reader_done(r);
    return err;
}

void
store_mem_reader_close(struct store_reader *r)
{
    struct store_reader **at = &r->store->readers;

    store_mem_reader_done(r);
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    free(r);
}
