#include "client/tools/shared/printer.h"

#include <stdarg.h>
#include <string.h>

#define PRINTER_LINE_MAX 2048 /* longer ones are cut */

const char *
printer_begin(const struct printer *page, enum paint paint)
{
    static const char *const begin[] = {[PAINT_PLAIN] = "",
                                        [PAINT_HEADING] = "\x1b[1m",
                                        [PAINT_DIM] = "\x1b[2m",
                                        [PAINT_WARNING] = "\x1b[33m",
                                        [PAINT_FAULT] = "\x1b[31m"};

    return page->colour ? begin[paint] : "";
}

const char *
printer_end(const struct printer *page, enum paint paint)
{
    return page->colour && paint != PAINT_PLAIN ? "\x1b[0m" : "";
}

void
printer_clean(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

void
printer_line(const struct printer *page, enum paint paint, const char *format, ...)
{
    char text[PRINTER_LINE_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    printer_clean(text);
    fprintf(page->out, "%s%s%s\n", printer_begin(page, paint), text, printer_end(page, paint));
}

bool
printer_coloured(enum colour_when when, bool terminal, const char *no_color, const char *term)
{
    if (when != COLOUR_AUTO)
        return when == COLOUR_ALWAYS;
    return terminal && (no_color == NULL || *no_color == '\0') && (term == NULL || strcmp(term, "dumb") != 0);
}
