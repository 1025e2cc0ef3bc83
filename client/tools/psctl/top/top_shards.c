/* Each shard: how full, how busy. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/psctl/top/sections.h"
#include "client/tools/psctl/views/cells.h"
#include "client/tools/psctl/views/health.h"
#include "client/tools/shared/output.h"
#include "common/core/base/units.h"

#define BAR_COLUMNS 10

struct top_shard_row {
    const struct shard_answer *answer;
    uint32_t i; /* its place among the answers */
    double pushed, pulled;
    unsigned percent;
};

static double
row_load(const struct top_shard_row *row)
{
    double load = rates_add(row->pushed, row->pulled);

    return isnan(load) ? -1 : load;
}

static int
compare_shard(const void *a, const void *b)
{
    const struct top_shard_row *x = a, *y = b;

    return (x->i > y->i) - (x->i < y->i);
}

static int
compare_load(const void *a, const void *b)
{
    double x = row_load(a), y = row_load(b);

    return x != y ? (x < y) - (x > y) : compare_shard(a, b);
}

static int
compare_memory(const void *a, const void *b)
{
    const struct top_shard_row *x = a, *y = b;

    return x->percent != y->percent ? (x->percent < y->percent) - (x->percent > y->percent) : compare_shard(a, b);
}

/* "######---- 61 %" */
static void
cell_bar(struct text_table *t, unsigned percent)
{
    char bar[BAR_COLUMNS + 1];
    size_t full = MIN((percent * BAR_COLUMNS + 50) / 100, BAR_COLUMNS);

    memset(bar, '-', BAR_COLUMNS);
    memset(bar, '#', full);
    bar[BAR_COLUMNS] = '\0';
    table_cell(t, "%s %3u %%", bar, percent);
    if (percent >= HEALTH_STORE_WARN)
        table_paint(t, percent < HEALTH_STORE_FULL ? PAINT_WARNING : PAINT_FAULT);
}

static void
shard_row(struct text_table *t, const struct rates *r, const struct top_shard_row *row)
{
    const json_t *s = json_object_get(row->answer->report, "status");
    bool draining = field_flag(s, "draining");

    table_row(t);
    table_cell(t, "%u", row->answer->shard);
    table_cell(t, "%s", !row->answer->reached ? "not reached" : draining ? "draining" : "serving");
    table_paint(t, !row->answer->reached ? PAINT_FAULT : draining ? PAINT_WARNING : PAINT_PLAIN);
    if (!row->answer->reached) {
        for (int empty = 0; empty < 7; empty++)
            table_cell(t, "%s", "");
        table_cell(t, "%s", row->answer->address);
        return;
    }
    cell_bar(t, row->percent);
    cell_rate(t, rates_stat(r, row->i, "pushes_applied"));
    cell_rate_bytes(t, row->pushed);
    cell_rate_bytes(t, row->pulled);
    cell_bytes(t, field_number(s, "in_flight_bytes"));
    cell_rate(t, rates_stat(r, row->i, "turns"));
    cell_count(t, field_number(s, "connections"));
    table_cell(t, "%s", row->answer->address);
}

struct text_table *
top_shards_table(const struct top_source *src, size_t shown)
{
    static int (*const compare[])(const void *, const void *) = {
        [TOP_BY_LOAD] = compare_load, [TOP_BY_MEMORY] = compare_memory, [TOP_BY_NAME] = compare_shard};
    struct text_table *t = table_of(output_top_shards, "rllrrrrrrl");
    const struct rates *r = &src->rates;
    uint32_t n = r->now->n;
    struct top_shard_row *rows = calloc(n, sizeof *rows);

    if (rows == NULL)
        return t;
    for (uint32_t i = 0; i < n; i++)
        rows[i] = (struct top_shard_row){
            .answer = &r->now->answers[i],
            .i = i,
            .pushed = rates_stat(r, i, "pushed_bytes"),
            .pulled = rates_stat(r, i, "pulled_bytes"),
            .percent = health_store_percent(json_object_get(r->now->answers[i].report, "status"))};
    qsort(rows, n, sizeof *rows, compare[src->sort]);
    for (uint32_t i = 0; i < MIN(n, shown); i++)
        shard_row(t, r, &rows[i]);
    free(rows);
    return t;
}
