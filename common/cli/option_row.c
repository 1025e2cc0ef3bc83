#include "common/cli/option_row.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/base/comma_list.h"
#include "common/core/base/nearest.h"
#include "common/core/base/number.h"
#include "common/core/base/units.h"
#include "common/core/cluster/address.h"

/* A value that is being stored, with what error messages need. */
struct value {
    const struct option *option;
    const char *called, *text;
    struct ps_error *e;
};

static enum ps_err
option_expected_error(const struct value *v, const char *what)
{
    return ps_fail(v->e, PS_ERR_INVALID, "%s: expected %s, got '%.128s'", v->called, what, v->text);
}

/* ---- numbers ---- */

static const struct unit *
option_units(enum option_kind kind)
{
    switch (kind) {
    case OPTION_SIZE:
        return units_of_bytes;
    case OPTION_SECONDS:
    case OPTION_MS:
        return units_of_ms;
    case OPTION_US:
        return units_of_us;
    default:
        return NULL;
    }
}

/* An end of the range, as one would write it. */
static const char *
option_limit(const struct option *o, int64_t limit, struct units *out)
{
    if (option_units(o->kind) != NULL && limit != 0)
        return units_exact((uint64_t)limit, option_units(o->kind), out);
    snprintf(out->text, sizeof out->text, o->kind == OPTION_MODE ? "%04" PRIo64 : "%" PRId64, limit);
    return out->text;
}

static const char *
option_unit_list(enum option_kind kind)
{
    return kind == OPTION_SIZE ? "KiB, MiB, GiB, TiB" : kind == OPTION_US ? "us, ms, s, m" : "ms, s, m, h, d";
}

/* What a number alone is, in words. */
static const char *
option_bare_is(enum option_kind kind)
{
    switch (kind) {
    case OPTION_SIZE:
        return "bytes";
    case OPTION_SECONDS:
        return "seconds";
    case OPTION_MS:
        return "milliseconds";
    default:
        return "microseconds";
    }
}

static enum ps_err
option_store_whole(const struct value *v, int64_t value, int64_t *out)
{
    const struct option *o = v->option;
    static const char *const nouns[] = {[OPTION_INT] = "a number",   [OPTION_MODE] = "a mode", [OPTION_SIZE] = "a size",
                                        [OPTION_SECONDS] = "a time", [OPTION_MS] = "a time",   [OPTION_US] = "a time"};
    const char *zero = (o->traits & OPTION_ZERO) != 0 ? "0 or " : "";
    struct units low, high;
    char what[128];

    if ((value >= o->min && (o->max == 0 || value <= o->max)) || (value == 0 && *zero != '\0')) {
        *out = value;
        return PS_OK;
    }
    if (o->max == 0)
        snprintf(what, sizeof what, "%s%s of at least %s", zero, nouns[o->kind], option_limit(o, o->min, &low));
    else
        snprintf(what, sizeof what, "%s%s from %s to %s", zero, nouns[o->kind], option_limit(o, o->min, &low),
                 option_limit(o, o->max, &high));
    if (option_units(o->kind) != NULL && v->text[strspn(v->text, "0123456789.")] == '\0')
        return ps_fail(v->e, PS_ERR_INVALID, "%s: expected %s, got '%.128s', which without a unit is %s (units: %s)",
                       v->called, what, v->text, option_bare_is(o->kind), option_unit_list(o->kind));
    return option_expected_error(v, what);
}

static enum ps_err
option_store_int(const struct value *v, int64_t *out)
{
    bool octal = v->option->kind == OPTION_MODE;
    char *end;
    int64_t value;

    errno = 0;
    value = strtoll(v->text, &end, octal ? 8 : 10); /* out of range: the nearest, which the range refuses */
    if (end == v->text || *end != '\0' || isspace((unsigned char)*v->text) || (errno == ERANGE && v->option->max == 0))
        return option_expected_error(v, octal ? "a mode such as 0660" : "a whole number");
    return option_store_whole(v, value, out);
}

static enum ps_err
option_store_quantity(const struct value *v, int64_t *out)
{
    static const char *const bare[] = {
        [OPTION_SIZE] = "B", [OPTION_SECONDS] = "s", [OPTION_MS] = "ms", [OPTION_US] = "us"};
    static const char *const what[] = {[OPTION_SIZE] = "a size such as 64MiB",
                                       [OPTION_SECONDS] = "a time such as 5s or 500ms",
                                       [OPTION_MS] = "a time such as 5s or 500ms",
                                       [OPTION_US] = "a time such as 50us"};
    enum option_kind kind = v->option->kind;
    uint64_t value;

    if (!units_parse(v->text, option_units(kind), bare[kind], &value))
        return ps_fail(v->e, PS_ERR_INVALID, "%s: expected %s, got '%.128s' (units: %s)", v->called, what[kind],
                       v->text, option_unit_list(kind));
    return option_store_whole(v, (int64_t)value, out);
}

static enum ps_err
option_store_real(const struct value *v, double *out)
{
    const struct option *o = v->option;
    char what[96];
    double value;

    if (!number_parse(v->text, &value) || !isfinite(value))
        return option_expected_error(v, "a number");
    if (o->kind == OPTION_POSITIVE && value <= 0)
        return option_expected_error(v, "a number above 0");
    if (o->kind == OPTION_REAL && (value < o->low || (o->high != 0 && value > o->high))) {
        if (o->high != 0)
            snprintf(what, sizeof what, "a number from %g to %g", o->low, o->high);
        else
            snprintf(what, sizeof what, "a number of at least %g", o->low);
        return option_expected_error(v, what);
    }
    *out = value;
    return PS_OK;
}

/* ---- words ---- */

static const struct option_choice *
option_choose(const struct option *o, const char *text)
{
    for (const struct option_choice *c = o->choices; c != NULL && c->name != NULL; c++)
        if (strcmp(c->name, text) == 0)
            return c;
    return NULL;
}

static enum ps_err
option_store_choice(const struct value *v, int *out)
{
    const struct option_choice *chosen = option_choose(v->option, v->text);
    char what[256] = "one of", meant[NEAREST_TEXT_MAX];
    struct nearest nearest = nearest_to(v->text);

    if (chosen != NULL) {
        *out = chosen->value;
        return PS_OK;
    }
    for (const struct option_choice *c = v->option->choices; c->name != NULL; c++) {
        snprintf(what + strlen(what), sizeof what - strlen(what), "%s %s", c == v->option->choices ? "" : ",", c->name);
        nearest_offer(&nearest, c->name);
    }
    return ps_fail(v->e, PS_ERR_INVALID, "%s: expected %s, got '%.128s'%s", v->called, what, v->text,
                   nearest_text(&nearest, "", meant));
}

static enum ps_err
option_store_list(const struct value *v, struct option_list *out)
{
    if (out->len == OPTION_LIST_MAX)
        return ps_fail(v->e, PS_ERR_INVALID, "%s: given more than %d times", v->called, OPTION_LIST_MAX);
    out->text[out->len++] = v->text;
    return PS_OK;
}

static enum ps_err
option_check_address(const struct value *v, const char *text)
{
    struct address address;
    struct ps_error why;

    if (address_parse(text, &address, &why) != PS_OK)
        return ps_fail(v->e, PS_ERR_INVALID, "%s: %s", v->called, why.text);
    return PS_OK;
}

/* Each of a list separated by commas. */
static enum ps_err
option_check_addresses(const struct value *v)
{
    char one[ADDRESS_MAX + 1];
    enum ps_err err = PS_OK;

    if (option_choose(v->option, v->text) != NULL)
        return PS_OK;
    if (v->option->kind == OPTION_ADDRESS)
        return option_check_address(v, v->text);
    for (const char *at = v->text; err == PS_OK && comma_list_next(&at, one, sizeof one);)
        err = *one != '\0'
                  ? option_check_address(v, one)
                  : ps_fail(v->e, PS_ERR_INVALID, "%s: an address is missing before or after a comma", v->called);
    return err;
}

static enum ps_err
option_store_text(const struct value *v, const char **out)
{
    enum option_kind kind = v->option->kind;
    enum ps_err err = PS_OK;

    if (kind == OPTION_ADDRESS || kind == OPTION_ADDRESSES)
        err = option_check_addresses(v);
    else if (kind != OPTION_TEXT && *v->text == '\0')
        err = ps_fail(v->e, PS_ERR_INVALID, "%s: it may not be empty", v->called);
    if (err == PS_OK)
        *out = v->text;
    return err;
}

/* ---- any kind ---- */

static void *
option_field(const struct option *o, void *settings)
{
    return (char *)settings + o->offset;
}

enum ps_err
option_store(const struct option *o, const char *called, const char *text, void *settings, struct ps_error *e)
{
    struct value v = {.option = o, .called = called, .text = text, .e = e};
    void *field = option_field(o, settings);

    switch (o->kind) {
    case OPTION_FLAG:
        *(bool *)field = true;
        return PS_OK;
    case OPTION_INT:
    case OPTION_MODE:
        return option_store_int(&v, field);
    case OPTION_SIZE:
    case OPTION_SECONDS:
    case OPTION_MS:
    case OPTION_US:
        return option_store_quantity(&v, field);
    case OPTION_REAL:
    case OPTION_POSITIVE:
        return option_store_real(&v, field);
    case OPTION_TEXT:
    case OPTION_NAME:
    case OPTION_FILE:
    case OPTION_DIRECTORY:
    case OPTION_ADDRESS:
    case OPTION_ADDRESSES:
        return option_store_text(&v, field);
    case OPTION_CHOICE:
        return option_store_choice(&v, field);
    case OPTION_LIST:
        return option_store_list(&v, field);
    }
    ps_assert(!"option kind");
    return PS_OK;
}

void
option_clear(const struct option *o, void *settings)
{
    static const size_t size[] = {
        [OPTION_FLAG] = sizeof(bool),
        [OPTION_INT] = sizeof(int64_t),
        [OPTION_REAL] = sizeof(double),
        [OPTION_POSITIVE] = sizeof(double),
        [OPTION_MODE] = sizeof(int64_t),
        [OPTION_SIZE] = sizeof(int64_t),
        [OPTION_SECONDS] = sizeof(int64_t),
        [OPTION_MS] = sizeof(int64_t),
        [OPTION_US] = sizeof(int64_t),
        [OPTION_TEXT] = sizeof(const char *),
        [OPTION_NAME] = sizeof(const char *),
        [OPTION_FILE] = sizeof(const char *),
        [OPTION_DIRECTORY] = sizeof(const char *),
        [OPTION_ADDRESS] = sizeof(const char *),
        [OPTION_ADDRESSES] = sizeof(const char *),
        [OPTION_CHOICE] = sizeof(int),
        [OPTION_LIST] = sizeof(struct option_list),
    };

    memset(option_field(o, settings), 0, size[o->kind]);
}

bool
option_is_for(const struct option *o, const char *command)
{
    size_t len = command != NULL ? strlen(command) : 0;

    if (o->commands == NULL || command == NULL)
        return true;
    for (const char *at = o->commands; *at != '\0'; at += strspn(at, " ")) {
        size_t word = strcspn(at, " ");

        if (word == len && memcmp(at, command, len) == 0)
            return true;
        at += word;
    }
    return false;
}

const char *
option_form(const struct option *o, char text[OPTION_FORM_MAX])
{
    const char *form = o->argument == NULL ? "%s" : o->bare != NULL ? "[=%s]" : " %s";

    snprintf(text, OPTION_FORM_MAX, form, o->argument != NULL ? o->argument : "");
    return text;
}

/* Add to a text of OPTION_TEXT_MAX bytes; what does not fit is left out. */
static void
text_add(char *text, const char *before, const char *what)
{
    size_t len = strlen(text);

    snprintf(text + len, OPTION_TEXT_MAX - len, "%s%s", before, what);
}

/* "for status, ping: " */
static void
text_commands(char *text, const char *commands)
{
    char word[64];

    for (const char *at = commands; *at != '\0'; at += strspn(at, " ")) {
        snprintf(word, sizeof word, "%.*s", (int)strcspn(at, " "), at);
        text_add(text, at == commands ? "for " : ", ", word);
        at += strcspn(at, " ");
    }
    text_add(text, ": ", "");
}

static void
text_note(char *text, bool *any, const char *what, const char *value)
{
    text_add(text, *any ? "; " : " (", what);
    text_add(text, value, "");
    *any = true;
}

const char *
option_text(const struct option *o, const char *command, char text[OPTION_TEXT_MAX])
{
    const char *usual = o->usual != NULL ? o->usual : o->fallback;
    bool any = false;

    text[0] = '\0';
    if (o->commands != NULL && command == NULL)
        text_commands(text, o->commands);
    text_add(text, o->help, "");
    if (usual != NULL)
        text_note(text, &any, "default ", usual);
    if (option_units(o->kind) != NULL)
        text_note(text, &any, "without a unit: ", option_bare_is(o->kind));
    if (o->traits & OPTION_RELOADS)
        text_note(text, &any, "read again on SIGHUP", "");
    if (o->kind == OPTION_LIST || (o->traits & OPTION_REPEATS))
        text_note(text, &any, "may be given many times", "");
    text_add(text, any ? ")" : "", "");
    return text;
}
