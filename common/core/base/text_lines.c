#include "common/core/base/text_lines.h"

#include "common/core/base/file_kind.h"

struct text_lines
text_lines_start(const char *text, size_t len)
{
    return (struct text_lines){text + file_kind_mark(text, len), text + len, 0};
}

/* The first character that ends a line, or end. One pass: in a text without the other one of the two, a search for that
 * from every line would go to the text's end. */
static const char *
text_lines_stop(const char *at, const char *end)
{
    while (at < end && *at != '\n' && *at != '\r')
        at++;
    return at;
}

bool
text_lines_next(struct text_lines *lines, struct span *line)
{
    const char *stop;

    if (lines->at == lines->end)
        return false;
    stop = text_lines_stop(lines->at, lines->end);
    *line = (struct span){lines->at, (size_t)(stop - lines->at)};
    lines->at = stop;
    if (lines->at < lines->end && *lines->at == '\r')
        lines->at++;
    if (lines->at < lines->end && *lines->at == '\n')
        lines->at++;
    lines->number++;
    return true;
}
