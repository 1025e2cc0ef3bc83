/* The manifest as text. Definitions are written as the messages that workers sent, in hexadecimal, so that a restored
 * variable is the declared one to the last bit; beside them is the same as text, for people. */
#include "common/core/format/checkpoint_internal.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/base/hex.h"
#include "common/core/cluster/placement.h"
#include "common/core/format/growing_text.h"
#include "common/core/wire/wire.h"

/* A message as hexadecimal digits; NULL: no memory. */
static json_t *
checkpoint_text_hex(const ProtobufCMessage *m)
{
    size_t len;
    uint8_t *bytes = checkpoint_pack(m, &len);
    char *digits = bytes != NULL ? malloc(2 * len + 1) : NULL;
    json_t *text = NULL;

    if (digits != NULL) {
        hex_write(bytes, len, digits);
        text = json_stringn(digits, 2 * len);
    }
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
                     checkpoint_text_hex(&c->declared->base), "now", checkpoint_text_hex(&c->now->base));
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
    return json_pack("{s:s, s:o, s:I, s:I, s:s, s:s, s:o, s:o}", "name", v->declared->name, "shape",
                     describe_shape(v->declared), "blocks", (json_int_t)v->layout.blocks, "slots",
                     (json_int_t)v->layout.slots, "optimizer", text, "initializer",
                     initializer_name((int)v->declared->init->kind), "declared",
                     checkpoint_text_hex(&v->declared->base), "now", checkpoint_text_hex(&v->now->base));
}

/* Each appends to a list of the caller's; false: no memory. */
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
describe_files(const struct checkpoint *c, json_t *list)
{
    for (int f = 0; f < CHECKPOINT_FILES; f++)
        if (json_array_append_new(list,
                                  json_pack("{s:s, s:I, s:s}", "name", checkpoint_file_name((enum checkpoint_file)f),
                                            "bytes", (json_int_t)c->files[f].bytes, "sha256", c->files[f].sha256)) != 0)
            return false;
    return true;
}

/* The last member is a hash of all before it, so that damage is found wherever it is: definitions, names, text for
 * people. placement_hash() is specified for placement already. */
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

enum ps_err
checkpoint_check_seal(struct span text, struct ps_error *e)
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

/* All but the variables, up to the brace that closes it. */
static void
write_rest(const struct checkpoint *c, struct growing_text *out)
{
    json_t *shares = json_array(), *files = json_array();
    bool ok = describe_shares(c, shares) && describe_files(c, files);
    json_t *root = json_pack("{s:i, s:s, s:I, s:b, s:I, s:o, s:o, s:o}", "format", CHECKPOINT_FORMAT, "psd", c->version,
                             "unix_ms", (json_int_t)c->unix_ms, "one_clock", (int)c->at_clock, "clock",
                             (json_int_t)c->clock, "job", describe_job(c), "shards", shares, "files", files);

    growing_text_json(out, root, JSON_INDENT(1));
    out->failed |= !ok;
    if (!out->failed)
        out->len -= strlen("\n}");
}

/* A line for each: a tree of all of them would take twenty times the memory of the text. */
static void
write_variables(const struct checkpoint *c, struct growing_text *out)
{
    growing_text_put(out, ",\n \"variables\": [");
    for (size_t i = 0; !out->failed && i < c->variables_len; i++) {
        growing_text_put(out, i > 0 ? ",\n  " : "\n  ");
        growing_text_json(out, describe_variable(&c->variables[i]), 0);
    }
    growing_text_put(out, c->variables_len > 0 ? "\n ]" : "]");
}

char *
checkpoint_text(const struct checkpoint *c)
{
    struct growing_text out = {0};
    char *text, *sealed = NULL;
    size_t len;

    write_rest(c, &out);
    write_variables(c, &out);
    len = out.len;
    if ((text = growing_text_take(&out)) != NULL)
        sealed = checkpoint_seal((struct span){text, len});
    free(text);
    return sealed;
}
