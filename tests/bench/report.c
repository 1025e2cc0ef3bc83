#include "tests/bench/report.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/base/base.h"

#define COLUMNS_MAX 3 /* ways beside each other; more stand below each other */

void
report_init(struct bench_report *r, const struct bench_options *s)
{
    memset(r, 0, sizeof *r);
    r->settings = s;
}

void
report_finish(struct bench_report *r)
{
    for (size_t i = 0; i < r->tables_len; i++) {
        for (size_t k = 0; k < r->tables[i]->rows_len; k++)
            free(r->tables[i]->rows[k].figures);
        free(r->tables[i]);
    }
    memset(r, 0, sizeof *r);
}

void
report_area(struct bench_report *r, const char *name, const char *about)
{
    r->area = name;
    printf("\n== %s: %s\n", name, about);
    fflush(stdout);
}

static void *
report_column_width(size_t size)
{
    void *p = calloc(1, size);

    ps_assert(p != NULL);
    return p;
}

static bool
report_put_beside(const struct bench_table *t)
{
    return t->ways_len <= COLUMNS_MAX;
}

static void
print_head(const struct bench_table *t)
{
    printf("\n%s, %s (%s is better%s)\n", t->title, t->unit, t->less ? "less" : "more",
           t->once ? ", measured once" : "");
    if (!report_put_beside(t))
        return;
    printf("%-24s", "");
    for (size_t i = 0; i < t->ways_len; i++)
        printf(" %20s", t->ways[i].name);
    for (size_t i = 0; i < t->ways_len; i++)
        for (size_t k = 0; k < AGAINST_MAX && t->ways[i].against[k] != NULL; k++)
            printf("  %s/%s", t->ways[i].name, t->ways[i].against[k]);
    printf("\n");
}

/* Ways that are not in the table are not compared with. */
static void
keep_against(struct bench_table *t, struct bench_variant *way)
{
    size_t kept = 0;

    for (size_t k = 0; k < AGAINST_MAX; k++) {
        bool there = false;

        for (size_t i = 0; way->against[k] != NULL && i < t->ways_len; i++)
            there |= strcmp(t->ways[i].name, way->against[k]) == 0;
        if (there)
            way->against[kept++] = way->against[k];
    }
    while (kept < AGAINST_MAX)
        way->against[kept++] = NULL;
}

struct bench_table *
report_table(struct bench_report *r, const struct table_spec *spec, const struct bench_variant *ways, size_t n)
{
    struct bench_table *t = report_column_width(sizeof *t);

    ps_assert(r->tables_len < TABLES_MAX && n <= WAYS_MAX);
    r->tables[r->tables_len++] = t;
    t->area = r->area;
    snprintf(t->title, sizeof t->title, "%s", spec->title);
    t->unit = spec->unit;
    t->axis = spec->axis;
    t->less = spec->less;
    t->of_ways = spec->of_ways;
    t->once = spec->once;
    memcpy(t->ways, ways, n * sizeof *ways);
    t->ways_len = n;
    for (size_t i = 0; i < n; i++)
        keep_against(t, &t->ways[i]);
    print_head(t);
    return t;
}

bool
table_ratio(const struct bench_table *t, const struct bench_row *row, size_t way, size_t k, double *ratio,
            size_t *other)
{
    const char *name = k < AGAINST_MAX ? t->ways[way].against[k] : NULL;

    for (size_t i = 0; name != NULL && i < t->ways_len; i++)
        if (strcmp(t->ways[i].name, name) == 0 && row->figures[i].n > 0 && row->figures[way].n > 0) {
            *ratio = series_ratio(&row->figures[way], &row->figures[i]);
            *other = i;
            return true;
        }
    return false;
}

/* Four digits that count. */
static const char *
report_number(double x, char text[32])
{
    int digits = x == 0 ? 0 : (int)floor(log10(fabs(x))) + 1;

    snprintf(text, 32, "%.*f", MIN(MAX(4 - digits, 0), 6), x);
    return text;
}

static void
print_figure(const struct series *s)
{
    char text[32];

    if (s->n > 0)
        printf(" %11s (%5.1f%%)", report_number(series_median(s), text), 100 * series_spread(s));
    else
        printf(" %11s         ", "-");
}

static void
print_beside(const struct bench_table *t, const struct bench_row *row)
{
    printf("%-24s", row->label);
    for (size_t i = 0; i < t->ways_len; i++)
        print_figure(&row->figures[i]);
    for (size_t i = 0; i < t->ways_len; i++)
        for (size_t k = 0; k < AGAINST_MAX && t->ways[i].against[k] != NULL; k++) {
            int width = (int)(strlen(t->ways[i].name) + 1 + strlen(t->ways[i].against[k]));
            double ratio;
            size_t other;

            if (table_ratio(t, row, i, k, &ratio, &other))
                printf("  %*.2f", width, ratio);
            else
                printf("  %*s", width, "-");
        }
    printf("\n");
}

static void
print_below(const struct bench_table *t, const struct bench_row *row)
{
    printf("%s\n", row->label);
    for (size_t i = 0; i < t->ways_len; i++) {
        if (row->figures[i].n == 0)
            continue;
        printf("  %-32s", t->ways[i].name);
        print_figure(&row->figures[i]);
        for (size_t k = 0; k < AGAINST_MAX && t->ways[i].against[k] != NULL; k++) {
            double ratio;
            size_t other;

            if (table_ratio(t, row, i, k, &ratio, &other))
                printf("   %.2f of %s", ratio, t->ways[other].name);
        }
        printf("\n");
    }
}

void
table_row(struct bench_table *t, const char *label, double x, const struct series *figures)
{
    struct bench_row *row = &t->rows[t->rows_len];

    ps_assert(t->rows_len < ROWS_MAX);
    t->rows_len++;
    snprintf(row->label, sizeof row->label, "%s", label);
    row->x = x;
    row->figures = report_column_width(t->ways_len * sizeof *figures);
    memcpy(row->figures, figures, t->ways_len * sizeof *figures);
    for (size_t i = 0; i < t->ways_len; i++)
        for (int k = 0; k < figures[i].n; k++)
            ps_assert(isfinite(figures[i].value[k]) && figures[i].value[k] >= 0);
    if (report_put_beside(t))
        print_beside(t, row);
    else
        print_below(t, row);
    fflush(stdout);
}

void
report_left_out(struct bench_report *r, const char *format, ...)
{
    char *line = r->left_out[r->left_out_len];
    va_list args;

    ps_assert(r->left_out_len < ARRAY_LEN(r->left_out));
    va_start(args, format);
    vsnprintf(line, TITLE_MAX, format, args);
    va_end(args);
    for (size_t i = 0; i < r->left_out_len; i++)
        if (strcmp(r->left_out[i], line) == 0)
            return;
    r->left_out_len++;
    printf("left out: %s\n", line);
}
