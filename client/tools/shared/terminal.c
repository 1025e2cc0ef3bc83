#include "client/tools/shared/terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* A page of the terminal's own, without cursor; leaving it restores the former content. */
#define TERMINAL_ENTER "\x1b[?1049h\x1b[?25l\x1b[H\x1b[J"
#define TERMINAL_LEAVE "\x1b[0m\x1b[?25h\x1b[?1049l"

#define TERMINAL_COLUMNS 80 /* of one that does not report them */
#define TERMINAL_ROWS    24

static struct terminal *terminal_taken; /* to be given back when the process exits */

bool
terminal_can(const char *term)
{
    return isatty(STDOUT_FILENO) == 1 && term != NULL && *term != '\0' && strcmp(term, "dumb") != 0;
}

/* Writes to a terminal are not checked; a terminal that is gone is noticed by its HUP. */
static void
terminal_write(const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDOUT_FILENO, text, len);

        if (n < 0 && errno != EINTR)
            return;
        text += MAX(n, 0);
        len -= (size_t)MAX(n, 0);
    }
}

static void
terminal_measure(struct terminal *t)
{
    struct winsize size;

    t->size = (struct redraw_size){.columns = TERMINAL_COLUMNS, .rows = TERMINAL_ROWS};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0)
        t->size = (struct redraw_size){.columns = size.ws_col, .rows = size.ws_row};
}

/* ---- taking the terminal, giving it back ---- */

static void
terminal_enter(struct terminal *t)
{
    struct termios raw;

    if (!t->in_place)
        return;
    t->keys = tcgetattr(STDIN_FILENO, &t->before) == 0;
    raw = t->before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (t->keys)
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    terminal_measure(t);
    terminal_write(TERMINAL_ENTER, strlen(TERMINAL_ENTER));
    terminal_taken = t;
}

static void
terminal_leave(struct terminal *t)
{
    if (terminal_taken != t)
        return;
    terminal_taken = NULL;
    terminal_write(TERMINAL_LEAVE, strlen(TERMINAL_LEAVE));
    if (t->keys)
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &t->before);
}

static void
terminal_leave_at_exit(void)
{
    if (terminal_taken != NULL)
        terminal_leave(terminal_taken);
}

static void
terminal_signals(sigset_t *set)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP};

    sigemptyset(set);
    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        sigaddset(set, signals[i]);
}

enum ps_err
terminal_open(struct terminal *t, bool in_place, struct ps_error *e)
{
    static bool at_exit;
    sigset_t set;

    *t = (struct terminal){.in_place = in_place};
    terminal_signals(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if ((t->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        return ps_fail(e, PS_ERR_IO, "cannot watch for signals: %s", strerror(errno));
    at_exit = at_exit || atexit(terminal_leave_at_exit) == 0;
    terminal_enter(t);
    return PS_OK;
}

void
terminal_close(struct terminal *t)
{
    sigset_t set;

    terminal_leave(t);
    if (t->signals <= 0)
        return;
    close(t->signals);
    t->signals = 0;
    terminal_signals(&set);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* ---- what happens ---- */

/* Ctrl-Z: the shell gets its terminal back, and psctl takes it again with CONT. */
static void
terminal_stop(struct terminal *t)
{
    terminal_leave(t);
    raise(SIGSTOP);
    terminal_enter(t);
}

static enum terminal_event
terminal_signal(struct terminal *t)
{
    struct signalfd_siginfo info;

    if (read(t->signals, &info, sizeof info) != sizeof info)
        return TERMINAL_RESIZED;
    switch (info.ssi_signo) {
    case SIGWINCH:
        terminal_measure(t);
        return TERMINAL_RESIZED;
    case SIGTSTP:
        terminal_stop(t);
        return TERMINAL_RESIZED;
    default:
        return TERMINAL_QUIT;
    }
}

/* A terminal that ends (Ctrl-D is a key here) will not be drawn on any more. */
static enum terminal_event
terminal_key(char *key)
{
    char got;

    if (read(STDIN_FILENO, &got, 1) != 1 || got == 'q' || got == 'Q')
        return TERMINAL_QUIT;
    if (key != NULL)
        *key = got;
    return TERMINAL_KEY;
}

enum terminal_event
terminal_wait(struct terminal *t, int fd, int timeout_ms, char *key)
{
    struct pollfd p[] = {{.fd = t->signals, .events = POLLIN},
                         {.fd = t->keys ? STDIN_FILENO : -1, .events = POLLIN},
                         {.fd = fd, .events = POLLIN}};
    int n = poll(p, ARRAY_LEN(p), timeout_ms);

    if (n < 0)
        return TERMINAL_RESIZED; /* interrupted: the caller looks again */
    if (p[0].revents != 0)
        return terminal_signal(t);
    if (p[1].revents != 0)
        return terminal_key(key);
    return n > 0 ? TERMINAL_READY : TERMINAL_TIME;
}

void
terminal_draw(const struct terminal *t, const char *text)
{
    char *bytes;
    size_t len = redraw(text, t->size, &bytes);

    terminal_write(bytes, len);
    free(bytes);
}
