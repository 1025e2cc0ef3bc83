/* The header of the safetensors format: names, types, shapes and places of tensors in a file, which other programs
 * read, too (https://github.com/huggingface/safetensors). Pure: bytes of memory in and out; files are the caller's.
 *
 *     8 bytes: n, little-endian | n bytes of JSON, filled up with spaces | values, without gaps
 *     {"__metadata__": {...}, "dense/w": {"dtype": "F32", "shape": [64, 10], "data_offsets": [0, 2560]}, ...}
 *
 * Offsets count from the first value. psd writes F32 and I64, and reads the values of F16 and BF16 as well; of the
 * format's other types sizes are known, or not even these: such a tensor is a place in the file with a name. */
#ifndef COMMON_CORE_FORMAT_SAFETENSORS_H
#define COMMON_CORE_FORMAT_SAFETENSORS_H

#include "common/core/base/base.h"
#include "common/core/wire/wire.h"
#include "common/include/psclient/ps_err.h"

#define SAFETENSORS_METADATA WIRE_NAME_RESERVED /* no tensor can have this name */
#define SAFETENSORS_HEAD_MAX 100000000          /* bytes of JSON that other programs read: the format's limit */
/* Bytes of JSON that psd reads, and writes in checkpoints of its own, which may have more variables than that. */
#define SAFETENSORS_HEAD_OWN_MAX GIB
#define SAFETENSORS_ALIGN        64 /* values of a file that psd writes begin at a multiple of it */
#define SAFETENSORS_RANK_MAX     8
#define SAFETENSORS_NAME_MAX     300 /* bytes; space for a variable's name and a suffix */

enum safetensors_type {
    SAFETENSORS_F32,
    SAFETENSORS_I64,
    SAFETENSORS_F16,
    SAFETENSORS_BF16,
    SAFETENSORS_F64,
    SAFETENSORS_F8_E4M3,
    SAFETENSORS_F8_E5M2,
    SAFETENSORS_I32,
    SAFETENSORS_I16,
    SAFETENSORS_I8,
    SAFETENSORS_U64,
    SAFETENSORS_U32,
    SAFETENSORS_U16,
    SAFETENSORS_U8,
    SAFETENSORS_BOOL,
    SAFETENSORS_OTHER, /* not known here: of so many bytes as the file says */
    SAFETENSORS_TYPES
};

struct safetensors_tensor {
    char *name;
    const char *other; /* what the file calls a SAFETENSORS_OTHER; else NULL */
    enum safetensors_type type;
    uint32_t rank;
    uint64_t dims[SAFETENSORS_RANK_MAX];
    uint64_t begin, bytes; /* where its values are in the file */
};

struct safetensors {
    struct safetensors_tensor *tensors; /* by name, once there is a header */
    size_t len, room;
    uint64_t data;     /* where values begin in the file */
    uint64_t bytes;    /* of the whole file */
    uint64_t head_max; /* of the JSON that is written; 0: SAFETENSORS_HEAD_MAX */
};

/* ---- Writing: add all tensors to a zeroed one, then make the header ---- */

/* The next tensor in the file's order; dims: [rank]. PS_ERR_INVALID (a name that the format reserves), PS_ERR_LIMIT,
 * PS_ERR_NOMEM. */
enum ps_err safetensors_add(struct safetensors *s, const char *name, enum safetensors_type type, uint32_t rank,
                            const uint64_t *dims, struct ps_error *e) PS_MUST_USE;

/* An entry of the metadata, besides made_by. */
struct safetensors_note {
    const char *name, *text; /* UTF-8 */
};

/* *head: the file's bytes before the values, s->data of them, freed by the caller. made_by and notes go into the
 * metadata. Settles every tensor's place. PS_ERR_INVALID (two of one name), PS_ERR_LIMIT, PS_ERR_NOMEM. */
enum ps_err safetensors_head(struct safetensors *s, const char *made_by, char **head, struct ps_error *e) PS_MUST_USE;
enum ps_err safetensors_head_notes(struct safetensors *s, const char *made_by, const struct safetensors_note *notes,
                                   size_t n, char **head, struct ps_error *e) PS_MUST_USE;

/* ---- Reading: every error of a file is PS_ERR_DATA, and the sentence begins with `file` ---- */

/* From the first 8 bytes: how many bytes come before the values, these 8 included. */
enum ps_err safetensors_head_bytes(const char *file, const uint8_t first[8], uint64_t file_bytes, uint64_t *bytes,
                                   struct ps_error *e) PS_MUST_USE;

/* head: all of them. *out is ended by safetensors_finish(), also after a failure. Also PS_ERR_NOMEM. */
enum ps_err safetensors_parse(const char *file, struct span head, uint64_t file_bytes, struct safetensors *out,
                              struct ps_error *e) PS_MUST_USE;

/* ---- Both ---- */

/* NULL: there is none of this name. */
const struct safetensors_tensor *safetensors_find(const struct safetensors *s, const char *name);

/* "F32"; and bytes of one value, of a SAFETENSORS_OTHER 1. */
const char *safetensors_type_name(enum safetensors_type type);
size_t safetensors_type_bytes(enum safetensors_type type);

/* A tensor's type as its file calls it. */
const char *safetensors_dtype(const struct safetensors_tensor *t);

/* Whether safetensors_to_floats() takes it: F32, F16, BF16. */
bool safetensors_is_float(enum safetensors_type type);

/* n values of such a type, exact, as in half.h. from: [n], at least 2-byte aligned; both little-endian. */
void safetensors_to_floats(enum safetensors_type type, const void *from, size_t n, float *to);

void safetensors_finish(struct safetensors *s); /* accepts a zeroed one */

#endif
