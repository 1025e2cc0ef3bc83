/* A text that is drawn over the one before it on a terminal, line by line, so that nothing flickers: the cursor goes
 * home, each line ends by clearing the rest of its row, and the rows below are cleared last. Pure.
 *
 *     struct redraw_size size = {.columns = 80, .rows = 24};
 *     len = redraw(text, size, &out);      // write out at once; free(out) */
#ifndef CLIENT_TOOLS_SHARED_REDRAW_H
#define CLIENT_TOOLS_SHARED_REDRAW_H

#include "common/core/base/base.h"

struct redraw_size {
    size_t columns, rows; /* both at least 1 */
};

/* Lines longer than the terminal is wide are cut; if there are more lines than rows, the last row says how many are
 * missing. *out is heap memory, NULL with 0 returned when there is none. */
size_t redraw(const char *text, struct redraw_size size, char **out);

#endif
