/* The line that shows how training goes. On a terminal it is redrawn in place, at most ten times a second; psrun passes
 * such a line through to its own terminal and announces that with PSRUN_COLUMNS. Into a pipe or file, a plain line is
 * written at each tenth of the way. */
#ifndef CLIENT_EXAMPLES_DIGITS_PROGRESS_H
#define CLIENT_EXAMPLES_DIGITS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct progress_state {
    uint64_t epoch, epochs; /* epoch counts from 1 */
    double done;            /* 0 to 1 */
    double examples_per_s;  /* of all workers */
    double loss, accuracy;  /* lately; accuracy 0 to 1 */
    double age;             /* updates by others between this worker's pull and push, lately */
};

/* The line, without its end, at most `columns` wide; utf8: draw the bar with block characters. Into text. Pure. */
void progress_format(const struct progress_state *s, unsigned columns, bool utf8, char *text, size_t size);

struct digits_progress {
    FILE *file;
    bool live, utf8, drawn;
    unsigned columns;
    double last_s;  /* when the live line was drawn */
    unsigned tenth; /* plain: the last one at which a line was written */
};

/* Looks at the file, the locale and PSRUN_COLUMNS. */
void progress_init(struct digits_progress *p, FILE *file);

/* now_s: a clock that does not go back, seconds. */
void progress_show(struct digits_progress *p, double now_s, const struct progress_state *s);

/* Ends the line, so that what follows starts on one of its own. Nothing when none was drawn. */
void progress_end(struct digits_progress *p);

#endif
