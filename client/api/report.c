/* A shard's Report as JSON: the members are those of the message in psd.proto, by its own descriptors, so a field added
 * there appears here. Enumerations are their names; fixed64 values are ids and printed in hexadecimal; fields at their
 * default are printed as well. */
#include "client/api/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/base/utf8.h"

struct json_report {
    json_t *json;
};

static json_t *message_json(const ProtobufCMessage *m);

static json_t *
number_json(uint64_t n)
{
    return n <= INT64_MAX ? json_integer((json_int_t)n) : json_real((double)n);
}

static json_t *
id_json(uint64_t id)
{
    char text[17];

    snprintf(text, sizeof(text), "%016" PRIx64, id);
    return json_string(text);
}

static json_t *
enum_json(const ProtobufCEnumDescriptor *d, int value)
{
    const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(d, value);

    return v != NULL ? json_string(v->name) : json_integer(value);
}

/* A shard's paths need not be UTF-8, and its sentences may be cut in the middle of a character: what was left out for
 * that would be no save that fails. The message is ours. */
static json_t *
text_json(char *text)
{
    if (text == NULL)
        return json_string("");
    utf8_clean(text);
    return json_string(text);
}

/* One value of a field; at points to it. */
static json_t *
value_json(const ProtobufCFieldDescriptor *f, const void *at)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_UINT32:
        return number_json(*(const uint32_t *)at);
    case PROTOBUF_C_TYPE_UINT64:
        return number_json(*(const uint64_t *)at);
    case PROTOBUF_C_TYPE_FIXED64:
        return id_json(*(const uint64_t *)at);
    case PROTOBUF_C_TYPE_BOOL:
        return json_boolean(*(const protobuf_c_boolean *)at);
    case PROTOBUF_C_TYPE_DOUBLE:
        return isfinite(*(const double *)at) ? json_real(*(const double *)at) : json_null(); /* JSON has no others */
    case PROTOBUF_C_TYPE_ENUM:
        return enum_json(f->descriptor, *(const int *)at);
    case PROTOBUF_C_TYPE_STRING:
        return text_json(*(char *const *)at);
    case PROTOBUF_C_TYPE_MESSAGE:
        return *(const void *const *)at != NULL ? message_json(*(const ProtobufCMessage *const *)at) : NULL;
    default:
        return NULL; /* psd.proto has no fields of other types in reports */
    }
}

static size_t
value_size(const ProtobufCFieldDescriptor *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_UINT32:
        return sizeof(uint32_t);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_ENUM:
        return sizeof(int);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    default:
        return sizeof(uint64_t);
    }
}

static json_t *
list_json(const ProtobufCFieldDescriptor *f, const ProtobufCMessage *m)
{
    size_t n = *(const size_t *)(const void *)((const char *)m + f->quantifier_offset), i;
    const char *at = *(const char *const *)(const void *)((const char *)m + f->offset);
    json_t *list = json_array();

    for (i = 0; i < n; i++)
        json_array_append_new(list, value_json(f, at + i * value_size(f)));
    return list;
}

static json_t *
message_json(const ProtobufCMessage *m)
{
    json_t *object = json_object();
    unsigned i;

    for (i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        json_t *v =
            f->label == PROTOBUF_C_LABEL_REPEATED ? list_json(f, m) : value_json(f, (const char *)m + f->offset);

        if (v != NULL)
            json_object_set_new(object, f->name, v);
    }
    return object;
}

/* Its arrays run in parallel. */
static void
merge_timeline(json_t *into, json_t *page)
{
    const char *name;
    json_t *member;

    json_object_foreach(page, name, member) if (json_is_array(member))
        json_array_extend(json_object_get(into, name), member);
}

/* Later pages bring more variables, workers, jobs or spans; all else is the first page's. */
static void
merge_page(json_t *into, json_t *page)
{
    json_array_extend(json_object_get(into, "variable"), json_object_get(page, "variable"));
    json_array_extend(json_object_get(into, "worker"), json_object_get(page, "worker"));
    json_array_extend(json_object_get(into, "job"), json_object_get(page, "job"));
    merge_timeline(json_object_get(into, "timeline"), json_object_get(page, "timeline"));
    json_object_set(into, "more", json_object_get(page, "more"));
    json_object_set(into, "next", json_object_get(page, "next"));
    json_decref(page);
}

enum ps_err
report_add(struct json_report **r, Psd__Report *m)
{
    json_t *page;

    if (*r == NULL && (*r = calloc(1, sizeof(**r))) == NULL)
        return PS_ERR_NOMEM;
    page = message_json(&m->base);
    if ((*r)->json == NULL)
        (*r)->json = page;
    else
        merge_page((*r)->json, page);
    return PS_OK;
}

char *
report_text(const struct json_report *r)
{
    return json_dumps(r->json, JSON_COMPACT | JSON_PRESERVE_ORDER);
}

json_t *
report_message(const ProtobufCMessage *m)
{
    return message_json(m);
}

void
report_free(struct json_report *r)
{
    if (r == NULL)
        return;
    json_decref(r->json);
    free(r);
}
