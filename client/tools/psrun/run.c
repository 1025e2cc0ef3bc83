/* The happy path: run_prepare() makes the directory and reserves ports; run_start() starts the shards; each reports
 * where it listens; then the workers start; run_gone() is called at each end and run_advance() moves the run on.
 * Failures go through run_fail(), which keeps the first one's status and has everything stopped. */
#include "client/tools/psrun/run.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/tools/psrun/exit_status.h"
#include "client/tools/psrun/run_state.h"

#define TAG_COLOUR_PSRUN 35

/* What a signal handler may touch. */
static volatile sig_atomic_t run_signal, run_signals;
static uv_async_t *run_wake;

static void run_advance(struct psrun_run *r);

/* ---- printing ---- */

void
run_print(struct psrun_run *r, const char *format, ...)
{
    struct strlist text = {0};
    va_list args;
    char *what;

    va_start(args, format);
    if (vasprintf(&what, format, args) < 0)
        what = NULL;
    va_end(args);
    what = strlist_need(what);
    strlist_add(&text, "%s%s", r->screen.prefix ? "" : "psrun: ", what);
    screen_line(&r->screen, SCREEN_ERR, &r->tag, text.text[0], strlen(text.text[0]));
    strlist_free(&text);
    free(r->printed);
    r->printed = what;
}

void
run_fail(struct psrun_run *r, int status)
{
    if (!r->failed) {
        r->status = status;
        r->cause = r->printed != NULL ? strlist_need(strdup(r->printed)) : NULL;
    }
    r->failed = true;
    run_advance(r);
}

/* What ended the run is its last line, too, where the end of the others stands between. */
static void
run_print_cause(struct psrun_run *r)
{
    if (r->cause != NULL && r->cause_buried && !r->interrupted)
        run_print(r, "the run failed: %s", r->cause);
}

static void
run_interrupt(struct psrun_run *r, int status)
{
    r->interrupted = true;
    run_fail(r, status);
}

/* The reader of our output is slow (a pager), and our loop waits: neither agents nor --timeout may wait with it. */
static void
run_waiting(void *arg)
{
    struct psrun_run *r = arg;

    for (uint32_t i = 0; i < r->shards + r->workers; i++)
        process_beat(&r->processes[i].process);
    uv_update_time(&r->loop);
    if (uv_is_active((uv_handle_t *)&r->timeout) && uv_timer_get_due_in(&r->timeout) == 0)
        r->screen.hurry = true;
}

/* ---- which processes ---- */

static uint32_t
run_busy(const struct psrun_run *r, uint32_t from, uint32_t to)
{
    uint32_t n = 0;

    for (uint32_t i = from; i < to; i++)
        n += run_process_busy(&r->processes[i]);
    return n;
}

static bool
run_all_listen(const struct psrun_run *r)
{
    for (uint32_t i = 0; i < r->shards; i++) {
        const struct process *p = &r->processes[i].process;

        if (!p->alive || !p->listens || p->ended)
            return false;
    }
    return true;
}

/* ---- ending ---- */

static void
run_each(struct psrun_run *r, uint32_t from, uint32_t to, void (*act)(struct process *p))
{
    for (uint32_t i = from; i < to; i++)
        act(&r->processes[i].process);
}

static void
run_kill_all(struct psrun_run *r)
{
    run_each(r, 0, r->shards + r->workers, process_kill);
}

/* The grace is over: those that are being stopped are killed; in RUN_ENDING the shards have not been asked yet. */
static void
run_grace_over(uv_timer_t *timer)
{
    struct psrun_run *r = timer->data;
    uint32_t from = r->state == RUN_ENDING ? r->shards : 0;

    for (uint32_t i = from; i < r->shards + r->workers; i++)
        if (r->processes[i].process.alive)
            run_print(r, "%s did not stop within %.3g s: killed", r->processes[i].process.tag.text,
                      (double)r->plan->settings->grace_ms / 1000);
    run_each(r, from, r->shards + r->workers, process_kill);
    (void)screen_flush(&r->screen);
}

static void
run_ask_to_stop(struct psrun_run *r, uint32_t from, uint32_t to)
{
    run_processes_forget(r, from, to);
    run_each(r, from, to, process_stop);
    uv_timer_start(&r->grace, run_grace_over, (uint64_t)r->plan->settings->grace_ms, 0);
}

static void
run_close(struct psrun_run *r)
{
    bool keep = r->plan->settings->keep_servers && !r->interrupted && run_all_listen(r);

    r->state = RUN_CLOSING;
    if (keep)
        run_release(r);
    else
        run_ask_to_stop(r, 0, r->shards);
}

/* While a run lasts, signals wake its loop; before that they do what they always do, after it nothing. A HUP that nohup
 * has switched off stays off. */
static void
run_take_signals(void (*handler)(int signal))
{
    static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction action = {.sa_handler = handler}, before;

    for (size_t i = 0; i < ARRAY_LEN(taken); i++)
        if (taken[i] != SIGHUP || (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN))
            sigaction(taken[i], &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static void
run_done(struct psrun_run *r)
{
    uv_handle_t *handles[] = {(uv_handle_t *)&r->wake, (uv_handle_t *)&r->ready, (uv_handle_t *)&r->grace,
                              (uv_handle_t *)&r->timeout, (uv_handle_t *)&r->again};

    r->state = RUN_DONE;
    run_print_cause(r);
    run_take_signals(SIG_IGN);
    for (size_t i = 0; i < ARRAY_LEN(handles); i++)
        uv_close(handles[i], NULL);
}

/* ---- moving on ---- */

/* "2 shards at A,B; 3 workers, 4 threads each" */
static void
run_print_cluster(struct psrun_run *r)
{
    uint32_t shards = r->plan->assigned.shards, threads = launch_plan_threads(r->plan);
    char *list = launch_plan_shard_list(r->plan), each[48] = "";

    if (!r->plan->assigned.remote)
        snprintf(each, sizeof each, ", %u thread%s each", threads, threads == 1 ? "" : "s");
    if (shards == 0)
        run_print(r, "no shards; %u worker%s%s", r->workers, r->workers == 1 ? "" : "s", each);
    else
        run_print(r, "%u shard%s at %s%s; %u worker%s%s", shards, shards == 1 ? "" : "s", list,
                  !r->plan->assigned.given ? ""
                  : shards == 1            ? ", which runs already"
                                           : ", which run already",
                  r->workers, r->workers == 1 ? "" : "s", each);
    free(list);
}

static void
run_work(struct psrun_run *r)
{
    uv_timer_stop(&r->ready);
    r->state = RUN_WORKING;
    run_print_cluster(r);
    for (uint32_t i = 0; i < r->workers && r->state == RUN_WORKING; i++)
        run_process_start(r, &r->processes[r->shards + i]);
}

/* Take every step that can be taken now. */
static void
run_advance(struct psrun_run *r)
{
    if ((r->state == RUN_STARTING || r->state == RUN_WORKING) && r->failed) {
        r->state = RUN_ENDING;
        run_ask_to_stop(r, r->shards, r->shards + r->workers);
    }
    if (r->state == RUN_STARTING && run_all_listen(r))
        run_work(r);
    else if ((r->state == RUN_WORKING || r->state == RUN_ENDING) && run_busy(r, r->shards, r->shards + r->workers) == 0)
        run_close(r);
    if (r->state == RUN_CLOSING && run_busy(r, 0, r->shards) == 0)
        run_done(r);
}

static void
run_listening(struct process *p)
{
    struct psrun_run *r = p->loop->data;
    struct run_process *m = run_process_of(p);
    struct ps_error e;

    m->reached = true;
    p->ready[strcspn(p->ready, " ")] = '\0';
    if (launch_plan_shard_listens(r->plan, run_process_index(r, m), p->ready, &e) != PS_OK) {
        run_print(r, "%s cannot be used: %s", p->tag.text, e.text);
        run_fail(r, STATUS_NOT_STARTED);
        return;
    }
    run_advance(r);
}

/* Its end was wanted: everything is being stopped, or it is a worker that is done. */
static bool
run_end_expected(const struct psrun_run *r, const struct run_process *m)
{
    if (run_process_is_shard(m))
        return r->state == RUN_CLOSING;
    return (m->process.ended && m->process.status == 0 && m->process.failure == 0) || r->state == RUN_ENDING ||
           r->state == RUN_CLOSING;
}

/* It ended without being asked to: it is started again, or it ends the run. A shard must not end before the workers,
 * whatever its status. */
static void
run_lost(struct psrun_run *r, struct run_process *m)
{
    const struct process *p = &m->process;
    int status = run_process_report_end(r, m);

    m->reached |= !run_process_is_shard(m) && (p->ended || (p->began && !p->refused));
    if (!run_process_restart(r, m, status))
        run_fail(r, status != 0 ? status : STATUS_NOT_STARTED);
}

static void
run_held(struct process *p)
{
    struct psrun_run *r = p->loop->data;
    struct run_process *m = run_process_of(p);

    if (run_end_expected(r, m))
        process_stop(p);
    else
        run_lost(r, m);
    (void)screen_flush(&r->screen);
}

/* One that was held was reported then: it ends to be started again, or because everything ends; or its machine was
 * lost, with the directory that it held. */
static void
run_gone(struct process *p)
{
    struct psrun_run *r = p->loop->data;
    struct run_process *m = run_process_of(p);

    if (m->waiting && p->link_status == 0)
        run_process_start(r, m);
    else if (m->waiting)
        run_fail(r, run_process_report_lost(r, m));
    else if (!p->dir_held && !run_end_expected(r, m))
        run_lost(r, m);
    run_processes_start_queued(r);
    run_advance(r);
    (void)screen_flush(&r->screen);
}

static void
run_output(struct process *p, enum screen_stream stream, enum lines_kind kind, const char *text, size_t len)
{
    struct psrun_run *r = p->loop->data;

    r->cause_buried |= r->failed;
    if (kind == LINES_WHOLE)
        screen_line(&r->screen, stream, &p->tag, text, len);
    else
        screen_live(&r->screen, stream, &p->tag, text, len);
}

static void
run_drained(struct process *p)
{
    struct psrun_run *r = p->loop->data;

    if (p->began)
        run_processes_start_queued(r);
    /* Our output has no reader any more (`psrun ... | head`): end as a program would. */
    if (screen_flush(&r->screen) != PS_OK && !r->interrupted)
        run_interrupt(r, 128 + SIGPIPE);
}

/* ---- signals and times ---- */

static void
run_on_signal(int signal)
{
    run_signal = signal;
    run_signals++;
    uv_async_send(run_wake); /* safe in a handler */
}

static void
run_woken(uv_async_t *wake)
{
    struct psrun_run *r = wake->data;
    bool first = r->signals_seen == 0;
    int signal = run_signal;

    if (run_signals == r->signals_seen || r->state == RUN_DONE)
        return;
    r->signals_seen = run_signals;
    if (first) {
        run_print(r, "stopping all on %s; once more kills them", exit_status_signal(signal));
        run_interrupt(r, 128 + signal);
    } else {
        run_print(r, "killing all");
        run_kill_all(r);
    }
    (void)screen_flush(&r->screen);
}

static void
run_too_late(uv_timer_t *timer)
{
    struct psrun_run *r = timer->data;

    run_print(r, "stopping all: not done within %.3g s (--timeout)", (double)r->plan->settings->timeout_ms / 1000);
    run_interrupt(r, STATUS_LATE);
    (void)screen_flush(&r->screen);
}

/* Connecting has a time limit of its own. */
static uint64_t
run_ready_ms(const struct psrun_run *r)
{
    return RUN_READY_MS + (r->plan->assigned.remote ? (uint64_t)r->plan->settings->connect_ms : 0);
}

static void
run_not_ready(uv_timer_t *timer)
{
    struct psrun_run *r = timer->data;

    for (uint32_t i = 0; i < r->shards; i++)
        if (!r->processes[i].process.listens)
            run_print(r, "%s does not listen after %.3g s", r->processes[i].process.tag.text,
                      (double)run_ready_ms(r) / 1000);
    run_fail(r, STATUS_NOT_STARTED);
    (void)screen_flush(&r->screen);
}

/* ---- preparing ---- */

static const struct process_events run_events = {
    .output = run_output, .drained = run_drained, .listening = run_listening, .dir_held = run_held, .gone = run_gone};

static void
run_init_timer(struct psrun_run *r, uv_timer_t *timer)
{
    uv_timer_init(&r->loop, timer);
    timer->data = r;
}

static enum ps_err
run_init(struct psrun_run *r, struct ps_error *e)
{
    uint32_t n = r->shards + r->workers;
    int err;

    screen_init(&r->screen, &run_signals);
    r->screen.waiting = run_waiting;
    r->screen.arg = r;
    r->screen.prefix = !r->plan->settings->no_prefix;
    r->screen.tag_width = (int)strlen("psrun");
    r->tag = (struct screen_tag){.text = "psrun", .colour = TAG_COLOUR_PSRUN};
    r->processes = calloc(n, sizeof *r->processes);
    r->port_fds = calloc(r->workers, sizeof *r->port_fds);
    r->buffer = malloc(PROCESS_READ_SIZE);
    if (r->processes == NULL || r->port_fds == NULL || r->buffer == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "out of memory");
    if ((err = uv_loop_init(&r->loop)) != 0)
        return ps_fail(e, PS_ERR_IO, "no event loop: %s", uv_strerror(err));
    r->loop.data = r;
    run_processes_init(r, &run_events);
    return PS_OK;
}

static void
run_start(struct psrun_run *r)
{
    uv_async_init(&r->loop, &r->wake, run_woken);
    r->wake.data = r;
    run_init_timer(r, &r->ready);
    run_init_timer(r, &r->grace);
    run_init_timer(r, &r->timeout);
    run_init_timer(r, &r->again);
    run_wake = &r->wake;
    run_take_signals(run_on_signal);
    uv_timer_start(&r->ready, run_not_ready, run_ready_ms(r), 0);
    if (r->plan->settings->timeout_ms > 0)
        uv_timer_start(&r->timeout, run_too_late, (uint64_t)r->plan->settings->timeout_ms, 0);
    for (uint32_t i = 0; i < r->shards && !r->failed; i++)
        run_process_start(r, &r->processes[i]);
    if (r->shards == 0)
        run_advance(r);
}

static void
run_finish(struct psrun_run *r)
{
    screen_finish(&r->screen);
    for (uint32_t i = 0; r->port_fds != NULL && i < r->workers; i++)
        if (r->port_fds[i] > 0)
            close(r->port_fds[i]);
    free(r->processes);
    free(r->port_fds);
    free(r->buffer);
    free(r->printed);
    free(r->cause);
}

int
run_plan(struct launch_plan *plan, const char *exe)
{
    struct psrun_run r = {.plan = plan,
                          .exe = exe,
                          .shards = plan->assigned.given ? 0 : plan->assigned.shards,
                          .workers = plan->assigned.workers};
    struct ps_error e;

    if (run_init(&r, &e) != PS_OK) {
        fprintf(stderr, "psrun: %s\n", e.text);
        run_finish(&r);
        return STATUS_NOT_STARTED;
    }
    if (run_prepare(&r, &e) == PS_OK) {
        run_start(&r);
        uv_run(&r.loop, UV_RUN_DEFAULT);
        ps_assert(r.state == RUN_DONE);
    } else {
        run_print(&r, "%s", e.text);
        r.status = STATUS_NOT_STARTED;
    }
    run_remove_dirs(&r);
    ps_assert(uv_loop_close(&r.loop) == 0);
    run_finish(&r);
    return r.status;
}
