/* The length is compared with the file; jansson reads one tensor's description after the other, and each is checked by
 * itself; then, in order of place, that they fill the file without gap or overlap. */
#include "common/core/format/safetensors_internal.h"

#include <endian.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "common/core/base/file_kind.h"
#include "common/core/format/json_walk.h"

static bool
is_plain_text(const uint8_t first[PREFIX])
{
    for (size_t i = 0; i < PREFIX; i++)
        if ((first[i] < ' ' || first[i] > '~') && strchr("\t\r\n", first[i]) == NULL)
            return false;
    return memchr(first, '\0', PREFIX) == NULL;
}

/* The first 8 bytes are no length: what else is it? */
static enum ps_err
refuse_length(const char *file, const uint8_t first[8], uint64_t n, struct ps_error *e)
{
    const struct file_kind *kind = file_kind_find(first, PREFIX);

    if (kind != NULL)
        return ps_fail(e, PS_ERR_DATA, "%s: it is no safetensors file: it %s: %s", file, kind->what, kind->remedy);
    if (first[0] == '{')
        return ps_fail(
            e, PS_ERR_DATA,
            "%s: it is JSON and no safetensors file: an index of several files names them; take one after the "
            "other",
            file);
    if (is_plain_text(first))
        return ps_fail(e, PS_ERR_DATA, "%s: it is no safetensors file: it begins with the text '%.*s'", file, PREFIX,
                       (const char *)first);
    return ps_fail(e, PS_ERR_DATA,
                   "%s: it is no safetensors file: its first 8 bytes announce a header of %" PRIu64
                   " bytes; the limit is %ju",
                   file, n, (uintmax_t)SAFETENSORS_HEAD_OWN_MAX);
}

enum ps_err
safetensors_head_bytes(const char *file, const uint8_t first[8], uint64_t file_bytes, uint64_t *bytes,
                       struct ps_error *e)
{
    uint64_t n;

    memcpy(&n, first, sizeof n);
    n = le64toh(n);
    if (n > SAFETENSORS_HEAD_OWN_MAX)
        return refuse_length(file, first, n, e);
    if (file_bytes < PREFIX || n > file_bytes - PREFIX)
        return ps_fail(e, PS_ERR_DATA,
                       "%s: it is cut off, or no safetensors file: its first 8 bytes announce a header of %" PRIu64
                       " bytes; the file has %" PRIu64 " in all",
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
    for (int type = 0; type < SAFETENSORS_OTHER; type++)
        if (strcmp(safetensors_type_name((enum safetensors_type)type), json_string_value(dtype)) == 0) {
            x->tensor.type = (enum safetensors_type)type;
            return PS_OK;
        }
    x->tensor.type = SAFETENSORS_OTHER;
    x->tensor.other = json_string_value(dtype);
    return PS_OK;
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
    if (err == PS_OK && x->tensor.type != SAFETENSORS_OTHER && !safetensors_measure(&x->tensor))
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
    if (x->tensor.type == SAFETENSORS_OTHER) /* some of a few bits: their sizes are the file's to say */
        x->tensor.bytes = end - begin;
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
    return safetensors_append(s, &x->tensor, x->name) ? PS_OK : safetensors_no_memory(x->e);
}

/* The values are all of the file, each once. Places count from the file's begin from here on. */
static enum ps_err
check_places(struct safetensors *s, struct safetensors_entry *x)
{
    uint64_t at = 0;

    safetensors_sort(s, safetensors_by_place);
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
    safetensors_sort(s, safetensors_by_name);
    return PS_OK;
}

static enum ps_err
refuse_json(const struct safetensors_entry *x, const struct json_walk *w)
{
    if (w->no_memory)
        return safetensors_no_memory(x->e);
    return ps_fail(x->e, PS_ERR_DATA, "%s: it is no safetensors file: its header is no valid JSON: at byte %zu: %s",
                   x->file, PREFIX + json_walk_place(w), w->error);
}

/* A name and what is said of it. */
static enum ps_err
read_member(struct safetensors *s, struct safetensors_entry *x, struct json_walk *w)
{
    json_t *name = json_walk_name(w), *value = name != NULL ? json_walk_value(w) : NULL;
    enum ps_err err = value != NULL ? PS_OK : refuse_json(x, w);

    x->name = json_string_value(name);
    if (err == PS_OK && strcmp(x->name, SAFETENSORS_METADATA) != 0)
        err = read_tensor(s, x, value);
    json_decref(name);
    json_decref(value);
    return err;
}

/* They are in the order of their names. */
static enum ps_err
check_twice(const struct safetensors *s, const struct safetensors_entry *x)
{
    for (size_t i = 1; i < s->len; i++)
        if (strcmp(s->tensors[i - 1].name, s->tensors[i].name) == 0)
            return ps_fail(x->e, PS_ERR_DATA, "%s: its header is no valid JSON: duplicate object key '%.*s'", x->file,
                           NAME_SHOWN, s->tensors[i].name);
    return PS_OK;
}

static enum ps_err
read_all(struct safetensors *s, struct safetensors_entry *x, struct json_walk *w)
{
    enum ps_err err = PS_OK;

    while (err == PS_OK && json_walk_more(w, '}'))
        err = read_member(s, x, w);
    if (err != PS_OK)
        return err;
    if (!json_walk_end(w))
        return refuse_json(x, w);
    safetensors_sort(s, safetensors_by_name);
    return (err = check_twice(s, x)) != PS_OK ? err : check_places(s, x);
}

/* A value that is no object, or no value. */
static enum ps_err
refuse_begin(const struct safetensors_entry *x, struct json_walk w)
{
    json_t *value;

    w.error[0] = '\0';
    value = json_walk_value(&w);
    json_decref(value);
    if (value == NULL || !json_walk_end(&w))
        return refuse_json(x, &w);
    return ps_fail(x->e, PS_ERR_DATA, "%s: it is no safetensors file: its header is no JSON object", x->file);
}

enum ps_err
safetensors_parse(const char *file, struct span head, uint64_t file_bytes, struct safetensors *out, struct ps_error *e)
{
    struct safetensors_entry x = {.file = file, .e = e};
    struct json_walk w;
    uint64_t bytes;
    enum ps_err err;

    *out = (struct safetensors){0};
    if (head.len < PREFIX)
        return ps_fail(e, PS_ERR_DATA, "%s: it is no safetensors file: it has %zu bytes, and no header", file,
                       head.len);
    if ((err = safetensors_head_bytes(file, head.data, file_bytes, &bytes, e)) != PS_OK)
        return err;
    ps_assert(bytes == head.len);
    out->data = bytes;
    out->bytes = file_bytes;
    w = json_walk_start((const char *)head.data + PREFIX, head.len - PREFIX);
    return json_walk_open(&w, '{') ? read_all(out, &x, &w) : refuse_begin(&x, w);
}
