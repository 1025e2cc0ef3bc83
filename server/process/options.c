/* Values are kept as they were written in text[], copied, and parsed in the fields; the source decides which of two is
 * used, so that file and command line may be read in any order. */
#include "server/process/options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/base/text_lines.h"
#include "common/core/base/utf8.h"
#include "common/core/wire/wire.h"
#include "common/system/input_file.h"

#define OPTIONS_FILE_MAX MIB /* bytes of a configuration file */

static size_t
row_index(const struct option *row)
{
    return (size_t)(row - psd_command.options);
}

enum ps_err
options_set(struct options *o, const struct option *row, const char *called, enum option_source source,
            const char *text, struct ps_error *e)
{
    size_t i = row_index(row);
    bool again = o->text[i] != NULL && o->source[i] == source && source != FROM_DEFAULT;
    char *copy = NULL;

    if (o->text[i] != NULL && o->source[i] > source)
        return PS_OK;
    if (again && !(row->traits & OPTION_REPEATS))
        return ps_fail(e, PS_ERR_INVALID, "%s: it is given twice", called);
    if ((again ? asprintf(&copy, "%s,%s", o->text[i], text) : asprintf(&copy, "%s", text)) < 0)
        return ps_fail(e, PS_ERR_NOMEM, "out of memory");
    free(o->text[i]);
    o->text[i] = copy;
    o->source[i] = source;
    return option_store(row, called, copy, o, e);
}

bool
options_given(const struct options *o, const char *name)
{
    return o->source[row_index(command_find(&psd_command, name, strlen(name)))] > FROM_ENVIRONMENT;
}

static enum ps_err
set_defaults(struct options *o, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    for (size_t i = 0; i < psd_command.options_len && err == PS_OK; i++) {
        const struct option *row = &psd_command.options[i];

        if (row->fallback != NULL)
            err = options_set(o, row, row->name, FROM_DEFAULT, row->fallback, e);
    }
    return err;
}

/* ---- Command line ---- */

static enum ps_err
set_arg(void *options, const struct option *row, const char *text, struct ps_error *e)
{
    char called[64];

    if (row->kind == OPTION_FLAG)
        return option_store(row, row->name, text, options, e);
    snprintf(called, sizeof called, "--%s", row->name);
    return options_set(options, row, called, FROM_ARGS, text, e);
}

/* ---- Configuration file ---- */

static char *
options_trim(char *text)
{
    char *end = text + strlen(text);

    while (end > text && isspace((unsigned char)end[-1]))
        *--end = '\0';
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

/* The value behind the '=' without the comment after it, blanks around it, and the quotes that it may stand in, within
 * which # is one of its characters. False: a quote that is not closed, or that something follows. */
static bool
options_take_value(char **value)
{
    char *text = options_trim(*value), *end = text + strcspn(text, "#");

    if (*text == '"' || *text == '\'') {
        if ((end = strchr(text + 1, *text)) == NULL)
            return false;
        *end = '\0';
        *value = text + 1;
        end = options_trim(end + 1);
        return *end == '\0' || *end == '#';
    }
    *end = '\0';
    *value = options_trim(text);
    return true;
}

static enum ps_err
parse_line(struct options *o, const char *file, unsigned long long number, char *line, struct ps_error *e)
{
    const struct option *row;
    char *name, *value, called[PATH_MAX + 64], meant[NEAREST_TEXT_MAX];

    name = options_trim(line);
    if (*name == '\0' || *name == '#')
        return PS_OK;
    value = strpbrk(name, "=#");
    if (value == NULL || *value == '#')
        return ps_fail(e, PS_ERR_CONFIG, "%s:%llu: a line is \"name = value\"", file, number);
    *value++ = '\0';
    name = options_trim(name);
    row = command_find(&psd_command, name, strlen(name));
    if (row == NULL)
        return ps_fail(e, PS_ERR_CONFIG, "%s:%llu: there is no option %s%s", file, number, name,
                       command_meant(&psd_command, name, "", meant));
    if (row->traits & OPTION_ARGS_ONLY)
        return ps_fail(e, PS_ERR_CONFIG, "%s:%llu: %s is for the command line only", file, number, name);
    if (!options_take_value(&value))
        return ps_fail(e, PS_ERR_CONFIG, "%s:%llu: %s: a value stands in two quotes, or in none", file, number, name);
    snprintf(called, sizeof called, "%s:%llu: %s", file, number, name);
    return options_set(o, row, called, FROM_FILE, value, e);
}

static enum ps_err
parse_file(struct options *o, const char *file, struct ps_error *e)
{
    struct text_lines lines;
    struct span line;
    struct ps_error why;
    enum ps_err err;
    char *text;
    size_t len;

    if ((err = input_file_text(file, OPTIONS_FILE_MAX, PS_ERR_CONFIG, &text, &len, &why)) != PS_OK)
        return ps_fail(e, err, "cannot read the configuration file %s", why.text);
    lines = text_lines_start(text, len);
    while (err == PS_OK && text_lines_next(&lines, &line)) {
        text[(const char *)line.data - text + (ptrdiff_t)line.len] = '\0'; /* where its end was */
        err = parse_line(o, file, (unsigned long long)lines.number, text + ((const char *)line.data - text), e);
    }
    free(text);
    return err;
}

/* ---- All together ---- */

enum ps_err
options_check_place(const struct options *o, struct ps_error *e)
{
    if (o->shard >= o->shards)
        return ps_fail(e, PS_ERR_CONFIG, "shard %" PRIu64 " of %" PRIu64 ": indices are 0 to --shards less one",
                       o->shard, o->shards);
    return PS_OK;
}

/* Checks that need several options. Without --shards the environment may still give their number. */
static enum ps_err
options_check(const struct options *o, struct ps_error *e)
{
    if (options_given(o, "shards") && options_check_place(o, e) != PS_OK)
        return PS_ERR_CONFIG;
    if (strlen(o->cluster) > WIRE_CLUSTER_MAX || !utf8_is_printable(o->cluster, strlen(o->cluster)))
        return ps_fail(e, PS_ERR_CONFIG, "--cluster is at most %d bytes of UTF-8 without control characters",
                       WIRE_CLUSTER_MAX);
    if ((o->tls_cert == NULL) != (o->tls_key == NULL))
        return ps_fail(e, PS_ERR_CONFIG, "--tls-cert and --tls-key belong together");
    if (o->tls_client_ca != NULL && o->tls_cert == NULL)
        return ps_fail(e, PS_ERR_CONFIG, "--tls-client-ca needs --tls-cert and --tls-key");
    if ((o->http_tls_cert == NULL) != (o->http_tls_key == NULL))
        return ps_fail(e, PS_ERR_CONFIG, "--http-tls-cert and --http-tls-key belong together");
    if (o->http_tls == 0 && o->http_tls_cert != NULL)
        return ps_fail(e, PS_ERR_CONFIG, "--http-tls-cert and --http-tls-key are for --http-tls, which is not given");
    if (o->http_tls != 0 && o->http_tls_cert == NULL && o->tls_cert == NULL)
        return ps_fail(e, PS_ERR_CONFIG,
                       "--http-tls needs a certificate: --tls-cert and --tls-key, or --http-tls-cert and "
                       "--http-tls-key for HTTP alone");
    if (o->in_flight_connection > o->in_flight)
        return ps_fail(e, PS_ERR_CONFIG,
                       "--in-flight-connection (%" PRIu64 " MiB) is more than --in-flight (%" PRIu64 " MiB)",
                       (uint64_t)(o->in_flight_connection / MIB), (uint64_t)(o->in_flight / MIB));
    if (o->until != 0 && (o->replay == NULL || o->live_dir == NULL))
        return ps_fail(e, PS_ERR_CONFIG, "--until needs --replay, and --live-dir for a new directory");
    if (strchr(o->http, ',') != NULL || strncmp(o->http, "unix:", 5) == 0)
        return ps_fail(e, PS_ERR_CONFIG, "--http is one host:port, or none; not '%.200s'", o->http);
    if (strcmp(o->listen, "none") == 0 && o->unix_path == NULL)
        return ps_fail(e, PS_ERR_CONFIG, "--listen none without --unix: nobody could connect");
    return PS_OK;
}

enum ps_err
options_parse(struct options *o, int argc, char **argv, struct ps_error *e)
{
    enum ps_err err;

    *o = (struct options){0};
    if ((err = set_defaults(o, e)) != PS_OK ||
        (err = command_walk(&psd_command, argc, argv, set_arg, o, &o->line, e)) != PS_OK)
        return err;
    if (o->line.asked != COMMAND_RUN || o->sample_config)
        return PS_OK;
    if (o->config != NULL && (err = parse_file(o, o->config, e)) != PS_OK)
        return err;
    return options_check(o, e);
}

void
options_finish(struct options *o)
{
    for (size_t i = 0; i < OPTIONS_MAX; i++)
        free(o->text[i]);
    *o = (struct options){0};
}

/* ---- Reloading ---- */

static bool
options_same(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

void
options_compare(const struct options *was, const struct options *is, options_visit visit, void *arg)
{
    for (size_t i = 0; i < psd_command.options_len; i++)
        if (!options_same(was->text[i], is->text[i]))
            visit(arg, psd_command.options[i].name, (psd_command.options[i].traits & OPTION_RELOADS) != 0,
                  was->text[i] != NULL ? was->text[i] : "(none)", is->text[i] != NULL ? is->text[i] : "(none)");
}

/* The value that it has in `from`, which may be none. False: no memory, and it stays as it is. */
static bool
take_over(struct options *o, const struct options *from, size_t i)
{
    const struct option *row = &psd_command.options[i];
    char *copy = NULL;

    if (from->text[i] == NULL) {
        option_clear(row, o);
    } else if ((copy = strdup(from->text[i])) == NULL || option_store(row, row->name, copy, o, NULL) != PS_OK) {
        free(copy);
        return false;
    }
    free(o->text[i]);
    o->text[i] = copy;
    o->source[i] = from->source[i];
    return true;
}

void
options_reload(struct options *o, const struct options *from)
{
    for (size_t i = 0; i < psd_command.options_len; i++)
        if ((psd_command.options[i].traits & OPTION_RELOADS) && !options_same(o->text[i], from->text[i]))
            (void)take_over(o, from, i); /* it was parsed once: only memory can be lacking */
}

/* ---- A file to begin with ---- */

/* A comment, wrapped. */
static void
sample_words(FILE *out, const char *text)
{
    int column = 0;

    while (*text != '\0') {
        size_t n = strcspn(text, " ");

        if (column == 0 || column + (int)n > 94)
            column = fprintf(out, "%s#", column == 0 ? "" : "\n");
        column += fprintf(out, " %.*s", (int)n, text);
        text += n + strspn(text + n, " ");
    }
    fputc('\n', out);
}

void
options_sample(FILE *out)
{
    fprintf(out, "# psd's configuration: take the # away before a name and change the value after it.\n");
    for (size_t i = 0; i < psd_command.options_len; i++) {
        const struct option *row = &psd_command.options[i];
        char text[OPTION_TEXT_MAX];

        if (row->traits & OPTION_ARGS_ONLY)
            continue;
        fputc('\n', out);
        sample_words(out, option_text(row, NULL, text));
        fprintf(out, row->fallback != NULL ? "#%s = %s\n" : "#%s =\n", row->name, row->fallback);
    }
}
