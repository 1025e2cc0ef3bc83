/* Each variable, over all shards, by its traffic. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/psctl/top/sections.h"
#include "client/tools/psctl/views/cells.h"
#include "client/tools/shared/output.h"
#include "common/core/base/units.h"

struct top_variable_row {
    const struct variable_report *first;
    double pushes, pushed, pulled;
    uint64_t bytes, refused, version;
    size_t order; /* by job and name */
    bool over;    /* its job is */
};

static int
compare_name(const void *a, const void *b)
{
    const struct top_variable_row *x = a, *y = b;

    return x->over != y->over ? x->over - y->over : (x->order > y->order) - (x->order < y->order);
}

static double
row_load(const struct top_variable_row *row)
{
    double load = rates_add(row->pushed, row->pulled);

    return isnan(load) ? -1 : load;
}

static int
compare_load(const void *a, const void *b)
{
    const struct top_variable_row *x = a, *y = b;
    double load_x = row_load(x), load_y = row_load(y);

    return x->over == y->over && load_x != load_y ? (load_x < load_y) - (load_x > load_y) : compare_name(a, b);
}

static int
compare_memory(const void *a, const void *b)
{
    const struct top_variable_row *x = a, *y = b;

    return x->over == y->over && x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes)
                                                      : compare_name(a, b);
}

static void
row_add(struct top_variable_row *row, const struct rates *r, const struct variable_entry *p)
{
    row->pushes = rates_add(row->pushes, rates_variable(r, p, offsetof(struct variable_report, pushes)));
    row->pushed = rates_add(row->pushed, rates_variable(r, p, offsetof(struct variable_report, pushed_bytes)));
    row->pulled = rates_add(row->pulled, rates_variable(r, p, offsetof(struct variable_report, pulled_bytes)));
    row->bytes += p->v->bytes;
    row->refused += p->v->refused;
    row->version = MAX(row->version, p->v->version_max);
}

/* places are sorted: those of one variable, and those of one job, stand together. */
static size_t
rows_fill(struct top_variable_row *rows, const struct top_source *src, const struct variable_entry *places, size_t len)
{
    const char *job = NULL;
    bool over = false;
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        const char *of = places[i].v->job;

        if (job == NULL || strcmp(job, of) != 0)
            over = top_is_over(src, of);
        job = of;
        if (over && !src->all)
            continue;
        if (i == 0 || !variable_entry_same(&places[i - 1], &places[i])) {
            rows[n] = (struct top_variable_row){
                .first = places[i].v, .pushes = NAN, .pushed = NAN, .pulled = NAN, .order = n, .over = over};
            n++;
        }
        row_add(&rows[n - 1], &src->rates, &places[i]);
    }
    return n;
}

/* The variables to be shown, not sorted; the caller frees them. */
static struct top_variable_row *
rows_of(const struct top_source *src, size_t *n)
{
    size_t len;
    struct variable_entry *places = variable_entries(src->now->answers, src->now->n, &len);
    struct top_variable_row *rows = calloc(len + 1, sizeof *rows);

    *n = rows != NULL ? rows_fill(rows, src, places, len) : 0;
    free(places);
    return rows;
}

static void
variable_row(struct text_table *t, const struct top_variable_row *row)
{
    table_row(t);
    table_cell(t, "%s", row->first->job);
    table_cell(t, "%s", row->first->name);
    cell_rate(t, row->pushes);
    cell_rate_bytes(t, row->pushed);
    cell_rate_bytes(t, row->pulled);
    cell_bytes(t, row->bytes);
    cell_count(t, row->version);
    cell_count(t, row->refused);
    table_paint(t, row->refused > 0 ? PAINT_WARNING : PAINT_PLAIN);
    table_cell(t, "%s", row->first->optimizer);
    if (row->over)
        table_dim(t);
}

struct text_table *
top_variables_table(const struct top_source *src, size_t shown)
{
    static int (*const compare[])(const void *, const void *) = {
        [TOP_BY_LOAD] = compare_load, [TOP_BY_MEMORY] = compare_memory, [TOP_BY_NAME] = compare_name};
    struct text_table *t = table_of(output_top_variables, "llrrrrrrl");
    size_t n;
    struct top_variable_row *rows = rows_of(src, &n);

    if (n > 0)
        qsort(rows, n, sizeof *rows, compare[src->sort]);
    for (size_t i = 0; i < MIN(n, shown); i++)
        variable_row(t, &rows[i]);
    free(rows);
    return t;
}

size_t
top_variables_count(const struct top_source *src)
{
    size_t n;

    free(rows_of(src, &n));
    return n;
}
