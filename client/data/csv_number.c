#include "client/data/csv_number.h"

#include <math.h>
#include <string.h>

#include "client/data/foreign_number.h"
#include "common/core/base/number.h"

/* One to three digits, the first of them not 0, before the comma, and three behind it. */
static bool
csv_number_may_be_thousands(const char *text)
{
    const char *digits = text + strspn(text, "+-"), *comma = strchr(text, ',');

    return comma - digits >= 1 && comma - digits <= 3 && *digits != '0' && strspn(comma + 1, "0123456789") == 3 &&
           comma[4] == '\0';
}

/* A comma in a number is decimal when the caller says so, when one was before, or when it can be nothing else. */
static bool
csv_number_is_decimal(const struct csv_scan *s, const char *text)
{
    if (s->options->decimal != 0)
        return s->options->decimal == ',';
    return s->decimal == ',' || (s->from.delimiter != ',' && !csv_number_may_be_thousands(text));
}

/* The number of a text with one comma. */
static enum ps_err
csv_number_with_comma(struct csv_scan *s, size_t column, char *text, double *out, struct ps_error *e)
{
    if (!csv_number_is_decimal(s, text))
        return csv_scan_fail(
            s, column, e,
            "\"%.40s\" is not a number: the comma may be decimal or between thousands; set decimal to say which", text);
    if (s->point_line != 0)
        return csv_scan_fail(s, column, e, "\"%.40s\" has a decimal comma, and line %llu a decimal point", text,
                             (unsigned long long)s->point_line);
    s->decimal = ',';
    *strchr(text, ',') = '.';
    return number_parse(text, out) ? PS_OK : csv_scan_fail(s, column, e, "\"%.40s\" is not a number", text);
}

static enum ps_err
csv_number_with_point(struct csv_scan *s, size_t column, const char *text, struct ps_error *e)
{
    if (strchr(text, '.') == NULL)
        return PS_OK;
    if (s->decimal == ',' || s->options->decimal == ',')
        return csv_scan_fail(s, column, e, "\"%.40s\" has a point, and decimals of this table a comma", text);
    if (s->point_line == 0)
        s->point_line = s->line;
    return PS_OK;
}

enum ps_err
csv_number_take(struct csv_scan *s, size_t column, double *out, struct ps_error *e)
{
    char *text = s->fields[column].text;
    enum foreign_number kind;
    enum ps_err err;

    if (!number_parse(text, out)) {
        if ((kind = foreign_number_find(text)) != FOREIGN_COMMA)
            return csv_scan_fail(s, column, e, "\"%.40s\" is not a number%s", text, foreign_number_why(kind));
        err = csv_number_with_comma(s, column, text, out, e);
    } else {
        err = csv_number_with_point(s, column, text, e);
    }
    if (err != PS_OK)
        return err;
    return isfinite(*out) ? PS_OK : csv_scan_fail(s, column, e, "%.40s is too large", text);
}
