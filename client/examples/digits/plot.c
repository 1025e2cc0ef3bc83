/* Everything is placed by hand on a canvas of fixed width; colours are classes of a style sheet, which a viewer's
 * preference for dark mode inverts. Long series are thinned to what the width can show. */
#include "client/examples/digits/plot.h"

#include <assert.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/base/base.h"

#define WIDTH      840.0
#define CHART      320.0 /* height of one chart with all around it */
#define LEFT       76.0
#define RIGHT      24.0
#define TOP        48.0
#define BOTTOM     52.0
#define POINTS_MAX 800 /* of one series */
#define TICKS_MAX  10

/* The ranges that a chart's values are mapped from, and to. */
struct frame {
    double x_low, x_high, y_low, y_high; /* y as log10 where the axis is */
    double left, right, top, bottom;
    bool log_y;
};

static const char style_sheet[] =
    "<style>\n"
    "  .ground { fill: #ffffff } .ink { fill: #1f2328 } .quiet { fill: #59636e }\n"
    "  .axis { stroke: #59636e; stroke-width: 1 } .grid { stroke: #d1d9e0; stroke-width: 1 }\n"
    "  .line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round }\n"
    "  .faint { fill: none; stroke-width: 1; stroke-linejoin: round; opacity: 0.35 }\n"
    "  .c0 { stroke: #0b62c4 } .c1 { stroke: #b35900 }\n"
    "  text { font-family: system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; font-size: 13px }\n"
    "  .title { font-size: 15px; font-weight: 600 }\n"
    "  @media (prefers-color-scheme: dark) {\n"
    "    .ground { fill: #0d1117 } .ink { fill: #e6edf3 } .quiet { fill: #9198a1 }\n"
    "    .axis { stroke: #9198a1 } .grid { stroke: #2b323b } .c0 { stroke: #58a6ff } .c1 { stroke: #f0a04b }\n"
    "  }\n"
    "</style>\n";

/* ---- Text ---- */

/* Control characters are not allowed in XML at all. */
static void
put_text(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '&')
            fputs("&amp;", file);
        else if (*text == '<')
            fputs("&lt;", file);
        else if (*text == '>')
            fputs("&gt;", file);
        else if (*text == '"')
            fputs("&quot;", file);
        else
            fputc((unsigned char)*text < 0x20 ? ' ' : *text, file);
    }
}

static void
put_label(FILE *file, double x, double y, const char *anchor, const char *class, const char *text)
{
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor, class);
    put_text(file, text);
    fputs("</text>\n", file);
}

/* ---- Ticks ---- */

static size_t
linear_ticks(double low, double high, size_t max, double *ticks)
{
    static const double steps[] = {1, 2, 5, 10};
    double raw = (high - low) / (double)max, power, step;
    size_t n = 0, i = 0;

    power = pow(10, floor(log10(raw)));
    while (i + 1 < ARRAY_LEN(steps) && steps[i] * power < raw * (1 - 1e-9))
        i++;
    for (;; i++) { /* a round distance may give one tick too many: take the next */
        step = i < ARRAY_LEN(steps) ? steps[i] * power : steps[i - ARRAY_LEN(steps) + 1] * power * 10;
        if (floor(high / step + 1e-9) - ceil(low / step - 1e-9) + 1 <= (double)max)
            break;
    }
    for (double k = ceil(low / step - 1e-9); n < max && k * step <= high + 1e-9 * step; k++)
        ticks[n++] = fabs(k * step) < 1e-9 * step ? 0 : k * step;
    return n;
}

/* The first `each` of 1, 2, 5 in every stride-th decade; writes at most max, returns how many there are. */
static size_t
decade_ticks(double low, double high, size_t each, int stride, size_t max, double *ticks)
{
    static const double in_decade[] = {1, 2, 5};
    int last = (int)ceil(log10(high));
    size_t n = 0;

    for (int decade = (int)floor(log10(low)); decade <= last; decade += stride)
        for (size_t i = 0; i < each; i++) {
            double value = in_decade[i] * pow(10, decade);

            if (value < low * (1 - 1e-9) || value > high * (1 + 1e-9))
                continue;
            if (n < max)
                ticks[n] = value;
            n++;
        }
    return n;
}

/* 1, 2, 5 of every decade if that many fit, else powers of ten, every second, third ... of them. A range so narrow that
 * it holds less than two of those has linear ticks. */
static size_t
log_ticks(double low, double high, size_t max, double *ticks)
{
    size_t n = decade_ticks(low, high, 3, 1, max, ticks);

    if (n < 2)
        return linear_ticks(low, high, max, ticks);
    for (int stride = 1; n > max; stride++)
        n = decade_ticks(low, high, 1, stride, max, ticks);
    return n;
}

size_t
plot_ticks(double low, double high, bool log, size_t max, double *ticks)
{
    assert(low < high && max >= 2 && (!log || low > 0));
    return log ? log_ticks(low, high, max, ticks) : linear_ticks(low, high, max, ticks);
}

/* ---- Frame ---- */

static double
to_scale(const struct frame *f, double y)
{
    return !f->log_y ? y : y > 0 ? log10(y) : NAN;
}

static double
x_at(const struct frame *f, double x)
{
    return f->left + (x - f->x_low) / (f->x_high - f->x_low) * (f->right - f->left);
}

static double
y_at(const struct frame *f, double scaled)
{
    return f->bottom - (scaled - f->y_low) / (f->y_high - f->y_low) * (f->bottom - f->top);
}

static void
widen_to_see(double *low, double *high, double by)
{
    if (*low > *high) { /* no point can be drawn */
        *low = 0;
        *high = 1;
    }
    if (*high - *low < by * 1e-6) {
        *low -= by / 2;
        *high += by / 2;
    }
}

/* The range of all points that can be drawn. */
static void
include_points(struct frame *f, const struct plot_chart *chart)
{
    f->log_y = chart->log_y;
    for (size_t s = 0; s < chart->count; s++)
        for (size_t i = 0; i < chart->series[s].n; i++) {
            double x = chart->series[s].x[i], y = to_scale(f, chart->series[s].y[i]);

            if (!isfinite(x) || !isfinite(y))
                continue;
            f->x_low = fmin(f->x_low, x);
            f->x_high = fmax(f->x_high, x);
            f->y_low = fmin(f->y_low, y);
            f->y_high = fmax(f->y_high, y);
        }
}

static const struct frame nothing = {.x_low = DBL_MAX, .x_high = -DBL_MAX, .y_low = DBL_MAX, .y_high = -DBL_MAX};

/* The frame of charts[at]: x of all charts, y of its own. */
static struct frame
frame_of(const struct plot_chart *charts, size_t count, size_t at)
{
    struct frame f = nothing, all = nothing;
    double margin;

    for (size_t i = 0; i < count; i++)
        include_points(&all, &charts[i]);
    include_points(&f, &charts[at]);
    widen_to_see(&all.x_low, &all.x_high, 1);
    f.x_low = all.x_low;
    f.x_high = all.x_high;
    widen_to_see(&f.y_low, &f.y_high, f.log_y ? 1 : fmax(fabs(f.y_low), 1e-12));
    margin = (f.y_high - f.y_low) * 0.04;
    f.y_low -= margin;
    f.y_high += margin;
    f.left = LEFT;
    f.right = WIDTH - RIGHT;
    f.top = CHART * (double)at + TOP;
    f.bottom = CHART * (double)(at + 1) - BOTTOM;
    return f;
}

/* ---- Parts of a chart ---- */

static void
put_x_axis(FILE *file, const struct frame *f, const struct plot_chart *chart)
{
    double ticks[TICKS_MAX];
    size_t n = plot_ticks(f->x_low, f->x_high, false, TICKS_MAX, ticks);
    char text[32];

    for (size_t i = 0; i < n; i++) {
        double x = x_at(f, ticks[i]);

        fprintf(file, "<path class=\"axis\" d=\"M%.1f %.1fv5\"/>\n", x, f->bottom);
        snprintf(text, sizeof text, "%.6g", ticks[i]);
        put_label(file, x, f->bottom + 20, "middle", "quiet", text);
    }
    fprintf(file, "<path class=\"axis\" d=\"M%.1f %.1fH%.1f\"/>\n", f->left, f->bottom, f->right);
    put_label(file, (f->left + f->right) / 2, f->bottom + 40, "middle", "ink", chart->x_label);
}

static void
put_y_axis(FILE *file, const struct frame *f, const struct plot_chart *chart)
{
    double ticks[TICKS_MAX], low = f->log_y ? pow(10, f->y_low) : f->y_low;
    double high = f->log_y ? pow(10, f->y_high) : f->y_high, middle = (f->top + f->bottom) / 2;
    size_t n = plot_ticks(low, high, f->log_y, f->log_y ? TICKS_MAX : 6, ticks);
    char text[32];

    for (size_t i = 0; i < n; i++) {
        double y = y_at(f, to_scale(f, ticks[i]));

        fprintf(file, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>\n", f->left, y, f->right);
        snprintf(text, sizeof text, "%.6g", ticks[i]);
        put_label(file, f->left - 8, y + 4, "end", "quiet", text);
    }
    fprintf(file, "<path class=\"axis\" d=\"M%.1f %.1fV%.1f\"/>\n", f->left, f->top, f->bottom);
    fprintf(file, "<text transform=\"translate(20 %.1f) rotate(-90)\" text-anchor=\"middle\" class=\"ink\">", middle);
    put_text(file, chart->y_label);
    fputs("</text>\n", file);
}

/* Runs of points become their mean, so that no more than POINTS_MAX are drawn. */
static void
put_series(FILE *file, const struct frame *f, const struct plot_series *s)
{
    size_t run = (s->n + POINTS_MAX - 1) / POINTS_MAX;
    bool down = false;

    fprintf(file, "<path class=\"%s c%u\" d=\"", s->style == PLOT_LINE ? "line" : "faint", s->colour % 2);
    for (size_t i = 0; i < s->n; i += run) {
        double x = 0, y = 0;
        size_t n = MIN(run, s->n - i);

        for (size_t k = i; k < i + n; k++) {
            x += s->x[k] / (double)n;
            y += to_scale(f, s->y[k]) / (double)n;
        }
        if (!isfinite(x) || !isfinite(y)) {
            down = false;
            continue;
        }
        fprintf(file, "%c%.1f %.1f", down ? 'L' : 'M', x_at(f, x), y_at(f, y));
        down = true;
    }
    fputs("\"/>\n", file);
}

/* From the right, on the title's line. */
static void
put_legend(FILE *file, const struct frame *f, const struct plot_chart *chart)
{
    double right = f->right;

    for (size_t i = chart->count; i-- > 0;) {
        const struct plot_series *s = &chart->series[i];

        if (s->name == NULL)
            continue;
        put_label(file, right, f->top - 18, "end", "quiet", s->name);
        right -= 6.3 * (double)strlen(s->name) + 22; /* about the width of the text */
        fprintf(file, "<path class=\"%s c%u\" d=\"M%.1f %.1fh22\"/>\n", s->style == PLOT_LINE ? "line" : "faint",
                s->colour % 2, right - 22, f->top - 22);
        right -= 44;
    }
}

static void
put_chart(FILE *file, const struct frame *f, const struct plot_chart *chart)
{
    put_label(file, f->left, f->top - 18, "start", "ink title", chart->title);
    put_legend(file, f, chart);
    put_y_axis(file, f, chart);
    put_x_axis(file, f, chart);
    for (size_t i = 0; i < chart->count; i++)
        put_series(file, f, &chart->series[i]);
}

void
plot_write(FILE *file, const struct plot_chart *charts, size_t count)
{
    double height = CHART * (double)count;

    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
            "role=\"img\">\n<title>",
            WIDTH, height, WIDTH, height);
    for (size_t i = 0; i < count; i++) {
        fputs(i > 0 ? "; " : "", file);
        put_text(file, charts[i].title);
    }
    fprintf(file, "</title>\n%s<rect class=\"ground\" width=\"%.0f\" height=\"%.0f\"/>\n", style_sheet, WIDTH, height);
    for (size_t i = 0; i < count; i++) {
        struct frame f = frame_of(charts, count, i);

        put_chart(file, &f, &charts[i]);
    }
    fputs("</svg>\n", file);
}

enum ps_err
plot_save(const char *path, const struct plot_chart *charts, size_t count, struct ps_error *error)
{
    FILE *file = fopen(path, "w");
    int failed;

    if (file == NULL)
        return ps_fail(error, PS_ERR_IO, "%s: %s", path, strerror(errno));
    plot_write(file, charts, count);
    failed = ferror(file);
    if (fclose(file) != 0 || failed)
        return ps_fail(error, PS_ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
    return PS_OK;
}
