/* The happy path: process_start() makes the pipes and spawns the supervisor; process_read.c reads what comes through
 * them; the supervisor's report says how the program ended; when supervisor and pipes are closed, gone() is called.
 *
 * Failures: a pipe or spawn that fails closes what was made and reports. A supervisor that was killed makes no report:
 * the program counts as killed with it. */
#include "client/tools/psrun/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/tools/psrun/process_internal.h"
#include "client/tools/shared/strlist.h"

void
process_signal(struct process *p, int signal)
{
    if (p->alive && uv_is_active((uv_handle_t *)&p->supervisor))
        uv_process_kill(&p->supervisor, signal);
}

/* ---- ending ---- */

static void
process_closed(uv_handle_t *handle)
{
    struct process *p = handle->data;

    if (--p->handles > 0)
        return;
    for (int i = 0; i < PIPES; i++)
        lines_finish(&p->streams[i].lines);
    remote_reader_finish(&p->link.reader);
    if (p->remote) { /* its last frames about live texts may be lost */
        p->events->output(p, SCREEN_OUT, LINES_LIVE, "", 0);
        p->events->output(p, SCREEN_ERR, LINES_LIVE, "", 0);
    }
    p->alive = false;
    p->events->gone(p);
}

void
process_close_stream(struct process_stream *s)
{
    if (!s->open)
        return;
    s->open = false;
    lines_end(&s->lines);
    uv_close((uv_handle_t *)&s->pipe, process_closed);
}

static void
process_close_streams(struct process *p)
{
    for (int i = 0; i < PIPES; i++)
        process_close_stream(&p->streams[i]);
}

bool
process_streams_open(const struct process *p)
{
    for (int i = 0; i < PIPES; i++)
        if (p->streams[i].open)
            return true;
    return false;
}

void
process_close_drain(struct process *p)
{
    uv_handle_t *drain = (uv_handle_t *)&p->drain;

    if (!uv_is_closing(drain))
        uv_close(drain, process_closed);
}

static void
process_drained(uv_timer_t *drain)
{
    struct process *p = drain->data;

    if (p->paused) {
        uv_timer_start(drain, process_drained, PROCESS_DRAIN_MS, 0);
        return;
    }
    process_close_streams(p);
    process_close_drain(p);
}

/* The supervisor has ended: all below it are gone. */
static void
process_supervisor_exited(uv_process_t *keeper, int64_t status, int signal)
{
    struct process *p = keeper->data;

    (void)status;
    ssh_link_close(&p->link, process_closed);
    if (signal != 0 && !p->ended && !p->remote) {
        p->ended = true;
        p->status = signal; /* as waitpid() gives a death by signal */
    }
    uv_close((uv_handle_t *)keeper, process_closed);
    if (process_streams_open(p))
        uv_timer_start(&p->drain, process_drained, PROCESS_DRAIN_MS, 0);
    else
        process_close_drain(p);
}

/* ---- starting ---- */

/* A pipe whose read end is ours; *child is the end for the program, or -1 after an error. */
static int
process_open_pipe(struct process *p, enum process_pipe which, int *child)
{
    struct process_stream *s = &p->streams[which];
    uv_file ends[2];
    int err;

    *child = -1;
    if ((err = uv_pipe(ends, UV_NONBLOCK_PIPE, 0)) != 0)
        return err;
    uv_pipe_init(p->loop, &s->pipe, 0);
    s->pipe.data = p;
    s->open = true;
    p->handles++;
    *child = ends[1];
    if ((err = uv_pipe_open(&s->pipe, ends[0])) != 0) {
        close(ends[0]);
        return err;
    }
    return uv_read_start((uv_stream_t *)&s->pipe, process_alloc, process_read);
}

/* All the program's descriptors; -1 for those that it does not get. */
static int
process_open_all(struct process *p, const struct process_start *how, int child[PIPES])
{
    int err = 0;

    if (how->log != NULL) {
        child[PIPE_OUT] = open(how->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        child[PIPE_ERR] = child[PIPE_OUT] < 0 ? -1 : fcntl(child[PIPE_OUT], F_DUPFD_CLOEXEC, 0);
        if (child[PIPE_ERR] < 0)
            return UV_EIO;
    } else if ((err = process_open_pipe(p, PIPE_OUT, &child[PIPE_OUT])) != 0 ||
               (err = process_open_pipe(p, PIPE_ERR, &child[PIPE_ERR])) != 0) {
        return err;
    }
    if ((err = process_open_pipe(p, PIPE_REPORT, &child[PIPE_REPORT])) != 0)
        return err;
    return how->ready ? process_open_pipe(p, PIPE_READY, &child[PIPE_READY]) : 0;
}

static int
process_spawn(struct process *p, const struct process_start *how, const int child[PIPES], int lifeline)
{
    struct strlist argv = {0};
    uv_stdio_container_t stdio[SUPERVISOR_READY_FD + 1] = {
        {.flags = lifeline >= 0 ? UV_INHERIT_FD : UV_IGNORE, .data.fd = lifeline},
        {.flags = UV_INHERIT_FD, .data.fd = child[PIPE_OUT]},
        {.flags = UV_INHERIT_FD, .data.fd = child[PIPE_ERR]},
        [SUPERVISOR_REPORT_FD] = {.flags = UV_INHERIT_FD, .data.fd = child[PIPE_REPORT]},
        [SUPERVISOR_READY_FD] = {.flags = how->ready ? UV_INHERIT_FD : UV_IGNORE, .data.fd = child[PIPE_READY]},
    };
    uv_process_options_t options = {.file = how->exe,
                                    .exit_cb = process_supervisor_exited,
                                    .env = (char **)how->env,
                                    .cwd = how->dir,
                                    .stdio = stdio,
                                    .stdio_count = how->ready ? SUPERVISOR_READY_FD + 1 : SUPERVISOR_READY_FD};
    int err;

    strlist_add(&argv, "psrun");
    strlist_add(&argv, SUPERVISOR_ARG);
    strlist_add(&argv, "%d", (int)getpid());
    strlist_add(&argv, "%s", how->remove_dir);
    strlist_add(&argv, "-%s%s", how->releasable ? SUPERVISOR_MAY_RELEASE : "", how->hold ? SUPERVISOR_HOLD : "");
    strlist_add(&argv, "--");
    for (size_t i = 0; how->argv[i] != NULL; i++)
        strlist_add(&argv, "%s", how->argv[i]);
    options.args = argv.text;
    p->spawned = true;
    p->handles++; /* libuv wants it closed also when this fails */
    err = uv_spawn(p->loop, &p->supervisor, &options);
    strlist_free(&argv);
    return err;
}

static void
process_reset(struct process *p)
{
    p->alive = p->ended = p->dir_held = p->listens = p->spawned = p->began = p->refused = p->paused = false;
    p->pid = 0;
    p->status = p->failure = p->link_status = 0;
    p->last_line[0] = '\0';
    p->link = (struct ssh_link){.reader = {.frame = process_frame, .noise = process_noise, .arg = p}};
    p->report_len = p->ready_len = 0;
    for (int i = 0; i < PIPES; i++) {
        p->streams[i] = (struct process_stream){.process = p};
        lines_init(&p->streams[i].lines, process_line, &p->streams[i]);
    }
}

/* It could not be spawned: close what was made; gone() is called as after any end. */
static void
process_spawn_failed(struct process *p, int err)
{
    p->failure = -err;
    if (p->spawned)
        uv_close((uv_handle_t *)&p->supervisor, process_closed);
    ssh_link_close(&p->link, process_closed);
    process_close_streams(p);
    process_close_drain(p);
}

/* All that it needs besides a process; *lifeline is the end for ssh, -1 when it runs here. */
static int
process_open(struct process *p, const struct process_start *how, int child[PIPES], int *lifeline)
{
    int err = process_open_all(p, how, child);

    if (err != 0 || how->order == NULL)
        return err;
    p->handles += SSH_LINK_HANDLES;
    return ssh_link_open(&p->link, p->loop, p, how->order, lifeline);
}

enum ps_err
process_start(struct process *p, const struct process_start *how, struct ps_error *e)
{
    int child[PIPES] = {-1, -1, -1, -1}, lifeline = -1, err;

    process_reset(p);
    p->remote = how->order != NULL;
    uv_timer_init(p->loop, &p->drain);
    p->drain.data = p->supervisor.data = p;
    p->handles = 1;
    p->alive = true;
    p->started_ms = uv_now(p->loop);
    if ((err = process_open(p, how, child, &lifeline)) == 0)
        err = process_spawn(p, how, child, lifeline);
    if (lifeline >= 0)
        close(lifeline);
    for (int i = 0; i < PIPES; i++)
        if (child[i] >= 0)
            close(child[i]);
    if (err != 0) {
        process_spawn_failed(p, err);
        return ps_fail(e, PS_ERR_IO, "%s could not be started: %s", p->tag.text, uv_strerror(err));
    }
    return PS_OK;
}

/* ---- commands ---- */

/* The agent did not report in time that all is gone: end ssh, so that it kills them now. */
static void
process_sever(uv_timer_t *drain)
{
    process_signal(drain->data, SUPERVISOR_KILL);
}

void
process_stop(struct process *p)
{
    if (p->alive && p->remote && p->began)
        ssh_link_send(&p->link, REMOTE_STOP);
    else
        process_signal(p, SIGTERM);
}

void
process_kill(struct process *p)
{
    if (!p->alive || !p->remote || !p->link.open) {
        process_signal(p, SUPERVISOR_KILL);
        return;
    }
    ssh_link_send(&p->link, REMOTE_KILL);
    uv_timer_start(&p->drain, process_sever, p->began ? SSH_LINK_LINGER_MS : 0, 0);
}

void
process_release(struct process *p)
{
    if (p->alive && p->remote)
        ssh_link_send(&p->link, REMOTE_RELEASE);
    else
        process_signal(p, SUPERVISOR_RELEASE);
}

void
process_beat(struct process *p)
{
    if (p->alive && p->remote)
        ssh_link_beat(&p->link);
}

void
process_pause(struct process *p, bool pause)
{
    p->paused = pause;
    for (int i = PIPE_OUT; i <= PIPE_ERR; i++) {
        uv_stream_t *stream = (uv_stream_t *)&p->streams[i].pipe;

        if (p->streams[i].open && pause)
            uv_read_stop(stream);
        else if (p->streams[i].open)
            uv_read_start(stream, process_alloc, process_read);
    }
}
