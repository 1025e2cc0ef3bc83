/* The struct: definitions, checked as if a worker had sent them (they go through wire_decode()), and variables in order
 * of their names. */
#include "common/core/format/checkpoint_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/core/wire/wire.h"
#include "common/core/wire/wire_layout.h"

#define NAME_SHOWN 64

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

enum ps_err
checkpoint_no_memory(struct ps_error *e)
{
    return ps_fail(e, PS_ERR_NOMEM, "no memory for a checkpoint's manifest");
}

/* ---- Definitions ---- */

/* A heap copy of a message as wire_decode() lets it through. */
static enum ps_err
checkpoint_decode_copy(enum msg_type type, const void *bytes, size_t len, struct arena *arena, struct wire_msg *msg,
                       struct ps_error *e)
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
    enum ps_err err = checkpoint_decode_copy(MSG_DECLARE, bytes, len, &arena, &msg, e);

    if (err == PS_OK && (*out = wire_copy(&msg.u.declare->base)) == NULL)
        err = checkpoint_no_memory(e);
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
        err = checkpoint_no_memory(e);
    if (err == PS_OK) {
        protobuf_c_message_pack(&hello.base, frame);
        err = checkpoint_decode_copy(MSG_HELLO, frame, len, &arena, &msg, e);
    }
    if (err == PS_OK && (*out = wire_copy(&msg.u.hello->job->base)) == NULL)
        err = checkpoint_no_memory(e);
    arena_finish(&arena);
    free(frame);
    message_free(job);
    return err;
}

/* SET may change the optimizer's numbers only: kind and slots must match the blocks. */
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
    other.workers = declared->workers;
    other.quorum = declared->quorum;
    if (!wire_job_equal(declared, &other) || strcmp(declared->name, now->name) != 0)
        return ps_fail(e, PS_ERR_INVALID, "the job's options now are not ones that its first may have become");
    return PS_OK;
}

uint8_t *
checkpoint_pack(const ProtobufCMessage *m, size_t *len)
{
    uint8_t *bytes = malloc(protobuf_c_message_get_packed_size(m) + 1);

    *len = bytes != NULL ? protobuf_c_message_pack(m, bytes) : 0;
    return bytes;
}

enum ps_err
checkpoint_set_job_packed(struct checkpoint *c, struct span declared, struct span now, struct ps_error *e)
{
    enum ps_err err;

    ps_assert(c->declared == NULL && c->now == NULL);
    if ((err = decode_job(declared.data, declared.len, &c->declared, e)) != PS_OK ||
        (err = decode_job(now.data, now.len, &c->now, e)) != PS_OK)
        return err;
    return check_job_now(c->declared, c->now, e);
}

enum ps_err
checkpoint_set_job(struct checkpoint *c, const Psd__Job *declared, const Psd__Job *now, struct ps_error *e)
{
    struct span a, b;
    enum ps_err err;

    a.data = checkpoint_pack(&declared->base, &a.len);
    b.data = checkpoint_pack(&now->base, &b.len);
    err = a.data == NULL || b.data == NULL ? checkpoint_no_memory(e) : checkpoint_set_job_packed(c, a, b, e);
    free((void *)a.data);
    free((void *)b.data);
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
checkpoint_insert_variable(struct checkpoint *c, struct checkpoint_variable v, struct ps_error *e)
{
    size_t at = place_of(c, v.declared->name), room = MAX(2 * c->variables_room, 16u);
    struct checkpoint_variable *grown = c->variables;
    enum ps_err err = PS_OK;

    if (c->variables_len >= CHECKPOINT_VARIABLES_MAX)
        err = ps_fail(e, PS_ERR_LIMIT, "there are more than %u variables", CHECKPOINT_VARIABLES_MAX);
    else if (c->variables_len == c->variables_room && (grown = reallocarray(grown, room, sizeof *grown)) == NULL)
        err = checkpoint_no_memory(e);
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
checkpoint_add_checked(struct checkpoint *c, struct checkpoint_variable v, struct ps_error *e)
{
    const struct checkpoint_variable *there = checkpoint_find(c, v.declared->name);
    char text[PS_ERROR_TEXT_MAX];
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
    wire_layout(v.declared, &v.layout);
    return checkpoint_insert_variable(c, v, e);
}

enum ps_err
checkpoint_add_packed(struct checkpoint *c, struct span declared, struct span now, struct ps_error *e)
{
    struct checkpoint_variable v = {0};
    enum ps_err err;

    if ((err = decode_declare(declared.data, declared.len, &v.declared, e)) == PS_OK &&
        (err = decode_declare(now.data, now.len, &v.now, e)) == PS_OK &&
        (err = check_now(v.declared, v.now, e)) == PS_OK)
        return checkpoint_add_checked(c, v, e);
    variable_finish(&v);
    return err;
}

enum ps_err
checkpoint_add(struct checkpoint *c, const Psd__Declare *declared, const Psd__Declare *now, struct ps_error *e)
{
    struct span a, b;
    enum ps_err err;

    a.data = checkpoint_pack(&declared->base, &a.len);
    b.data = checkpoint_pack(&now->base, &b.len);
    err = a.data == NULL || b.data == NULL ? checkpoint_no_memory(e) : checkpoint_add_packed(c, a, b, e);
    free((void *)a.data);
    free((void *)b.data);
    return err;
}
