/* IDX, the format of MNIST: two zero bytes, a type byte, a rank byte, the dimensions as big-endian 32-bit numbers, then
 * the elements, big-endian, last dimension fastest. There is no checksum and no length, so the only check is that the
 * header describes exactly the bytes that are there. */
#include "client/data/idx.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/data/read_file.h"
#include "common/core/base/base.h"
#include "common/core/base/file_kind.h"

#define IDX_HEAD 4 /* bytes before the dimensions */

struct idx_type_row {
    const char *name;
    size_t size; /* bytes of an element; 0: no such type */
};

static const struct idx_type_row types[] = {
    [PS_IDX_U8] = {"u8", 1},   [PS_IDX_I8] = {"i8", 1},   [PS_IDX_I16] = {"i16", 2},
    [PS_IDX_I32] = {"i32", 4}, [PS_IDX_F32] = {"f32", 4}, [PS_IDX_F64] = {"f64", 8},
};

static size_t
type_size(int type)
{
    return type >= 0 && (size_t)type < ARRAY_LEN(types) ? types[type].size : 0;
}

const char *
ps_idx_type_name(int type)
{
    return type_size(type) > 0 ? types[type].name : NULL;
}

/* "1497x8x8 of u8" */
static const char *
shape_text(const struct ps_idx *idx, char text[128])
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < idx->rank && used < 96; i++)
        used += (size_t)snprintf(text + used, 128 - used, "%s%llu", i > 0 ? "x" : "", (unsigned long long)idx->dims[i]);
    snprintf(text + used, 128 - used, "%s%s", idx->rank == 0 ? "one " : " of ", types[idx->type].name);
    return text;
}

static enum ps_err
check_magic(const char *name, const unsigned char *b, size_t len, struct ps_error *e)
{
    const struct file_kind *kind = file_kind_find(b, len);

    if (len < IDX_HEAD)
        return ps_fail(e, PS_ERR_DATA, "%s: byte %zu: the file ends within the 4-byte IDX header", name, len);
    if (kind != NULL)
        return ps_fail(e, PS_ERR_DATA, "%s: byte 0: not an IDX file: it %s: %s", name, kind->what, kind->remedy);
    if (b[0] != 0 || b[1] != 0)
        return ps_fail(e, PS_ERR_DATA, "%s: byte 0: not an IDX file: it starts with %02x %02x, not with 00 00", name,
                       b[0], b[1]);
    if (type_size(b[2]) == 0)
        return ps_fail(e, PS_ERR_DATA, "%s: byte 2: %02x is not an IDX element type (08, 09, 0b, 0c, 0d, 0e)", name,
                       b[2]);
    return PS_OK;
}

/* Dimensions, and that the elements fill the rest of the file. */
static enum ps_err
parse_shape(const char *name, const unsigned char *b, size_t len, struct ps_idx *idx, struct ps_error *e)
{
    size_t head = IDX_HEAD + 4 * (size_t)idx->rank;
    uint64_t bytes = type_size(idx->type);
    char text[128];
    uint32_t dim;

    if (len < head)
        return ps_fail(e, PS_ERR_DATA, "%s: byte %zu: the file ends within its header: rank %u needs %zu bytes", name,
                       len, idx->rank, head);
    idx->elements = 1;
    for (uint32_t i = 0; i < idx->rank; i++) {
        memcpy(&dim, b + IDX_HEAD + 4 * (size_t)i, sizeof dim);
        idx->dims[i] = be32toh(dim);
    }
    for (uint32_t i = 0; i < idx->rank; i++)
        if (__builtin_mul_overflow(bytes, idx->dims[i], &bytes))
            return ps_fail(e, PS_ERR_DATA, "%s: byte %u: the header says %s: more than 2^64 bytes", name,
                           IDX_HEAD + 4 * i, shape_text(idx, text));
    if (bytes != len - head)
        return ps_fail(e, PS_ERR_DATA, "%s: byte %zu: the header says %s = %llu bytes, but %zu follow", name, head,
                       shape_text(idx, text), (unsigned long long)bytes, len - head);
    idx->elements = bytes / type_size(idx->type);
    return PS_OK;
}

/* From the format's byte order to ours. */
static void
to_host(void *data, uint64_t elements, size_t size)
{
    uint16_t *p2 = data;
    uint32_t *p4 = data;
    uint64_t *p8 = data;

    if (size == 2)
        for (uint64_t i = 0; i < elements; i++)
            p2[i] = be16toh(p2[i]);
    if (size == 4)
        for (uint64_t i = 0; i < elements; i++)
            p4[i] = be32toh(p4[i]);
    if (size == 8)
        for (uint64_t i = 0; i < elements; i++)
            p8[i] = be64toh(p8[i]);
}

enum ps_err
idx_parse(const char *name, void *bytes, size_t len, struct ps_idx *out, struct ps_error *e)
{
    const unsigned char *b = bytes;
    struct ps_idx idx = {.data = bytes};
    size_t head;
    enum ps_err err;

    if ((err = check_magic(name, b, len, e)) != PS_OK)
        goto fail;
    idx.type = (enum ps_idx_type)b[2];
    idx.rank = b[3];
    if ((err = parse_shape(name, b, len, &idx, e)) != PS_OK)
        goto fail;
    head = IDX_HEAD + 4 * (size_t)idx.rank;
    memmove(bytes, b + head, len - head); /* so that elements are aligned */
    to_host(bytes, idx.elements, type_size(idx.type));
    *out = idx;
    return PS_OK;
fail:
    free(bytes);
    return err;
}

enum ps_err
ps_idx_read(const char *path, struct ps_idx *out, struct ps_error *error)
{
    enum ps_err err;
    char *bytes;
    size_t len;

    if ((err = read_file(path, &bytes, &len, error)) != PS_OK)
        return err;
    return idx_parse(path, bytes, len, out, error);
}

void
ps_idx_free(struct ps_idx *idx)
{
    free(idx->data);
    memset(idx, 0, sizeof *idx);
}

double
ps_idx_value(const struct ps_idx *idx, uint64_t i)
{
    ps_assert(i < idx->elements);
    switch (idx->type) {
    case PS_IDX_U8:
        return ((const uint8_t *)idx->data)[i];
    case PS_IDX_I8:
        return ((const int8_t *)idx->data)[i];
    case PS_IDX_I16:
        return ((const int16_t *)idx->data)[i];
    case PS_IDX_I32:
        return ((const int32_t *)idx->data)[i];
    case PS_IDX_F32:
        return (double)((const float *)idx->data)[i];
    case PS_IDX_F64:
        return ((const double *)idx->data)[i];
    }
    return 0;
}
