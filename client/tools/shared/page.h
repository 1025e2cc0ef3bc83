/* Where psctl prints: a stream, and whether colours may be used on it. Colours are few and never say what the words do
 * not. Pure, but for page_line(), which writes to the stream.
 *
 *     struct page page = {.out = stdout, .colour = page_coloured(PAGE_AUTO, terminal, no_color, term)};
 *     page_line(&page, PAINT_FAULT, "not reached: shard %u", shard); */
#ifndef CLIENT_TOOLS_PAGE_H
#define CLIENT_TOOLS_PAGE_H

#include <stdio.h>

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

struct page {
    FILE *out;
    bool colour;
    size_t columns; /* how wide tables may be: text is cut, columns of numbers are left out; 0: as wide as they are */
};

enum paint {
    PAINT_PLAIN,
    PAINT_HEADING,
    PAINT_DIM,     /* over: nothing comes of it any more */
    PAINT_WARNING, /* somebody should look */
    PAINT_FAULT    /* something does not work */
};

/* What begins a colour on this page; "" when it has none. page_end() ends it. */
const char *page_begin(const struct page *page, enum paint paint);
const char *page_end(const struct page *page, enum paint paint);

/* Control characters become '?': what a shard calls itself must not draw on the terminal. */
void page_clean(char *text);

/* A line, cleaned; its end is added. */
void page_line(const struct page *page, enum paint paint, const char *format, ...) PS_PRINTF(3, 4);

enum page_when { PAGE_AUTO, PAGE_ALWAYS, PAGE_NEVER };

/* no_color, term: the environment's NO_COLOR and TERM, NULL when not set. PAGE_AUTO colours a terminal that can do it,
 * for one who has not said no (no-color.org). */
bool page_coloured(enum page_when when, bool terminal, const char *no_color, const char *term);

#endif
