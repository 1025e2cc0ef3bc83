#include "client/data/csv_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/data/foreign_number.h"
#include "common/core/base/number.h"

#define COUNTED_MIN 4 /* fields of a first line 0,1,2,3 that may be names; shorter ones are numbers like others */

/* "0,1,2,3": what pandas calls columns without names. */
static bool
csv_names_count_columns(const struct csv_scan *s)
{
    char number[24];

    for (size_t c = 0; c < s->count; c++) {
        snprintf(number, sizeof number, "%zu", c);
        if (strcmp(s->fields[c].text, number) != 0)
            return false;
    }
    return s->count >= COUNTED_MIN;
}

/* Nothing, behind the line's last delimiter. */
static bool
csv_names_is_behind(const struct csv_scan *s, size_t column)
{
    return column > 0 && column + 1 == s->count && s->fields[column].len == 0 && !s->fields[column].quoted;
}

/* Names, when there is a word among the fields and no number. What may be either is refused: an example that is taken
 * for names would be gone in silence. */
static enum ps_err
csv_names_detect(const struct csv_scan *s, bool *names, struct ps_error *e)
{
    size_t numbers = 0, words = 0, other = s->count;

    for (size_t c = 0; c < s->count; c++) {
        enum foreign_number kind = foreign_number_find(s->fields[c].text);

        numbers += foreign_number_is_one(kind);
        words += kind == FOREIGN_WORD;
        other = foreign_number_is_one(kind) || csv_names_is_behind(s, c) ? other : MIN(other, c);
    }
    *names = numbers == 0 && words > 0;
    if (csv_names_count_columns(s))
        return csv_scan_fail(s, 0, e,
                             "the first line counts the columns: set header to PS_CSV_HEADER_YES if these are their "
                             "names, else to PS_CSV_HEADER_NO");
    if (numbers == 0 || other == s->count)
        return PS_OK;
    return csv_scan_fail(s, other, e,
                         "\"%.40s\" is not a number%s (other fields of this first line are; set header to "
                         "PS_CSV_HEADER_YES if all are names)",
                         s->fields[other].text, foreign_number_why(foreign_number_find(s->fields[other].text)));
}

static bool
csv_names_are_numbers(const struct csv_scan *s)
{
    double ignored;

    for (size_t c = 0; c < s->count; c++)
        if (!number_parse(s->fields[c].text, &ignored))
            return false;
    return true;
}

enum ps_err
csv_names_are_there(const struct csv_scan *s, bool *names, struct ps_error *e)
{
    if (s->options->header == PS_CSV_HEADER_DETECT)
        return csv_names_detect(s, names, e);
    *names = s->options->header == PS_CSV_HEADER_YES && (s->comment.at == NULL || !csv_names_are_numbers(s));
    return PS_OK;
}

/* "a ""b""" is a "b". */
static char *
csv_names_copy(const struct csv_field *field)
{
    char *name = malloc(field->len + 1), *to = name;

    for (size_t i = 0; name != NULL && i < field->len; i++) {
        *to++ = field->text[i];
        i += field->quoted && field->text[i] == '"';
    }
    if (name != NULL)
        *to = '\0';
    return name;
}

enum ps_err
csv_names_keep(const struct csv_scan *s, struct ps_csv *csv, struct ps_error *e)
{
    csv->columns = s->count;
    if ((csv->names = calloc(s->count, sizeof *csv->names)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "%s: out of memory", s->name);
    for (size_t c = 0; c < s->count; c++)
        if ((csv->names[c] = csv_names_copy(&s->fields[c])) == NULL)
            return ps_fail(e, PS_ERR_NOMEM, "%s: out of memory", s->name);
    return PS_OK;
}

void
csv_names_fit(const struct csv_scan *s, struct ps_csv *csv)
{
    uint64_t last = csv->columns - 1;

    if (csv->names == NULL || last == 0 || csv->names[last][0] != '\0')
        return;
    if (s->count != last && (s->count != csv->columns || s->fields[last].len > 0))
        return;
    free(csv->names[last]);
    csv->columns = last;
}

/* A row may be a comment, too. */
static bool
csv_names_have_number(const struct csv_scan *s)
{
    for (size_t c = 0; c < s->count; c++)
        if (foreign_number_is_one(foreign_number_find(s->fields[c].text)))
            return true;
    return false;
}

enum ps_err
csv_names_of_comment(struct csv_scan *s, struct ps_csv *csv, struct ps_error *e)
{
    bool wanted = s->options->header == PS_CSV_HEADER_YES;
    struct csv_fields after = s->from;
    struct ps_error why;
    enum ps_err err;

    if (s->comment.at == NULL || s->options->header == PS_CSV_HEADER_NO)
        return PS_OK;
    s->from = s->comment;
    s->from.at += strspn(s->from.at, "#");
    err = csv_fields_line(&s->from) ? csv_scan_line(s, &why) : PS_ERR_DATA;
    s->from = after;
    if (err == PS_ERR_NOMEM)
        return ps_fail(e, err, "%s", why.text);
    if (err == PS_OK)
        csv_scan_drop_trailing(s, csv->columns);
    if (err == PS_OK && s->count == csv->columns && (wanted || !csv_names_have_number(s)))
        return csv_names_keep(s, csv, e);
    s->line = s->comment.line;
    return wanted ? csv_scan_fail(s, 0, e, "the comment above the first numbers does not name all their columns")
                  : PS_OK;
}
