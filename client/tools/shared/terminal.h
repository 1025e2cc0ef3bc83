/* The place where psctl draws again and again: a terminal, taken over as a page of its own and restored however the
 * process ends, or a plain stream. Glue: signals, termios, the screen. One at a time in a process.
 *
 *     terminal_open(&t, in_place);
 *     while ((event = terminal_wait(&t, fd, timeout_ms)) != TERMINAL_QUIT)
 *         ... terminal_draw(&t, text) ...
 *     terminal_close(&t);
 *
 * While it is open Ctrl-C, Ctrl-\, TERM, HUP and, in place, q are TERMINAL_QUIT, and Ctrl-Z gives the terminal back
 * until the process goes on. Threads that are started meanwhile get none of these signals. */
#ifndef CLIENT_TOOLS_SHARED_TERMINAL_H
#define CLIENT_TOOLS_SHARED_TERMINAL_H

#include <termios.h>

#include "client/tools/shared/redraw.h"
#include "common/include/psclient/ps_err.h"

struct terminal {
    bool in_place;           /* draws over what it drew */
    struct redraw_size size; /* of a terminal; follows its window */

    /* private */
    bool keys;   /* standard input is a terminal as well */
    int signals; /* a signalfd */
    struct termios before;
};

enum terminal_event {
    TERMINAL_TIME,    /* timeout_ms passed */
    TERMINAL_READY,   /* fd can be read */
    TERMINAL_KEY,     /* *key was pressed */
    TERMINAL_RESIZED, /* draw again */
    TERMINAL_QUIT
};

/* Whether standard output is a terminal that can be drawn on in place; term: the environment's TERM. */
bool terminal_can(const char *term);

/* PS_ERR_IO: no descriptor for signals. */
enum ps_err terminal_open(struct terminal *t, bool in_place, struct ps_error *e) PS_MUST_USE;
void terminal_close(struct terminal *t); /* accepts one that is closed */

/* fd: -1 for none; timeout_ms: -1 for ever. key may be NULL. */
enum terminal_event terminal_wait(struct terminal *t, int fd, int timeout_ms, char *key);

/* In place. */
void terminal_draw(const struct terminal *t, const char *text);

#endif
