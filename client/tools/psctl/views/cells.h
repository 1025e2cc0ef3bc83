/* Cells that many views have, in readable units. Pure, but for the stream that is printed to. */
#ifndef CLIENT_TOOLS_PSCTL_VIEWS_CELLS_H
#define CLIENT_TOOLS_PSCTL_VIEWS_CELLS_H

#include "client/tools/shared/table.h"

void cell_bytes(struct text_table *t, uint64_t bytes);
void cell_count(struct text_table *t, uint64_t count);
void cell_of(struct text_table *t, uint64_t part, uint64_t whole); /* "2.00 MiB of 1.00 GiB" */

/* "now (declared: declared)"; declared empty: it is what it was. */
void cell_setting(struct text_table *t, const char *now, const char *declared);

/* Cells of figures that may not be known: "-". */
void cell_rate(struct text_table *t, double per_second);
void cell_rate_bytes(struct text_table *t, double bytes_per_second);

void table_print_free(struct text_table *t, const struct printer *page);

#endif
