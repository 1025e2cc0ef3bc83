/* The lines of a text, whatever program wrote it: they end in LF, CRLF or CR, the last one perhaps in none, and a byte
 * order mark before the first is passed over. Pure.
 *
 *     struct text_lines lines = text_lines_start(text, len);
 *     struct span line;
 *     while (text_lines_next(&lines, &line))
 *         ... line.data, line.len, lines.number ... */
#ifndef COMMON_CORE_BASE_TEXT_LINES_H
#define COMMON_CORE_BASE_TEXT_LINES_H

#include "common/core/base/base.h"

struct text_lines {
    const char *at, *end;
    uint64_t number; /* of the line that text_lines_next() gave, from 1 */
};

struct text_lines text_lines_start(const char *text, size_t len);

/* The next line without its end. False: there is none; an end of line at the end of the text begins no further one. */
bool text_lines_next(struct text_lines *lines, struct span *line);

#endif
