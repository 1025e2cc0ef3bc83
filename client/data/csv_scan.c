#include "client/data/csv_scan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum ps_err
csv_scan_fail(const struct csv_scan *s, size_t column, struct ps_error *e, const char *format, ...)
{
    char what[PS_ERROR_TEXT_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return ps_fail(e, PS_ERR_DATA, "%s:%llu:%zu: %s", s->name, (unsigned long long)s->line, column + 1, what);
}

static bool
csv_scan_grow(struct csv_scan *s)
{
    size_t size = s->size == 0 ? 64 : s->size * 2;
    struct csv_field *fields;

    if (s->count < s->size)
        return true;
    if ((fields = realloc(s->fields, size * sizeof *fields)) == NULL)
        return false;
    s->fields = fields;
    s->size = size;
    return true;
}

static enum ps_err
csv_scan_field(struct csv_scan *s, enum csv_field_result *result, struct ps_error *e)
{
    struct csv_field *field;

    if (!csv_scan_grow(s))
        return ps_fail(e, PS_ERR_NOMEM, "%s: out of memory", s->name);
    field = &s->fields[s->count];
    *result = csv_fields_next(&s->from, field);
    if (*result == CSV_FIELD_OPEN)
        return csv_scan_fail(s, s->count, e,
                             "the line ends within a quoted field, which is not closed further on either");
    if (*result == CSV_FIELD_TAIL)
        return csv_scan_fail(s, s->count, e, "text after the closing quote");
    if (memchr(field->text, '\0', field->len) != NULL)
        return csv_scan_fail(s, s->count, e, "the field holds a zero byte");
    s->count++;
    return PS_OK;
}

enum ps_err
csv_scan_line(struct csv_scan *s, struct ps_error *e)
{
    enum csv_field_result result = CSV_FIELD_MORE;
    enum ps_err err;

    s->line = s->from.line;
    s->count = 0;
    while (result == CSV_FIELD_MORE)
        if ((err = csv_scan_field(s, &result, e)) != PS_OK)
            return err;
    for (size_t c = 0; c < s->count; c++)
        s->fields[c].text[s->fields[c].len] = '\0'; /* what stood there has been looked at */
    return PS_OK;
}

static bool
csv_scan_is_empty_field(const struct csv_field *field)
{
    return field->len == 0 && !field->quoted;
}

bool
csv_scan_is_empty(const struct csv_scan *s)
{
    for (size_t c = 0; c < s->count; c++)
        if (!csv_scan_is_empty_field(&s->fields[c]))
            return false;
    return true;
}

void
csv_scan_drop_trailing(struct csv_scan *s, uint64_t columns)
{
    if (s->count > 1 && csv_scan_is_empty_field(&s->fields[s->count - 1]) && (columns == 0 || s->count == columns + 1))
        s->count--;
}
