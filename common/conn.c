/* Frames over a libuv stream.
 *
 * Reading, the usual way: read_alloc() offers what the frame reader wants, read_done() feeds it, events go out. Then
 * the failures: bytes that are no frame and the end of the stream both stop reading and are told once (end()).
 *
 * Writing, the usual way: conn_send() appends to the queue (conn_queue.c), flush() prepares the first frames, gathers
 * them into one uv_try_write() and takes off the queue what the kernel took. When the socket is full, park() copies a
 * little into c->copy and gives that to uv_write(); its callback means the socket has room again, and flush() goes on.
 * park() also ends a flush that has written CONN_TURN_BYTES, so that one fast reader does not starve the others. When
 * writing fails the reading side usually has something to say about it (a last ERROR frame), so the owner is told when
 * that ends, or a little later.
 *
 * Time: each connection has at most one deadline (a pinned frame, a linger, a failure to be told), all share one timer.
 *
 * A callback may close the connection; the handle and all memory stay until close_done(), so loops only look at
 * c->closing after each callback. */
#include "conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sockname.h"

#define CONN_TELL_MS 100 /* after a failed write: how long the reading side may take to say why */

static void flush(struct conn *c);

/* ---- Errors ---- */

enum ps_err
conn_uv_error(int status)
{
    static const struct {
        int status;
        enum ps_err code;
    } codes[] = {
        {0, PS_OK},
        {UV_EOF, PS_ERR_CLOSED},
        {UV_ECONNRESET, PS_ERR_CLOSED},
        {UV_ECONNABORTED, PS_ERR_CLOSED},
        {UV_EPIPE, PS_ERR_CLOSED},
        {UV_ENOTCONN, PS_ERR_CLOSED},
        {UV_ECANCELED, PS_ERR_CLOSED},
        {UV_ECONNREFUSED, PS_ERR_UNREACHABLE},
        {UV_EHOSTUNREACH, PS_ERR_UNREACHABLE},
        {UV_EHOSTDOWN, PS_ERR_UNREACHABLE},
        {UV_ENETUNREACH, PS_ERR_UNREACHABLE},
        {UV_ENETDOWN, PS_ERR_UNREACHABLE},
        {UV_EADDRNOTAVAIL, PS_ERR_UNREACHABLE},
        {UV_EAFNOSUPPORT, PS_ERR_UNREACHABLE},
        {UV_ENOENT, PS_ERR_UNREACHABLE}, /* no such Unix socket */
        {UV_EACCES, PS_ERR_UNREACHABLE},
        {UV_EPERM, PS_ERR_UNREACHABLE},
        {UV_EAGAIN, PS_ERR_UNREACHABLE}, /* a Unix socket's backlog is full */
        {UV_EAI_AGAIN, PS_ERR_UNREACHABLE},
        {UV_EAI_FAIL, PS_ERR_UNREACHABLE},
        {UV_EAI_NODATA, PS_ERR_UNREACHABLE},
        {UV_EAI_NONAME, PS_ERR_UNREACHABLE},
        {UV_EAI_FAMILY, PS_ERR_UNREACHABLE},
        {UV_EAI_ADDRFAMILY, PS_ERR_UNREACHABLE},
        {UV_EAI_SERVICE, PS_ERR_UNREACHABLE},
        {UV_ETIMEDOUT, PS_ERR_TIMEOUT},
        {UV_ENOMEM, PS_ERR_NOMEM},
        {UV_ENOBUFS, PS_ERR_NOMEM},
        {UV_EAI_MEMORY, PS_ERR_NOMEM},
        {UV_EMFILE, PS_ERR_LIMIT},
        {UV_ENFILE, PS_ERR_LIMIT},
        {UV_EADDRINUSE, PS_ERR_BUSY},
        {UV_EINVAL, PS_ERR_INVALID},
    };

    if (status > 0)
        return PS_OK;
    for (size_t i = 0; i < ARRAY_LEN(codes); i++)
        if (codes[i].status == status)
            return codes[i].code;
    return PS_ERR_IO;
}

/* No more frames; the owner is told once. */
static void
end(struct conn *c, const struct ps_error *why)
{
    struct ps_error e = *why;

    if (c->ended)
        return;
    c->ended = true;
    if (c->reading)
        uv_read_stop(&c->u.stream);
    c->reading = false;
    snprintf(e.peer, sizeof e.peer, "%s", c->peer);
    c->events->ended(c, &e);
}

static void
end_uv(struct conn *c, int status)
{
    const struct frame_reader *r = &c->reader;
    struct ps_error e = {0};

    if (status != UV_EOF)
        ps_fail(&e, conn_uv_error(status), "the connection failed: %s", uv_strerror(status));
    else if (r->state != FRAME_HEAD || r->got > 0)
        ps_fail(&e, PS_ERR_CLOSED, "the peer closed the connection in the middle of a frame");
    else
        ps_fail(&e, PS_ERR_CLOSED, "the peer closed the connection");
    end(c, &e);
}

/* ---- Deadlines ---- */

static void timer_fired(uv_timer_t *timer);

static void
timer_set(struct conn_pool *p, uint64_t due_ms)
{
    uint64_t now = uv_now(p->loop);

    p->timer_ms = due_ms;
    uv_timer_start(p->timer, timer_fired, due_ms > now ? due_ms - now : 0, 0);
}

static void
due_remove(struct conn *c)
{
    struct conn_pool *p = c->pool;

    if (c->due_ms == 0)
        return;
    *c->due_before = c->due_next;
    if (c->due_next != NULL)
        c->due_next->due_before = c->due_before;
    c->due_ms = 0;
    if (p->waiting == NULL) { /* an idle timer keeps no loop alive */
        uv_timer_stop(p->timer);
        p->timer_ms = 0;
    }
}

/* The earliest deadline: the linger's or the oldest pinned frame's. */
static uint64_t
due_first(const struct conn *c)
{
    const struct conn_out *o = conn_queue_pinned(c->queue.first);
    uint64_t due = c->end_ms;

    if (o == NULL)
        return due;
    return due == 0 ? o->ready_ms + CONN_PIN_MS : MIN(due, o->ready_ms + CONN_PIN_MS);
}

static void
due_update(struct conn *c)
{
    struct conn_pool *p = c->pool;
    uint64_t due = c->closing ? 0 : due_first(c);

    if (due == c->due_ms)
        return;
    due_remove(c);
    if (due == 0)
        return;
    c->due_ms = due;
    c->due_before = &p->waiting;
    c->due_next = p->waiting;
    if (c->due_next != NULL)
        c->due_next->due_before = &c->due_next;
    p->waiting = c;
    if (p->timer_ms == 0 || due < p->timer_ms)
        timer_set(p, due);
}

/* ---- Writing ---- */

static void
broke(struct conn *c, int status)
{
    if (c->broken || c->closing)
        return;
    c->broken = true;
    c->broken_status = status;
    uv_update_time(c->pool->loop); /* who drives the loop himself may have been away */
    c->end_ms = uv_now(c->pool->loop) + (c->reading && !c->finishing ? CONN_TELL_MS : 1);
}

static void
write_done(uv_write_t *write, int status)
{
    struct conn *c = CONTAINER_OF(write, struct conn, write);

    c->writing = false;
    free(c->copy);
    c->copy = NULL;
    if (c->closing)
        return;
    if (status < 0)
        broke(c, status);
    flush(c);
}

/* Go on when the socket has room again, or, if it has, in the loop's next round. */
static void
park(struct conn *c)
{
    uv_buf_t bufs[CONN_QUEUE_BUFS], copy;
    unsigned n;
    uint64_t bytes = conn_queue_gather(&c->queue, bufs, &n, CONN_COPY), at = 0;
    int status;

    c->copy = malloc(CONN_COPY);
    if (c->copy == NULL) {
        broke(c, UV_ENOMEM);
        return;
    }
    for (unsigned i = 0; i < n; at += bufs[i++].len)
        memcpy(c->copy + at, bufs[i].base, bufs[i].len);
    copy = uv_buf_init((char *)c->copy, (unsigned)bytes);
    status = uv_write(&c->write, &c->u.stream, &copy, 1, write_done);
    if (status < 0) {
        free(c->copy);
        c->copy = NULL;
        broke(c, status);
        return;
    }
    c->writing = true;
    conn_queue_take(&c->queue, bytes);
}

static void
shutdown_done(uv_shutdown_t *shutdown, int status)
{
    struct conn *c = CONTAINER_OF(shutdown, struct conn, shutdown);

    if (!c->closing && (status < 0 || c->eof))
        conn_close(c, NULL);
}

/* When conn_finish() was called and all is sent: say so, and wait for the peer to do the same. */
static void
finish_next(struct conn *c)
{
    if (!c->finishing || c->shut || c->closing || c->writing || (c->queue.first != NULL && !c->broken))
        return;
    c->shut = true;
    if (!c->started || c->broken || uv_shutdown(&c->shutdown, &c->u.stream, shutdown_done) < 0)
        conn_close(c, NULL);
}

static bool
may_write(const struct conn *c)
{
    return c->started && !c->closing && !c->broken && !c->writing && !c->shut;
}

/* One system call's worth. False: enough for now. */
static bool
write_some(struct conn *c, uint64_t *budget)
{
    uv_buf_t bufs[CONN_QUEUE_BUFS];
    uint64_t bytes;
    unsigned n;
    int taken;

    conn_queue_prepare(&c->queue, c->pool->loop);
    if (c->closing || c->queue.first == NULL)
        return false;
    bytes = conn_queue_gather(&c->queue, bufs, &n, UINT64_MAX);
    taken = uv_try_write(&c->u.stream, bufs, n);
    if (taken < 0 && taken != UV_EAGAIN) {
        broke(c, taken);
        return false;
    }
    taken = MAX(taken, 0);
    *budget -= MIN(*budget, (uint64_t)taken);
    conn_queue_take(&c->queue, (uint64_t)taken);
    if ((uint64_t)taken == bytes && *budget > 0)
        return true;
    if ((uint64_t)taken == bytes)
        conn_queue_prepare(&c->queue, c->pool->loop); /* park() takes only from what is ready */
    if (!c->closing && c->queue.first != NULL)
        park(c);
    return false;
}

static void
flush(struct conn *c)
{
    uint64_t budget = CONN_TURN_BYTES;

    if (c->flushing)
        return;
    c->flushing = true;
    while (may_write(c) && c->queue.first != NULL && write_some(c, &budget))
        continue;
    c->flushing = false;
    finish_next(c);
    due_update(c);
}

void
conn_send(struct conn *c, struct conn_out *out, bool later)
{
    conn_queue_append(&c->queue, out);
    if (!later)
        flush(c);
}

void
conn_flush(struct conn *c)
{
    flush(c);
}

void
conn_cut(struct conn *c)
{
    ps_assert(!c->flushing);
    if (c->closing)
        return;
    frame_discard(&c->reader);
    if (!conn_queue_cut(&c->queue))
        broke(c, UV_ENOMEM);
    flush(c);
}

/* ---- Deadlines that have come ---- */

/* Free the read transactions that were held long enough. */
static void
pins_release(struct conn *c, uint64_t now)
{
    struct conn_out *o = conn_queue_pinned(c->queue.first);

    for (; o != NULL && o->ready_ms + CONN_PIN_MS <= now && !c->closing; o = conn_queue_pinned(o->next)) {
        if (!conn_queue_own(&c->queue, o))
            broke(c, UV_ENOMEM); /* nothing of it will be written */
        conn_queue_release(o);
    }
}

static void
due_come(struct conn *c, uint64_t now)
{
    bool at_end = c->end_ms != 0 && c->end_ms <= now;

    if (at_end)
        c->end_ms = 0;
    c->flushing = true; /* what a callback sends must not free the frame that we stand on */
    pins_release(c, now);
    c->flushing = false;
    flush(c);
    if (at_end && !c->closing && c->finishing)
        conn_close(c, NULL);
    else if (at_end && !c->closing && c->broken)
        end_uv(c, c->broken_status);
    due_update(c);
}

static void
timer_fired(uv_timer_t *timer)
{
    struct conn_pool *p = timer->data;
    uint64_t now = uv_now(p->loop), next = 0;
    struct conn *c;

    p->timer_ms = 0;
    /* Callbacks may change the list anywhere: begin again after each. due_come() leaves no deadline that has passed. */
    do {
        for (c = p->waiting; c != NULL && c->due_ms > now; c = c->due_next)
            continue;
        if (c != NULL)
            due_come(c, now);
    } while (c != NULL);
    for (c = p->waiting; c != NULL; c = c->due_next)
        next = next == 0 ? c->due_ms : MIN(next, c->due_ms);
    if (next != 0)
        timer_set(p, next);
}

/* ---- Reading ----
 *
 * A pause ends feed() at a frame's end. What was read behind it is kept in c->rest; when it may go on, the connection
 * is in pool->kept until the loop's next round hands the rest out (never from within conn_read_resume(), which is
 * called from anywhere). Only then is more read. */

static void
read_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct conn *c = handle->data;
    size_t len = CONN_SCRATCH;
    void *at = NULL;

    (void)suggested;
    if (!c->ended && !c->finishing)
        frame_want(&c->reader, &at, &len);
    if (at == NULL) {
        at = c->pool->scratch + frame_offset(&c->reader);
        len = MIN(len, c->read_max != 0 ? MIN(c->read_max + frame_missing(&c->reader), CONN_SCRATCH) : CONN_SCRATCH);
    }
    *buf = (uv_buf_t){.base = at, .len = len};
}

static int read_start(struct conn *c);

static void
kept_remove(struct conn *c)
{
    struct conn_pool *p = c->pool;

    if (c->kept_before == NULL)
        return;
    *c->kept_before = c->kept_next;
    if (c->kept_next != NULL)
        c->kept_next->kept_before = c->kept_before;
    c->kept_before = NULL;
    if (p->kept == NULL)
        uv_idle_stop(p->idle);
}

static void
rest_drop(struct conn *c)
{
    kept_remove(c);
    free(c->rest);
    c->rest = NULL;
    c->rest_at = c->rest_len = 0;
}

/* Keep these bytes for when it goes on. False: no memory. */
static bool
rest_keep(struct conn *c, const uint8_t *data, size_t n)
{
    uint8_t *copy;

    if (c->rest == NULL) {
        if ((copy = malloc(n + FRAME_ALIGN)) == NULL)
            return false;
        c->rest = copy;
        data = memcpy(c->rest + frame_offset(&c->reader), data, n);
    }
    c->rest_at = (size_t)(data - c->rest);
    c->rest_len = n;
    return true;
}

static void
feed(struct conn *c, const uint8_t *data, size_t n)
{
    struct frame_reader *r = &c->reader;
    bool stop = false;
    size_t used;

    for (; n > 0 && !c->closing && !c->ended && !stop; data += used, n -= used) {
        switch (frame_feed(r, data, n, &used)) {
        case FRAME_MORE:
            break;
        case FRAME_META:
            if (c->events->meta != NULL)
                c->events->meta(c, &r->head, r->meta);
            break;
        case FRAME_WHOLE:
            c->events->frame(c, &r->head, r->meta, r->payload);
            stop = c->paused && n > used && !c->closing && !c->ended && rest_keep(c, data + used, n - used);
            break;
        case FRAME_BAD:
            end(c, &r->error);
            break;
        }
    }
    if (!c->closing)
        frame_reader_trim(r);
}

/* Go on with what was kept, and read on after it. */
static void
rest_feed(struct conn *c)
{
    const uint8_t *data = c->rest + c->rest_at;
    size_t n = c->rest_len;
    int status;

    c->rest_len = 0;
    feed(c, data, n);
    if (c->rest_len > 0 || c->closing)
        return;
    rest_drop(c);
    if (!c->paused && !c->ended && (status = read_start(c)) < 0)
        broke(c, status);
    due_update(c);
}

/* Each of them once: who keeps something back again waits for the next round. */
static void
idle_comes(uv_idle_t *idle)
{
    struct conn_pool *p = idle->data;
    struct conn *list = p->kept, *c;

    p->kept = NULL;
    uv_idle_stop(idle);
    if (list != NULL)
        list->kept_before = &list;
    while ((c = list) != NULL) {
        kept_remove(c);
        rest_feed(c);
    }
}

static void
read_done(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf)
{
    struct conn *c = stream->data;

    if (nread == 0 || c->closing)
        return;
    if (nread > 0) {
        if (!c->finishing)
            feed(c, (const uint8_t *)buf->base, (size_t)nread);
        return;
    }
    c->eof = true;
    uv_read_stop(stream);
    c->reading = false;
    if (c->shut || (c->finishing && nread != UV_EOF))
        conn_close(c, NULL);
    else if (!c->finishing)
        end_uv(c, (int)nread);
}

static int
read_start(struct conn *c)
{
    int status;

    if (c->reading || c->eof)
        return 0;
    status = uv_read_start(&c->u.stream, read_alloc, read_done);
    c->reading = status == 0;
    return status;
}

bool
conn_poll(struct conn *c)
{
    uv_buf_t buf;
    ssize_t n;

    if (!c->reading || c->closing)
        return false;
    read_alloc(&c->u.handle, 0, &buf);
    n = read(c->fd, buf.base, buf.len);
    if (n > 0 || n == 0)
        read_done(&c->u.stream, n > 0 ? n : UV_EOF, &buf);
    else if (errno != EAGAIN && errno != EINTR)
        read_done(&c->u.stream, uv_translate_sys_error(errno), &buf);
    else
        return false;
    return true;
}

void
conn_read_pause(struct conn *c)
{
    c->paused = true;
    kept_remove(c);
    if (c->reading && !c->closing && !c->finishing) {
        uv_read_stop(&c->u.stream);
        c->reading = false;
    }
}

void
conn_read_at_most(struct conn *c, size_t bytes)
{
    c->read_max = bytes;
}

static void
kept_add(struct conn *c)
{
    struct conn_pool *p = c->pool;

    if (c->kept_before != NULL)
        return;
    c->kept_before = &p->kept;
    c->kept_next = p->kept;
    if (c->kept_next != NULL)
        c->kept_next->kept_before = &c->kept_next;
    p->kept = c;
    uv_idle_start(p->idle, idle_comes);
}

void
conn_read_resume(struct conn *c)
{
    int status;

    c->paused = false;
    if (!c->started || c->ended || c->closing)
        return;
    if (c->rest_len > 0)
        kept_add(c);
    else if ((status = read_start(c)) < 0)
        broke(c, status);
    due_update(c);
}

/* ---- Lifetime ---- */

enum ps_err
conn_pool_init(struct conn_pool *p, uv_loop_t *loop)
{
    struct sigaction old;

    *p = (struct conn_pool){.loop = loop};
    p->scratch = aligned_alloc(BUFFER_ALIGN, round_up(CONN_SCRATCH + FRAME_ALIGN, BUFFER_ALIGN));
    p->timer = malloc(sizeof *p->timer);
    p->idle = malloc(sizeof *p->idle);
    if (p->scratch == NULL || p->timer == NULL || p->idle == NULL) {
        free(p->scratch);
        free(p->timer);
        free(p->idle);
        *p = (struct conn_pool){0};
        return PS_ERR_NOMEM;
    }
    uv_timer_init(loop, p->timer); /* neither can fail */
    uv_idle_init(loop, p->idle);
    p->timer->data = p->idle->data = p;
    if (sigaction(SIGPIPE, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
        signal(SIGPIPE, SIG_IGN);
    return PS_OK;
}

static void
handle_closed(uv_handle_t *handle)
{
    free(handle);
}

void
conn_pool_finish(struct conn_pool *p)
{
    ps_assert(p->waiting == NULL);
    if (p->timer != NULL) {
        uv_close((uv_handle_t *)p->timer, handle_closed);
        uv_close((uv_handle_t *)p->idle, handle_closed);
    }
    buffer_pool_finish(&p->buffers);
    free(p->scratch);
    *p = (struct conn_pool){0};
}

enum ps_err
conn_init(struct conn *c, struct conn_pool *pool, bool is_pipe, const struct conn_events *events, void *arg)
{
    int status;

    *c = (struct conn){.arg = arg, .events = events, .pool = pool};
    status = is_pipe ? uv_pipe_init(pool->loop, &c->u.pipe, 0) : uv_tcp_init(pool->loop, &c->u.tcp);
    if (status < 0)
        return conn_uv_error(status);
    c->u.handle.data = c;
    frame_reader_init(&c->reader);
    c->reader.buffers = &pool->buffers;
    return PS_OK;
}

static void
name_tcp(struct conn *c)
{
    struct sockaddr_storage address;
    int len = sizeof address;

    if (uv_tcp_getpeername(&c->u.tcp, (struct sockaddr *)&address, &len) == 0)
        sockname_text(&address, c->peer, sizeof c->peer);
}

/* A client sees the path; the listening side sees no name, but may ask who it is. */
static void
name_unix(struct conn *c, int fd)
{
    struct ucred who;
    socklen_t len = sizeof who;
    char path[sizeof c->peer - sizeof "unix:"];
    size_t size = sizeof path;

    if (uv_pipe_getpeername(&c->u.pipe, path, &size) == 0 && size > 0)
        snprintf(c->peer, sizeof c->peer, "unix:%.*s", (int)size, path);
    else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0)
        snprintf(c->peer, sizeof c->peer, "unix:pid %d", (int)who.pid);
}

void
conn_congestion(struct conn *c, const char *name)
{
    (void)!setsockopt(c->fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name));
}

enum ps_err
conn_start(struct conn *c, const char *congestion)
{
    bool is_tcp = c->u.handle.type == UV_TCP;
    uv_os_fd_t fd = -1;
    int status;

    if ((status = uv_fileno(&c->u.handle, &fd)) < 0)
        return conn_uv_error(status);
    c->fd = fd;
    if (is_tcp) {
        uv_tcp_nodelay(&c->u.tcp, 1);
        if (congestion != NULL) /* only a wish: see conn.h */
            conn_congestion(c, congestion);
    }
    if (c->peer[0] == '\0' && is_tcp)
        name_tcp(c);
    else if (c->peer[0] == '\0')
        name_unix(c, fd);
    if (!c->paused && (status = read_start(c)) < 0)
        return conn_uv_error(status);
    c->started = true;
    flush(c);
    return PS_OK;
}

void
conn_finish(struct conn *c, void (*closed)(struct conn *c))
{
    if (c->closing || c->finishing)
        return;
    c->finishing = c->ended = true;
    c->closed = closed;
    uv_update_time(c->pool->loop);
    c->end_ms = uv_now(c->pool->loop) + CONN_LINGER_MS;
    kept_remove(c);
    frame_discard(&c->reader); /* parts are free */
    if (c->started)
        read_start(c); /* to drop what comes */
    flush(c);
}

static void
close_done(uv_handle_t *handle)
{
    struct conn *c = handle->data;

    conn_queue_drop(&c->queue);
    frame_reader_finish(&c->reader);
    rest_drop(c);
    free(c->copy);
    c->copy = NULL;
    if (c->closed != NULL)
        c->closed(c);
}

void
conn_close(struct conn *c, void (*closed)(struct conn *c))
{
    if (c->closing)
        return;
    if (!c->finishing)
        c->closed = closed;
    c->closing = c->queue.closing = true;
    kept_remove(c);
    frame_discard(&c->reader); /* parts are free */
    due_update(c);
    uv_close(&c->u.handle, close_done);
}

uint64_t
conn_bytes(const struct conn *c)
{
    return frame_reader_bytes(&c->reader) + c->queue.held_bytes + c->rest_len + (c->copy != NULL ? CONN_COPY : 0);
}
