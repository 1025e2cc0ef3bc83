#include "page.h"

#include <stdarg.h>
#include <string.h>

const char *
page_begin(const struct page *page, enum paint paint)
{
    static const char *const begin[] = {
        [PAINT_PLAIN] = "", [PAINT_HEADING] = "\x1b[1m", [PAINT_WARNING] = "\x1b[33m", [PAINT_FAULT] = "\x1b[31m"};

    return page->colour ? begin[paint] : "";
}

const char *
page_end(const struct page *page, enum paint paint)
{
    return page->colour && paint != PAINT_PLAIN ? "\x1b[0m" : "";
}

void
page_line(const struct page *page, enum paint paint, const char *format, ...)
{
    va_list args;

    fputs(page_begin(page, paint), page->out);
    va_start(args, format);
    vfprintf(page->out, format, args);
    va_end(args);
    fputs(page_end(page, paint), page->out);
    fputc('\n', page->out);
}

bool
page_coloured(enum page_when when, bool terminal, const char *no_color, const char *term)
{
    if (when != PAGE_AUTO)
        return when == PAGE_ALWAYS;
    return terminal && (no_color == NULL || *no_color == '\0') && (term == NULL || strcmp(term, "dumb") != 0);
}
