#include "client/tools/psctl/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "client/tools/shared/interrupt.h"
#include "client/tools/shared/terminal.h"
#include "common/system/now.h"
#include "common/system/thread.h"

/* A round that a thread queries. */
struct watch_query {
    const struct watch *watch;
    pthread_t thread;
    bool under_way;
    int done; /* eventfd */
    struct answer_sample sample;
    struct ps_error error;
    enum ps_err err;
};

/* ---- asking ---- */

static void *
watch_query_thread(void *arg)
{
    struct watch_query *a = arg;
    uint64_t one = 1;

    a->err = query_all_shards(a->watch->cluster, 0, a->sample.n, a->watch->question, &a->sample.answers, &a->error);
    while (write(a->done, &one, sizeof one) < 0 && errno == EINTR)
        continue;
    return NULL;
}

static enum ps_err
watch_query_start(struct watch_query *a, struct ps_error *e)
{
    int rc;

    a->sample = (struct answer_sample){.n = ps_cluster_shards(a->watch->cluster)};
    if ((rc = thread_start(&a->thread, watch_query_thread, a)) != 0)
        return ps_fail(e, PS_ERR_NOMEM, "cannot start a thread: %s", strerror(rc));
    a->under_way = true;
    return PS_OK;
}

static enum ps_err
watch_query_take(struct watch_query *a, struct answer_sample *out, struct ps_error *e)
{
    uint64_t ones;

    pthread_join(a->thread, NULL);
    a->under_way = false;
    if (read(a->done, &ones, sizeof ones) < 0)
        return ps_fail(e, PS_ERR_IO, "cannot take the answers: %s", strerror(errno));
    if (a->err != PS_OK)
        return ps_fail(e, a->err, "%s", a->error.text);
    *out = a->sample;
    return PS_OK;
}

/* ---- showing ---- */

static const char *
local_time(char *out, size_t size)
{
    time_t now = time(NULL);
    struct tm tm;

    localtime_r(&now, &tm);
    strftime(out, size, "%Y-%m-%d %H:%M:%S", &tm);
    return out;
}

struct shown {
    struct answer_sample before, now; /* answers NULL: none */
    char time[32];
    unsigned rounds;
};

static void
show_in_place(const struct watch *w, const struct shown *s, const struct terminal *t)
{
    char *text = NULL;
    size_t len;
    struct printer page = {.out = open_memstream(&text, &len), .colour = w->colour, .columns = t->size.columns};

    if (page.out == NULL)
        return; /* the next round may find memory */
    printer_line(&page, PAINT_HEADING, "%s, every %g s, %s, q ends it", w->title, w->interval_ms / 1000.0, s->time);
    fputc('\n', page.out);
    w->draw(w->arg, s->before.answers != NULL ? &s->before : NULL, &s->now, MAX(t->size.rows, 3) - 2, &page);
    if (fclose(page.out) == 0)
        terminal_draw(t, text);
    free(text);
}

static enum ps_err
show_block(const struct watch *w, const struct shown *s, struct ps_error *e)
{
    struct printer page = {.out = stdout, .colour = w->colour};

    if (!w->bare)
        fprintf(stdout, "%s%s\n", s->rounds > 1 ? "\n" : "", s->time);
    w->draw(w->arg, s->before.answers != NULL ? &s->before : NULL, &s->now, 0, &page);
    if (fflush(stdout) == 0)
        return PS_OK;
    interrupt_reader_gone();
    return ps_fail(e, PS_ERR_CLOSED, "cannot write to standard output: %s", strerror(errno));
}

static enum ps_err
watch_show(const struct watch *w, const struct shown *s, const struct terminal *t, struct ps_error *e)
{
    if (!t->in_place)
        return show_block(w, s, e);
    show_in_place(w, s, t);
    return PS_OK;
}

/* ---- the loop ---- */

static enum ps_err
watch_answered(const struct watch *w, struct watch_query *a, struct shown *s, const struct terminal *t,
               struct ps_error *e)
{
    struct answer_sample now;
    enum ps_err err;

    if ((err = watch_query_take(a, &now, e)) != PS_OK)
        return err;
    answers_free(s->before.answers, s->before.n);
    s->before = s->now;
    s->now = now;
    s->rounds++;
    local_time(s->time, sizeof s->time);
    return watch_show(w, s, t, e);
}

/* The time until the next round, ms; while one is queried, wait for its end. */
static int
watch_left(const struct watch *w, const struct watch_query *a, uint64_t started)
{
    uint64_t now = monotonic_ms(), due = started + (uint64_t)w->interval_ms;

    return a->under_way ? -1 : (int)(due - MIN(now, due));
}

static enum ps_err
watch_rounds(const struct watch *w, struct watch_query *a, struct shown *s, struct terminal *t, struct ps_error *e)
{
    uint64_t started = monotonic_ms();
    enum ps_err err = watch_query_start(a, e);
    char key;

    while (err == PS_OK && (w->rounds == 0 || s->rounds < w->rounds)) {
        switch (terminal_wait(t, a->done, watch_left(w, a, started), &key)) {
        case TERMINAL_QUIT:
            return PS_OK;
        case TERMINAL_READY:
            err = watch_answered(w, a, s, t, e);
            break;
        case TERMINAL_TIME:
            started = monotonic_ms();
            err = watch_query_start(a, e);
            break;
        case TERMINAL_KEY:
            if (w->key != NULL)
                w->key(w->arg, key);
            if (s->now.answers != NULL)
                err = watch_show(w, s, t, e);
            break;
        case TERMINAL_RESIZED:
            if (t->in_place && s->now.answers != NULL)
                err = watch_show(w, s, t, e);
            break;
        }
    }
    return err;
}

/* A query that is still under way can be abandoned: its thread ends with the process. */
static void
watch_abandon(struct watch_query *a)
{
    if (!a->under_way) {
        close(a->done);
        return;
    }
    fflush(stdout);
    _exit(EXIT_SUCCESS);
}

enum ps_err
watch_run(const struct watch *w, struct answer_sample *last, struct ps_error *e)
{
    struct watch_query a = {.watch = w};
    struct shown s = {0};
    struct terminal t;
    enum ps_err err;

    *last = (struct answer_sample){0};
    if ((a.done = eventfd(0, EFD_CLOEXEC)) < 0)
        return ps_fail(e, PS_ERR_IO, "cannot make an event descriptor: %s", strerror(errno));
    if ((err = terminal_open(&t, w->in_place, e)) == PS_OK)
        err = watch_rounds(w, &a, &s, &t, e);
    terminal_close(&t);
    answers_free(s.before.answers, s.before.n);
    *last = s.now;
    watch_abandon(&a);
    return err;
}
