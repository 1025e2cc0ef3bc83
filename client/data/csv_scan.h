/* A table while it is read: the line that was taken last, and what is known of the whole. Internal to csv.c and the
 * modules that it is made of. */
#ifndef CLIENT_DATA_CSV_SCAN_H
#define CLIENT_DATA_CSV_SCAN_H

#include "client/data/csv_fields.h"
#include "client/include/psclient/ps_data.h"

struct csv_scan {
    const char *name; /* for sentences */
    const struct ps_csv_options *options;
    struct csv_fields from;
    struct csv_field *fields; /* [count] of the line; freed by csv.c */
    size_t count, size;
    uint64_t line;             /* where it begins */
    struct csv_fields comment; /* the last one before the first line that is none; at NULL: none */
    char decimal;              /* ',' once there was such a number */
    uint64_t point_line;       /* where a point was; 0: nowhere */
};

/* DATA, with the line's place before the sentence; columns count from 0. */
enum ps_err csv_scan_fail(const struct csv_scan *s, size_t column, struct ps_error *e, const char *format, ...)
    PS_PRINTF(4, 5);

/* The next line into s->fields, each terminated. DATA, NOMEM. */
enum ps_err csv_scan_line(struct csv_scan *s, struct ps_error *e) PS_MUST_USE;

/* Delimiters alone: spreadsheets write such lines for rows that are empty. */
bool csv_scan_is_empty(const struct csv_scan *s);

/* Behind its last field a line may have one delimiter more, and so an empty field. columns: 0: not known yet. */
void csv_scan_drop_trailing(struct csv_scan *s, uint64_t columns);

#endif
