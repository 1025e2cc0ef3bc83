/* One fact, and one pass over rows that an older psd has written. */
#include "server/core/durability/drop_ids.h"

#include "proto/store.pb-c.h"
#include "server/core/durability/identity.h"
#include "server/core/shard_state.h"
#include "server/core/store/metadata_rows.h"

#define ROWS_MAX (STORE_ROOM_TURN / STORE_ROW_ROOM) /* in one transaction */

static const char ids_name[] = "ids";

enum ps_err
drop_ids_put(struct shard *s)
{
    Psd__IdsRow row = PSD__IDS_ROW__INIT;
    enum ps_err err;

    row.variable = s->variables.next;
    if ((err = identity_raise(s, SHARD_FORMAT_DROPS)) != PS_OK)
        return err;
    return metadata_rows_put(s->store, ids_name, &row.base);
}

enum ps_err
drop_ids_load(struct shard *s)
{
    ProtobufCMessage *m;
    enum ps_err err = metadata_rows_get(s->store, ids_name, &psd__ids_row__descriptor, &m);

    if (m == NULL)
        return err;
    variable_table_given(&s->variables, MIN(((const Psd__IdsRow *)m)->variable, STORE_VAR_MAX + 1));
    protobuf_c_message_free_unpacked(m, NULL);
    return PS_OK;
}

/* ---- Ordinals ---- */

/* The rows of some variables from this id on; *id: the next. */
static enum ps_err
drop_number_some(struct shard *s, uint32_t *id)
{
    struct variable *v = variable_table_from(&s->variables, *id);
    enum ps_err err = s->store->ops->begin(s->store, STORE_ROOM_TURN);

    if (err != PS_OK)
        return err;
    for (uint32_t n = 0; n < ROWS_MAX && v != NULL && err == PS_OK; n++) {
        err = variable_put(s, v, row_to_store);
        *id = v->id + 1;
        v = variable_table_from(&s->variables, *id);
    }
    if (err == PS_OK)
        return s->store->ops->commit(s->store);
    s->store->ops->abort(s->store);
    return err;
}

bool
drop_number_rows(struct shard *s)
{
    uint32_t id = 1;

    if (s->unnumbered == 0)
        return true;
    while (variable_table_from(&s->variables, id) != NULL)
        if (drop_number_some(s, &id) != PS_OK)
            return false;
    s->unnumbered = 0;
    return true;
}
