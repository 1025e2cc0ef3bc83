/* The lines of a table, and the fields of a line, without a change to the text. Pure.
 *
 * A line's end within quotes is part of its field. Without quotes, lines end in LF, CRLF or CR. With the delimiter ' '
 * any number of blanks and tabs are one, and those around a line none. */
#ifndef CLIENT_DATA_CSV_FIELDS_H
#define CLIENT_DATA_CSV_FIELDS_H

#include "common/core/base/base.h"

struct csv_fields {
    char *at, *end; /* what is not read yet; *end is '\0' */
    char delimiter;
    uint64_t line; /* of at, from 1 */
};

struct csv_field {
    char *text;
    size_t len; /* without blanks around it, and without its quotes; "" within them is one quote, still twice */
    bool quoted;
};

enum csv_field_result {
    CSV_FIELD_MORE, /* a field, and another after it in the line */
    CSV_FIELD_LAST, /* the line's last; s->at is where the next line begins */
    CSV_FIELD_OPEN, /* a quote that is not closed */
    CSV_FIELD_TAIL  /* something behind the closing quote */
};

/* To where the next line that has something begins; false at the end. */
bool csv_fields_line(struct csv_fields *s);

/* The line that begins here is a comment: it begins with #, and its first word is no error of a spreadsheet. */
bool csv_fields_is_comment(const struct csv_fields *s);

/* Behind the line that begins here, whatever is in it. */
void csv_fields_skip(struct csv_fields *s);

/* The next field of the line. */
enum csv_field_result csv_fields_next(struct csv_fields *s, struct csv_field *out);

#endif
