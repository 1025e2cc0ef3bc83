/* Lines are gathered per stream and written by screen_flush(). On a terminal the live text is cleared before a line is
 * written and drawn again after it, in the same write when both are on one stream. */
#include "client/tools/shared/screen.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "client/tools/shared/lines.h"
#include "client/tools/shared/printer.h"

#define SCREEN_CLEAR   "\r\x1b[K"
#define SCREEN_PLAIN   "\x1b[0m"
#define SCREEN_COLUMNS 80   /* when the terminal does not report it */
#define SCREEN_CHUNK   4096 /* a pipe that is writable takes this much at once (PIPE_BUF) */
#define SCREEN_PENDING (256 * KIB)

void
screen_init(struct screen *s, const volatile sig_atomic_t *give_up)
{
    *s = (struct screen){.prefix = true, .give_up = give_up};
    for (int i = 0; i < 2; i++) {
        s->sides[i].fd = i == SCREEN_OUT ? STDOUT_FILENO : STDERR_FILENO;
        s->sides[i].terminal = isatty(s->sides[i].fd) == 1;
        s->sides[i].colour = printer_coloured(COLOUR_AUTO, s->sides[i].terminal, getenv("NO_COLOR"), getenv("TERM"));
    }
}

static int
screen_side_columns(const struct screen_side *side)
{
    struct winsize size;

    if (!side->terminal)
        return 0;
    if (ioctl(side->fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return SCREEN_COLUMNS;
    return size.ws_col;
}

static int
screen_tag_columns(const struct screen *s)
{
    return s->prefix ? s->tag_width + 3 : 0;
}

int
screen_columns(const struct screen *s)
{
    int columns = screen_side_columns(&s->sides[SCREEN_OUT]);

    return columns > 0 ? MAX(columns - screen_tag_columns(s), 20) : 0;
}

/* ---- writing ---- */

/* Wait until the descriptor takes bytes; false to give up: after a short wait, once for everything that it does not
 * take. poll() is not restarted after a signal, so that a signal's request is seen at once; the timeout covers one that
 * came just before. */
static bool
screen_writable(struct screen *s, struct screen_side *side)
{
    struct pollfd p = {.fd = side->fd, .events = POLLOUT};

    while (poll(&p, 1, side->stuck ? 0 : 100) <= 0 || (p.revents & (POLLOUT | POLLERR | POLLHUP)) == 0) {
        if (s->waiting != NULL)
            s->waiting(s->arg);
        side->stuck = s->hurry || (s->give_up != NULL && *s->give_up);
        if (side->stuck)
            return false;
    }
    side->stuck = false;
    return true;
}

static void
screen_write(struct screen *s, struct screen_side *side)
{
    size_t at = 0;

    while (at < side->len && !side->broken && screen_writable(s, side)) {
        ssize_t n = write(side->fd, side->pending + at, MIN(side->len - at, (size_t)SCREEN_CHUNK));

        if (n > 0)
            at += (size_t)n;
        else if (n < 0 && errno != EINTR && errno != EAGAIN)
            side->broken = true;
    }
    side->len = 0;
}

static void
screen_put(struct screen *s, enum screen_stream stream, const char *text, size_t len)
{
    struct screen_side *side = &s->sides[stream];

    if (side->len > 0 && side->len + len > SCREEN_PENDING)
        screen_write(s, side);
    if (side->len + len > side->size) {
        size_t size = MAX(side->len + len, MAX(side->size * 2, (size_t)SCREEN_CHUNK));
        char *grown = realloc(side->pending, size);

        if (grown == NULL)
            return; /* a line is lost; the program's own work is not */
        side->pending = grown;
        side->size = size;
    }
    if (len > 0) /* an empty line has no text */
        memcpy(side->pending + side->len, text, len);
    side->len += len;
}

/* ---- lines ---- */

static void
screen_put_tag(struct screen *s, enum screen_stream stream, const struct screen_tag *tag)
{
    char text[SCREEN_TAG_MAX + 32];
    int len;

    if (!s->prefix)
        return;
    if (s->sides[stream].colour && tag->colour != 0)
        len = snprintf(text, sizeof text, "\x1b[%dm%-*s |\x1b[0m ", tag->colour, s->tag_width, tag->text);
    else
        len = snprintf(text, sizeof text, "%-*s | ", s->tag_width, tag->text);
    screen_put(s, stream, text, (size_t)len);
}

/* Take the live text off the terminal. Everything pending on the other stream goes out first, so that what is written
 * next stands after it. */
static void
screen_hide(struct screen *s, enum screen_stream next)
{
    if (s->owner == NULL)
        return;
    screen_put(s, s->live_on, SCREEN_CLEAR, strlen(SCREEN_CLEAR));
    if (s->live_on != next)
        screen_write(s, &s->sides[s->live_on]);
}

static void
screen_draw(struct screen *s)
{
    size_t len, width;
    int columns;

    if (s->owner == NULL)
        return;
    columns = screen_side_columns(&s->sides[s->live_on]) - screen_tag_columns(s) - 1;
    len = lines_cut(s->live, s->live_len, columns > 0 ? (size_t)columns : 1, &width);
    screen_put(s, s->live_on, SCREEN_CLEAR, strlen(SCREEN_CLEAR));
    screen_put_tag(s, s->live_on, s->owner);
    screen_put(s, s->live_on, s->live, len);
    if (len < s->live_len && memchr(s->live, '\x1b', len) != NULL)
        screen_put(s, s->live_on, SCREEN_PLAIN, strlen(SCREEN_PLAIN)); /* the colour's end may have been cut off */
}

void
screen_line(struct screen *s, enum screen_stream stream, const struct screen_tag *tag, const char *text, size_t len)
{
    enum screen_stream other = stream == SCREEN_OUT ? SCREEN_ERR : SCREEN_OUT;

    screen_write(s, &s->sides[other]);
    screen_hide(s, stream);
    if (s->owner == tag && s->live_on == stream)
        s->owner = NULL;
    screen_put_tag(s, stream, tag);
    screen_put(s, stream, text, len);
    screen_put(s, stream, "\n", 1);
    if (s->owner != NULL && s->live_on != stream)
        screen_write(s, &s->sides[stream]);
    screen_draw(s);
}

void
screen_live(struct screen *s, enum screen_stream stream, const struct screen_tag *tag, const char *text, size_t len)
{
    char *copy;

    if (!s->sides[stream].terminal || (s->owner != NULL && s->owner != tag))
        return;
    if (len == 0) {
        screen_hide(s, s->live_on);
        s->owner = NULL;
        return;
    }
    if ((copy = malloc(len)) == NULL)
        return;
    memcpy(copy, text, len);
    free(s->live);
    s->live = copy;
    s->live_len = len;
    s->live_on = stream;
    s->owner = tag;
    screen_draw(s);
}

enum ps_err
screen_flush(struct screen *s)
{
    screen_write(s, &s->sides[SCREEN_OUT]);
    screen_write(s, &s->sides[SCREEN_ERR]);
    return s->sides[SCREEN_OUT].broken ? PS_ERR_CLOSED : PS_OK;
}

void
screen_finish(struct screen *s)
{
    screen_hide(s, s->live_on);
    (void)screen_flush(s);
    for (int i = 0; i < 2; i++)
        free(s->sides[i].pending);
    free(s->live);
    *s = (struct screen){0};
}
