/* One table row per message type: its name, its protobuf-c descriptor, whether it may carry a payload, whether it needs
 * a request id, and who checks it. Everything else goes by the table. */
#include "common/core/wire/wire.h"

#include <stdlib.h>
#include <string.h>

#include "common/core/wire/wire_check.h"

struct row {
    const char *name;
    const ProtobufCMessageDescriptor *descriptor;
    bool payload; /* may carry one */
    bool request; /* is answered with its request id, or answers one */
    wire_check *check;
};

static const struct row rows[MSG_TYPE_MAX] = {
    [MSG_HELLO] = {"hello", &psd__hello__descriptor, false, true, wire_check_hello},
    [MSG_WELCOME] = {"welcome", &psd__welcome__descriptor, false, true, wire_check_welcome},
    [MSG_DECLARE] = {"declare", &psd__declare__descriptor, false, true, wire_check_declare},
    [MSG_DECLARED] = {"declared", &psd__declared__descriptor, false, true, wire_check_declared},
    [MSG_PULL] = {"pull", &psd__pull__descriptor, false, true, wire_check_pull},
    [MSG_DATA] = {"data", &psd__data__descriptor, true, true, wire_check_data},
    [MSG_PUSH] = {"push", &psd__push__descriptor, true, true, wire_check_push},
    [MSG_ACK] = {"ack", &psd__ack__descriptor, false, false, wire_check_ack},
    [MSG_TICK] = {"tick", &psd__tick__descriptor, false, true, wire_check_tick},
    [MSG_BARRIER] = {"barrier", &psd__barrier__descriptor, false, true, wire_check_barrier},
    [MSG_SKIP] = {"skip", &psd__skip__descriptor, false, true, wire_check_skip},
    [MSG_CANCEL] = {"cancel", &psd__cancel__descriptor, false, false, wire_check_cancel},
    [MSG_QUERY] = {"query", &psd__query__descriptor, false, true, wire_check_query},
    [MSG_REPORT] = {"report", &psd__report__descriptor, false, true, wire_check_report},
    [MSG_PING] = {"ping", &psd__ping__descriptor, false, true, NULL},
    [MSG_PONG] = {"pong", &psd__ping__descriptor, false, true, NULL},
    [MSG_ERROR] = {"error", &psd__error__descriptor, false, false, wire_check_error},
    [MSG_EVENT] = {"event", &psd__event__descriptor, false, false, wire_check_event},
    [MSG_GOODBYE] = {"goodbye", &psd__goodbye__descriptor, false, false, NULL},
    [MSG_SET] = {"set", &psd__set__descriptor, false, true, wire_check_set},
    [MSG_SET_DONE] = {"set done", &psd__set_done__descriptor, false, true, NULL},
    [MSG_DRAIN] = {"drain", &psd__drain__descriptor, false, false, NULL},
    [MSG_ATTACH] = {"attach", &psd__attach__descriptor, false, true, wire_check_attach},
    [MSG_SAVE] = {"save", &psd__save__descriptor, false, true, NULL},
    [MSG_SAVE_DONE] = {"save done", &psd__save_done__descriptor, false, true, NULL},
    [MSG_CHECKPOINT] = {"checkpoint", &psd__checkpoint__descriptor, false, true, wire_check_checkpoint},
    [MSG_CHECKPOINT_DONE] = {"checkpoint done", &psd__checkpoint_done__descriptor, false, true,
                             wire_check_checkpoint_done},
    [MSG_RESTORE] = {"restore", &psd__restore__descriptor, false, true, wire_check_restore},
    [MSG_RESTORE_DONE] = {"restore done", &psd__restore_done__descriptor, false, true, NULL},
    [MSG_MEET] = {"meet", &psd__meet__descriptor, false, true, wire_check_meet},
    [MSG_MEETING] = {"meeting", &psd__meeting__descriptor, false, true, NULL},
    [MSG_MET] = {"met", &psd__met__descriptor, false, true, wire_check_met},
    [MSG_EVICT] = {"evict", &psd__evict__descriptor, false, true, wire_check_evict},
    [MSG_EVICTED] = {"evicted", &psd__evicted__descriptor, false, true, wire_check_evicted},
};

static const struct row *
row_of(unsigned type)
{
    return type < MSG_TYPE_MAX && rows[type].name != NULL ? &rows[type] : NULL;
}

const char *
wire_type_name(enum msg_type type)
{
    const struct row *row = row_of(type);

    return row != NULL ? row->name : "unknown message";
}

/* ---- Decoding ---- */

static enum ps_err
head_check(const struct row *row, const struct frame_head *head, struct ps_error *e)
{
    if (row == NULL)
        return ps_fail(e, PS_ERR_PROTOCOL, "message type %u is not known", head->type);
    if (head->payload_len > 0 && !row->payload)
        return ps_fail(e, PS_ERR_PROTOCOL, "a %s may not carry a payload, this one has %llu bytes", row->name,
                       (unsigned long long)head->payload_len);
    if (head->request == 0 && row->request)
        return ps_fail(e, PS_ERR_INVALID, "%s: the request id is 0", row->name);
    return PS_OK;
}

/* protobuf-c says NULL for everything; the arena knows whether memory was the reason. */
static enum ps_err
unpack_error(const struct row *row, const struct arena *arena, struct ps_error *e)
{
    if (arena->exceeded == PS_ERR_LIMIT)
        return ps_fail(e, PS_ERR_LIMIT, "%s: its metadata takes more than %llu bytes unpacked", row->name,
                       (unsigned long long)ARENA_BYTES_MAX);
    if (arena->exceeded == PS_ERR_NOMEM)
        return ps_fail(e, PS_ERR_NOMEM, "%s: no memory to unpack its metadata", row->name);
    return ps_fail(e, PS_ERR_PROTOCOL, "%s: its metadata is not valid protobuf", row->name);
}

/* Fields that only a newer peer knows: nothing here may keep them, store them or pass them on. They go with the arena.
 */
static void
forget_unknown(ProtobufCMessage *message)
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
            forget_unknown(((ProtobufCMessage **)at)[k]);
    }
}

enum ps_err
wire_decode(const struct frame_head *head, const void *meta, struct arena *arena, struct wire_msg *msg,
            struct ps_error *e)
{
    const struct row *row = row_of(head->type);
    enum ps_err err;

    if ((err = head_check(row, head, e)) != PS_OK)
        return err;
    *msg = (struct wire_msg){
        .type = (enum msg_type)head->type, .request = head->request, .payload_len = head->payload_len};
    msg->u.base = protobuf_c_message_unpack(row->descriptor, arena_protobuf(arena), head->meta_len, meta);
    if (msg->u.base == NULL)
        return unpack_error(row, arena, e);
    forget_unknown(msg->u.base);
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
    const struct row *row = row_of(type);
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
