#include "client/tools/shared/page.h"

#include <stdarg.h>
#include <string.h>

#define PAGE_LINE_MAX 2048 /* longer ones are cut */

const char *
page_begin(const struct page *page, enum paint paint)
{
    static const char *const begin[] = {[PAINT_PLAIN] = "",
                                        [PAINT_HEADING] = "\x1b[1m",
                                        [PAINT_DIM] = "\x1b[2m",
                                        [PAINT_WARNING] = "\x1b[33m",
                                        [PAINT_FAULT] = "\x1b[31m"};

    return page->colour ? begin[paint] : "";
}

const char *
page_end(const struct page *page, enum paint paint)
{
    return page->colour && paint != PAINT_PLAIN ? "\x1b[0m" : "";
}

void
page_clean(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

void
page_line(const struct page *page, enum paint paint, const char *format, ...)
{
    char text[PAGE_LINE_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    page_clean(text);
    fprintf(page->out, "%s%s%s\n", page_begin(page, paint), text, page_end(page, paint));
}

bool
page_coloured(enum page_when when, bool terminal, const char *no_color, const char *term)
{
    if (when != PAGE_AUTO)
        return when == PAGE_ALWAYS;
    return terminal && (no_color == NULL || *no_color == '\0') && (term == NULL || strcmp(term, "dumb") != 0);
}
