/* How a table is written, by its beginning: a byte order mark, Excel's line "sep=;", and what its fields are apart by.
 * Pure. */
#ifndef CLIENT_DATA_CSV_DIALECT_H
#define CLIENT_DATA_CSV_DIALECT_H

#include "client/data/csv_fields.h"
#include "client/include/psclient/ps_data.h"

/* *out stands on the first line of the table; its delimiter is that of the options, or found. The text is [len], and
 * one
 * '\0'. */
void csv_dialect_find(char *text, size_t len, const struct ps_csv_options *options, struct csv_fields *out);

#endif
