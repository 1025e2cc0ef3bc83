#include "server/recovery/env_pair.h"

#include <sys/random.h>

#include "proto/store.pb-c.h"
#include "server/core/store/metadata_rows.h"

static const char env_pair_name[] = "pair";

enum ps_err
env_pair_read(struct store *store, struct env_pair *out)
{
    ProtobufCMessage *m;
    const Psd__PairRow *row;
    enum ps_err err = metadata_rows_get(store, env_pair_name, &psd__pair_row__descriptor, &m);

    *out = (struct env_pair){0};
    if (m == NULL)
        return err;
    row = (const Psd__PairRow *)m;
    if (row->id == 0 || row->life == 0)
        err = PS_ERR_IO;
    else
        *out = (struct env_pair){.id = row->id, .life = row->life, .behind = row->behind};
    protobuf_c_message_free_unpacked(m, NULL);
    return err;
}

enum ps_err
env_pair_write(struct store *store, const struct env_pair *pair)
{
    Psd__PairRow row = PSD__PAIR_ROW__INIT;
    enum ps_err err;

    row.id = pair->id;
    row.life = pair->life;
    row.behind = pair->behind;
    if ((err = store->ops->begin(store, STORE_ROW_ROOM)) != PS_OK)
        return err;
    if ((err = metadata_rows_put(store, env_pair_name, &row.base)) == PS_OK)
        return store->ops->commit(store);
    store->ops->abort(store);
    return err;
}

enum ps_err
env_pair_random(uint64_t *out)
{
    do {
        if (getrandom(out, sizeof *out, 0) != sizeof *out)
            return PS_ERR_IO;
    } while (*out == 0);
    return PS_OK;
}
