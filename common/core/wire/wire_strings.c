/* The encoding: protobuf.dev, "Encoding". What is no valid protobuf ends the walk: protobuf-c refuses that. */
#include "common/core/wire/wire_strings.h"

#include <string.h>

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct wire_strings_reader {
    const uint8_t *at, *end;
};

static bool
wire_strings_varint(struct wire_strings_reader *r, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; r->at < r->end && shift < 64; shift += 7) {
        uint8_t byte = *r->at++;

        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* The next field: its number, and the bytes of one that has a length; NULL of another. False: none is left. */
static bool
wire_strings_next(struct wire_strings_reader *r, uint64_t *number, const uint8_t **bytes, size_t *len)
{
    uint64_t tag, n = 0;

    *bytes = NULL;
    if (!wire_strings_varint(r, &tag))
        return false;
    *number = tag >> 3;
    switch (tag & 7) {
    case WIRE_VARINT:
        return wire_strings_varint(r, &n);
    case WIRE_BYTES:
        if (!wire_strings_varint(r, &n))
            return false;
        *bytes = r->at;
        break;
    case WIRE_64:
    case WIRE_32:
        n = (tag & 7) == WIRE_64 ? 8 : 4;
        break;
    default:
        return false;
    }
    if (n > (size_t)(r->end - r->at))
        return false;
    r->at += n;
    *len = (size_t)n;
    return true;
}

enum ps_err
wire_strings_check(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t len, struct ps_error *e)
{
    struct wire_strings_reader r = {bytes, bytes + len};
    const ProtobufCFieldDescriptor *f;
    const uint8_t *inside;
    size_t inside_len = 0;
    uint64_t number;
    enum ps_err err = PS_OK;

    while (err == PS_OK && wire_strings_next(&r, &number, &inside, &inside_len)) {
        f = number <= UINT32_MAX ? protobuf_c_message_descriptor_get_field(type, (unsigned)number) : NULL;
        if (f == NULL || inside == NULL)
            continue;
        if (f->type == PROTOBUF_C_TYPE_STRING && memchr(inside, '\0', inside_len) != NULL)
            err = ps_fail(e, PS_ERR_INVALID, "%s.%s has a byte 0", type->short_name, f->name);
        else if (f->type == PROTOBUF_C_TYPE_MESSAGE)
            err = wire_strings_check(f->descriptor, inside, inside_len, e);
    }
    return err;
}
