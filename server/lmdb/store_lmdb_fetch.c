/* Values of the durable environment, fetched from the disk before they are read through the map. A page that the disk
 * cannot read is SIGBUS there; MADV_POPULATE_READ (Linux 5.14) asks for the same pages and returns an error. Kernels
 * without it return EINVAL: then bus_error.c handles the signal, as for LMDB's own pages. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "server/lmdb/store_lmdb_env.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* A page begins with its number (LMDB 0.9's struct MDB_page): so any page says where the map begins. The tree of trees
 * has one, since all tables are there. */
enum ps_err
store_lmdb_find_map(struct store_lmdb *s)
{
    struct store_snapshot *snap;
    MDB_cursor *cursor = NULL;
    MDB_val key = {0, NULL}, value;
    uint64_t number;
    enum ps_err err = store_lmdb_snapshot_ref(&s->base, &snap);

    if (err != PS_OK)
        return err;
    if ((err = store_lmdb_error(mdb_cursor_open(snap->txn, 1, &cursor))) == PS_OK &&
        (err = store_lmdb_error(mdb_cursor_get(cursor, &key, &value, MDB_FIRST))) == PS_OK) {
        const char *page = (const char *)key.mv_data - (uintptr_t)key.mv_data % PAGE;

        memcpy(&number, page, sizeof number);
        s->map = page - number * PAGE;
    }
    if (cursor != NULL)
        mdb_cursor_close(cursor);
    store_lmdb_snapshot_unref(&s->base, snap);
    return err;
}

/* False: the disk cannot read all of it. */
static bool
store_lmdb_fetch_populate(const char *from, size_t bytes)
{
    return madvise((void *)(uintptr_t)from, bytes, MADV_POPULATE_READ) == 0 ||
           (errno != EFAULT && errno != EIO && errno != EHWPOISON);
}

/* A value that lies in its leaf has come with it; one in pages of its own begins behind the head of the first. */
enum ps_err
store_lmdb_fetch(struct store *base, struct span value)
{
    struct store_lmdb *s = store_lmdb_of(base);
    const char *page = (const char *)value.data - LAYOUT_PAGE_HEAD, *end = page + LAYOUT_PAGE_HEAD + value.len;

    if (!s->durable || (uintptr_t)page % PAGE != 0 || store_lmdb_fetch_populate(page, (size_t)(end - page)))
        return PS_OK;
    for (; page < end; page += PAGE)
        if (!store_lmdb_fetch_populate(page, PAGE))
            return ps_fail(&s->why, PS_ERR_IO, "byte %" PRIu64 " of %s cannot be read from its disk",
                           (uint64_t)(page - s->map), s->dir.data_path);
    return PS_OK; /* the second try gave it */
}
