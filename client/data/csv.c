/* CSV: line by line, each line is cut into fields in place, then each field is made a number. The first line may be
 * names. The memory for values follows the length of the text, since every value takes two bytes of it. */
#include "client/data/csv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/data/read_file.h"
#include "common/core/base/base.h"
#include "common/core/base/number.h"

struct csv_scan {
    const char *name;
    char *at, *end; /* *end is '\0' */
    char delimiter;
    uint64_t line; /* from 1 */
    char **fields; /* of the line, each terminated */
    size_t count, size;
};

static bool
is_blank(const struct csv_scan *s, char c)
{
    return (c == ' ' || c == '\t' || c == '\r') && c != s->delimiter;
}

static void
skip_blanks(struct csv_scan *s)
{
    while (s->at < s->end && is_blank(s, *s->at))
        s->at++;
}

static bool
at_stop(const struct csv_scan *s)
{
    return s->at == s->end || *s->at == '\n' || *s->at == s->delimiter;
}

static enum ps_err
fail_at(const struct csv_scan *s, size_t column, struct ps_error *e, const char *what)
{
    return ps_fail(e, PS_ERR_DATA, "%s:%llu:%zu: %s", s->name, (unsigned long long)s->line, column + 1, what);
}

/* "a ""b""" becomes a "b"; s->at stands on the opening quote, and after the closing one at return. */
static enum ps_err
take_quoted(struct csv_scan *s, char **field, char **field_end, struct ps_error *e)
{
    char *to = ++s->at;

    *field = to;
    for (; s->at < s->end && *s->at != '\n'; s->at++) {
        if (*s->at == '"' && *++s->at != '"') {
            *field_end = to;
            skip_blanks(s);
            return at_stop(s) ? PS_OK : fail_at(s, s->count, e, "text after the closing quote");
        }
        *to++ = *s->at;
    }
    return fail_at(s, s->count, e, "the line ends within a quoted field");
}

static void
take_plain(struct csv_scan *s, char **field, char **field_end)
{
    *field = s->at;
    while (!at_stop(s))
        s->at++;
    *field_end = s->at;
    while (*field_end > *field && is_blank(s, (*field_end)[-1]))
        --*field_end;
}

static bool
fields_grow(struct csv_scan *s)
{
    size_t size = s->size == 0 ? 64 : s->size * 2;
    char **fields;

    if (s->count < s->size)
        return true;
    if ((fields = realloc(s->fields, size * sizeof *fields)) == NULL)
        return false;
    s->fields = fields;
    s->size = size;
    return true;
}

/* One line into s->fields; s->at stands at its start, and at the start of the next one at return. */
static enum ps_err
split_line(struct csv_scan *s, struct ps_error *e)
{
    char *field, *field_end, stop;
    enum ps_err err;

    s->count = 0;
    do {
        skip_blanks(s);
        field = field_end = s->at;
        if (!fields_grow(s))
            return ps_fail(e, PS_ERR_NOMEM, "%s: out of memory", s->name);
        if (*s->at != '"')
            take_plain(s, &field, &field_end);
        else if ((err = take_quoted(s, &field, &field_end, e)) != PS_OK)
            return err;
        if (memchr(field, '\0', (size_t)(field_end - field)) != NULL)
            return fail_at(s, s->count, e, "the field holds a zero byte");
        stop = *s->at;
        *field_end = '\0';
        s->fields[s->count++] = field;
        s->at += s->at < s->end;
    } while (stop == s->delimiter && s->delimiter != '\0');
    return PS_OK;
}

/* To the next line that is not empty; false at the end. */
static bool
next_line(struct csv_scan *s)
{
    for (char *at = s->at; at < s->end; at++) {
        if (*at == '\n') {
            s->line++;
            s->at = at + 1;
        } else if (!is_blank(s, *at)) {
            return true;
        }
    }
    return false;
}

static enum ps_err
parse_row(const struct csv_scan *s, double *out, struct ps_error *e)
{
    for (size_t c = 0; c < s->count; c++) {
        if (!number_parse(s->fields[c], &out[c]))
            return ps_fail(e, PS_ERR_DATA, "%s:%llu:%zu: \"%.40s\" is not a number", s->name,
                           (unsigned long long)s->line, c + 1, s->fields[c]);
        if (!isfinite(out[c]))
            return ps_fail(e, PS_ERR_DATA, "%s:%llu:%zu: %.40s is too large", s->name, (unsigned long long)s->line,
                           c + 1, s->fields[c]);
    }
    return PS_OK;
}

/* The first line is names when the options say so, or when one of its fields is neither empty nor a number. */
static bool
is_header(const struct csv_scan *s, enum ps_csv_header header)
{
    double ignored;

    if (header != PS_CSV_HEADER_DETECT)
        return header == PS_CSV_HEADER_YES;
    for (size_t c = 0; c < s->count; c++)
        if (s->fields[c][0] != '\0' && !number_parse(s->fields[c], &ignored))
            return true;
    return false;
}

static enum ps_err
keep_names(const struct csv_scan *s, struct ps_csv *csv, struct ps_error *e)
{
    if ((csv->names = calloc(s->count, sizeof *csv->names)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "%s: out of memory", s->name);
    for (size_t c = 0; c < s->count; c++)
        if ((csv->names[c] = strdup(s->fields[c])) == NULL)
            return ps_fail(e, PS_ERR_NOMEM, "%s: out of memory", s->name);
    return PS_OK;
}

static enum ps_err
check_width(const struct csv_scan *s, const struct ps_csv *csv, struct ps_error *e)
{
    if (s->count == csv->columns)
        return PS_OK;
    return ps_fail(e, PS_ERR_DATA, "%s:%llu:%llu: %zu fields where the first line has %llu", s->name,
                   (unsigned long long)s->line, (unsigned long long)MIN(s->count, csv->columns) + 1, s->count,
                   (unsigned long long)csv->columns);
}

static char
detect_delimiter(const char *text)
{
    size_t at = strcspn(text, ",;\t\n");

    return text[at] == ';' || text[at] == '\t' ? text[at] : ',';
}

static enum ps_err
parse_lines(struct csv_scan *s, enum ps_csv_header header, struct ps_csv *csv, struct ps_error *e)
{
    enum ps_err err;

    for (bool first = true; next_line(s); first = false, s->line++) {
        if ((err = split_line(s, e)) != PS_OK)
            return err;
        if (first) {
            csv->columns = s->count;
            if (is_header(s, header)) {
                if ((err = keep_names(s, csv, e)) != PS_OK)
                    return err;
                continue;
            }
        }
        if ((err = check_width(s, csv, e)) != PS_OK)
            return err;
        if ((err = parse_row(s, csv->values + csv->rows * csv->columns, e)) != PS_OK)
            return err;
        csv->rows++;
    }
    return PS_OK;
}

enum ps_err
csv_parse(const char *name, char *text, size_t len, const struct ps_csv_options *options, struct ps_csv *out,
          struct ps_error *e)
{
    struct csv_scan s = {.name = name, .at = text, .end = text + len, .line = 1};
    struct ps_csv csv = {0};
    enum ps_err err;

    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        s.at += 3; /* the byte order mark that some programs write */
    s.delimiter = options->delimiter != '\0' ? options->delimiter : detect_delimiter(s.at);
    csv.values = malloc((len / 2 + 1) * sizeof *csv.values);
    if (csv.values == NULL)
        err = ps_fail(e, PS_ERR_NOMEM, "%s: out of memory", name);
    else
        err = parse_lines(&s, options->header, &csv, e);
    if (err == PS_OK && csv.rows == 0)
        err = ps_fail(e, PS_ERR_DATA, "%s:%llu:1: there are no numbers", name, (unsigned long long)s.line);
    free(s.fields);
    if (err != PS_OK)
        ps_csv_free(&csv);
    else
        *out = csv;
    return err;
}

enum ps_err
ps_csv_read(const char *path, const struct ps_csv_options *options, struct ps_csv *out, struct ps_error *error)
{
    static const struct ps_csv_options defaults = {0};
    enum ps_err err;
    char *text;
    size_t len;

    if ((err = read_file(path, &text, &len, error)) != PS_OK)
        return err;
    err = csv_parse(path, text, len, options != NULL ? options : &defaults, out, error);
    free(text);
    return err;
}

void
ps_csv_free(struct ps_csv *csv)
{
    if (csv->names != NULL)
        for (uint64_t c = 0; c < csv->columns; c++)
            free(csv->names[c]);
    free(csv->names);
    free(csv->values);
    memset(csv, 0, sizeof *csv);
}
