/* What psrun prints: lines of many processes, each behind its tag, and at most one live text under them.
 *
 *     worker 1 | step 100 loss 0.31
 *     shard 0  | level=info ...
 *     worker 0 | [#####      ] 51 %        ← drawn again after every line above it; only on a terminal
 *
 * Writing never blocks past a request to stop: when the reader of a pipe does not read and *give_up or hurry is set,
 * the output is discarded. */
#ifndef CLIENT_TOOLS_SHARED_SCREEN_H
#define CLIENT_TOOLS_SHARED_SCREEN_H

#include <signal.h>

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

enum screen_stream { SCREEN_OUT, SCREEN_ERR };

#define SCREEN_TAG_MAX 64

struct screen_tag {
    char text[SCREEN_TAG_MAX]; /* "worker 1", "worker 1@hostb" */
    int colour;                /* of the terminal: 31 to 36, 90 ...; 0: none */
};

struct screen {
    bool prefix;                          /* print tags */
    int tag_width;                        /* columns of the widest */
    const volatile sig_atomic_t *give_up; /* nonzero: do not wait for readers */
    bool hurry;                           /* the same, set by the owner, for example while this is called: */
    void (*waiting)(void *arg);           /* called ten times a second while a reader is waited for; may be NULL */
    void *arg;

    /* private */
    struct screen_side {
        int fd;
        bool terminal, colour, broken;
        bool stuck;    /* given up: not waited for again until it takes bytes */
        char *pending; /* not yet written */
        size_t len, size;
    } sides[2];
    const struct screen_tag *owner; /* of the live text, NULL: none */
    enum screen_stream live_on;
    char *live;
    size_t live_len;
};

void screen_init(struct screen *s, const volatile sig_atomic_t *give_up);
void screen_finish(struct screen *s); /* flushes */

/* A line of the process with this tag. */
void screen_line(struct screen *s, enum screen_stream stream, const struct screen_tag *tag, const char *text,
                 size_t len);

/* A live text of the process with this tag (which must outlive it); len 0: none any more. The first process that draws
 * one owns the place until it removes its text. */
void screen_live(struct screen *s, enum screen_stream stream, const struct screen_tag *tag, const char *text,
                 size_t len);

/* Write what is pending. PS_ERR_CLOSED: standard output was closed by its reader. */
enum ps_err screen_flush(struct screen *s);

/* Columns of the terminal that the tag leaves to a process's text; 0 when standard output is no terminal. */
int screen_columns(const struct screen *s);

#endif
