#include "client/tools/psctl/views/cells.h"

#include "client/tools/psctl/query/rates.h"
#include "common/core/base/units.h"

void
cell_bytes(struct text_table *t, uint64_t bytes)
{
    struct units u;

    table_cell(t, "%s", units_bytes(bytes, &u));
}

void
cell_count(struct text_table *t, uint64_t count)
{
    struct units u;

    table_cell(t, "%s", units_count(count, &u));
}

void
cell_of(struct text_table *t, uint64_t part, uint64_t whole)
{
    struct units a, b;

    table_cell(t, "%s of %s", units_bytes(part, &a), units_bytes(whole, &b));
}

void
table_print_free(struct text_table *t, const struct printer *page)
{
    table_print(t, page);
    table_free(t);
}

void
cell_rate(struct text_table *t, double per_second)
{
    struct units u;

    table_cell(t, "%s", rates_text(per_second, &u));
}

void
cell_rate_bytes(struct text_table *t, double bytes_per_second)
{
    struct units u;

    table_cell(t, "%s", rates_bytes_text(bytes_per_second, &u));
}

void
cell_setting(struct text_table *t, const char *now, const char *declared)
{
    if (declared[0] == '\0')
        table_cell(t, "%s", now);
    else
        table_cell(t, "%s (declared: %s)", now, declared);
}
