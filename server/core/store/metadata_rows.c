/* There are a handful: one is found by looking at all. */
#include "server/core/store/metadata_rows.h"

#include <stdlib.h>
#include <string.h>

#include "server/core/store/row_sum.h"

static struct span
key_of(const char *name)
{
    return (struct span){name, strlen(name)};
}

enum ps_err
metadata_rows_put(struct store *store, const char *name, const ProtobufCMessage *m)
{
    uint8_t bytes[METADATA_ROWS_BYTES_MAX + ROW_SUM_BYTES];
    size_t len = protobuf_c_message_get_packed_size(m);

    ps_assert(len <= METADATA_ROWS_BYTES_MAX);
    protobuf_c_message_pack(m, bytes);
    (void)row_sum_append(STORE_SHARD, key_of(name), bytes, len);
    return store->ops->row_put(store, STORE_SHARD, key_of(name), (struct span){bytes, len + ROW_SUM_BYTES});
}

enum ps_err
metadata_rows_erase(struct store *store, const char *name)
{
    enum ps_err err = store->ops->row_erase(store, STORE_SHARD, key_of(name));

    return err == PS_ERR_NOT_FOUND ? PS_OK : err;
}

/* ---- Reading ---- */

/* protobuf-c returns NULL both for damage and for lack of memory: the allocator that it is given tells them apart. */
static void *
metadata_rows_alloc(void *arg, size_t size)
{
    bool *nomem = arg;
    void *memory = malloc(size);

    *nomem = *nomem || memory == NULL;
    return memory;
}

static void
metadata_rows_free(void *arg, void *memory)
{
    (void)arg;
    free(memory);
}

struct find {
    struct span key;
    const ProtobufCMessageDescriptor *kind;
    ProtobufCMessage *m;
    enum ps_err err;
};

static bool
find_fact(void *arg, struct span key, struct span value)
{
    struct find *f = arg;
    bool nomem = false;
    ProtobufCAllocator memory = {.alloc = metadata_rows_alloc, .free = metadata_rows_free, .allocator_data = &nomem};

    if (key.len != f->key.len || memcmp(key.data, f->key.data, key.len) != 0)
        return true;
    if (row_sum_take(STORE_SHARD, key, &value, NULL) == ROW_SUM_BROKEN) {
        f->err = PS_ERR_IO;
        return false;
    }
    f->m = protobuf_c_message_unpack(f->kind, &memory, value.len, value.data);
    if (f->m == NULL)
        f->err = nomem ? PS_ERR_NOMEM : PS_ERR_IO;
    return false;
}

enum ps_err
metadata_rows_get(struct store *store, const char *name, const ProtobufCMessageDescriptor *kind, ProtobufCMessage **out)
{
    struct find f = {.key = key_of(name), .kind = kind};
    enum ps_err err = store->ops->each_row(store, STORE_SHARD, find_fact, &f);

    *out = f.m;
    return err == PS_OK ? f.err : err;
}

static bool
see_any(void *arg, struct span key, struct span value)
{
    (void)key;
    (void)value;
    *(bool *)arg = true;
    return false;
}

enum ps_err
metadata_rows_any(struct store *store, bool *any)
{
    *any = false;
    return store->ops->each_row(store, STORE_SHARD, see_any, any);
}
