/* Definitions are kept as the messages that workers sent, in hexadecimal, so that a restored variable is the declared
 * one to the last bit; beside them stands the same as text, for people. What is read is checked as if a worker had
 * sent it: it goes through wire_decode(). */
#include "checkpoint.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "placement.h"
#include "wire.h"

#define NAME_SHOWN 64
#define PLACE_MAX  64

const char *
checkpoint_file_name(enum checkpoint_file file)
{
    static const char *const names[CHECKPOINT_FILES] = {
        [CHECKPOINT_WEIGHTS] = "weights.safetensors", [CHECKPOINT_SLOTS] = "slots.safetensors"};

    ps_assert((unsigned)file < CHECKPOINT_FILES);
    return names[file];
}

static void
message_free(void *message)
{
    if (message != NULL)
        protobuf_c_message_free_unpacked(message, NULL);
}

static void
variable_finish(struct checkpoint_variable *v)
{
    message_free(v->declared);
    message_free(v->now);
}

void
checkpoint_finish(struct checkpoint *c)
{
    free(c->version);
    message_free(c->declared);
    message_free(c->now);
    free(c->shares);
    for (size_t i = 0; i < c->variables_len; i++)
        variable_finish(&c->variables[i]);
    free(c->variables);
    *c = (struct checkpoint){0};
}

static enum ps_err
no_memory(struct ps_error *e)
{
    return ps_fail(e, PS_ERR_NOMEM, "no memory for a checkpoint's manifest");
}

/* ---- Definitions ---- */

/* A heap copy of a message as wire_decode() lets it through. */
static enum ps_err
decode(enum msg_type type, const void *bytes, size_t len, struct arena *arena, struct wire_msg *msg, struct ps_error *e)
{
    struct frame_head head = {
        .version = FRAME_VERSION, .type = (uint16_t)type, .meta_len = (uint32_t)len, .request = 1};

    if (len > FRAME_META_MAX)
        return ps_fail(e, PS_ERR_LIMIT, "the definition has %zu bytes; the limit is %ju", len,
                       (uintmax_t)FRAME_META_MAX);
    return wire_decode(&head, bytes, arena, msg, e);
}

static enum ps_err
decode_declare(const void *bytes, size_t len, Psd__Declare **out, struct ps_error *e)
{
    struct arena arena = {0};
    struct wire_msg msg;
    enum ps_err err = decode(MSG_DECLARE, bytes, len, &arena, &msg, e);

    if (err == PS_OK && (*out = wire_copy(&msg.u.declare->base)) == NULL)
        err = no_memory(e);
    arena_finish(&arena);
    return err;
}

/* Jobs are declared by hellos. */
static enum ps_err
decode_job(const void *bytes, size_t len, Psd__Job **out, struct ps_error *e)
{
    Psd__Hello hello = PSD__HELLO__INIT;
    Psd__Job *job = psd__job__unpack(NULL, len, bytes);
    struct arena arena = {0};
    struct wire_msg msg;
    uint8_t *frame = NULL;
    enum ps_err err = PS_OK;

    hello.cluster = (char *)"checkpoint";
    hello.shards = 1;
    hello.incarnation = 1;
    hello.job = job;
    if (job == NULL)
        return ps_fail(e, PS_ERR_PROTOCOL, "it is no job");
    len = protobuf_c_message_get_packed_size(&hello.base);
    if ((frame = malloc(len)) == NULL)
        err = no_memory(e);
    if (err == PS_OK) {
        protobuf_c_message_pack(&hello.base, frame);
        err = decode(MSG_HELLO, frame, len, &arena, &msg, e);
    }
    if (err == PS_OK && (*out = wire_copy(&msg.u.hello->job->base)) == NULL)
        err = no_memory(e);
    arena_finish(&arena);
    free(frame);
    message_free(job);
    return err;
}

/* What SET may change is the optimizer's numbers: kind and slots are those of the blocks. */
static enum ps_err
check_now(const Psd__Declare *declared, const Psd__Declare *now, struct ps_error *e)
{
    struct ps_optimizer was = wire_optimizer(declared->optimizer), is = wire_optimizer(now->optimizer);
    Psd__Declare other = *now;

    other.optimizer = declared->optimizer;
    if (!wire_declare_equal(declared, &other) || strcmp(declared->name, now->name) != 0 || was.kind != is.kind ||
        optimizer_slots(&was) != optimizer_slots(&is))
        return ps_fail(e, PS_ERR_INVALID, "its definition now is not one that its first may have become");
    return PS_OK;
}

static enum ps_err
check_job_now(const Psd__Job *declared, const Psd__Job *now, struct ps_error *e)
{
    Psd__Job other = *now;

    other.age = declared->age;
    other.bound = declared->bound;
    if (!wire_job_equal(declared, &other) || strcmp(declared->name, now->name) != 0)
        return ps_fail(e, PS_ERR_INVALID, "the job's options now are not ones that its first may have become");
    return PS_OK;
}

/* A message's bytes; NULL: no memory. */
static uint8_t *
pack(const ProtobufCMessage *m, size_t *len)
{
    uint8_t *bytes = malloc(protobuf_c_message_get_packed_size(m) + 1);

    *len = bytes != NULL ? protobuf_c_message_pack(m, bytes) : 0;
    return bytes;
}

enum ps_err
checkpoint_set_job(struct checkpoint *c, const Psd__Job *declared, const Psd__Job *now, struct ps_error *e)
{
    size_t len, now_len;
    uint8_t *bytes = pack(&declared->base, &len), *now_bytes = pack(&now->base, &now_len);
    enum ps_err err = PS_OK;

    ps_assert(c->declared == NULL && c->now == NULL);
    if (bytes == NULL || now_bytes == NULL)
        err = no_memory(e);
    else if ((err = decode_job(bytes, len, &c->declared, e)) == PS_OK &&
             (err = decode_job(now_bytes, now_len, &c->now, e)) == PS_OK)
        err = check_job_now(c->declared, c->now, e);
    free(bytes);
    free(now_bytes);
    return err;
}

/* ---- Variables, in order of their names ---- */

/* The first whose name does not come before this one. */
static size_t
place_of(const struct checkpoint *c, const char *name)
{
    size_t low = 0, high = c->variables_len;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(c->variables[middle].declared->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct checkpoint_variable *
checkpoint_find(const struct checkpoint *c, const char *name)
{
    size_t at = place_of(c, name);

    return at < c->variables_len && strcmp(c->variables[at].declared->name, name) == 0 ? &c->variables[at] : NULL;
}

uint64_t
checkpoint_blocks(const struct checkpoint *c)
{
    uint64_t blocks = 0;

    for (size_t i = 0; i < c->variables_len; i++)
        blocks += c->variables[i].layout.blocks;
    return blocks;
}

/* Takes v's messages, also when it fails. */
static enum ps_err
insert(struct checkpoint *c, struct checkpoint_variable v, struct ps_error *e)
{
    size_t at = place_of(c, v.declared->name), room = MAX(2 * c->variables_room, 16u);
    struct checkpoint_variable *grown = c->variables;
    enum ps_err err = PS_OK;

    if (c->variables_len >= CHECKPOINT_VARIABLES_MAX)
        err = ps_fail(e, PS_ERR_LIMIT, "there are more than %u variables", CHECKPOINT_VARIABLES_MAX);
    else if (c->variables_len == c->variables_room && (grown = reallocarray(grown, room, sizeof *grown)) == NULL)
        err = no_memory(e);
    if (err != PS_OK) {
        variable_finish(&v);
        return err;
    }
    c->variables_room = c->variables_len == c->variables_room ? room : c->variables_room;
    c->variables = grown;
    memmove(&grown[at + 1], &grown[at], (c->variables_len - at) * sizeof *grown);
    grown[at] = v;
    c->variables_len++;
    return PS_OK;
}

/* The definitions are checked already. Takes v's messages. */
static enum ps_err
add(struct checkpoint *c, struct checkpoint_variable v, struct ps_error *e)
{
    const struct checkpoint_variable *there = checkpoint_find(c, v.declared->name);
    struct ps_optimizer optimizer = wire_optimizer(v.declared->optimizer);
    char text[PS_ERROR_TEXT_MAX];
    uint64_t elements;
    enum ps_err err;

    if (there != NULL) {
        wire_declare_differences(there->declared, v.declared, text, sizeof text);
        err = wire_declare_equal(there->declared, v.declared)
                  ? PS_OK
                  : ps_fail(e, PS_ERR_MISMATCH, "variable '%.*s' is there with %.300s", NAME_SHOWN, v.declared->name,
                            text);
        variable_finish(&v);
        return err;
    }
    err = wire_elements(v.declared->dims, v.declared->n_dims, &elements);
    ps_assert(err == PS_OK);
    layout_init(&v.layout, elements, optimizer_slots(&optimizer));
    return insert(c, v, e);
}

static enum ps_err
add_packed(struct checkpoint *c, struct span declared, struct span now, struct ps_error *e)
{
    struct checkpoint_variable v = {0};
    enum ps_err err;

    if ((err = decode_declare(declared.data, declared.len, &v.declared, e)) == PS_OK &&
        (err = decode_declare(now.data, now.len, &v.now, e)) == PS_OK &&
        (err = check_now(v.declared, v.now, e)) == PS_OK)
        return add(c, v, e);
    variable_finish(&v);
    return err;
}

enum ps_err
checkpoint_add(struct checkpoint *c, const Psd__Declare *declared, const Psd__Declare *now, struct ps_error *e)
{
    struct span a, b;
    enum ps_err err;

    a.data = pack(&declared->base, &a.len);
    b.data = pack(&now->base, &b.len);
    err = a.data == NULL || b.data == NULL ? no_memory(e) : add_packed(c, a, b, e);
    free((void *)a.data);
    free((void *)b.data);
    return err;
}

/* ---- Writing ---- */

/* A message as hexadecimal digits; NULL: no memory. */
static json_t *
hex(const ProtobufCMessage *m)
{
    size_t len;
    uint8_t *bytes = pack(m, &len);
    char *digits = bytes != NULL ? malloc(2 * len + 1) : NULL;
    json_t *text = NULL;

    for (size_t i = 0; digits != NULL && i < len; i++)
        snprintf(digits + 2 * i, 3, "%02x", bytes[i]);
    if (digits != NULL)
        text = json_stringn(digits, 2 * len);
    free(digits);
    free(bytes);
    return text;
}

static json_t *
describe_job(const struct checkpoint *c)
{
    char options[256];

    wire_job_options(c->now, options, sizeof options);
    return json_pack("{s:s, s:s, s:o, s:o}", "name", c->declared->name, "options", options, "declared",
                     hex(&c->declared->base), "now", hex(&c->now->base));
}

static json_t *
describe_shape(const Psd__Declare *d)
{
    json_t *shape = json_array();

    for (size_t i = 0; i < d->n_dims; i++)
        if (json_array_append_new(shape, json_integer((json_int_t)d->dims[i])) != 0) {
            json_decref(shape);
            return NULL;
        }
    return shape;
}

static json_t *
describe_variable(const struct checkpoint_variable *v)
{
    struct ps_optimizer optimizer = wire_optimizer(v->now->optimizer);
    char text[PS_OPTIMIZER_TEXT_MAX];

    ps_optimizer_describe(&optimizer, text, sizeof text);
    return json_pack(
        "{s:s, s:o, s:I, s:I, s:s, s:s, s:o, s:o}", "name", v->declared->name, "shape", describe_shape(v->declared),
        "blocks", (json_int_t)v->layout.blocks, "slots", (json_int_t)v->layout.slots, "optimizer", text, "initializer",
        initializer_name((int)v->declared->init->kind), "declared", hex(&v->declared->base), "now", hex(&v->now->base));
}

/* Each appends to a list that is the caller's; false: no memory. */
static bool
describe_shares(const struct checkpoint *c, json_t *list)
{
    for (uint32_t i = 0; i < c->shares_len; i++) {
        const struct checkpoint_share *s = &c->shares[i];

        if (json_array_append_new(list, json_pack("{s:I, s:I, s:I, s:I}", "shard", (json_int_t)i, "clock",
                                                  (json_int_t)s->clock, "blocks", (json_int_t)s->blocks, "bytes",
                                                  (json_int_t)s->bytes)) != 0)
            return false;
    }
    return true;
}

static bool
describe_variables(const struct checkpoint *c, json_t *list)
{
    for (size_t i = 0; i < c->variables_len; i++)
        if (json_array_append_new(list, describe_variable(&c->variables[i])) != 0)
            return false;
    return true;
}

static bool
describe_files(const struct checkpoint *c, json_t *list)
{
    for (int f = 0; f < CHECKPOINT_FILES; f++)
        if (json_array_append_new(list,
                                  json_pack("{s:s, s:I, s:s}", "name", checkpoint_file_name((enum checkpoint_file)f),
                                            "bytes", (json_int_t)c->files[f].bytes, "sha256", c->files[f].sha256)) != 0)
            return false;
    return true;
}

/* The last member is a hash of all before it, so that a damage is found wherever it is: definitions, names, what is
 * there for people. placement_hash() is specified for placement already. */
#define SEAL_BEGIN ",\n \"check\": \""
#define SEAL_END   "\"\n}\n"
#define SEAL_LEN   (sizeof SEAL_BEGIN - 1 + 16 + sizeof SEAL_END - 1)

char *
checkpoint_seal(struct span text)
{
    char *sealed;

    if (asprintf(&sealed, "%.*s" SEAL_BEGIN "%016" PRIx64 SEAL_END, (int)text.len, (const char *)text.data,
                 placement_hash(text.data, text.len, 0)) < 0)
        return NULL;
    return sealed;
}

static enum ps_err
check_seal(struct span text, struct ps_error *e)
{
    size_t len = text.len - MIN(SEAL_LEN, text.len);
    const char *seal = (const char *)text.data + len;
    char wanted[SEAL_LEN + 1];

    snprintf(wanted, sizeof wanted, SEAL_BEGIN "%016" PRIx64 SEAL_END, placement_hash(text.data, len, 0));
    if (text.len < SEAL_LEN || memcmp(seal, SEAL_BEGIN, sizeof SEAL_BEGIN - 1) != 0 ||
        memcmp(seal + SEAL_LEN - (sizeof SEAL_END - 1), SEAL_END, sizeof SEAL_END - 1) != 0)
        return ps_fail(e, PS_ERR_DATA, CHECKPOINT_MANIFEST ": it does not end as a manifest does");
    if (memcmp(seal, wanted, SEAL_LEN) != 0)
        return ps_fail(e, PS_ERR_DATA, CHECKPOINT_MANIFEST ": it is damaged: its check is not that of its text");
    return PS_OK;
}

char *
checkpoint_text(const struct checkpoint *c)
{
    json_t *shares = json_array(), *variables = json_array(), *files = json_array();
    bool ok = describe_shares(c, shares) && describe_variables(c, variables) && describe_files(c, files);
    json_t *root =
        json_pack("{s:i, s:s, s:I, s:b, s:I, s:o, s:o, s:o, s:o}", "format", CHECKPOINT_FORMAT, "psd", c->version,
                  "unix_ms", (json_int_t)c->unix_ms, "one_clock", (int)c->at_clock, "clock", (json_int_t)c->clock,
                  "job", describe_job(c), "shards", shares, "files", files, "variables", variables);
    char *text = ok && root != NULL ? json_dumps(root, JSON_INDENT(1)) : NULL;
    char *sealed = text != NULL ? checkpoint_seal((struct span){text, strlen(text) - strlen("\n}")}) : NULL;

    json_decref(root);
    free(text);
    return sealed;
}

/* ---- Reading ---- */

/* Where in the manifest we are, for sentences. */
struct reader {
    struct checkpoint *c;
    struct ps_error *e;
    char place[PLACE_MAX]; /* "variables[3]." */
};

#define REFUSE(r, member, format, ...)                                                                                 \
    ps_fail((r)->e, PS_ERR_DATA, CHECKPOINT_MANIFEST ": %s%s: " format, (r)->place, member, __VA_ARGS__)

static enum ps_err
read_count(struct reader *r, const json_t *object, const char *member, uint64_t most, uint64_t *out)
{
    const json_t *value = json_object_get(object, member);

    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return REFUSE(r, member, "%s", "expected a whole number from 0");
    *out = (uint64_t)json_integer_value(value);
    return *out <= most ? PS_OK : REFUSE(r, member, "%" PRIu64 "; the limit is %" PRIu64, *out, most);
}

static enum ps_err
read_text(struct reader *r, const json_t *object, const char *member, const char **out)
{
    const json_t *value = json_object_get(object, member);

    if (!json_is_string(value))
        return REFUSE(r, member, "%s", "expected a text");
    *out = json_string_value(value);
    return PS_OK;
}

static int
digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The bytes that hexadecimal digits stand for, freed by the caller. */
static enum ps_err
read_hex(struct reader *r, const json_t *object, const char *member, struct span *out)
{
    const char *digits;
    enum ps_err err = read_text(r, object, member, &digits);
    uint8_t *bytes;

    if (err != PS_OK)
        return err;
    out->len = strlen(digits) / 2;
    if ((bytes = malloc(out->len + 1)) == NULL)
        return no_memory(r->e);
    out->data = bytes;
    for (size_t i = 0; i < strlen(digits); i++) {
        if (digit(digits[i]) < 0 || strlen(digits) % 2 != 0)
            return REFUSE(r, member, "%s", "expected pairs of hexadecimal digits");
        bytes[i / 2] = (uint8_t)(i % 2 == 0 ? digit(digits[i]) << 4 : bytes[i / 2] | digit(digits[i]));
    }
    return PS_OK;
}

/* An error of what was read, with its place before it. */
static enum ps_err
placed(struct reader *r, const char *member, enum ps_err err, const struct ps_error *why)
{
    if (err == PS_OK || err == PS_ERR_NOMEM)
        return err == PS_OK ? PS_OK : no_memory(r->e);
    return REFUSE(r, member, "%.300s", why->text);
}

static enum ps_err
read_job(struct reader *r, const json_t *job)
{
    struct span declared = {0}, now = {0};
    const char *name;
    struct ps_error why;
    enum ps_err err;

    snprintf(r->place, sizeof r->place, "job.");
    if (!json_is_object(job))
        return ps_fail(r->e, PS_ERR_DATA, CHECKPOINT_MANIFEST ": job: expected an object");
    if ((err = read_text(r, job, "name", &name)) == PS_OK && (err = read_hex(r, job, "declared", &declared)) == PS_OK &&
        (err = read_hex(r, job, "now", &now)) == PS_OK &&
        (err = placed(r, "declared", decode_job(declared.data, declared.len, &r->c->declared, &why), &why)) == PS_OK &&
        (err = placed(r, "now", decode_job(now.data, now.len, &r->c->now, &why), &why)) == PS_OK &&
        (err = placed(r, "now", check_job_now(r->c->declared, r->c->now, &why), &why)) == PS_OK &&
        strcmp(name, r->c->declared->name) != 0)
        err = REFUSE(r, "name", "'%.*s', and the definition says '%.*s'", NAME_SHOWN, name, NAME_SHOWN,
                     r->c->declared->name);
    free((void *)declared.data);
    free((void *)now.data);
    return err;
}

static enum ps_err
read_share(struct reader *r, const json_t *object, struct checkpoint_share *out)
{
    enum ps_err err;

    if ((err = read_count(r, object, "clock", INT64_MAX, &out->clock)) != PS_OK ||
        (err = read_count(r, object, "blocks", INT64_MAX, &out->blocks)) != PS_OK)
        return err;
    return read_count(r, object, "bytes", INT64_MAX, &out->bytes);
}

static enum ps_err
read_shares(struct reader *r, const json_t *list)
{
    const json_t *object;
    enum ps_err err;
    size_t i;

    r->place[0] = '\0';
    if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > WIRE_SHARDS_MAX)
        return REFUSE(r, "shards", "expected a list of 1 to %d", WIRE_SHARDS_MAX);
    if ((r->c->shares = calloc(json_array_size(list), sizeof *r->c->shares)) == NULL)
        return no_memory(r->e);
    r->c->shares_len = (uint32_t)json_array_size(list);
    json_array_foreach(list, i, object)
    {
        snprintf(r->place, sizeof r->place, "shards[%zu].", i);
        if ((err = read_share(r, object, &r->c->shares[i])) != PS_OK)
            return err;
    }
    return PS_OK;
}

/* What is written for people must be what the definition says: else one of them is damaged. */
static enum ps_err
check_told(struct reader *r, const json_t *object, const struct checkpoint_variable *v)
{
    const json_t *shape = json_object_get(object, "shape");
    uint64_t blocks, slots;
    bool same = json_array_size(shape) == v->declared->n_dims;
    enum ps_err err;

    for (size_t i = 0; same && i < v->declared->n_dims; i++)
        same = json_integer_value(json_array_get(shape, i)) == (json_int_t)v->declared->dims[i];
    if (!json_is_array(shape) || !same)
        return REFUSE(r, "shape", "%s", "it is not that of the definition");
    if ((err = read_count(r, object, "blocks", INT64_MAX, &blocks)) != PS_OK ||
        (err = read_count(r, object, "slots", LAYOUT_SLOTS_MAX, &slots)) != PS_OK)
        return err;
    if (blocks != v->layout.blocks || slots != v->layout.slots)
        return REFUSE(r, "blocks", "%" PRIu64 " with %" PRIu64 " slots; the definition makes %" PRIu64 " with %u",
                      blocks, slots, v->layout.blocks, v->layout.slots);
    return PS_OK;
}

static enum ps_err
read_variable(struct reader *r, const json_t *object)
{
    struct span declared = {0}, now = {0};
    const struct checkpoint_variable *v;
    struct ps_error why;
    const char *name;
    enum ps_err err;

    if ((err = read_text(r, object, "name", &name)) == PS_OK &&
        (err = read_hex(r, object, "declared", &declared)) == PS_OK &&
        (err = read_hex(r, object, "now", &now)) == PS_OK) {
        err = checkpoint_find(r->c, name) != NULL ? REFUSE(r, "name", "'%.*s' is there twice", NAME_SHOWN, name)
                                                  : placed(r, "declared", add_packed(r->c, declared, now, &why), &why);
    }
    free((void *)declared.data);
    free((void *)now.data);
    if (err != PS_OK)
        return err;
    if ((v = checkpoint_find(r->c, name)) == NULL)
        return REFUSE(r, "name", "'%.*s', and the definition says another", NAME_SHOWN, name);
    return check_told(r, object, v);
}

static enum ps_err
read_variables(struct reader *r, const json_t *list)
{
    const json_t *object;
    enum ps_err err;
    size_t i;

    r->place[0] = '\0';
    if (!json_is_array(list))
        return REFUSE(r, "variables", "%s", "expected a list");
    json_array_foreach(list, i, object)
    {
        snprintf(r->place, sizeof r->place, "variables[%zu].", i);
        if ((err = read_variable(r, object)) != PS_OK)
            return err;
    }
    r->place[0] = '\0';
    if (r->c->variables_len != json_array_size(list))
        return REFUSE(r, "variables", "%zu, of which %zu differ", json_array_size(list), r->c->variables_len);
    return PS_OK;
}

static enum ps_err
read_file(struct reader *r, const json_t *object, enum checkpoint_file file)
{
    const char *name, *sha256;
    enum ps_err err;

    snprintf(r->place, sizeof r->place, "files[%d].", (int)file);
    if ((err = read_text(r, object, "name", &name)) != PS_OK ||
        (err = read_text(r, object, "sha256", &sha256)) != PS_OK)
        return err;
    if (strcmp(name, checkpoint_file_name(file)) != 0)
        return REFUSE(r, "name", "'%.32s', expected '%s'", name, checkpoint_file_name(file));
    if (strlen(sha256) != CHECKPOINT_DIGEST - 1)
        return REFUSE(r, "sha256", "expected %d hexadecimal digits", CHECKPOINT_DIGEST - 1);
    memcpy(r->c->files[file].sha256, sha256, CHECKPOINT_DIGEST);
    return read_count(r, object, "bytes", INT64_MAX, &r->c->files[file].bytes);
}

static enum ps_err
read_files(struct reader *r, const json_t *list)
{
    enum ps_err err = PS_OK;

    r->place[0] = '\0';
    if (!json_is_array(list) || json_array_size(list) != CHECKPOINT_FILES)
        return REFUSE(r, "files", "expected a list of %d", CHECKPOINT_FILES);
    for (int f = 0; err == PS_OK && f < CHECKPOINT_FILES; f++)
        err = read_file(r, json_array_get(list, (size_t)f), (enum checkpoint_file)f);
    return err;
}

static enum ps_err
read_head(struct reader *r, const json_t *root)
{
    const char *version;
    uint64_t format;
    enum ps_err err;

    if (!json_is_object(root))
        return ps_fail(r->e, PS_ERR_DATA, CHECKPOINT_MANIFEST ": expected an object");
    if ((err = read_count(r, root, "format", INT64_MAX, &format)) != PS_OK)
        return err;
    if (format != CHECKPOINT_FORMAT)
        return ps_fail(r->e, PS_ERR_VERSION,
                       CHECKPOINT_MANIFEST ": the checkpoint has format %" PRIu64 ", this psd knows format %d", format,
                       CHECKPOINT_FORMAT);
    if ((err = read_text(r, root, "psd", &version)) != PS_OK ||
        (err = read_count(r, root, "unix_ms", INT64_MAX, &r->c->unix_ms)) != PS_OK ||
        (err = read_count(r, root, "clock", INT64_MAX, &r->c->clock)) != PS_OK)
        return err;
    if (!json_is_boolean(json_object_get(root, "one_clock")))
        return REFUSE(r, "one_clock", "%s", "expected true or false");
    r->c->at_clock = json_is_true(json_object_get(root, "one_clock"));
    return (r->c->version = strdup(version)) != NULL ? PS_OK : no_memory(r->e);
}

enum ps_err
checkpoint_parse(struct span text, struct checkpoint *out, struct ps_error *e)
{
    struct reader r = {.c = out, .e = e};
    json_error_t where;
    json_t *root;
    enum ps_err err;

    *out = (struct checkpoint){0};
    if (text.len > CHECKPOINT_MANIFEST_MAX)
        return ps_fail(e, PS_ERR_DATA, CHECKPOINT_MANIFEST ": it has %zu bytes; the limit is %ju", text.len,
                       (uintmax_t)CHECKPOINT_MANIFEST_MAX);
    if ((err = check_seal(text, e)) != PS_OK)
        return err;
    root = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &where);
    if (root == NULL && json_error_code(&where) == json_error_out_of_memory)
        return no_memory(e);
    if (root == NULL)
        return ps_fail(e, PS_ERR_DATA, CHECKPOINT_MANIFEST ":%d:%d: not valid JSON: %s", where.line, where.column,
                       where.text);
    if ((err = read_head(&r, root)) == PS_OK && (err = read_job(&r, json_object_get(root, "job"))) == PS_OK &&
        (err = read_shares(&r, json_object_get(root, "shards"))) == PS_OK &&
        (err = read_files(&r, json_object_get(root, "files"))) == PS_OK)
        err = read_variables(&r, json_object_get(root, "variables"));
    json_decref(root);
    return err;
}

/* ---- Tensors ---- */

/* "dense/w#version" */
static const char *
tensor_name(const char *variable, const char *what, char out[SAFETENSORS_NAME_MAX + 1])
{
    snprintf(out, SAFETENSORS_NAME_MAX + 1, "%s#%s", variable, what);
    return out;
}

static const char *
slot_name(const char *variable, uint32_t slot, char out[SAFETENSORS_NAME_MAX + 1])
{
    char number[12];

    snprintf(number, sizeof number, "%u", slot);
    return tensor_name(variable, number, out);
}

static enum ps_err
add_slots(const struct checkpoint_variable *v, struct safetensors *s, struct ps_error *e)
{
    char name[SAFETENSORS_NAME_MAX + 1];
    enum ps_err err = PS_OK;

    for (uint32_t i = 0; err == PS_OK && i < v->layout.slots; i++)
        err = safetensors_add(s, slot_name(v->declared->name, i, name), SAFETENSORS_F32, (uint32_t)v->declared->n_dims,
                              v->declared->dims, e);
    return err;
}

static enum ps_err
add_counts(const struct checkpoint_variable *v, struct safetensors *s, struct ps_error *e)
{
    char name[SAFETENSORS_NAME_MAX + 1];
    enum ps_err err;

    if ((err = safetensors_add(s, tensor_name(v->declared->name, "version", name), SAFETENSORS_I64, 1,
                               &v->layout.blocks, e)) != PS_OK)
        return err;
    return safetensors_add(s, tensor_name(v->declared->name, "clock", name), SAFETENSORS_I64, 1, &v->layout.blocks, e);
}

static enum ps_err
add_weights(const struct checkpoint_variable *v, struct safetensors *s, struct ps_error *e)
{
    return safetensors_add(s, v->declared->name, SAFETENSORS_F32, (uint32_t)v->declared->n_dims, v->declared->dims, e);
}

enum ps_err
checkpoint_tensors(const struct checkpoint *c, enum checkpoint_file file, struct safetensors *s, struct ps_error *e)
{
    enum ps_err (*const rounds[CHECKPOINT_FILES][2])(const struct checkpoint_variable *, struct safetensors *,
                                                     struct ps_error *) = {
        [CHECKPOINT_WEIGHTS] = {add_weights}, [CHECKPOINT_SLOTS] = {add_counts, add_slots}, /* the larger type first:
                                                                                               then all are aligned */
    };
    enum ps_err err = PS_OK;

    for (int round = 0; round < 2 && rounds[file][round] != NULL; round++)
        for (size_t i = 0; err == PS_OK && i < c->variables_len; i++)
            err = rounds[file][round](&c->variables[i], s, e);
    return err;
}

static enum ps_err
check_tensor(const char *file, const struct safetensors_tensor *want, const struct safetensors *in, struct ps_error *e)
{
    const struct safetensors_tensor *is = safetensors_find(in, want->name);

    if (is == NULL)
        return ps_fail(e, PS_ERR_DATA, "%s: tensor '%.*s' is missing", file, NAME_SHOWN, want->name);
    if (is->type != want->type || is->rank != want->rank ||
        memcmp(is->dims, want->dims, want->rank * sizeof *want->dims) != 0)
        return ps_fail(e, PS_ERR_DATA, "%s: tensor '%.*s' has another shape than the manifest says", file, NAME_SHOWN,
                       want->name);
    return PS_OK;
}

enum ps_err
checkpoint_check_tensors(const struct checkpoint *c, const struct safetensors files[CHECKPOINT_FILES],
                         struct ps_error *e)
{
    enum ps_err err = PS_OK;

    for (int f = 0; err == PS_OK && f < CHECKPOINT_FILES; f++) {
        const char *name = checkpoint_file_name((enum checkpoint_file)f);
        struct safetensors want = {0};

        err = checkpoint_tensors(c, (enum checkpoint_file)f, &want, e);
        for (size_t i = 0; err == PS_OK && i < want.len; i++)
            err = check_tensor(name, &want.tensors[i], &files[f], e);
        if (err == PS_OK && want.len != files[f].len)
            err =
                ps_fail(e, PS_ERR_DATA, "%s: it has %zu tensors, the manifest says %zu", name, files[f].len, want.len);
        safetensors_finish(&want);
    }
    return err;
}

/* The place of a tensor with so many values of this type. */
static bool
tensor_place(const struct safetensors *s, const char *name, enum safetensors_type type, uint64_t values,
             uint64_t *place)
{
    const struct safetensors_tensor *t = safetensors_find(s, name);

    if (t == NULL || t->type != type || t->bytes != values * safetensors_type_bytes(type))
        return false;
    *place = t->begin;
    return true;
}

bool
checkpoint_places(const struct safetensors files[CHECKPOINT_FILES], const char *name, const struct layout *layout,
                  struct checkpoint_places *out)
{
    const struct safetensors *slots = &files[CHECKPOINT_SLOTS];
    char tensor[SAFETENSORS_NAME_MAX + 1];

    for (uint32_t i = 0; i < layout->slots; i++)
        if (!tensor_place(slots, slot_name(name, i, tensor), SAFETENSORS_F32, layout->elements, &out->slot[i]))
            return false;
    return tensor_place(&files[CHECKPOINT_WEIGHTS], name, SAFETENSORS_F32, layout->elements, &out->weights) &&
           tensor_place(slots, tensor_name(name, "version", tensor), SAFETENSORS_I64, layout->blocks, &out->version) &&
           tensor_place(slots, tensor_name(name, "clock", tensor), SAFETENSORS_I64, layout->blocks, &out->clock);
}
