/* The names of a table's columns: in its first line, or in the comment above its first row. */
#ifndef CLIENT_DATA_CSV_NAMES_H
#define CLIENT_DATA_CSV_NAMES_H

#include "client/data/csv_scan.h"

/* Whether the line, the table's first, is names, by the options or by what it has. Where a header is said to be,
 * numbers behind a comment are not it: the comment is. DATA: it may be names or a row. */
enum ps_err csv_names_are_there(const struct csv_scan *s, bool *names, struct ps_error *e) PS_MUST_USE;

/* Copies the line's fields to csv->names, and how many there are to csv->columns. NOMEM. */
enum ps_err csv_names_keep(const struct csv_scan *s, struct ps_csv *csv, struct ps_error *e) PS_MUST_USE;

/* The line is the first row: a last name that is empty is none when the row has no value for it. */
void csv_names_fit(const struct csv_scan *s, struct ps_csv *csv);

/* After the first row: the comment above it is names when it has as many fields: "# x, y" as numpy.savetxt() writes it,
 * "#x,y". DATA: it has not, and the options say that there are names. NOMEM. */
enum ps_err csv_names_of_comment(struct csv_scan *s, struct ps_csv *csv, struct ps_error *e) PS_MUST_USE;

#endif
