/* A delimiter is right when it divides the first two lines alike, and the second, which is no names, into values. Where
 * there is none such, the first that divides them alike; then the first that occurs in the first line. */
#include "client/data/csv_dialect.h"

#include <string.h>
#include <strings.h>

#include "client/data/foreign_number.h"
#include "common/core/base/file_kind.h"

#define CSV_VALUE_MAX 64 /* bytes of a field that may be a value */

/* A line under one delimiter. */
struct csv_dialect_line {
    size_t fields; /* without an empty one behind the last delimiter; 0: it cannot be divided so */
    bool values;   /* none of them is a word */
};

static bool
csv_dialect_is_value(const struct csv_field *field)
{
    char text[CSV_VALUE_MAX];

    if (field->len >= sizeof text)
        return false;
    memcpy(text, field->text, field->len);
    text[field->len] = '\0';
    return foreign_number_find(text) != FOREIGN_WORD;
}

static struct csv_dialect_line
csv_dialect_divide(struct csv_fields *s)
{
    struct csv_dialect_line line = {.values = true};
    enum csv_field_result result;
    struct csv_field field;

    do {
        if ((result = csv_fields_next(s, &field)) > CSV_FIELD_LAST)
            return (struct csv_dialect_line){0};
        if (result == CSV_FIELD_LAST && line.fields > 0 && field.len == 0 && !field.quoted)
            break;
        line.fields++;
        line.values &= csv_dialect_is_value(&field);
    } while (result == CSV_FIELD_MORE);
    return line;
}

/* The first two lines that are no comments; the same one twice when there is no other. False: there is none. */
static bool
csv_dialect_look(struct csv_fields s, char delimiter, struct csv_dialect_line line[2])
{
    size_t n = 0;

    s.delimiter = delimiter;
    while (n < 2 && csv_fields_line(&s))
        if (csv_fields_is_comment(&s))
            csv_fields_skip(&s);
        else
            line[n++] = csv_dialect_divide(&s);
    if (n == 1)
        line[1] = line[0];
    return n > 0;
}

static char
csv_dialect_delimiter(const struct csv_fields *s, char decimal)
{
    static const char by_rank[] = "\t;,| ", by_use[] = ",;\t|";
    struct csv_dialect_line line[2];
    char alike = 0;

    for (const char *c = by_rank; *c != '\0'; c++) {
        if (*c == decimal || !csv_dialect_look(*s, *c, line) || line[0].fields != line[1].fields || line[0].fields < 2)
            continue;
        if (line[1].values)
            return *c;
        if (alike == 0 && *c != ' ')
            alike = *c;
    }
    for (const char *c = by_use; alike == 0 && *c != '\0'; c++)
        if (*c != decimal && csv_dialect_look(*s, *c, line) && line[0].fields >= 2)
            alike = *c;
    return alike != 0 ? alike : ',';
}

/* "sep=;", alone in the first line. Excel and what writes for it says so how the fields are apart. */
static char
csv_dialect_said(struct csv_fields *s)
{
    const char *at = s->at;

    if (s->end - s->at < 5 || strncasecmp(at, "sep=", 4) != 0 || at[4] == '\n' || at[4] == '\r')
        return 0;
    if (at + 5 < s->end && at[5] != '\n' && at[5] != '\r')
        return 0;
    csv_fields_skip(s);
    return at[4];
}

void
csv_dialect_find(char *text, size_t len, const struct ps_csv_options *options, struct csv_fields *out)
{
    struct csv_fields s = {.at = text + file_kind_mark(text, len), .end = text + len, .line = 1};
    char said = csv_dialect_said(&s);

    s.delimiter = options->delimiter != 0 ? options->delimiter : said;
    if (s.delimiter == 0)
        s.delimiter = csv_dialect_delimiter(&s, options->decimal);
    *out = s;
}
