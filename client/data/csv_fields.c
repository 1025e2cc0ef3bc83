#include "client/data/csv_fields.h"

#include <string.h>

#include "client/data/foreign_number.h"

static bool
csv_fields_at_line_end(const struct csv_fields *s)
{
    return s->at == s->end || *s->at == '\n' || *s->at == '\r';
}

/* One line's end; counts the line. */
static void
csv_fields_next_line(struct csv_fields *s)
{
    if (s->at == s->end)
        return;
    s->at += s->at[0] == '\r' && s->at + 1 < s->end && s->at[1] == '\n' ? 2 : 1;
    s->line++;
}

static bool
csv_fields_is_blank(const struct csv_fields *s, char c)
{
    return (c == ' ' || c == '\t') && c != s->delimiter;
}

static void
csv_fields_skip_blanks(struct csv_fields *s)
{
    while (s->at < s->end && csv_fields_is_blank(s, *s->at))
        s->at++;
}

/* Blanks as the delimiter, all of them. */
static void
csv_fields_skip_run(struct csv_fields *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t'))
        s->at++;
}

static bool
csv_fields_at_stop(const struct csv_fields *s)
{
    return csv_fields_at_line_end(s) || *s->at == s->delimiter || (s->delimiter == ' ' && *s->at == '\t');
}

bool
csv_fields_line(struct csv_fields *s)
{
    while (s->at < s->end) {
        if (s->delimiter == ' ')
            csv_fields_skip_run(s);
        else
            csv_fields_skip_blanks(s);
        if (!csv_fields_at_line_end(s))
            return true;
        csv_fields_next_line(s);
    }
    return false;
}

bool
csv_fields_is_comment(const struct csv_fields *s)
{
    size_t len = 0;

    if (*s->at != '#')
        return false;
    while (s->at + len < s->end && strchr("\n\r \t,;|", s->at[len]) == NULL && s->at[len] != s->delimiter)
        len++;
    return !foreign_number_is_sheet_error(s->at, len);
}

void
csv_fields_skip(struct csv_fields *s)
{
    while (!csv_fields_at_line_end(s))
        s->at++;
    csv_fields_next_line(s);
}

/* From the opening quote to behind the closing one. */
static enum csv_field_result
csv_fields_quoted(struct csv_fields *s, struct csv_field *out)
{
    out->quoted = true;
    out->text = ++s->at;
    while (s->at < s->end) {
        if (*s->at == '"' && (s->at + 1 == s->end || s->at[1] != '"')) {
            out->len = (size_t)(s->at++ - out->text);
            csv_fields_skip_blanks(s);
            return csv_fields_at_stop(s) ? CSV_FIELD_MORE : CSV_FIELD_TAIL;
        }
        if (csv_fields_at_line_end(s))
            csv_fields_next_line(s);
        else
            s->at += *s->at == '"' ? 2 : 1;
    }
    return CSV_FIELD_OPEN;
}

static void
csv_fields_plain(struct csv_fields *s, struct csv_field *out)
{
    out->text = s->at;
    while (!csv_fields_at_stop(s))
        s->at++;
    out->len = (size_t)(s->at - out->text);
    while (out->len > 0 && csv_fields_is_blank(s, out->text[out->len - 1]))
        out->len--;
}

enum csv_field_result
csv_fields_next(struct csv_fields *s, struct csv_field *out)
{
    enum csv_field_result quoted;

    *out = (struct csv_field){0};
    csv_fields_skip_blanks(s);
    if (s->at < s->end && *s->at == '"') {
        if ((quoted = csv_fields_quoted(s, out)) != CSV_FIELD_MORE)
            return quoted;
    } else {
        csv_fields_plain(s, out);
    }
    if (s->delimiter == ' ')
        csv_fields_skip_run(s);
    if (csv_fields_at_line_end(s)) {
        csv_fields_next_line(s);
        return CSV_FIELD_LAST;
    }
    s->at += s->delimiter != ' ';
    return CSV_FIELD_MORE;
}
