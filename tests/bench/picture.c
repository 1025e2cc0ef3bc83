/* A panel is drawn where the shorter column ends; how high it is follows from what it shows. */
#include "tests/bench/picture.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/core/base/base.h"
#include "tests/bench/load.h"
#include "tests/bench/scale.h"
#include "tests/bench/server.h"

#define COLUMNS     2
#define PANEL_WIDTH 640.0
#define MARGIN      20.0
#define HEAD        112.0 /* of the page */
#define TITLE       26.0  /* of a panel */
#define KEY         18.0  /* a line of the key */
#define KEY_COLUMNS 3
#define LEFT        64.0
#define BAR_LEFT    210.0
#define RIGHT       70.0
#define CHART       250.0 /* lines */
#define AXIS        40.0
#define BAR         11.0
#define GROUP_GAP   9.0
#define COLOURS     8
#define DECADES     30.0 /* lines that span so much get a logarithmic scale; bars begin at 0 */

struct pen {
    FILE *file;
    double x, y; /* of the panel */
};

static const char style_sheet[] =
    "<style>\n"
    ":root { --paper: #ffffff; --ink: #1c2024; --quiet: #5b6570; --rule: #dfe3e8; --c0: #1f5fbf; --c1: #b4540a;\n"
    "  --c2: #1d7a4c; --c3: #a3226e; --c4: #6b4fc0; --c5: #867000; --c6: #0c7a8a; --c7: #6d6d6d }\n"
    "@media (prefers-color-scheme: dark) {\n"
    ":root { --paper: #101418; --ink: #e8ebee; --quiet: #98a3ad; --rule: #2a3138; --c0: #6ea8ff; --c1: #f09a54;\n"
    "  --c2: #5cc592; --c3: #ee82bd; --c4: #ab96f5; --c5: #d9c24a; --c6: #53c6d6; --c7: #b4b4b4 } }\n"
    "text { font: 12px system-ui, 'DejaVu Sans', sans-serif; fill: var(--ink) }\n"
    ".quiet { fill: var(--quiet) } .title { font-size: 14px; font-weight: 600 } .page { font-size: 20px; font-weight: "
    "600 }\n"
    ".rule { stroke: var(--rule) } .axis { stroke: var(--quiet) }\n"
    ".line { fill: none; stroke-width: 2; stroke-linejoin: round } .whisker { stroke-width: 1.5 }\n"
    "</style>\n";

/* ---- Marks ---- */

static void
put_escaped(FILE *file, const char *text)
{
    for (; *text != '\0'; text++)
        switch (*text) {
        case '&':
            fputs("&amp;", file);
            break;
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        default:
            fputc((unsigned char)*text < 0x20 ? ' ' : *text, file);
        }
}

static void
put_text(const struct pen *p, double x, double y, const char *anchor, const char *class, const char *text)
{
    fprintf(p->file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", p->x + x, p->y + y, anchor, class);
    put_escaped(p->file, text);
    fputs("</text>\n", p->file);
}

static void
put_rule(const struct pen *p, const char *class, double x1, double y1, double x2, double y2)
{
    fprintf(p->file, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class, p->x + x1,
            p->y + y1, p->x + x2, p->y + y2);
}

static void
put_whisker(const struct pen *p, size_t colour, double x1, double y1, double x2, double y2)
{
    fprintf(p->file,
            "<line class=\"whisker\" style=\"stroke:var(--c%zu)\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
            colour % COLOURS, p->x + x1, p->y + y1, p->x + x2, p->y + y2);
}

/* The text that a mark shows, as the content of its element. */
static void
put_told(FILE *file, const struct bench_table *t, const struct bench_row *row, size_t way)
{
    double ratio;
    size_t other;

    fputs("<title>", file);
    put_escaped(file, t->ways[way].name);
    fputs(", ", file);
    put_escaped(file, row->label);
    fprintf(file, ": %.4g ", series_median(&row->figures[way]));
    put_escaped(file, t->unit);
    for (size_t k = 0; k < AGAINST_MAX; k++)
        if (table_ratio(t, row, way, k, &ratio, &other)) {
            fprintf(file, ", %.2f of ", ratio);
            put_escaped(file, t->ways[other].name);
        }
    fputs("</title>", file);
}

/* "4 KiB" where bytes are counted, else the shortest number. */
static const char *
tick_text(double value, bool bytes, char text[32])
{
    if (bytes && value >= 1 && value < 1e15 && fmod(value, 1) == 0)
        return load_size((uint64_t)value, text);
    if (value >= 1e6)
        snprintf(text, 32, "%gM", value / 1e6);
    else if (value >= 1e4)
        snprintf(text, 32, "%gk", value / 1e3);
    else
        snprintf(text, 32, "%g", value);
    return text;
}

/* ---- What a table shows ---- */

static bool
has_figures(const struct bench_table *t, size_t way)
{
    for (size_t i = 0; i < t->rows_len; i++)
        if (t->rows[i].figures[way].n > 0)
            return true;
    return false;
}

static bool
has_lines(const struct bench_table *t)
{
    return t->axis != NULL && (t->of_ways ? t->ways_len : t->rows_len) > 1;
}

/* Ends of all that is drawn; false: nothing is. */
static bool
picture_column_ends(const struct bench_table *t, double *low, double *high)
{
    *low = DBL_MAX;
    *high = 0;
    for (size_t i = 0; i < t->rows_len; i++)
        for (size_t w = 0; w < t->ways_len; w++) {
            const struct series *s = &t->rows[i].figures[w];

            if (s->n == 0)
                continue;
            *low = MIN(*low, series_quantile(s, 0.25));
            *high = MAX(*high, series_quantile(s, 0.75));
        }
    return *high > 0;
}

static size_t
key_lines(const struct bench_table *t)
{
    size_t n = 0;

    for (size_t w = 0; w < t->ways_len; w++)
        n += has_figures(t, w);
    if (has_lines(t) && t->of_ways)
        n = t->rows_len;
    return (n + KEY_COLUMNS - 1) / KEY_COLUMNS;
}

static size_t
picture_bars(const struct bench_table *t)
{
    size_t n = 0;

    for (size_t i = 0; i < t->rows_len; i++)
        for (size_t w = 0; w < t->ways_len; w++)
            n += t->rows[i].figures[w].n > 0;
    return n;
}

static double
height_of(const struct bench_table *t)
{
    double around = TITLE + KEY * (double)key_lines(t) + AXIS + MARGIN;

    return around + (has_lines(t) ? CHART : BAR * (double)picture_bars(t) + GROUP_GAP * (double)t->rows_len);
}

/* ---- Panels ---- */

static void
put_key(const struct pen *p, const struct bench_table *t)
{
    bool rows = has_lines(t) && t->of_ways;
    size_t n = rows ? t->rows_len : t->ways_len, place = 0;

    for (size_t i = 0; i < n; i++) {
        double x = (double)(place % KEY_COLUMNS) * (PANEL_WIDTH - MARGIN) / KEY_COLUMNS,
               y = TITLE + KEY * (double)(place / KEY_COLUMNS);

        if (!rows && !has_figures(t, i))
            continue;
        fprintf(p->file,
                "<rect style=\"fill:var(--c%zu)\" x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"4\" rx=\"2\"/>\n",
                i % COLOURS, p->x + x, p->y + y + 5);
        put_text(p, x + 18, y + 11, "start", "quiet", rows ? t->rows[i].label : t->ways[i].name);
        place++;
    }
}

static void
put_mark(const struct pen *p, const struct bench_table *t, const struct bench_row *row, size_t way, size_t colour,
         double x, const struct scale *y)
{
    const struct series *s = &row->figures[way];

    put_whisker(p, colour, x, scale_at(y, series_quantile(s, 0.25)), x, scale_at(y, series_quantile(s, 0.75)));
    fprintf(p->file, "<circle style=\"fill:var(--c%zu)\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\">", colour % COLOURS,
            p->x + x, p->y + scale_at(y, series_median(s)));
    put_told(p->file, t, row, way);
    fputs("</circle>\n", p->file);
}

/* One curve: of a way over the rows, or of a row over the ways. */
static void
put_curve(const struct pen *p, const struct bench_table *t, size_t curve, const struct scale *x, const struct scale *y)
{
    size_t n = t->of_ways ? t->ways_len : t->rows_len;
    bool open = false;

    for (int marks = 0; marks < 2; marks++) {
        for (size_t i = 0; i < n; i++) {
            const struct bench_row *row = &t->rows[t->of_ways ? curve : i];
            size_t way = t->of_ways ? i : curve;
            double at;

            if (row->figures[way].n == 0)
                continue;
            at = scale_at(x, t->of_ways ? t->ways[i].x : row->x);
            if (marks) {
                put_mark(p, t, row, way, curve, at, y);
                continue;
            }
            if (!open)
                fprintf(p->file, "<polyline class=\"line\" style=\"stroke:var(--c%zu)\" points=\"", curve % COLOURS);
            open = true;
            fprintf(p->file, "%.1f,%.1f ", p->x + at, p->y + scale_at(y, series_median(&row->figures[way])));
        }
        if (open && !marks)
            fputs("\"/>\n", p->file);
    }
}

static void
put_axes(const struct pen *p, const struct bench_table *t, const struct scale *x, const struct scale *y)
{
    bool bytes = strstr(t->axis, "bytes") != NULL;
    double ticks[TICKS_MAX];
    char text[32];
    size_t n = scale_ticks(y, false, ticks);

    for (size_t i = 0; i < n; i++) {
        put_rule(p, "rule", x->from, scale_at(y, ticks[i]), x->to, scale_at(y, ticks[i]));
        put_text(p, x->from - 8, scale_at(y, ticks[i]) + 4, "end", "quiet", tick_text(ticks[i], false, text));
    }
    n = scale_ticks(x, bytes, ticks);
    for (size_t i = 0; i < n; i++) {
        put_rule(p, "axis", scale_at(x, ticks[i]), y->from, scale_at(x, ticks[i]), y->from + 4);
        put_text(p, scale_at(x, ticks[i]), y->from + 18, "middle", "quiet", tick_text(ticks[i], bytes, text));
    }
    put_rule(p, "axis", x->from, y->from, x->to, y->from);
    put_text(p, x->to, y->from + 34, "end", "quiet", t->axis);
}

static void
put_lines(const struct pen *p, const struct bench_table *t, double top, double low, double high)
{
    size_t n = t->of_ways ? t->ways_len : t->rows_len;
    double x_low = DBL_MAX, x_high = 0;
    struct scale x, y;

    for (size_t i = 0; i < n; i++) {
        x_low = MIN(x_low, t->of_ways ? t->ways[i].x : t->rows[i].x);
        x_high = MAX(x_high, t->of_ways ? t->ways[i].x : t->rows[i].x);
    }
    x = (struct scale){x_low, MAX(x_high, x_low * 2), true, LEFT, PANEL_WIDTH - RIGHT};
    y = scale_of(low, high, low > 0 && high / low > DECADES, top + CHART, top + 8);
    put_axes(p, t, &x, &y);
    for (size_t i = 0; i < (t->of_ways ? t->rows_len : t->ways_len); i++)
        put_curve(p, t, i, &x, &y);
}

static void
put_bar(const struct pen *p, const struct bench_table *t, const struct bench_row *row, size_t way, double y,
        const struct scale *x)
{
    const struct series *s = &row->figures[way];
    double end = scale_at(x, series_median(s)), middle = y + BAR / 2 - 0.5;
    char text[32];

    fprintf(p->file, "<rect style=\"fill:var(--c%zu)\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\">",
            way % COLOURS, p->x + x->from, p->y + y, MAX(end - x->from, 0.5), BAR - 2);
    put_told(p->file, t, row, way);
    fputs("</rect>\n", p->file);
    put_whisker(p, 7, scale_at(x, series_quantile(s, 0.25)), middle, scale_at(x, series_quantile(s, 0.75)), middle);
    snprintf(text, sizeof text, series_median(s) < 1000 ? "%.3g" : "%.0f", series_median(s));
    put_text(p, MAX(end, scale_at(x, series_quantile(s, 0.75))) + 6, y + BAR - 1, "start", "quiet", text);
}

static void
put_bars(const struct pen *p, const struct bench_table *t, double top, double low, double high)
{
    struct scale x = scale_of(low, high, false, BAR_LEFT, PANEL_WIDTH - RIGHT);
    double y = top + GROUP_GAP, ticks[TICKS_MAX],
           bottom = top + BAR * (double)picture_bars(t) + GROUP_GAP * (double)t->rows_len;
    size_t n = scale_ticks(&x, false, ticks);
    char text[32];

    for (size_t i = 0; i < n; i++) {
        put_rule(p, "rule", scale_at(&x, ticks[i]), top, scale_at(&x, ticks[i]), bottom + 4);
        put_text(p, scale_at(&x, ticks[i]), bottom + 18, "middle", "quiet", tick_text(ticks[i], false, text));
    }
    for (size_t i = 0; i < t->rows_len; i++) {
        put_text(p, BAR_LEFT - 10, y + BAR, "end", "", t->rows[i].label);
        for (size_t w = 0; w < t->ways_len; w++)
            if (t->rows[i].figures[w].n > 0) {
                put_bar(p, t, &t->rows[i], w, y, &x);
                y += BAR;
            }
        y += GROUP_GAP;
    }
}

static void
put_panel(const struct pen *p, const struct bench_table *t)
{
    double top = TITLE + KEY * (double)key_lines(t), low, high;
    char title[TITLE_MAX + 64];

    snprintf(title, sizeof title, "%s: %s, %s (%s is better)", t->area, t->title, t->unit, t->less ? "less" : "more");
    put_text(p, 0, 14, "start", "title", title);
    put_key(p, t);
    if (!picture_column_ends(t, &low, &high))
        put_text(p, 0, top + 20, "start", "quiet", "nothing was sampled");
    else if (has_lines(t))
        put_lines(p, t, top, low, high);
    else
        put_bars(p, t, top, low, high);
}

/* ---- The page ---- */

static size_t
picture_shorter_column(const double *columns)
{
    size_t best = 0;

    for (size_t i = 1; i < COLUMNS; i++)
        if (columns[i] < columns[best])
            best = i;
    return best;
}

static double
page_height(const struct bench_report *r)
{
    double columns[COLUMNS] = {0}, height = 0;

    for (size_t i = 0; i < r->tables_len; i++)
        columns[picture_shorter_column(columns)] += height_of(r->tables[i]);
    for (size_t i = 0; i < COLUMNS; i++)
        height = MAX(height, columns[i]);
    return HEAD + height + MARGIN;
}

static void
put_page(FILE *file, const struct bench_report *r)
{
    double columns[COLUMNS] = {0}, width = COLUMNS * PANEL_WIDTH + 2 * MARGIN, height = page_height(r);
    struct pen p = {file, MARGIN, MARGIN};
    char line[256];

    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
            "role=\"img\">\n<title>psd beside the bare limits and its peers</title>\n%s"
            "<rect width=\"%.0f\" height=\"%.0f\" style=\"fill:var(--paper)\"/>\n",
            width, height, width, height, style_sheet, width, height);
    put_text(&p, 0, 22, "start", "page", "psd beside the bare limits and its peers");
    snprintf(line, sizeof line,
             "Medians of %lld rounds of %.3g s in which all that is compared takes turns; whiskers are the quartiles.",
             (long long)r->settings->rounds, r->settings->seconds);
    put_text(&p, 0, 46, "start", "quiet", line);
    snprintf(line, sizeof line, "One machine; TCP over loopback, congestion control %s.", r->settings->congestion);
    put_text(&p, 0, 64, "start", "quiet", line);
    for (size_t i = 0; i < r->tables_len; i++) {
        size_t c = picture_shorter_column(columns);

        p.x = MARGIN + (double)c * PANEL_WIDTH;
        p.y = HEAD + columns[c];
        put_panel(&p, r->tables[i]);
        columns[c] += height_of(r->tables[i]);
    }
    fputs("</svg>\n", file);
}

void
picture_save(const struct bench_report *r, const char *path)
{
    FILE *file = fopen(path, "w");
    bool failed;

    if (file == NULL)
        bench_die(path, NULL);
    put_page(file, r);
    failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed)
        bench_die(path, NULL);
}
