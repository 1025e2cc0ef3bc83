/* Line charts as SVG, one above the other with one x scale: axes, ticks, labels; colours for light and dark
 * surroundings. */
#ifndef CLIENT_EXAMPLES_DIGITS_PLOT_H
#define CLIENT_EXAMPLES_DIGITS_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "ps_err.h"

enum plot_style {
    PLOT_LINE, /* strong */
    PLOT_FAINT /* thin and pale: what a strong line smooths */
};

/* Points from left to right. A point that is not finite breaks the line. */
struct plot_series {
    const char *name; /* in the legend; NULL: not there */
    enum plot_style style;
    unsigned colour; /* 0 or 1 */
    size_t n;
    const double *x, *y; /* [n], borrowed */
};

struct plot_chart {
    const char *title, *x_label, *y_label; /* UTF-8, any characters */
    bool log_y;                            /* y values that are not above 0 are left out */
    const struct plot_series *series;
    size_t count;
};

/* Into an open file. */
void plot_write(FILE *file, const struct plot_chart *charts, size_t count);

/* Into a new file, or over an old one. PS_ERR_IO with its name. */
enum ps_err plot_save(const char *path, const struct plot_chart *charts, size_t count,
                      struct ps_error *error) PS_MUST_USE;

/* Ticks from low to high at round distances (1, 2 or 5 times a power of ten), at most max of them; log: at 1, 2, 5 of
 * every decade or powers of ten. ticks: [max]; returns how many: none
 * when low is not below high, max is below 2 or, with log, low is not above 0. Pure. */
size_t plot_ticks(double low, double high, bool log, size_t max, double *ticks);

#endif
