/* Reading: the length is compared with the file, jansson makes the tree, each tensor is checked by itself; then, in
 * order of place, that they fill the file without gap or overlap. */
#include "common/core/format/safetensors.h"

#include <endian.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/codec/half.h"

#define PREFIX     8                   /* the length of the JSON */
#define VALUES_MAX ((uint64_t)1 << 62) /* bytes; a sum of two such numbers does not wrap */
#define NAME_SHOWN 64

static const struct {
    const char *name;
    size_t bytes;
} types[SAFETENSORS_TYPES] = {
    [SAFETENSORS_F32] = {"F32", 4},         [SAFETENSORS_I64] = {"I64", 8}, [SAFETENSORS_F16] = {"F16", 2},
    [SAFETENSORS_BF16] = {"BF16", 2},       [SAFETENSORS_F64] = {"F64", 8}, [SAFETENSORS_F8_E4M3] = {"F8_E4M3", 1},
    [SAFETENSORS_F8_E5M2] = {"F8_E5M2", 1}, [SAFETENSORS_I32] = {"I32", 4}, [SAFETENSORS_I16] = {"I16", 2},
    [SAFETENSORS_I8] = {"I8", 1},           [SAFETENSORS_U64] = {"U64", 8}, [SAFETENSORS_U32] = {"U32", 4},
    [SAFETENSORS_U16] = {"U16", 2},         [SAFETENSORS_U8] = {"U8", 1},   [SAFETENSORS_BOOL] = {"BOOL", 1},
};

const char *
safetensors_type_name(enum safetensors_type type)
{
    ps_assert((unsigned)type < SAFETENSORS_TYPES);
    return types[type].name;
}

size_t
safetensors_type_bytes(enum safetensors_type type)
{
    ps_assert((unsigned)type < SAFETENSORS_TYPES);
    return types[type].bytes;
}

bool
safetensors_is_float(enum safetensors_type type)
{
    return type == SAFETENSORS_F32 || type == SAFETENSORS_F16 || type == SAFETENSORS_BF16;
}

void
safetensors_to_floats(enum safetensors_type type, const void *from, size_t n, float *to)
{
    ps_assert(safetensors_is_float(type));
    if (type == SAFETENSORS_F16)
        half_to_floats(n, from, to);
    else if (type == SAFETENSORS_BF16)
        bfloat_to_floats(n, from, to);
    else
        memcpy(to, from, n * sizeof *to);
}

void
safetensors_finish(struct safetensors *s)
{
    for (size_t i = 0; i < s->len; i++)
        free(s->tensors[i].name);
    free(s->tensors);
    *s = (struct safetensors){0};
}

/* ---- A list of tensors ---- */

/* False: more than can be counted. */
static bool
safetensors_measure(struct safetensors_tensor *t)
{
    uint64_t bytes = safetensors_type_bytes(t->type);

    for (uint32_t i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(bytes, t->dims[i], &bytes) || bytes > VALUES_MAX)
            return false;
    t->bytes = bytes;
    return true;
}

/* Copies t but for its name, which is copied, too. False: no memory. */
static bool
safetensors_append(struct safetensors *s, const struct safetensors_tensor *t, const char *name)
{
    size_t room = MAX(2 * s->room, 16u);
    struct safetensors_tensor *grown;

    if (s->len == s->room) {
        if ((grown = reallocarray(s->tensors, room, sizeof *grown)) == NULL)
            return false;
        s->tensors = grown;
        s->room = room;
    }
    s->tensors[s->len] = *t;
    if ((s->tensors[s->len].name = strdup(name)) == NULL)
        return false;
    s->len++;
    return true;
}

static int
by_name(const void *a, const void *b)
{
    return strcmp(((const struct safetensors_tensor *)a)->name, ((const struct safetensors_tensor *)b)->name);
}

static int
by_place(const void *a, const void *b)
{
    const struct safetensors_tensor *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->bytes < y->bytes
               ? -1
               : x->bytes > y->bytes; /* an empty one lies before the one that begins at the same place */
}

static void
safetensors_sort(struct safetensors *s, int (*order)(const void *, const void *))
{
    if (s->len > 0)
        qsort(s->tensors, s->len, sizeof *s->tensors, order);
}

const struct safetensors_tensor *
safetensors_find(const struct safetensors *s, const char *name)
{
    struct safetensors_tensor key = {.name = (char *)name};

    return s->len > 0 ? bsearch(&key, s->tensors, s->len, sizeof *s->tensors, by_name) : NULL;
}

/* ---- Writing ---- */

static enum ps_err
no_memory(struct ps_error *e)
{
    return ps_fail(e, PS_ERR_NOMEM, "no memory for the header of a safetensors file");
}

enum ps_err
safetensors_add(struct safetensors *s, const char *name, enum safetensors_type type, uint32_t rank,
                const uint64_t *dims, struct ps_error *e)
{
    struct safetensors_tensor t = {.type = type, .rank = rank};

    ps_assert(rank <= SAFETENSORS_RANK_MAX && strlen(name) <= SAFETENSORS_NAME_MAX);
    if (strcmp(name, SAFETENSORS_METADATA) == 0)
        return ps_fail(e, PS_ERR_INVALID, "the format has no place for a tensor of the name '%s'", name);
    if (rank > 0)
        memcpy(t.dims, dims, rank * sizeof *dims);
    t.begin = s->bytes; /* of the values, until there is a header */
    if (!safetensors_measure(&t) || s->bytes + t.bytes > VALUES_MAX)
        return ps_fail(e, PS_ERR_LIMIT, "tensor '%.*s' makes the file larger than 2^62 bytes", NAME_SHOWN, name);
    if (!safetensors_append(s, &t, name))
        return no_memory(e);
    s->bytes += t.bytes;
    return PS_OK;
}

/* NULL: no memory. */
static json_t *
safetensors_describe(const struct safetensors_tensor *t)
{
    json_t *shape = json_array();

    for (uint32_t i = 0; shape != NULL && i < t->rank; i++)
        if (json_array_append_new(shape, json_integer((json_int_t)t->dims[i])) != 0) {
            json_decref(shape);
            return NULL;
        }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", safetensors_type_name(t->type), "shape", shape, "data_offsets",
                     (json_int_t)t->begin, (json_int_t)(t->begin + t->bytes));
}

/* The JSON's text; NULL: no memory. */
static char *
describe_all(const struct safetensors *s, const char *made_by, const struct safetensors_note *notes, size_t n)
{
    json_t *metadata = json_pack("{s:s}", "made_by", made_by), *root;
    char *text = NULL;
    size_t i;

    for (i = 0; metadata != NULL && i < n; i++)
        (void)json_object_set_new(metadata, notes[i].name, json_string(notes[i].text));
    root = json_pack("{s:o}", SAFETENSORS_METADATA, metadata);
    for (i = 0; root != NULL && i < s->len; i++)
        if (json_object_set_new(root, s->tensors[i].name, safetensors_describe(&s->tensors[i])) != 0)
            break;
    if (root != NULL && i == s->len)
        text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return text;
}

static enum ps_err
check_names(const struct safetensors *s, struct ps_error *e)
{
    for (size_t i = 1; i < s->len; i++)
        if (strcmp(s->tensors[i - 1].name, s->tensors[i].name) == 0)
            return ps_fail(e, PS_ERR_INVALID, "two tensors have the name '%.*s'", NAME_SHOWN, s->tensors[i].name);
    return PS_OK;
}

/* The text with its length before it and spaces behind it. */
static char *
safetensors_add_length(const char *text, size_t len, uint64_t bytes)
{
    uint64_t json_bytes = htole64(bytes - PREFIX);
    char *head = malloc(bytes);

    if (head == NULL)
        return NULL;
    memcpy(head, &json_bytes, PREFIX);
    memcpy(head + PREFIX, text, len);
    memset(head + PREFIX + len, ' ', bytes - PREFIX - len);
    return head;
}

enum ps_err
safetensors_head(struct safetensors *s, const char *made_by, char **head, struct ps_error *e)
{
    return safetensors_head_notes(s, made_by, NULL, 0, head, e);
}

enum ps_err
safetensors_head_notes(struct safetensors *s, const char *made_by, const struct safetensors_note *notes, size_t n,
                       char **head, struct ps_error *e)
{
    char *text = describe_all(s, made_by, notes, n);
    size_t len = text != NULL ? strlen(text) : 0;

    *head = NULL;
    s->data = round_up(PREFIX + len, SAFETENSORS_ALIGN);
    if (text != NULL && s->data - PREFIX <= SAFETENSORS_HEAD_MAX)
        *head = safetensors_add_length(text, len, s->data);
    free(text);
    if (s->data - PREFIX > SAFETENSORS_HEAD_MAX)
        return ps_fail(e, PS_ERR_LIMIT, "the header of a file with %zu tensors would have %zu bytes; the limit is %ju",
                       s->len, len, (uintmax_t)SAFETENSORS_HEAD_MAX);
    if (*head == NULL)
        return no_memory(e);
    for (size_t i = 0; i < s->len; i++)
        s->tensors[i].begin += s->data;
    s->bytes += s->data;
    safetensors_sort(s, by_name);
    return check_names(s, e);
}

/* ---- Reading ---- */

enum ps_err
safetensors_head_bytes(const char *file, const uint8_t first[8], uint64_t file_bytes, uint64_t *bytes,
                       struct ps_error *e)
{
    uint64_t n;

    memcpy(&n, first, sizeof n);
    n = le64toh(n);
    if (n > SAFETENSORS_HEAD_MAX)
        return ps_fail(e, PS_ERR_DATA, "%s: its first 8 bytes announce a header of %" PRIu64 " bytes; the limit is %ju",
                       file, n, (uintmax_t)SAFETENSORS_HEAD_MAX);
    if (file_bytes < PREFIX || n > file_bytes - PREFIX)
        return ps_fail(e, PS_ERR_DATA,
                       "%s: its first 8 bytes announce a header of %" PRIu64 " bytes; the file has %" PRIu64 " in all",
                       file, n, file_bytes);
    *bytes = PREFIX + n;
    return PS_OK;
}

/* A tensor while it is read, for sentences. */
struct safetensors_entry {
    const char *file, *name;
    struct safetensors_tensor tensor;
    struct ps_error *e;
};

#define REFUSE(x, format, ...)                                                                                         \
    ps_fail((x)->e, PS_ERR_DATA, "%s: tensor '%.*s': " format, (x)->file, NAME_SHOWN, (x)->name, __VA_ARGS__)

static enum ps_err
read_type(struct safetensors_entry *x, const json_t *dtype)
{
    if (!json_is_string(dtype))
        return REFUSE(x, "%s", "its dtype is missing, or no text");
    for (int type = 0; type < SAFETENSORS_TYPES; type++)
        if (strcmp(types[type].name, json_string_value(dtype)) == 0) {
            x->tensor.type = (enum safetensors_type)type;
            return PS_OK;
        }
    return REFUSE(x, "its dtype is %.16s, which is not known here", json_string_value(dtype));
}

/* A number of bytes or elements. */
static enum ps_err
read_count(struct safetensors_entry *x, const char *what, const json_t *value, uint64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return REFUSE(x, "%s has something else than whole numbers from 0", what);
    *out = (uint64_t)json_integer_value(value);
    return PS_OK;
}

static enum ps_err
read_shape(struct safetensors_entry *x, const json_t *shape)
{
    enum ps_err err = PS_OK;
    const json_t *dim;
    size_t i;

    if (!json_is_array(shape))
        return REFUSE(x, "%s", "its shape is missing, or no list");
    if (json_array_size(shape) > SAFETENSORS_RANK_MAX)
        return REFUSE(x, "it has %zu dimensions; the limit is %d", json_array_size(shape), SAFETENSORS_RANK_MAX);
    x->tensor.rank = (uint32_t)json_array_size(shape);
    json_array_foreach(shape, i, dim) if (err == PS_OK) err = read_count(x, "its shape", dim, &x->tensor.dims[i]);
    if (err == PS_OK && !safetensors_measure(&x->tensor))
        err = REFUSE(x, "%s", "its shape has more than 2^62 bytes");
    return err;
}

static enum ps_err
read_place(struct safetensors_entry *x, const json_t *offsets, uint64_t values)
{
    uint64_t begin, end;
    enum ps_err err;

    if (!json_is_array(offsets) || json_array_size(offsets) != 2)
        return REFUSE(x, "%s", "its data_offsets are missing, or not two");
    if ((err = read_count(x, "data_offsets", json_array_get(offsets, 0), &begin)) != PS_OK ||
        (err = read_count(x, "data_offsets", json_array_get(offsets, 1), &end)) != PS_OK)
        return err;
    if (begin > end || end > values)
        return REFUSE(x,
                      "data_offsets [%" PRIu64 ", %" PRIu64 "] lie outside of the file's %" PRIu64 " bytes of values",
                      begin, end, values);
    if (end - begin != x->tensor.bytes)
        return REFUSE(x, "data_offsets give it %" PRIu64 " bytes, its shape and dtype %" PRIu64, end - begin,
                      x->tensor.bytes);
    x->tensor.begin = begin;
    return PS_OK;
}

static enum ps_err
read_tensor(struct safetensors *s, struct safetensors_entry *x, const json_t *value)
{
    enum ps_err err;

    x->tensor = (struct safetensors_tensor){0};
    if (strlen(x->name) > SAFETENSORS_NAME_MAX)
        return REFUSE(x, "its name has %zu bytes; the limit is %d", strlen(x->name), SAFETENSORS_NAME_MAX);
    if (!json_is_object(value))
        return REFUSE(x, "%s", "what is said of it is no object");
    if ((err = read_type(x, json_object_get(value, "dtype"))) != PS_OK ||
        (err = read_shape(x, json_object_get(value, "shape"))) != PS_OK ||
        (err = read_place(x, json_object_get(value, "data_offsets"), s->bytes - s->data)) != PS_OK)
        return err;
    return safetensors_append(s, &x->tensor, x->name) ? PS_OK : no_memory(x->e);
}

/* The values are all of the file, each once. Places count from the file's begin from here on. */
static enum ps_err
check_places(struct safetensors *s, struct safetensors_entry *x)
{
    uint64_t at = 0;

    safetensors_sort(s, by_place);
    for (size_t i = 0; i < s->len; i++) {
        struct safetensors_tensor *t = &s->tensors[i];

        x->name = t->name;
        if (t->begin != at)
            return REFUSE(x, "it begins at %" PRIu64 ", %s: the values before it end at %" PRIu64, t->begin,
                          t->begin < at ? "inside of another" : "after a gap", at);
        at += t->bytes;
        t->begin += s->data;
    }
    if (at != s->bytes - s->data)
        return ps_fail(x->e, PS_ERR_DATA, "%s: its tensors end at %" PRIu64 " of %" PRIu64 " bytes of values", x->file,
                       at, s->bytes - s->data);
    safetensors_sort(s, by_name);
    return PS_OK;
}

static enum ps_err
read_all(struct safetensors *s, struct safetensors_entry *x, const json_t *root)
{
    enum ps_err err = PS_OK;
    const char *name;
    json_t *value;

    if (!json_is_object(root))
        return ps_fail(x->e, PS_ERR_DATA, "%s: its header is no JSON object", x->file);
    json_object_foreach((json_t *)root, name, value)
    {
        if (strcmp(name, SAFETENSORS_METADATA) == 0)
            continue;
        x->name = name;
        if ((err = read_tensor(s, x, value)) != PS_OK)
            return err;
    }
    return check_places(s, x);
}

enum ps_err
safetensors_parse(const char *file, struct span head, uint64_t file_bytes, struct safetensors *out, struct ps_error *e)
{
    struct safetensors_entry x = {.file = file, .e = e};
    json_error_t where;
    uint64_t bytes;
    enum ps_err err;
    json_t *root;

    *out = (struct safetensors){0};
    if (head.len < PREFIX)
        return ps_fail(e, PS_ERR_DATA, "%s: it has %zu bytes, and no header", file, head.len);
    if ((err = safetensors_head_bytes(file, head.data, file_bytes, &bytes, e)) != PS_OK)
        return err;
    ps_assert(bytes == head.len);
    root = json_loadb((const char *)head.data + PREFIX, head.len - PREFIX, JSON_REJECT_DUPLICATES, &where);
    if (root == NULL && json_error_code(&where) == json_error_out_of_memory)
        return no_memory(e);
    if (root == NULL)
        return ps_fail(e, PS_ERR_DATA, "%s: its header is no valid JSON: at byte %d: %s", file, PREFIX + where.position,
                       where.text);
    out->data = bytes;
    out->bytes = file_bytes;
    err = read_all(out, &x, root);
    json_decref(root);
    return err;
}
