/* Types, lists of tensors, and the header as text, which is put together without a tree: that would take ten times its
 * memory. Reading is in safetensors_parse.c. */
#include "common/core/format/safetensors_internal.h"

#include <endian.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/codec/half.h"
#include "common/core/format/growing_text.h"

static const struct {
    const char *name;
    size_t bytes;
} types[SAFETENSORS_TYPES] = {
    [SAFETENSORS_F32] = {"F32", 4},         [SAFETENSORS_I64] = {"I64", 8}, [SAFETENSORS_F16] = {"F16", 2},
    [SAFETENSORS_BF16] = {"BF16", 2},       [SAFETENSORS_F64] = {"F64", 8}, [SAFETENSORS_F8_E4M3] = {"F8_E4M3", 1},
    [SAFETENSORS_F8_E5M2] = {"F8_E5M2", 1}, [SAFETENSORS_I32] = {"I32", 4}, [SAFETENSORS_I16] = {"I16", 2},
    [SAFETENSORS_I8] = {"I8", 1},           [SAFETENSORS_U64] = {"U64", 8}, [SAFETENSORS_U32] = {"U32", 4},
    [SAFETENSORS_U16] = {"U16", 2},         [SAFETENSORS_U8] = {"U8", 1},   [SAFETENSORS_BOOL] = {"BOOL", 1},
    [SAFETENSORS_OTHER] = {"other", 1},
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

const char *
safetensors_dtype(const struct safetensors_tensor *t)
{
    return t->type == SAFETENSORS_OTHER ? t->other : safetensors_type_name(t->type);
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

bool
safetensors_measure(struct safetensors_tensor *t)
{
    uint64_t bytes = safetensors_type_bytes(t->type);

    for (uint32_t i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(bytes, t->dims[i], &bytes) || bytes > VALUES_MAX)
            return false;
    t->bytes = bytes;
    return true;
}

/* The name, and behind it what else the file calls its type. NULL: no memory. */
static char *
safetensors_names(const char *name, const char *other)
{
    size_t len = strlen(name) + 1, more = other != NULL ? strlen(other) + 1 : 0;
    char *names = malloc(len + more);

    if (names != NULL)
        memcpy(names, name, len);
    if (names != NULL && more > 0)
        memcpy(names + len, other, more);
    return names;
}

bool
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
    if ((s->tensors[s->len].name = safetensors_names(name, t->other)) == NULL)
        return false;
    if (t->other != NULL)
        s->tensors[s->len].other = s->tensors[s->len].name + strlen(name) + 1;
    s->len++;
    return true;
}

int
safetensors_by_name(const void *a, const void *b)
{
    return strcmp(((const struct safetensors_tensor *)a)->name, ((const struct safetensors_tensor *)b)->name);
}

int
safetensors_by_place(const void *a, const void *b)
{
    const struct safetensors_tensor *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->bytes < y->bytes
               ? -1
               : x->bytes > y->bytes; /* an empty one lies before the one that begins at the same place */
}

void
safetensors_sort(struct safetensors *s, int (*order)(const void *, const void *))
{
    if (s->len > 0)
        qsort(s->tensors, s->len, sizeof *s->tensors, order);
}

const struct safetensors_tensor *
safetensors_find(const struct safetensors *s, const char *name)
{
    struct safetensors_tensor key = {.name = (char *)name};

    return s->len > 0 ? bsearch(&key, s->tensors, s->len, sizeof *s->tensors, safetensors_by_name) : NULL;
}

/* ---- Writing ---- */

enum ps_err
safetensors_no_memory(struct ps_error *e)
{
    return ps_fail(e, PS_ERR_NOMEM, "no memory for the header of a safetensors file");
}

enum ps_err
safetensors_add(struct safetensors *s, const char *name, enum safetensors_type type, uint32_t rank,
                const uint64_t *dims, struct ps_error *e)
{
    struct safetensors_tensor t = {.type = type, .rank = rank};

    ps_assert(rank <= SAFETENSORS_RANK_MAX && strlen(name) <= SAFETENSORS_NAME_MAX && type != SAFETENSORS_OTHER);
    if (strcmp(name, SAFETENSORS_METADATA) == 0)
        return ps_fail(e, PS_ERR_INVALID, "the format has no place for a tensor of the name '%s'", name);
    if (rank > 0)
        memcpy(t.dims, dims, rank * sizeof *dims);
    t.begin = s->bytes; /* of the values, until there is a header */
    if (!safetensors_measure(&t) || s->bytes + t.bytes > VALUES_MAX)
        return ps_fail(e, PS_ERR_LIMIT, "tensor '%.*s' makes the file larger than 2^62 bytes", NAME_SHOWN, name);
    if (!safetensors_append(s, &t, name))
        return safetensors_no_memory(e);
    s->bytes += t.bytes;
    return PS_OK;
}

/* A name in quotes; jansson knows what has to be escaped. */
static void
put_name(struct growing_text *out, const char *name)
{
    const char *c = name;

    while ((unsigned char)*c >= ' ' && *c < 0x7f && *c != '"' && *c != '\\')
        c++;
    if (*c == '\0')
        growing_text_put(out, "\"%s\"", name);
    else
        growing_text_json(out, json_string(name), JSON_ENCODE_ANY);
}

static void
safetensors_describe(struct growing_text *out, const struct safetensors_tensor *t)
{
    growing_text_put(out, ",");
    put_name(out, t->name);
    growing_text_put(out, ":{\"dtype\":\"%s\",\"shape\":[", safetensors_type_name(t->type));
    for (uint32_t i = 0; i < t->rank; i++)
        growing_text_put(out, "%s%" PRIu64, i > 0 ? "," : "", t->dims[i]);
    growing_text_put(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", t->begin, t->begin + t->bytes);
}

/* The JSON's text, *len bytes; NULL: no memory. It ends early when it is longer than may be. */
static char *
describe_all(const struct safetensors *s, const char *made_by, const struct safetensors_note *notes, size_t n,
             uint64_t most, size_t *len)
{
    json_t *metadata = json_pack("{s:s}", "made_by", made_by);
    struct growing_text out = {0};
    size_t i;

    for (i = 0; metadata != NULL && i < n; i++)
        (void)json_object_set_new(metadata, notes[i].name, json_string(notes[i].text));
    growing_text_json(&out, json_pack("{s:o}", SAFETENSORS_METADATA, metadata), JSON_COMPACT);
    out.len -= !out.failed; /* its brace */
    for (i = 0; i < s->len && !out.failed && out.len <= most; i++)
        safetensors_describe(&out, &s->tensors[i]);
    growing_text_put(&out, "}");
    *len = out.len;
    return growing_text_take(&out);
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
    uint64_t most = s->head_max != 0 ? s->head_max : SAFETENSORS_HEAD_MAX;
    size_t len;
    char *text = describe_all(s, made_by, notes, n, most, &len);

    *head = NULL;
    s->data = round_up(PREFIX + len, SAFETENSORS_ALIGN);
    if (text != NULL && s->data - PREFIX <= most)
        *head = safetensors_add_length(text, len, s->data);
    free(text);
    if (text != NULL && s->data - PREFIX > most)
        return ps_fail(e, PS_ERR_LIMIT, "the header of a file with %zu tensors would have more than %" PRIu64 " bytes",
                       s->len, most);
    if (*head == NULL)
        return safetensors_no_memory(e);
    for (size_t i = 0; i < s->len; i++)
        s->tensors[i].begin += s->data;
    s->bytes += s->data;
    safetensors_sort(s, safetensors_by_name);
    return check_names(s, e);
}
