/* One table row per message type, made from message_list.h. Everything else goes by the table. */
#include "common/core/wire/wire.h"

#include <stdlib.h>
#include <string.h>

#include "common/core/wire/wire_check.h"
#include "common/core/wire/wire_strings.h"

struct wire_row {
    const char *name;
    const ProtobufCMessageDescriptor *descriptor;
    bool payload; /* may carry one */
    bool request; /* is answered with its request id, or answers one */
    wire_check *check;
};

#define WIRE_CHECK(name) wire_check_##name
#define WIRE_FREE(name)  NULL

static const struct wire_row wire_rows[MSG_TYPE_MAX] = {
#define X(id, number, name, type, text, payload, request, check, ...)                                                  \
    [MSG_##id] = {text, &psd__##name##__descriptor, MESSAGE_##payload, MESSAGE_##request, WIRE_##check(name)},
    MESSAGE_LIST(X)
#undef X
};

static const struct wire_row *
wire_row_of(unsigned type)
{
    return type > MSG_NONE && type < MSG_TYPE_MAX ? &wire_rows[type] : NULL;
}

const char *
wire_type_name(enum msg_type type)
{
    const struct wire_row *row = wire_row_of(type);

    return row != NULL ? row->name : "unknown message";
}

const char *
wire_type_article(enum msg_type type)
{
    return strchr("aeiou", wire_type_name(type)[0]) != NULL ? "an" : "a";
}

/* ---- Decoding ---- */

static enum ps_err
wire_head_check(const struct wire_row *row, const struct frame_head *head, struct ps_error *e)
{
    if (row == NULL)
        return ps_fail(e, PS_ERR_PROTOCOL, "message type %u is not known", head->type);
    if (head->payload_len > 0 && !row->payload)
        return ps_fail(e, PS_ERR_PROTOCOL, "%s %s may not carry a payload, this one has %llu bytes",
                       wire_type_article((enum msg_type)head->type), row->name, (unsigned long long)head->payload_len);
    if (head->request == 0 && row->request)
        return ps_fail(e, PS_ERR_INVALID, "%s: the request id is 0", row->name);
    return PS_OK;
}

/* protobuf-c returns NULL for every error; the arena knows whether memory was the reason. */
static enum ps_err
wire_unpack_error(const struct wire_row *row, const struct arena *arena, struct ps_error *e)
{
    if (arena->exceeded == PS_ERR_LIMIT)
        return ps_fail(e, PS_ERR_LIMIT, "%s: its metadata takes more than %llu bytes unpacked", row->name,
                       (unsigned long long)ARENA_BYTES_MAX);
    if (arena->exceeded == PS_ERR_NOMEM)
        return ps_fail(e, PS_ERR_NOMEM, "%s: no memory to unpack its metadata", row->name);
    return ps_fail(e, PS_ERR_PROTOCOL, "%s: its metadata is not valid protobuf", row->name);
}

/* Fields that only a newer peer knows: nothing here may keep them, store them or pass them on. They are freed with the
 * arena. */
static void
wire_forget_unknown(ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *d = message->descriptor;

    message->n_unknown_fields = 0;
    message->unknown_fields = NULL;
    for (unsigned i = 0; i < d->n_fields; i++) {
        uint8_t *at = (uint8_t *)message + d->fields[i].offset;
        size_t n;

        if (d->fields[i].type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        n = *(void **)at != NULL;
        if (d->fields[i].label == PROTOBUF_C_LABEL_REPEATED) {
            n = *(size_t *)((uint8_t *)message + d->fields[i].quantifier_offset);
            at = *(uint8_t **)at;
        }
        for (size_t k = 0; k < n; k++)
            wire_forget_unknown(((ProtobufCMessage **)at)[k]);
    }
}

bool
wire_is_of_numbers(enum msg_type type)
{
    switch (type) {
    case MSG_PULL:
    case MSG_DATA:
    case MSG_PUSH:
    case MSG_TICK:
        return true;
    default:
        return false;
    }
}

enum ps_err
wire_decode(const struct frame_head *head, const void *meta, struct arena *arena, struct wire_msg *msg,
            struct ps_error *e)
{
    const struct wire_row *row = wire_row_of(head->type);
    enum ps_err err;

    if ((err = wire_head_check(row, head, e)) != PS_OK)
        return err;
    *msg = (struct wire_msg){
        .type = (enum msg_type)head->type, .request = head->request, .payload_len = head->payload_len};
    msg->u.base = protobuf_c_message_unpack(row->descriptor, arena_protobuf(arena), head->meta_len, meta);
    if (msg->u.base == NULL)
        return wire_unpack_error(row, arena, e);
    wire_forget_unknown(msg->u.base);
    if (!wire_is_of_numbers(msg->type) && (err = wire_strings_check(row->descriptor, meta, head->meta_len, e)) != PS_OK)
        return err;
    return row->check != NULL ? row->check(msg, arena, e) : PS_OK;
}

/* ---- Encoding ---- */

size_t
wire_size(const ProtobufCMessage *message)
{
    size_t meta_len = protobuf_c_message_get_packed_size(message);

    return FRAME_HEAD_SIZE + meta_len + frame_pad(meta_len);
}

void
wire_encode(enum msg_type type, uint64_t request, const ProtobufCMessage *message, uint64_t payload_len, uint8_t *out)
{
    const struct wire_row *row = wire_row_of(type);
    struct frame_head head = {
        .version = FRAME_VERSION, .type = (uint16_t)type, .payload_len = payload_len, .request = request};

    ps_assert(row != NULL && message->descriptor == row->descriptor);
    ps_assert(payload_len == 0 || row->payload);
    head.meta_len = (uint32_t)protobuf_c_message_pack(message, out + FRAME_HEAD_SIZE);
    frame_head_encode(&head, out);
    memset(out + FRAME_HEAD_SIZE + head.meta_len, 0, frame_pad(head.meta_len));
}

uint8_t *
wire_encode_new(enum msg_type type, uint64_t request, const ProtobufCMessage *message, uint64_t payload_len,
                size_t *len)
{
    size_t size = wire_size(message);
    uint8_t *out = malloc(size);

    if (out == NULL)
        return NULL;
    wire_encode(type, request, message, payload_len, out);
    *len = size;
    return out;
}

/* ---- Copying ---- */

void *
wire_copy(const ProtobufCMessage *message)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(MAX(len, 1));
    void *copy = NULL;

    if (bytes != NULL) {
        protobuf_c_message_pack(message, bytes);
        copy = protobuf_c_message_unpack(message->descriptor, NULL, len, bytes);
    }
    free(bytes);
    return copy;
}
