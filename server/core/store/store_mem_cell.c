/* Cells and versions of the store in memory: see store_mem_cell.h. Places start 16 bytes past a multiple of 64, as in
 * LMDB. */
#include "server/core/store/store_mem_cell.h"

#include <stdlib.h>
#include <string.h>

#include "common/core/model/layout.h"

#define PLACE_SHIFT 16 /* a place's address modulo LAYOUT_ALIGN */

/* ---- Keys ---- */

struct store_mem_query
wanted_row(enum store_table t, struct span key)
{
    ps_assert(t < STORE_TABLES && key.len >= 1 && key.len <= STORE_ROW_KEY_MAX);
    return (struct store_mem_query){.table = t, .key = key.data, .len = key.len};
}

void
wanted_block(struct store_mem_query *w, const struct store_key *key)
{
    uint64_t packed = (uint64_t)key->generation << 56 | (uint64_t)key->var << 32 | key->block;

    ps_assert(key->var <= STORE_VAR_MAX);
    for (int i = 0; i < 8; i++)
        w->bytes[i] = (uint8_t)(packed >> (56 - 8 * i));
    w->table = TABLE_BLOCKS;
    w->key = w->bytes;
    w->len = sizeof w->bytes;
}

struct store_key
cell_block_key(const struct store_mem_cell *c)
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
cell_compare(const struct store_mem_cell *c, const struct store_mem_query *w)
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
size_t
cell_index(const struct store_mem *m, const struct store_mem_query *w)
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

struct store_mem_cell *
cell_find(const struct store_mem *m, const struct store_mem_query *w)
{
    size_t i = cell_index(m, w);

    return i < m->cells_len && cell_compare(m->cells[i], w) == 0 ? m->cells[i] : NULL;
}

bool
cells_grow(void **array, size_t *size, size_t len, size_t item)
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

struct store_mem_cell *
cell_insert(struct store_mem *m, const struct store_mem_query *w)
{
    size_t i = cell_index(m, w);
    struct store_mem_cell *c;

    if (!cells_grow((void **)&m->cells, &m->cells_size, m->cells_len, sizeof *m->cells))
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
void
cell_tidy(struct store_mem *m, struct store_mem_cell *c)
{
    struct store_mem_query w = {.table = c->table, .key = c->key, .len = c->key_len};
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

struct version *
version_new(struct store_mem *m, struct store_mem_cell *c, size_t size)
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

void
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
const struct version *
version_at(const struct store_mem_cell *c, uint64_t commit)
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

void
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
        struct store_mem_cell *c = v->cell;

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

void
versions_sweep(struct store_mem *m)
{
    while (sweep_once(m))
        ; /* what went may have freed a tombstone */
}

void
version_retire(struct store_mem *m, struct version *v)
{
    v->died = m->commit;
    v->next = m->retired;
    m->retired = v;
}
