#include "pair.h"

#include <string.h>
#include <sys/random.h>

#include "proto/store.pb-c.h"

#define PAIR_BYTES_MAX 64

static const struct span pair_key = {"pair", 4};

struct pair_found {
    struct pair *out;
    enum ps_err err;
};

static bool
pair_visit(void *arg, struct span key, struct span value)
{
    struct pair_found *found = arg;
    Psd__PairRow *row;

    if (key.len != pair_key.len || memcmp(key.data, pair_key.data, key.len) != 0)
        return true;
    row = psd__pair_row__unpack(NULL, value.len, value.data);
    if (row == NULL || row->id == 0 || row->life == 0)
        found->err = PS_ERR_IO;
    else
        *found->out = (struct pair){.id = row->id, .life = row->life, .behind = row->behind};
    if (row != NULL)
        psd__pair_row__free_unpacked(row, NULL);
    return false;
}

enum ps_err
pair_read(struct store *store, struct pair *out)
{
    struct pair_found found = {.out = out};
    enum ps_err err;

    *out = (struct pair){0};
    err = store->ops->each_row(store, STORE_SHARD, pair_visit, &found);
    return err != PS_OK ? err : found.err;
}

enum ps_err
pair_write(struct store *store, const struct pair *pair)
{
    Psd__PairRow row = PSD__PAIR_ROW__INIT;
    uint8_t bytes[PAIR_BYTES_MAX];
    size_t len;
    enum ps_err err;

    row.id = pair->id;
    row.life = pair->life;
    row.behind = pair->behind;
    len = psd__pair_row__get_packed_size(&row);
    ps_assert(len <= sizeof bytes);
    psd__pair_row__pack(&row, bytes);
    if ((err = store->ops->begin(store, STORE_ROW_ROOM)) != PS_OK)
        return err;
    if ((err = store->ops->row_put(store, STORE_SHARD, pair_key, (struct span){bytes, len})) == PS_OK)
        return store->ops->commit(store);
    store->ops->abort(store);
    return err;
}

enum ps_err
pair_random(uint64_t *out)
{
    do {
        if (getrandom(out, sizeof *out, 0) != sizeof *out)
            return PS_ERR_IO;
    } while (*out == 0);
    return PS_OK;
}
