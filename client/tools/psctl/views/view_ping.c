/* Round trips. */
#include <stdlib.h>
#include <string.h>

#include "client/tools/psctl/views/cells.h"
#include "client/tools/psctl/views/views.h"
#include "client/tools/shared/output.h"
#include "common/core/base/units.h"

static int
ping_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts a copy: the answer keeps the order in which they were made. */
struct ping_summary
ping_sum_up(const struct shard_answer *a)
{
    struct ping_summary s = {0};
    size_t n = a->pings_len;
    double *sorted = malloc(n * sizeof *sorted);

    if (sorted == NULL)
        return s;
    memcpy(sorted, a->pings, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, ping_compare);
    s.least = sorted[0];
    s.median = n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
    s.most = sorted[n - 1];
    free(sorted);
    return s;
}

void
view_ping(const struct shard_answer *answers, uint32_t n, const struct printer *page)
{
    struct text_table *t = table_of(output_ping, "rlrrrr");

    for (uint32_t i = 0; i < n; i++) {
        const struct shard_answer *a = &answers[i];
        struct ping_summary s;
        struct units u;

        table_row(t);
        table_cell(t, "%u", a->shard);
        table_cell(t, "%s", a->address);
        cell_count(t, a->pings_len);
        if (a->pings_len == 0)
            continue;
        s = ping_sum_up(a);
        table_cell(t, "%s", units_microseconds(s.least, &u));
        table_cell(t, "%s", units_microseconds(s.median, &u));
        table_cell(t, "%s", units_microseconds(s.most, &u));
    }
    table_print_free(t, page);
}
