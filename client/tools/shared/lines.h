/* The bytes that a process prints, as lines: so that the lines of several processes never mix. Pure.
 *
 * A line ends with \n. A text that is ended or begun by a bare \r is one that will be drawn over: it is given as a live
 * text (each replaces the one before), and only the text that is current when the \n comes is given as a line. "\r\n"
 * is \n.
 *
 *     "1%\r2%\r3%\ndone\n"   →   live "2%" (whatever is current when the bytes end), line "3%", line "done"
 *
 * A line longer than LINES_MAX is given in pieces. */
#ifndef CLIENT_TOOLS_SHARED_LINES_H
#define CLIENT_TOOLS_SHARED_LINES_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

#define LINES_MAX (64 * KIB)

enum lines_kind {
    LINES_WHOLE, /* a line, without its end */
    LINES_LIVE   /* what the process shows on its last line now; len 0: nothing any more */
};

/* text is valid during the call and not terminated. */
typedef void lines_fn(void *arg, enum lines_kind kind, const char *text, size_t len);

struct line_reader {
    lines_fn *fn;
    void *arg;

    /* private */
    char *text; /* since the last \n or \r */
    size_t len, size;
    bool returned;  /* a \r came after text */
    bool rewriting; /* text began after a \r */
    bool live;      /* a live text was given and is current */
    bool changed;   /* text has changed since then */
};

void lines_init(struct line_reader *l, lines_fn *fn, void *arg);
void lines_finish(struct line_reader *l); /* accepts a zeroed one */

/* PS_ERR_NOMEM: the bytes are lost. */
enum ps_err lines_take(struct line_reader *l, const char *bytes, size_t len) PS_MUST_USE;

/* The stream ended: the rest is a line. */
void lines_end(struct line_reader *l);

/* How many of the len bytes fit into `columns` of a terminal, and how wide they are: escape sequences take none, any
 * other character one. */
size_t lines_cut(const char *text, size_t len, size_t columns, size_t *width);

#endif
