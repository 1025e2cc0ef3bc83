/* Where psctl prints: a stream, and whether colours may be used on it. Colours are few and carry nothing that the words
 * do not. Pure, but for printer_line(), which writes to the stream.
 *
 *     struct printer page = {.out = stdout, .colour = printer_coloured(COLOUR_AUTO, terminal, no_color, term)};
 *     printer_line(&page, PAINT_FAULT, "not reached: shard %u", shard); */
#ifndef CLIENT_TOOLS_SHARED_PRINTER_H
#define CLIENT_TOOLS_SHARED_PRINTER_H

#include <stdio.h>

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

struct printer {
    FILE *out;
    bool colour;
    size_t columns; /* how wide tables may be: text is cut, columns of numbers are left out; 0: as wide as they are */
};

enum paint {
    PAINT_PLAIN,
    PAINT_HEADING,
    PAINT_DIM,     /* finished: nothing more is expected of it */
    PAINT_WARNING, /* needs attention */
    PAINT_FAULT    /* something does not work */
};

/* The sequence that begins a colour on this page; "" when it has none. printer_end() ends it. */
const char *printer_begin(const struct printer *page, enum paint paint);
const char *printer_end(const struct printer *page, enum paint paint);

/* Control characters become '?': the name of a shard must not draw on the terminal. */
void printer_clean(char *text);

/* A line, cleaned; its end is added. */
void printer_line(const struct printer *page, enum paint paint, const char *format, ...) PS_PRINTF(3, 4);

enum colour_when { COLOUR_AUTO, COLOUR_ALWAYS, COLOUR_NEVER };

/* no_color, term: the environment's NO_COLOR and TERM, NULL when not set. COLOUR_AUTO colours a terminal that can show
 * it, unless NO_COLOR is set (no-color.org). */
bool printer_coloured(enum colour_when when, bool terminal, const char *no_color, const char *term);

#endif
