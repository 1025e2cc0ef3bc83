/* The happy path: defaults are stored as if they had been written, then each word is looked up and stored. What is no
 * option is moved to the front of argv, or, for a command that runs a program, ends the options. */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HELP_COLUMNS 96
#define HELP_INDENT  26

/* ---- values ---- */

static void *
option_field(const struct option *o, void *settings)
{
    return (char *)settings + o->offset;
}

static enum ps_err
option_store_int(const struct option *o, const char *text, int64_t *out, struct ps_error *e)
{
    char *end;
    long long value;

    errno = 0;
    value = strtoll(text, &end, 10);
    if (end == text || *end != '\0')
        return ps_fail(e, PS_ERR_INVALID, "--%s: expected a whole number, got '%s'", o->name, text);
    if (errno == ERANGE || value < o->min || value > o->max)
        return ps_fail(e, PS_ERR_INVALID, "--%s: expected a number from %lld to %lld, got '%s'", o->name,
                       (long long)o->min, (long long)o->max, text);
    *out = value;
    return PS_OK;
}

static enum ps_err
option_store_seconds(const struct option *o, const char *text, int64_t *out, struct ps_error *e)
{
    char *end;
    double seconds = strtod(text, &end);

    if (end == text || *end != '\0' || !isfinite(seconds))
        return ps_fail(e, PS_ERR_INVALID, "--%s: expected seconds, got '%s'", o->name, text);
    if (seconds < 0 || seconds * 1000 < (double)o->min || seconds * 1000 > (double)o->max)
        return ps_fail(e, PS_ERR_INVALID, "--%s: expected %g to %g seconds, got '%s'", o->name, (double)o->min / 1000,
                       (double)o->max / 1000, text);
    *out = (int64_t)(seconds * 1000 + 0.5);
    return PS_OK;
}

static enum ps_err
option_store_list(const struct option *o, const char *text, struct option_list *out, struct ps_error *e)
{
    if (out->len == OPTION_LIST_MAX)
        return ps_fail(e, PS_ERR_INVALID, "--%s: given more than %d times", o->name, OPTION_LIST_MAX);
    out->text[out->len++] = text;
    return PS_OK;
}

static enum ps_err
option_store(const struct option *o, const char *text, void *settings, struct ps_error *e)
{
    void *field = option_field(o, settings);

    switch (o->kind) {
    case OPTION_FLAG:
        *(bool *)field = true;
        return PS_OK;
    case OPTION_INT:
        return option_store_int(o, text, field, e);
    case OPTION_SECONDS:
        return option_store_seconds(o, text, field, e);
    case OPTION_TEXT:
        *(const char **)field = text;
        return PS_OK;
    case OPTION_LIST:
        return option_store_list(o, text, field, e);
    }
    ps_assert(!"option kind");
    return PS_OK;
}

static void
option_clear(const struct option *o, void *settings)
{
    static const size_t size[] = {
        [OPTION_FLAG] = sizeof(bool),
        [OPTION_INT] = sizeof(int64_t),
        [OPTION_SECONDS] = sizeof(int64_t),
        [OPTION_TEXT] = sizeof(const char *),
        [OPTION_LIST] = sizeof(struct option_list),
    };

    memset(option_field(o, settings), 0, size[o->kind]);
}

static enum ps_err
options_defaults(const struct option_command *c, void *settings, struct ps_error *e)
{
    enum ps_err err;

    for (size_t i = 0; i < c->options_len; i++)
        option_clear(&c->options[i], settings);
    for (size_t i = 0; i < c->options_len; i++)
        if (c->options[i].fallback != NULL && (err = option_store(&c->options[i], c->options[i].fallback, settings, e)))
            return err;
    return PS_OK;
}

/* ---- parsing ---- */

/* The option that "name" or "name=value" means; NULL when there is none. */
static const struct option *
option_find(const struct option_command *c, const char *word)
{
    size_t len = strcspn(word, "=");

    for (size_t i = 0; i < c->options_len; i++)
        if (strlen(c->options[i].name) == len && memcmp(c->options[i].name, word, len) == 0)
            return &c->options[i];
    return NULL;
}

/* argv[*i] is an option: take it and, when its value is the next word, that too. */
static enum ps_err
options_take(const struct option_command *c, int argc, char **argv, int *i, void *settings, struct ps_error *e)
{
    const char *word = argv[*i] + 2, *value = strchr(word, '=');
    const struct option *o = argv[*i][1] == '-' ? option_find(c, word) : NULL;

    if (o == NULL)
        return ps_fail(e, PS_ERR_INVALID, "unknown option '%s'; %s --help lists them", argv[*i], c->name);
    if (o->argument == NULL && value != NULL)
        return ps_fail(e, PS_ERR_INVALID, "--%s takes no value", o->name);
    if (value != NULL)
        return option_store(o, value + 1, settings, e);
    if (o->argument == NULL)
        return option_store(o, NULL, settings, e);
    if (*i + 1 >= argc)
        return ps_fail(e, PS_ERR_INVALID, "--%s: expected a value (%s) after it", o->name, o->argument);
    return option_store(o, argv[++*i], settings, e);
}

enum ps_err
options_parse(const struct option_command *c, int argc, char **argv, void *settings, struct option_rest *rest,
              bool *help, struct ps_error *e)
{
    enum ps_err err = options_defaults(c, settings, e);
    int i, kept = 1;

    *help = false;
    for (i = 1; err == PS_OK && i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            *help = true;
            return PS_OK;
        }
        if (argv[i][0] == '-' && argv[i][1] != '\0')
            err = options_take(c, argc, argv, &i, settings, e);
        else if (c->program)
            break;
        else
            argv[kept++] = argv[i];
    }
    while (err == PS_OK && i < argc)
        argv[kept++] = argv[i++];
    *rest = (struct option_rest){.words = argv + 1, .len = kept - 1};
    return err;
}

/* ---- help ---- */

/* Print words from column `at` on, wrapped, following lines indented. */
static void
help_wrap(FILE *out, const char *text, size_t len, int at, int indent)
{
    int column = at;
    bool first = true;

    for (const char *end = text + len; text < end;) {
        int word = (int)MIN((size_t)(end - text), strcspn(text, " "));

        if (!first && column + 1 + word > HELP_COLUMNS) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        } else if (!first) {
            fputc(' ', out);
            column++;
        }
        fwrite(text, 1, (size_t)word, out);
        column += word;
        first = false;
        text += word;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void
help_text(FILE *out, const char *text)
{
    while (text != NULL && *text != '\0') {
        size_t len = strcspn(text, "\n");

        if (len == 0 || text[0] == ' ')
            fprintf(out, "%.*s\n", (int)len, text);
        else
            help_wrap(out, text, len, 0, 0);
        text += len + (text[len] == '\n');
    }
}

static void
help_option(FILE *out, const char *name, const char *argument, const char *help, const char *fallback)
{
    char line[2048];
    int at = fprintf(out, "  --%s%s%s", name, argument != NULL ? " " : "", argument != NULL ? argument : "");

    if (at + 2 > HELP_INDENT)
        fprintf(out, "\n%*s", HELP_INDENT, "");
    else
        fprintf(out, "%*s", HELP_INDENT - at, "");
    if (fallback != NULL)
        snprintf(line, sizeof line, "%s (default %s)", help, fallback);
    else
        snprintf(line, sizeof line, "%s", help);
    help_wrap(out, line, strlen(line), HELP_INDENT, HELP_INDENT);
}

void
options_help(const struct option_command *c, FILE *out)
{
    fprintf(out, "usage: %s %s\n\n", c->name, c->usage);
    help_text(out, c->about);
    fprintf(out, "\nOptions:\n");
    for (size_t i = 0; i < c->options_len; i++)
        help_option(out, c->options[i].name, c->options[i].argument, c->options[i].help, c->options[i].fallback);
    help_option(out, "help", NULL, "print this and exit", NULL);
    if (c->after != NULL)
        fputc('\n', out);
    help_text(out, c->after);
}
