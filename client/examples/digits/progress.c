#include "client/examples/digits/progress.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/core/base/base.h"

#define BAR_MAX         30
#define BAR_MIN         5
#define PLAIN_COLUMNS   120
#define LIVE_INTERVAL_S 0.1

/* 12345678 becomes "12,345,678". */
static const char *
with_commas(double number, char text[32])
{
    char plain[24];
    int len = snprintf(plain, sizeof plain, "%.0f", number < 0 ? 0 : number < 1e15 ? number : 1e15), to = 0;

    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            text[to++] = ',';
        text[to++] = plain[i];
    }
    text[to] = '\0';
    return text;
}

/* cells: width of the bar. */
static void
draw_bar(double done, unsigned cells, bool utf8, char *text, size_t size)
{
    unsigned full = (unsigned)(done * cells + 0.5);
    size_t used = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < cells && used + 4 < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s",
                                 i < full ? (utf8 ? "\u2588" : "#") : (utf8 ? "\u2591" : "."));
}

void
progress_format(const struct progress_state *s, unsigned columns, bool utf8, char *text, size_t size)
{
    char head[64], tail[128], bar[BAR_MAX * 4 + 1] = "", rate[32];
    int head_len, tail_len, room;
    double done = s->done < 0 ? 0 : s->done > 1 ? 1 : s->done;

    head_len =
        snprintf(head, sizeof head, "epoch %llu/%llu", (unsigned long long)s->epoch, (unsigned long long)s->epochs);
    tail_len = snprintf(tail, sizeof tail, "%3.0f%%  %s examples/s  loss %.4f  accuracy %.1f%%  age %.1f", done * 100,
                        with_commas(s->examples_per_s, rate), s->loss, s->accuracy * 100, s->age);
    room = (int)columns - head_len - tail_len - 4;
    if (room >= BAR_MIN)
        draw_bar(done, (unsigned)MIN(room, BAR_MAX), utf8, bar, sizeof bar);
    snprintf(text, size, "%s  %s%s%s", head, bar, bar[0] != '\0' ? " " : "", tail);
    if (bar[0] == '\0' && strlen(text) > columns && columns < size)
        text[columns] = '\0'; /* all of it is ASCII then */
}

/* Columns of the terminal that the line ends up on; 0: none. */
static unsigned
columns_of(FILE *file)
{
    const char *runner = getenv("PSRUN_COLUMNS");
    struct winsize size;

    if (runner != NULL && atoi(runner) > 0)
        return (unsigned)atoi(runner);
    if (!isatty(fileno(file)))
        return 0;
    return ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void
progress_init(struct digits_progress *p, FILE *file)
{
    memset(p, 0, sizeof *p);
    p->file = file;
    p->columns = columns_of(file);
    p->live = p->columns > 0;
    setlocale(LC_CTYPE, "");
    p->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    if (!p->live)
        p->columns = PLAIN_COLUMNS;
}

static void
show_live(struct digits_progress *p, double now_s, const struct progress_state *s)
{
    char text[512];

    if (p->drawn && s->done < 1 && now_s - p->last_s < LIVE_INTERVAL_S)
        return; /* but the last state is always shown */
    /* One column stays free: a terminal that is full to the edge may wrap. */
    progress_format(s, p->columns > 1 ? p->columns - 1 : 1, p->utf8, text, sizeof text);
    fprintf(p->file, "\r%s%s", text, isatty(fileno(p->file)) ? "\x1b[K" : "");
    fflush(p->file);
    p->drawn = true;
    p->last_s = now_s;
}

static void
show_plain(struct digits_progress *p, const struct progress_state *s)
{
    unsigned tenth = (unsigned)(s->done * 10 + 1e-9);
    char text[512];

    if (tenth <= p->tenth)
        return;
    progress_format(s, p->columns, false, text, sizeof text);
    fprintf(p->file, "%s\n", text);
    fflush(p->file);
    p->tenth = tenth;
}

void
progress_show(struct digits_progress *p, double now_s, const struct progress_state *s)
{
    if (p->live)
        show_live(p, now_s, s);
    else
        show_plain(p, s);
}

void
progress_end(struct digits_progress *p)
{
    if (p->drawn)
        fprintf(p->file, "\n");
    fflush(p->file);
    p->drawn = false;
}
