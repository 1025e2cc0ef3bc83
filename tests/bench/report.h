/* The results: tables, printed row by row as they come and kept for the JSON and the picture.
 *
 *     struct bench_table *t = report_table(r, &(struct table_spec){.title = "push", .unit = "GB/s"}, ways, n);
 *     interleave_run(s, ways, n, 1, &turns);
 *     table_row(t, "1 MiB", 1048576, turns.series[0]);
 *
 * A figure is the median of a series; its spread is what lies between the quartiles, as a part of it. A ratio is the
 * median of the rounds' own, the figure of a way over that of another, whichever direction is the better one. */
#ifndef TESTS_BENCH_REPORT_H
#define TESTS_BENCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/bench/bench_options.h"
#include "tests/bench/series.h"
#include "tests/bench/variant.h"

#define ROWS_MAX   64
#define LABEL_MAX  64
#define TITLE_MAX  160
#define TABLES_MAX 128

struct table_spec {
    const char *title, *unit;
    bool less;        /* less is better */
    const char *axis; /* what x counts, "bytes of a block"; NULL: nothing, rows are names */
    bool of_ways;     /* the axis counts ways: x is theirs */
    bool once;        /* one sample, however many rounds */
};

struct bench_row {
    char label[LABEL_MAX];
    double x;
    struct series *figures; /* [ways] */
};

struct bench_table {
    const char *area;
    char title[TITLE_MAX];
    const char *unit, *axis;
    bool less, of_ways, once;
    struct bench_variant ways[WAYS_MAX];
    size_t ways_len;
    struct bench_row rows[ROWS_MAX];
    size_t rows_len;
};

struct bench_report {
    const struct bench_options *settings;
    const char *area; /* that is under way */
    struct bench_table *tables[TABLES_MAX];
    size_t tables_len;
    char left_out[32][TITLE_MAX];
    size_t left_out_len;
};

void report_init(struct bench_report *r, const struct bench_options *s);
void report_finish(struct bench_report *r);
void report_area(struct bench_report *r, const char *name, const char *about);

/* Texts of spec but the title, and those of the ways, are borrowed. The table is the report's. */
struct bench_table *report_table(struct bench_report *r, const struct table_spec *spec,
                                 const struct bench_variant *ways, size_t n);

/* figures: [ways], an empty series for a way that was not sampled; figures that are not finite end the bench. */
void table_row(struct bench_table *t, const char *label, double x, const struct series *figures);

/* Something that is not available here, and why; printed once however often it is reported. */
void report_left_out(struct bench_report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Ratio k of the way in the row; false: there is none, since one of the two was not sampled. *other: its place. */
bool table_ratio(const struct bench_table *t, const struct bench_row *row, size_t way, size_t k, double *ratio,
                 size_t *other);

/* Everything, into a file. Ends the bench when it cannot be written. */
void report_json(const struct bench_report *r, const char *path);

#endif
