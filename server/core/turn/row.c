/* Rows by id: big-endian keys, so that the store gives them in the order of ids. */
#include "server/core/turn/row.h"

#include <endian.h>
#include <string.h>

#include "server/core/shard_state.h"

enum ps_err
row_to_store(struct shard *s, enum store_table table, struct span key, struct span value)
{
    return s->store->ops->row_put(s->store, table, key, value);
}

enum ps_err
row_put(struct shard *s, enum store_table table, uint32_t id, const ProtobufCMessage *m, row_sink sink)
{
    uint8_t bytes[16 * KIB];
    uint32_t key = htobe32(id);
    size_t len = protobuf_c_message_get_packed_size(m);

    ps_assert(len <= sizeof bytes);
    protobuf_c_message_pack(m, bytes);
    return sink(s, table, (struct span){&key, sizeof key}, (struct span){bytes, len});
}

uint32_t
row_id(struct span key)
{
    uint32_t id = 0;

    if (key.len == sizeof id)
        memcpy(&id, key.data, sizeof id);
    return be32toh(id);
}

bool
row_load_stop(struct row_load *l, enum ps_err err, const char *what, uint32_t id)
{
    l->err = ps_fail(l->e, err, err == PS_ERR_NOMEM ? "no memory to load %s %u" : "the store's row of %s %u is damaged",
                     what, id);
    return false;
}
