#include "server/core/model/variable_definition.h"

#include <stdlib.h>
#include <string.h>

#include "common/core/wire/wire.h"
#include "server/core/model/kind.h"

struct variable_definition_key {
    uint8_t bytes[sizeof(uint16_t) + 2 * VARIABLE_DEFINITION_BYTES_MAX];
    size_t len;
};

/* The length of the first message lies before it and parts the two. */
static void
key_make(struct variable_definition_key *key, struct span declare, struct span optimizer)
{
    uint16_t len = (uint16_t)declare.len;

    memcpy(key->bytes, &len, sizeof len);
    memcpy(key->bytes + sizeof len, declare.data, declare.len);
    memcpy(key->bytes + sizeof len + declare.len, optimizer.data, optimizer.len);
    key->len = sizeof len + declare.len + optimizer.len;
}

static struct span
key_pack(uint8_t bytes[VARIABLE_DEFINITION_BYTES_MAX], const ProtobufCMessage *m)
{
    ps_assert(protobuf_c_message_get_packed_size(m) <= VARIABLE_DEFINITION_BYTES_MAX); /* it was checked */
    return (struct span){bytes, protobuf_c_message_pack(m, bytes)};
}

static void
key_of(struct variable_definition_key *key, const Psd__Declare *declare, const struct ps_optimizer *optimizer)
{
    uint8_t first[VARIABLE_DEFINITION_BYTES_MAX], second[VARIABLE_DEFINITION_BYTES_MAX];
    Psd__Declare nameless = *declare;
    struct wire_optimizer room;

    nameless.name = (char *)protobuf_c_empty_string;
    nameless.gives = false; /* of that message alone */
    key_make(key, key_pack(first, &nameless.base), key_pack(second, &wire_optimizer_message(optimizer, &room)->base));
}

static struct variable_definition *
table_find(struct variable_definition *const *table, const struct variable_definition_key *key)
{
    struct variable_definition *d;

    HASH_FIND(hh, *table, key->bytes, key->len, d);
    if (d != NULL)
        d->uses++;
    return d;
}

struct variable_definition *
variable_definition_find(struct variable_definition **table, struct span declare, struct span optimizer)
{
    struct variable_definition_key key;

    if (declare.len > VARIABLE_DEFINITION_BYTES_MAX || optimizer.len > VARIABLE_DEFINITION_BYTES_MAX)
        return NULL;
    key_make(&key, declare, optimizer);
    return table_find(table, &key);
}

static void
variable_definition_free(struct variable_definition *d)
{
    if (d->declare != NULL)
        psd__declare__free_unpacked(d->declare, NULL);
    free(d);
}

/* NULL: no memory. */
static struct variable_definition *
variable_definition_new(const struct variable_definition_key *key, const Psd__Declare *declare,
                        const struct ps_optimizer *optimizer)
{
    struct variable_definition *d = calloc(1, sizeof *d + key->len);
    Psd__Declare nameless = *declare;

    if (d == NULL)
        return NULL;
    nameless.name = (char *)protobuf_c_empty_string;
    nameless.gives = false; /* of that message alone */
    if ((d->declare = wire_copy(&nameless.base)) == NULL) {
        variable_definition_free(d);
        return NULL;
    }
    d->uses = 1;
    d->optimizer = *optimizer;
    d->initializer = wire_initializer(declare->init);
    d->refuse_nonfinite = declare->nonfinite == PSD__NON_FINITE__REFUSE;
    d->kind = kind_of(declare);
    d->kind->define(d);
    d->key_len = key->len;
    memcpy(d->key, key->bytes, key->len);
    return d;
}

struct variable_definition *
variable_definition_get(struct variable_definition **table, const Psd__Declare *declare,
                        const struct ps_optimizer *optimizer)
{
    struct variable_definition_key key;
    struct variable_definition *d;

    key_of(&key, declare, optimizer);
    if ((d = table_find(table, &key)) != NULL || (d = variable_definition_new(&key, declare, optimizer)) == NULL)
        return d;
    d->table = table;
    HASH_ADD_KEYPTR(hh, *table, d->key, d->key_len, d);
    if (HASH_TOOK(d))
        return d;
    variable_definition_free(d);
    return NULL;
}

void
variable_definition_release(struct variable_definition *d)
{
    if (d == NULL || --d->uses > 0)
        return;
    HASH_DEL(*d->table, d);
    variable_definition_free(d);
}
