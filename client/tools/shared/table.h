/* A table for people: a line of headings, rows, columns as wide as their widest cell. Pure, but for table_print().
 *
 *     struct text_table *t = table_new("SHARD>", "ADDRESS", "DATA>", NULL); // > aligns to the right
 *     table_row(t);
 *     table_cell(t, "%d", 0);
 *     table_cell(t, "%s", address);
 *     ...
 *     table_print(t, &page);
 *     table_free(t);
 *
 * Running out of memory ends the process with a sentence: these are tools, and there is nothing to keep. */
#ifndef CLIENT_TOOLS_SHARED_TABLE_H
#define CLIENT_TOOLS_SHARED_TABLE_H

#include "client/tools/shared/printer.h"
#include "common/cli/command.h"
#include "common/core/base/base.h"

#define TABLE_COLUMNS_MAX 32

struct text_table;

struct text_table *table_new(const char *heading, ...) __attribute__((sentinel));
void table_free(struct text_table *t); /* accepts NULL */

/* The same from entries, whose terms are the headings; align: 'l' or 'r' for each. */
struct text_table *table_of(const struct command_entry *columns, const char *align);

/* One column more, before the first row. */
void table_column(struct text_table *t, const char *heading);

/* Begin a row; cells not given stay empty. */
void table_row(struct text_table *t);

/* The row's next cell, cleaned as printer_clean() does. */
void table_cell(struct text_table *t, const char *format, ...) PS_PRINTF(2, 3);

/* Colour the cell that was last given. */
void table_paint(struct text_table *t, enum paint paint);

/* Dim the row's cells that have no colour of their own. */
void table_dim(struct text_table *t);

/* With less width than that, a line that lacks columns ends with '>'. */
void table_print(const struct text_table *t, const struct printer *page);

#endif
