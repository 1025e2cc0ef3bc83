/* What comes through a process's pipes: process_read() gives the bytes to the stream's own handler.
 *
 * Of a remote process, standard output carries its agent's frames (process_frame()), standard error is ssh's own, and
 * the supervisor's report is about ssh. */
#include <stdio.h>
#include <string.h>

#include "client/tools/psrun/process_internal.h"

/* ---- a supervisor's reports ---- */

static void
process_hold(struct process *p)
{
    p->dir_held = true;
    p->events->dir_held(p);
}

static void
process_take_own_report(struct process *p)
{
    switch ((enum supervisor_report_kind)p->report.kind) {
    case SUPERVISOR_STARTED:
        p->pid = p->report.pid;
        break;
    case SUPERVISOR_FAILED:
        p->failure = p->report.value;
        break;
    case SUPERVISOR_ENDED:
        p->ended = true;
        p->status = p->report.value;
        break;
    case SUPERVISOR_HOLDS_DIR:
        process_hold(p);
        break;
    }
}

/* The supervisor here runs ssh. */
static void
process_take_link_report(struct process *p)
{
    if (p->report.kind == SUPERVISOR_ENDED)
        p->link_status = p->report.value;
}

/* Records of the supervisor, whole however they come. */
static void
process_take_report(struct process *p, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        ((char *)&p->report)[p->report_len++] = bytes[i];
        if (p->report_len < sizeof p->report)
            continue;
        p->report_len = 0;
        if (p->remote)
            process_take_link_report(p);
        else
            process_take_own_report(p);
    }
}

/* One line, then the descriptor is of no more use. */
static void
process_take_ready(struct process *p, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len && !p->listens; i++) {
        if (bytes[i] == '\n') {
            p->ready[p->ready_len] = '\0';
            p->listens = true;
        } else if (p->ready_len + 1 < sizeof p->ready) {
            p->ready[p->ready_len++] = bytes[i];
        }
    }
    if (!p->listens)
        return;
    process_close_stream(&p->streams[PIPE_READY]);
    p->events->listening(p);
}

/* ---- an agent's frames ---- */

static void
process_refuse(struct process *p, const char *why)
{
    if (!p->refused)
        snprintf(p->last_line, sizeof p->last_line, "%s", why);
    p->refused = true;
}

static void
process_take_end(struct process *p, const struct remote_header *h, const char *body)
{
    struct remote_end end;
    struct ps_error e;

    if (remote_end_unpack(body, h->len, &end, &e) != PS_OK) {
        process_refuse(p, e.text);
        return;
    }
    p->pid = end.pid;
    p->status = end.status;
    p->failure = end.failure;
    p->ended = true;
    if (h->a == 1)
        process_hold(p);
}

void
process_frame(void *arg, const struct remote_header *h, const char *body)
{
    struct process *p = arg;

    switch (h->kind) {
    case REMOTE_OUTPUT:
        p->events->output(p, h->a == SCREEN_OUT ? SCREEN_OUT : SCREEN_ERR,
                          h->b == LINES_LIVE ? LINES_LIVE : LINES_WHOLE, body, h->len);
        break;
    case REMOTE_READY:
        snprintf(p->ready, sizeof p->ready, "%s", body);
        p->listens = true;
        p->events->listening(p);
        break;
    case REMOTE_ENDED:
        process_take_end(p, h, body);
        break;
    case REMOTE_FAILED:
        process_refuse(p, body);
        break;
    }
}

void
process_noise(void *arg, const char *bytes, size_t len)
{
    struct process *p = arg;

    /* Standard output has no lines of its own then, so they may serve for this. */
    (void)!lines_take(&p->streams[PIPE_OUT].lines, bytes, len);
}

static void
process_take_remote(struct process *p, const char *bytes, size_t len)
{
    struct ps_error e;

    if (remote_read(&p->link.reader, bytes, len, &e) != PS_OK) {
        process_refuse(p, e.text);
        process_signal(p, SUPERVISOR_KILL);
    }
    p->began = p->link.reader.hello;
}

/* ---- lines ---- */

void
process_line(void *arg, enum lines_kind kind, const char *text, size_t len)
{
    struct process_stream *s = arg;
    struct process *p = s->process;
    bool out = s == &p->streams[PIPE_OUT];

    if (p->remote && !p->refused && kind == LINES_WHOLE && len > 0)
        snprintf(p->last_line, sizeof p->last_line, "%.*s", (int)MIN(len, sizeof p->last_line - 1), text);
    p->events->output(p, out ? SCREEN_OUT : SCREEN_ERR, kind, text, len);
}

static void
process_take(struct process_stream *s, const char *bytes, size_t len)
{
    struct process *p = s->process;

    if (s == &p->streams[PIPE_REPORT])
        process_take_report(p, bytes, len);
    else if (p->remote && s == &p->streams[PIPE_OUT])
        process_take_remote(p, bytes, len);
    else if (s == &p->streams[PIPE_READY])
        process_take_ready(p, bytes, len);
    else if (lines_take(&s->lines, bytes, len) != PS_OK)
        process_close_stream(s); /* out of memory: the program must not block on a full pipe */
}

void
process_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    const struct process *p = handle->data;

    (void)suggested;
    *buf = uv_buf_init(p->buffer, PROCESS_READ_SIZE);
}

void
process_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct process_stream *s = CONTAINER_OF(stream, struct process_stream, pipe);
    struct process *p = s->process;

    if (n > 0)
        process_take(s, buf->base, (size_t)n);
    if (n < 0)
        process_close_stream(s);
    p->events->drained(p);
    if (n < 0 && !uv_is_active((uv_handle_t *)&p->supervisor) && !process_streams_open(p))
        process_close_drain(p);
}
