/* Layers as text, both ways, from the fields that each kind of layer lists. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/network/layer.h"
#include "common/core/base/nearest.h"
#include "common/core/base/number.h"

#define NUMBER_MAX 20 /* characters of a number */

static_assert(sizeof(enum ps_padding) == sizeof(int), "a flag's member is an int");

static void *
field_member(struct ps_layer *layer, const struct layer_field *field)
{
    return (char *)layer + field->offset;
}

/* ---- Writing ---- */

/* A count and a plane of 0 are left out: the default. */
static void
format_field(struct text *t, const struct ps_layer *spec, const struct layer_field *field)
{
    struct ps_layer copy = *spec;
    const void *member = field_member(&copy, field);
    const size_t *count = member;
    const char *word = field->position == FIELD_AFTER_WORD ? field->word : "", *gap = word[0] != '\0' ? " " : "";

    if (field->type == FIELD_FLAG && *(const int *)member != 0)
        text_put(t, " %s", field->word);
    if (field->type == FIELD_COUNT && *count > 0)
        text_put(t, "%s%s %zu", gap, word, *count);
    if (field->type == FIELD_PLANE && count[0] > 0)
        text_put(t, "%s%s %zux%zu", gap, word, count[0], count[1]);
    if (field->type == FIELD_FRACTION) {
        text_put(t, "%s%s ", gap, word);
        text_number(t, *(const double *)member);
    }
}

void
layer_format(struct text *t, const struct ps_layer *spec)
{
    const struct layer_kind *kind = layer_kind_of((int)spec->kind);

    text_put(t, "%s", layer_word(spec->kind));
    for (size_t i = 0; i < kind->field_count; i++)
        format_field(t, spec, &kind->fields[i]);
}

/* "conv FILTERS KERNEL [same] [stride STRIDE] [no-bias]" */
static void
format_usage(struct text *t, enum ps_layer_kind number)
{
    const struct layer_kind *kind = layer_kind_of((int)number);

    text_put(t, "%s", layer_word(number));
    for (size_t i = 0; i < kind->field_count; i++) {
        const struct layer_field *f = &kind->fields[i];

        if (f->position == FIELD_REQUIRED)
            text_put(t, " %s", f->word);
        else if (f->position == FIELD_OPTIONAL || f->type == FIELD_FLAG)
            text_put(t, " [%s]", f->word);
        else
            text_put(t, " [%s %s]", f->word, f->type == FIELD_PLANE ? "HxW" : "N");
    }
}

/* ---- Reading ---- */

/* The text of one layer, of which words are taken from the front. */
struct network_reader {
    const char *at, *end;
};

struct network_word {
    const char *start;
    size_t len;
};

static bool
next_word(struct network_reader *r, struct network_word *out)
{
    while (r->at < r->end && strchr(" \t\n", *r->at) != NULL)
        r->at++;
    out->start = r->at;
    while (r->at < r->end && strchr(" \t\n", *r->at) == NULL)
        r->at++;
    out->len = (size_t)(r->at - out->start);
    return out->len > 0;
}

static bool
word_is(const struct network_word *w, const char *text)
{
    return strlen(text) == w->len && memcmp(w->start, text, w->len) == 0;
}

/* A whole number from 1 on, of which the text goes on with `next`, or ends. Returns what comes after it, NULL: none. */
static const char *
read_count(const char *at, size_t *out)
{
    char *end;
    unsigned long long n;

    errno = 0;
    n = strtoull(at, &end, 10);
    if (*at < '0' || *at > '9' || errno != 0 || n < 1 || n > PS_DEVICE_SIZE_MAX)
        return NULL;
    *out = (size_t)n;
    return end;
}

/* "5x3", or "5" for both. */
static bool
read_plane(const char *text, size_t out[2])
{
    const char *end = read_count(text, &out[0]);

    if (end == NULL)
        return false;
    out[1] = out[0];
    if (*end == 'x')
        end = read_count(end + 1, &out[1]);
    return end != NULL && *end == '\0';
}

static bool
read_value(const struct network_word *w, const struct layer_field *field, struct ps_layer *layer)
{
    void *member = field_member(layer, field);
    char text[2 * NUMBER_MAX + 2];
    const char *end;

    if (w->len >= sizeof text)
        return false;
    memcpy(text, w->start, w->len);
    text[w->len] = '\0';
    if (field->type == FIELD_PLANE)
        return read_plane(text, member);
    if (field->type == FIELD_FRACTION)
        return number_parse(text, member);
    end = read_count(text, member);
    return end != NULL && *end == '\0';
}

/* The field that comes after the word itself; NULL: none. */
static const struct layer_field *
field_by_word(const struct layer_kind *kind, const struct network_word *w)
{
    for (size_t i = 0; i < kind->field_count; i++)
        if (kind->fields[i].position == FIELD_AFTER_WORD && word_is(w, kind->fields[i].word))
            return &kind->fields[i];
    return NULL;
}

/* What a field's value has to be. */
static void
explain_value(struct text *why, const struct layer_field *field, const struct network_word *w)
{
    text_put(why, "; %s is \"%.*s\", and has to be ", field->word, (int)MIN(w->len, 64), w->start);
    if (field->type == FIELD_FRACTION)
        text_put(why, "a number");
    else
        text_put(why, "%s from 1 to %lld", field->type == FIELD_PLANE ? "N or HxW, whole numbers" : "a whole number",
                 (long long)PS_DEVICE_SIZE_MAX);
}

/* A word after the values, which is none of those that the layer takes. */
static void
explain_word(struct text *why, const struct layer_kind *kind, const struct network_word *w)
{
    char name[NEAREST_NAME_MAX + 2], meant[NEAREST_TEXT_MAX];
    struct nearest nearest;

    snprintf(name, sizeof name, "%.*s", (int)MIN(w->len, sizeof name - 1), w->start);
    nearest = nearest_to(name);
    for (size_t i = 0; i < kind->field_count; i++)
        if (kind->fields[i].position == FIELD_AFTER_WORD)
            nearest_offer(&nearest, kind->fields[i].word);
    text_put(why, "; \"%s\" is more than it takes%s", name, nearest_text(&nearest, "", meant));
}

/* All words after the layer's own. False: what is wrong is added to why. */
static bool
read_fields(struct network_reader *r, const struct layer_kind *kind, struct ps_layer *out, struct text *why)
{
    const struct layer_field *field;
    size_t taken = 0;
    struct network_word w;

    while (next_word(r, &w)) {
        if ((field = field_by_word(kind, &w)) == NULL) {
            if (taken == kind->field_count || kind->fields[taken].position == FIELD_AFTER_WORD) {
                explain_word(why, kind, &w);
                return false;
            }
            field = &kind->fields[taken++];
        } else if (field->type == FIELD_FLAG) {
            *(int *)field_member(out, field) = 1;
            continue;
        } else if (!next_word(r, &w)) {
            text_put(why, "; a value is missing after %s", field->word);
            return false;
        }
        if (!read_value(&w, field, out)) {
            explain_value(why, field, &w);
            return false;
        }
    }
    if (taken == kind->field_count || kind->fields[taken].position != FIELD_REQUIRED)
        return true;
    text_put(why, "; %s is missing", kind->fields[taken].word);
    return false;
}

/* PS_LAYER_KINDS: none. */
static int
kind_by_word(const struct network_word *w)
{
    int kind = 0;

    while (kind < PS_LAYER_KINDS && !word_is(w, layer_word((enum ps_layer_kind)kind)))
        kind++;
    return kind;
}

/* "dense:3", "dense=3" and "dense(3)" instead of "dense 3"; PS_LAYER_KINDS: something else. */
static int
kind_before_mark(const struct network_word *w)
{
    struct network_word name = {.start = w->start};

    while (name.len < w->len && strchr(":=(", w->start[name.len]) == NULL)
        name.len++;
    return name.len < w->len ? kind_by_word(&name) : PS_LAYER_KINDS;
}

static enum ps_err
unknown_layer(size_t number, const struct network_word *w, struct ps_error *e)
{
    char words[256], usage[256], name[NEAREST_NAME_MAX + 2], meant[NEAREST_TEXT_MAX];
    struct text t = text_start(words, sizeof words), form = text_start(usage, sizeof usage);
    int kind = kind_before_mark(w);
    struct nearest nearest;

    snprintf(name, sizeof name, "%.*s", (int)MIN(w->len, sizeof name - 1), w->start);
    if (kind < PS_LAYER_KINDS) {
        format_usage(&form, (enum ps_layer_kind)kind);
        return ps_fail(e, PS_ERR_INVALID, "layer %zu: \"%s\": blanks are between a layer's words: %s", number, name,
                       usage);
    }
    nearest = nearest_to(name);
    for (int i = 0; i < PS_LAYER_KINDS; i++) {
        text_put(&t, "%s%s", i > 0 ? ", " : "", layer_word((enum ps_layer_kind)i));
        nearest_offer(&nearest, layer_word((enum ps_layer_kind)i));
    }
    return ps_fail(e, PS_ERR_INVALID, "layer %zu: there is no layer \"%s\"; layers are: %s%s", number, name, words,
                   nearest_text(&nearest, "", meant));
}

/* Another layer's word among a layer's own; *out. False: none is there. */
static bool
find_layer_word(struct network_reader rest, struct network_word *out)
{
    while (next_word(&rest, out))
        if (kind_by_word(out) < PS_LAYER_KINDS)
            return true;
    return false;
}

static enum ps_err
read_layer(size_t number, struct network_reader r, struct ps_layer *out, struct ps_error *e)
{
    struct network_reader whole = r, rest;
    struct network_word w, other;
    int kind;
    char usage[256], reason[256];
    struct text t = text_start(usage, sizeof usage), why = text_start(reason, sizeof reason);

    if (!next_word(&r, &w))
        return ps_fail(e, PS_ERR_INVALID, "layer %zu is empty", number);
    rest = r;
    kind = kind_by_word(&w);
    if (kind == PS_LAYER_KINDS)
        return unknown_layer(number, &w, e);
    memset(out, 0, sizeof *out);
    out->kind = (enum ps_layer_kind)kind;
    if (read_fields(&r, layer_kind_of(kind), out, &why))
        return PS_OK;
    format_usage(&t, out->kind);
    if (find_layer_word(rest, &other)) {
        why = text_start(reason, sizeof reason);
        text_put(&why, "; is a comma missing before \"%.*s\"?", (int)other.len, other.start);
    }
    return ps_fail(e, PS_ERR_INVALID, "layer %zu: \"%.*s\" is not %s%s", number, (int)MIN(whole.end - w.start, 64),
                   w.start, usage, reason);
}

enum ps_err
ps_network_parse(const char *text, struct ps_layer *layers, size_t *count, struct ps_error *error)
{
    enum ps_err err;

    *count = 0;
    if (text == NULL)
        return ps_fail(error, PS_ERR_INVALID, "there is no text of layers");
    for (const char *end;; text = end + 1) {
        end = text + strcspn(text, ",");
        if (*count == PS_LAYERS_MAX)
            return ps_fail(error, PS_ERR_INVALID, "a network has at most %d layers", PS_LAYERS_MAX);
        if ((err = read_layer(*count, (struct network_reader){text, end}, &layers[*count], error)) != PS_OK)
            return err;
        ++*count;
        if (*end == '\0')
            return PS_OK;
    }
}
