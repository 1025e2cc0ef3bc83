#include "server/core/model/variable_row.h"

/* Protobuf's: a field's number and kind in one varint before its value. */
enum { VARINT = 0, BYTES = 2 };
enum { ROW_JOB = 1, ROW_DECLARE = 2, ROW_OPTIMIZER = 3, ROW_ORDINAL = 4, DECLARE_NAME = 1 };

struct packed {
    const uint8_t *at, *end;
};

static bool
packed_number(struct packed *p, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; p->at < p->end && shift < 63; shift += 7) {
        uint8_t byte = *p->at++;

        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* A field of this number and kind begins here. */
static bool
packed_is(struct packed *p, unsigned number, unsigned kind)
{
    if (p->at == p->end || *p->at != (number << 3 | kind))
        return false;
    p->at++;
    return true;
}

static bool
packed_bytes(struct packed *p, struct span *out)
{
    uint64_t len;

    if (!packed_number(p, &len) || len > (uint64_t)(p->end - p->at))
        return false;
    *out = (struct span){p->at, (size_t)len};
    p->at += len;
    return true;
}

static struct packed
packed_of(struct span bytes)
{
    return (struct packed){bytes.data, (const uint8_t *)bytes.data + bytes.len};
}

bool
variable_row_read(struct span bytes, struct variable_row *out)
{
    struct packed row = packed_of(bytes), declare;
    struct span whole;

    if (!packed_is(&row, ROW_JOB, VARINT) || !packed_number(&row, &out->job) || !packed_is(&row, ROW_DECLARE, BYTES) ||
        !packed_bytes(&row, &whole) || !packed_is(&row, ROW_OPTIMIZER, BYTES) || !packed_bytes(&row, &out->optimizer))
        return false;
    out->ordinal = 0;
    if (packed_is(&row, ROW_ORDINAL, VARINT) && !packed_number(&row, &out->ordinal))
        return false;
    if (row.at != row.end)
        return false;
    declare = packed_of(whole);
    if (!packed_is(&declare, DECLARE_NAME, BYTES) || !packed_bytes(&declare, &out->name))
        return false;
    out->declare = (struct span){declare.at, (size_t)(declare.end - declare.at)};
    return true;
}
