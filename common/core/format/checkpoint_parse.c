/* The manifest from its text: jansson makes a tree of all but the variables, and one of each variable; each member is
 * checked by itself, and values that appear twice against each other. */
#include "common/core/format/checkpoint_internal.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/base/hex.h"
#include "common/core/format/json_walk.h"
#include "common/core/wire/wire.h"

#define NAME_SHOWN 64
#define PLACE_MAX  64

/* The current place in the manifest, for sentences. */
struct manifest_reader {
    struct checkpoint *c;
    struct ps_error *e;
    struct json_walk walk, later; /* later: where the variables begin, when they come first; zeroed: they did not */
    bool done;                    /* all is read */
    char place[PLACE_MAX];        /* "variables[3]." */
};

#define REFUSE(r, member, format, ...)                                                                                 \
    ps_fail((r)->e, PS_ERR_DATA, CHECKPOINT_MANIFEST ": %s%s: " format, (r)->place, member, __VA_ARGS__)

static enum ps_err
read_count(struct manifest_reader *r, const json_t *object, const char *member, uint64_t most, uint64_t *out)
{
    const json_t *value = json_object_get(object, member);

    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return REFUSE(r, member, "%s", "expected a whole number from 0");
    *out = (uint64_t)json_integer_value(value);
    return *out <= most ? PS_OK : REFUSE(r, member, "%" PRIu64 "; the limit is %" PRIu64, *out, most);
}

static enum ps_err
read_text(struct manifest_reader *r, const json_t *object, const char *member, const char **out)
{
    const json_t *value = json_object_get(object, member);

    if (!json_is_string(value))
        return REFUSE(r, member, "%s", "expected a text");
    *out = json_string_value(value);
    return PS_OK;
}

/* The bytes of hexadecimal digits, freed by the caller. */
static enum ps_err
read_hex(struct manifest_reader *r, const json_t *object, const char *member, struct span *out)
{
    const char *digits;
    enum ps_err err = read_text(r, object, member, &digits);
    uint8_t *bytes;

    if (err != PS_OK)
        return err;
    out->len = strlen(digits) / 2;
    if ((bytes = malloc(out->len + 1)) == NULL)
        return checkpoint_no_memory(r->e);
    out->data = bytes;
    if (strlen(digits) % 2 != 0 || !hex_read(digits, out->len, bytes))
        return REFUSE(r, member, "%s", "expected pairs of hexadecimal digits");
    return PS_OK;
}

/* An error of what was read, with its place before it. */
static enum ps_err
checkpoint_parse_error_at(struct manifest_reader *r, const char *member, enum ps_err err, const struct ps_error *why)
{
    if (err == PS_OK || err == PS_ERR_NOMEM)
        return err == PS_OK ? PS_OK : checkpoint_no_memory(r->e);
    return REFUSE(r, member, "%.300s", why->text);
}

static enum ps_err
read_job(struct manifest_reader *r, const json_t *job)
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
        (err = checkpoint_parse_error_at(r, "declared", checkpoint_set_job_packed(r->c, declared, now, &why), &why)) ==
            PS_OK &&
        strcmp(name, r->c->declared->name) != 0)
        err = REFUSE(r, "name", "'%.*s', and the definition says '%.*s'", NAME_SHOWN, name, NAME_SHOWN,
                     r->c->declared->name);
    free((void *)declared.data);
    free((void *)now.data);
    return err;
}

static enum ps_err
read_share(struct manifest_reader *r, const json_t *object, struct checkpoint_share *out)
{
    enum ps_err err;

    if ((err = read_count(r, object, "clock", INT64_MAX, &out->clock)) != PS_OK ||
        (err = read_count(r, object, "blocks", INT64_MAX, &out->blocks)) != PS_OK)
        return err;
    return read_count(r, object, "bytes", INT64_MAX, &out->bytes);
}

static enum ps_err
read_shares(struct manifest_reader *r, const json_t *list)
{
    const json_t *object;
    enum ps_err err;
    size_t i;

    r->place[0] = '\0';
    if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > WIRE_SHARDS_MAX)
        return REFUSE(r, "shards", "expected a list of 1 to %d", WIRE_SHARDS_MAX);
    if ((r->c->shares = calloc(json_array_size(list), sizeof *r->c->shares)) == NULL)
        return checkpoint_no_memory(r->e);
    r->c->shares_len = (uint32_t)json_array_size(list);
    json_array_foreach(list, i, object)
    {
        snprintf(r->place, sizeof r->place, "shards[%zu].", i);
        if ((err = read_share(r, object, &r->c->shares[i])) != PS_OK)
            return err;
    }
    return PS_OK;
}

/* The text for people must agree with the definition: else one of them is damaged. */
static enum ps_err
check_told(struct manifest_reader *r, const json_t *object, const struct checkpoint_variable *v)
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
read_variable(struct manifest_reader *r, const json_t *object)
{
    struct span declared = {0}, now = {0};
    const struct checkpoint_variable *v;
    struct ps_error why;
    const char *name;
    enum ps_err err;

    if ((err = read_text(r, object, "name", &name)) == PS_OK &&
        (err = read_hex(r, object, "declared", &declared)) == PS_OK &&
        (err = read_hex(r, object, "now", &now)) == PS_OK) {
        err = checkpoint_find(r->c, name) != NULL
                  ? REFUSE(r, "name", "'%.*s' is there twice", NAME_SHOWN, name)
                  : checkpoint_parse_error_at(r, "declared", checkpoint_add_packed(r->c, declared, now, &why), &why);
    }
    free((void *)declared.data);
    free((void *)now.data);
    if (err != PS_OK)
        return err;
    if ((v = checkpoint_find(r->c, name)) == NULL)
        return REFUSE(r, "name", "'%.*s', and the definition says another", NAME_SHOWN, name);
    return check_told(r, object, v);
}

/* What jansson, or the walk around it, says, with line and column. */
static enum ps_err
refuse_json(struct manifest_reader *r)
{
    const char *line = r->walk.begin, *next;
    int number = 1;

    if (r->walk.no_memory)
        return checkpoint_no_memory(r->e);
    for (; (next = memchr(line, '\n', (size_t)(r->walk.at - line))) != NULL; number++)
        line = next + 1;
    return ps_fail(r->e, PS_ERR_DATA, CHECKPOINT_MANIFEST ":%d:%td: not valid JSON: %s", number, r->walk.at - line,
                   r->walk.error);
}

/* It does not begin with a brace: another value, or none. */
static enum ps_err
refuse_begin(struct manifest_reader *r)
{
    struct json_walk w = json_walk_start(r->walk.begin, (size_t)(r->walk.end - r->walk.begin));
    json_t *value = json_walk_value(&w);
    bool whole = value != NULL && json_walk_end(&w);

    json_decref(value);
    r->walk.at = w.at;
    r->walk.no_memory = w.no_memory;
    return whole ? ps_fail(r->e, PS_ERR_DATA, CHECKPOINT_MANIFEST ": expected an object") : refuse_json(r);
}

/* From the list's bracket on. */
static enum ps_err
read_variables(struct manifest_reader *r)
{
    enum ps_err err = PS_OK;
    json_t *object;

    r->place[0] = '\0';
    if (!json_walk_open(&r->walk, '['))
        return REFUSE(r, "variables", "%s", "expected a list");
    for (size_t i = 0; err == PS_OK && json_walk_more(&r->walk, ']'); i++) {
        if ((object = json_walk_value(&r->walk)) == NULL)
            break;
        snprintf(r->place, sizeof r->place, "variables[%zu].", i);
        err = read_variable(r, object);
        json_decref(object);
    }
    r->place[0] = '\0';
    return err == PS_OK && r->walk.error[0] != '\0' ? refuse_json(r) : err;
}

static enum ps_err
read_file(struct manifest_reader *r, const json_t *object, enum checkpoint_file file)
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
read_files(struct manifest_reader *r, const json_t *list)
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
read_head(struct manifest_reader *r, const json_t *root)
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
    return (r->c->version = strdup(version)) != NULL ? PS_OK : checkpoint_no_memory(r->e);
}

/* All but the variables. */
static enum ps_err
read_rest(struct manifest_reader *r, const json_t *root)
{
    enum ps_err err;

    if ((err = read_head(r, root)) != PS_OK || (err = read_job(r, json_object_get(root, "job"))) != PS_OK ||
        (err = read_shares(r, json_object_get(root, "shards"))) != PS_OK)
        return err;
    return read_files(r, json_object_get(root, "files"));
}

/* Behind the list, whatever it has. */
static void
skip_list(struct json_walk *w)
{
    if (!json_walk_open(w, '[')) {
        w->error[0] = '\0'; /* it is another value, and refused when it is read */
        json_decref(json_walk_value(w));
        return;
    }
    while (json_walk_more(w, ']'))
        json_decref(json_walk_value(w));
}

/* Whether everything that is read before the variables is there; psd writes them last. */
static bool
has_rest(const json_t *root)
{
    static const char *const members[] = {"format", "psd", "unix_ms", "one_clock", "clock", "job", "shards", "files"};
    bool all = true;

    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        all &= json_object_get(root, members[i]) != NULL;
    return all;
}

/* The list is read where it is, or, when it comes before what else there is, later. */
static enum ps_err
take_variables(struct manifest_reader *r, const json_t *root)
{
    enum ps_err err;

    if (!has_rest(root)) {
        r->later = r->walk;
        skip_list(&r->walk);
        return PS_OK;
    }
    if ((err = read_rest(r, root)) != PS_OK)
        return err;
    r->done = true;
    return read_variables(r);
}

/* One member into root; of the variables only that they were there. */
static enum ps_err
take_member(struct manifest_reader *r, const char *name, json_t *root)
{
    enum ps_err err = PS_OK;
    json_t *value;

    if (json_object_get(root, name) != NULL)
        return ps_fail(r->e, PS_ERR_DATA, CHECKPOINT_MANIFEST ": not valid JSON: '%.*s' is there twice", NAME_SHOWN,
                       name);
    if (strcmp(name, "variables") == 0) {
        err = take_variables(r, root);
        value = json_null();
    } else {
        value = json_walk_value(&r->walk);
    }
    if (err == PS_OK && r->walk.error[0] != '\0')
        err = refuse_json(r);
    if (err != PS_OK) {
        json_decref(value);
        return err;
    }
    return json_object_set_new(root, name, value) == 0 ? PS_OK : checkpoint_no_memory(r->e);
}

static enum ps_err
take_members(struct manifest_reader *r, json_t *root)
{
    enum ps_err err = PS_OK;
    json_t *name;

    if (root == NULL)
        return checkpoint_no_memory(r->e);
    if (!json_walk_open(&r->walk, '{'))
        return refuse_begin(r);
    while (err == PS_OK && json_walk_more(&r->walk, '}')) {
        if ((name = json_walk_name(&r->walk)) == NULL)
            break;
        err = take_member(r, json_string_value(name), root);
        json_decref(name);
    }
    return err == PS_OK && !json_walk_end(&r->walk) ? refuse_json(r) : err;
}

/* Of a manifest whose variables come before what else there is, or of one without. */
static enum ps_err
read_later(struct manifest_reader *r, const json_t *root)
{
    enum ps_err err;

    if (r->done)
        return PS_OK;
    if ((err = read_rest(r, root)) != PS_OK)
        return err;
    r->place[0] = '\0';
    if (r->later.begin == NULL)
        return REFUSE(r, "variables", "%s", "expected a list");
    r->walk = r->later;
    return read_variables(r);
}

enum ps_err
checkpoint_parse(struct span text, struct checkpoint *out, struct ps_error *e)
{
    struct manifest_reader r = {.c = out, .e = e, .walk = json_walk_start(text.data, text.len)};
    json_t *root;
    enum ps_err err;

    *out = (struct checkpoint){0};
    if (text.len > CHECKPOINT_MANIFEST_MAX)
        return ps_fail(e, PS_ERR_DATA, CHECKPOINT_MANIFEST ": it has %zu bytes; the limit is %ju", text.len,
                       (uintmax_t)CHECKPOINT_MANIFEST_MAX);
    if ((err = checkpoint_check_seal(text, e)) != PS_OK)
        return err;
    root = json_object();
    if ((err = take_members(&r, root)) == PS_OK)
        err = read_later(&r, root);
    json_decref(root);
    return err;
}
