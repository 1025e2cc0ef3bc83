/* A field of a table as a number, with a point or a comma before its fraction. */
#ifndef CLIENT_DATA_CSV_NUMBER_H
#define CLIENT_DATA_CSV_NUMBER_H

#include "client/data/csv_scan.h"

/* The field of this column, from 0. A comma that is decimal is made a point in place. DATA: it is no number, not
 * finite, or the table has both commas and points before fractions. */
enum ps_err csv_number_take(struct csv_scan *s, size_t column, double *out, struct ps_error *e) PS_MUST_USE;

#endif
