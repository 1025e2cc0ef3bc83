#include "client/tools/shared/redraw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/shared/lines.h"

#define REDRAW_HOME     "\x1b[H"
#define REDRAW_LINE_END "\x1b[K"
#define REDRAW_BELOW    "\x1b[J"
#define REDRAW_PLAIN    "\x1b[0m"

static size_t
redraw_lines(const char *text)
{
    size_t n = 0;

    for (; *text != '\0'; text += strcspn(text, "\n"), text += *text == '\n')
        n++;
    return n;
}

/* The rest of a line that fills its row is not cleared: the cursor still stands on its last character. */
static void
redraw_line(FILE *out, const char *line, size_t len, size_t columns)
{
    size_t width, kept = lines_cut(line, len, columns, &width);

    fwrite(line, 1, kept, out);
    if (kept < len && memchr(line, '\x1b', kept) != NULL)
        fputs(REDRAW_PLAIN, out);
    if (width < columns)
        fputs(REDRAW_LINE_END, out);
}

size_t
redraw(const char *text, struct redraw_size size, char **out)
{
    size_t lines = redraw_lines(text), shown = lines <= size.rows ? lines : size.rows - 1, len = 0;
    FILE *stream = open_memstream(out, &len);
    char missing[64];

    if (stream == NULL) {
        *out = NULL;
        return 0;
    }
    fputs(REDRAW_HOME, stream);
    for (size_t i = 0; i < shown; i++) {
        size_t n = strcspn(text, "\n");

        fputs(i > 0 ? "\r\n" : "", stream);
        redraw_line(stream, text, n, size.columns);
        text += n + (text[n] == '\n');
    }
    if (shown < lines) {
        snprintf(missing, sizeof missing, "... %zu lines more", lines - shown);
        fputs(shown > 0 ? "\r\n" : "", stream);
        redraw_line(stream, missing, strlen(missing), size.columns);
    } else if (lines < size.rows) {
        fputs(lines > 0 ? "\r\n" REDRAW_BELOW : REDRAW_BELOW, stream);
    }
    if (fclose(stream) != 0) {
        free(*out);
        *out = NULL;
        return 0;
    }
    return len;
}
