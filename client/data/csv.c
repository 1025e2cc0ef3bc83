/* CSV: line by line, each line is cut into fields in place (csv_scan.h), then each field is made a number
 * (csv_number.h). The first line may be names (csv_names.h). The memory for values follows the length of the text,
 * since every value takes two bytes of it. */
#include "client/data/csv.h"

#include <stdlib.h>
#include <string.h>

#include "client/data/csv_dialect.h"
#include "client/data/csv_names.h"
#include "client/data/csv_number.h"
#include "client/data/csv_scan.h"
#include "client/data/read_file.h"
#include "common/core/base/base.h"
#include "common/core/base/file_kind.h"

static enum ps_err
csv_take_row(struct csv_scan *s, struct ps_csv *csv, struct ps_error *e)
{
    double *row = csv->values + csv->rows * csv->columns;
    enum ps_err err = PS_OK;

    if (csv->rows == 0)
        csv_names_fit(s, csv);
    csv_scan_drop_trailing(s, csv->columns);
    if (s->count != csv->columns)
        return csv_scan_fail(s, MIN(s->count, csv->columns), e, "%zu fields where the first line has %llu", s->count,
                             (unsigned long long)csv->columns);
    for (size_t c = 0; c < s->count && err == PS_OK; c++)
        err = csv_number_take(s, c, &row[c], e);
    csv->rows += err == PS_OK;
    return err;
}

static void
csv_pass_comment(struct csv_scan *s, bool begun)
{
    struct csv_fields line = s->from;

    csv_fields_skip(&s->from);
    if (begun)
        return;
    line.end = s->from.at;
    while (line.end > line.at && (line.end[-1] == '\n' || line.end[-1] == '\r'))
        line.end--;
    s->comment = line;
}

/* What the first line is: names, or the first row. */
static enum ps_err
csv_take_first(struct csv_scan *s, struct ps_csv *csv, struct ps_error *e)
{
    enum ps_err err;
    bool names;

    if ((err = csv_names_are_there(s, &names, e)) != PS_OK)
        return err;
    if (names)
        return csv_names_keep(s, csv, e);
    csv_scan_drop_trailing(s, 0);
    csv->columns = s->count;
    if ((err = csv_take_row(s, csv, e)) != PS_OK)
        return err;
    return csv_names_of_comment(s, csv, e);
}

static enum ps_err
csv_take_lines(struct csv_scan *s, struct ps_csv *csv, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    while (err == PS_OK && csv_fields_line(&s->from)) {
        if (csv_fields_is_comment(&s->from)) {
            csv_pass_comment(s, csv->columns > 0);
            continue;
        }
        if ((err = csv_scan_line(s, e)) != PS_OK || csv_scan_is_empty(s))
            continue;
        err = csv->columns == 0 ? csv_take_first(s, csv, e) : csv_take_row(s, csv, e);
    }
    return err;
}

static enum ps_err
csv_check_options(const char *name, const struct ps_csv_options *o, struct ps_error *e)
{
    if (o->decimal == 0 || o->decimal == '.' || o->decimal == ',')
        return PS_OK;
    return ps_fail(e, PS_ERR_INVALID, "%s: decimal is '%c'; it may be '.' or ','", name, o->decimal);
}

enum ps_err
csv_parse(const char *name, char *text, size_t len, const struct ps_csv_options *options, struct ps_csv *out,
          struct ps_error *e)
{
    struct csv_scan s = {.name = name, .options = options};
    struct ps_csv csv = {0};
    enum ps_err err;

    if ((err = csv_check_options(name, options, e)) != PS_OK ||
        (err = file_kind_check_text(name, text, len, PS_ERR_DATA, e)) != PS_OK)
        return err;
    csv_dialect_find(text, len, options, &s.from);
    csv.values = malloc((len / 2 + 1) * sizeof *csv.values);
    if (csv.values == NULL)
        err = ps_fail(e, PS_ERR_NOMEM, "%s: out of memory", name);
    else
        err = csv_take_lines(&s, &csv, e);
    if (err == PS_OK && csv.rows == 0)
        err = ps_fail(e, PS_ERR_DATA, "%s:%llu:1: there are no numbers", name, (unsigned long long)s.from.line);
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
