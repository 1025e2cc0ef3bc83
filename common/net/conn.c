/* A connection's life, from conn_init() to its last callback. Its parts: conn_read.c, conn_write.c, conn_blocked.c
 * (sockets that are full), conn_timeouts.c (deadlines), conn_shm.c (frames through shared memory), conn_tls.c
 * (encrypted), conn_auth.c (authentication before any frame), conn_credentials.c (the tokens for it), conn_queue.c
 * (frames yet to be written), conn_socket.c (frames on the socket as they are).
 *
 * A callback may close the connection; the handle and all memory stay until close_done(), so loops only look at
 * c->closing after each callback. */
#include "common/net/conn_internal.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/net/sockname.h"

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

/* No more frames; the owner is notified once. */
void
conn_end(struct conn *c, const struct ps_error *why)
{
    struct ps_error e = *why;

    if (c->ended)
        return;
    c->ended = true;
    conn_auth_free(c);
    if (c->reading)
        uv_read_stop(&c->u.stream);
    c->reading = false;
    snprintf(e.peer, sizeof e.peer, "%s", c->peer);
    c->events->ended(c, &e);
}

void
conn_end_uv(struct conn *c, int status)
{
    const struct frame_reader *r = &c->reader;
    struct ps_error e = {0};

    if (status != UV_EOF)
        ps_fail(&e, conn_uv_error(status), "the connection failed: %s", uv_strerror(status));
    else if (r->state != FRAME_HEAD || r->got > 0)
        ps_fail(&e, PS_ERR_CLOSED, "the peer closed the connection in the middle of a frame");
    else
        ps_fail(&e, PS_ERR_CLOSED, "the peer closed the connection");
    conn_end(c, &e);
}

/* ---- Lifetime ---- */

static void
free_all(struct conn_pool *p)
{
    free(p->scratch);
    free(p->timer);
    free(p->idle);
    free(p->before);
    free(p->after);
    free(p->awake);
    *p = (struct conn_pool){0};
}

enum ps_err
conn_pool_init(struct conn_pool *p, uv_loop_t *loop)
{
    enum ps_err err;

    *p = (struct conn_pool){.loop = loop};
    p->scratch = aligned_alloc(BUFFER_ALIGN, round_up(CONN_SCRATCH + FRAME_ALIGN, BUFFER_ALIGN));
    p->timer = malloc(sizeof *p->timer);
    p->idle = malloc(sizeof *p->idle);
    p->before = malloc(sizeof *p->before);
    p->after = malloc(sizeof *p->after);
    p->awake = malloc(sizeof *p->awake);
    if (p->scratch == NULL || p->timer == NULL || p->idle == NULL || p->before == NULL || p->after == NULL ||
        p->awake == NULL) {
        free_all(p);
        return PS_ERR_NOMEM;
    }
    if ((err = conn_blocked_init(p)) != PS_OK) {
        free_all(p);
        return err;
    }
    uv_timer_init(loop, p->timer); /* none can fail */
    uv_idle_init(loop, p->idle);
    uv_prepare_init(loop, p->before);
    uv_check_init(loop, p->after);
    uv_idle_init(loop, p->awake);
    p->timer->data = p->idle->data = p->before->data = p->after->data = p;
    p->sleeps = true;
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
    ps_assert(p->shm_conns == NULL);
    if (p->timer != NULL) {
        uv_close((uv_handle_t *)p->timer, handle_closed);
        uv_close((uv_handle_t *)p->idle, handle_closed);
        uv_close((uv_handle_t *)p->before, handle_closed);
        uv_close((uv_handle_t *)p->after, handle_closed);
        uv_close((uv_handle_t *)p->awake, handle_closed);
        conn_blocked_finish(p);
    }
    buffer_pool_finish(&p->buffers);
    conn_credentials_free(p);
    free(p->scratch);
    *p = (struct conn_pool){0};
}

enum ps_err
conn_init(struct conn *c, struct conn_pool *pool, bool is_pipe, const struct conn_events *events, void *arg)
{
    int status;

    *c = (struct conn){.arg = arg, .events = events, .pool = pool, .transport = &conn_socket_transport};
    status = is_pipe ? uv_pipe_init(pool->loop, &c->u.pipe, 0) : uv_tcp_init(pool->loop, &c->u.tcp);
    if (status < 0)
        return conn_uv_error(status);
    c->u.handle.data = c;
    frame_reader_init(&c->reader);
    c->reader.buffers = &pool->buffers;
    c->reader.heads = events->head != NULL;
    return PS_OK;
}

static void
conn_look_at_tcp(struct conn *c)
{
    struct sockaddr_storage own, peer;
    struct sockaddr *own_at = (struct sockaddr *)&own, *peer_at = (struct sockaddr *)&peer;
    int own_len = sizeof own, peer_len = sizeof peer;

    if (uv_tcp_getpeername(&c->u.tcp, peer_at, &peer_len) != 0)
        return;
    if (c->peer[0] == '\0')
        sockname_text(&peer, c->peer, sizeof c->peer);
    c->local = uv_tcp_getsockname(&c->u.tcp, own_at, &own_len) == 0 && sockname_is_local(own_at, peer_at);
}

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

void
conn_refuse_descriptors(int fd)
{
    (void)!setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &(int){0}, sizeof(int));
}

/* The peer's name: a client knows the path; the listening side has no name, but can get the peer's process. */
static void
conn_look_at_unix(struct conn *c, int fd)
{
    struct ucred who;
    socklen_t len = sizeof who;
    char path[sizeof c->peer - sizeof "unix:"];
    size_t size = sizeof path;

    c->local = true;
    conn_refuse_descriptors(fd);
    if (c->peer[0] != '\0')
        return;
    if (uv_pipe_getpeername(&c->u.pipe, path, &size) == 0 && size > 0)
        snprintf(c->peer, sizeof c->peer, "unix:%.*s", (int)size, path);
    else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0)
        snprintf(c->peer, sizeof c->peer, "unix:pid %d", (int)who.pid);
}

void
conn_carry(struct conn *c, const struct transport_ops *ops, void *data)
{
    if (c->transport->free != NULL)
        c->transport->free(c);
    c->transport = ops;
    c->transport_data = data;
    c->transport_ms = 0;
    c->shaking = false;
}

bool
conn_shares(const struct conn *c)
{
    return c->transport->is_memory;
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
    enum ps_err err;
    int status;

    if ((status = uv_fileno(&c->u.handle, &fd)) < 0)
        return conn_uv_error(status);
    c->fd = fd;
    if (is_tcp) {
        uv_tcp_nodelay(&c->u.tcp, 1);
        if (congestion != NULL) /* only a wish: see conn.h */
            conn_congestion(c, congestion);
    }
    if (is_tcp)
        conn_look_at_tcp(c);
    else
        conn_look_at_unix(c, fd);
    if (!c->paused && (status = conn_read_start(c)) < 0)
        return conn_uv_error(status);
    c->started = true;
    if (c->transport->begin != NULL && (err = c->transport->begin(c)) != PS_OK)
        return err;
    conn_flush(c);
    return PS_OK;
}

static void
conn_finish_within(struct conn *c, uint32_t patience_ms, void (*closed)(struct conn *c))
{
    c->finishing = c->ended = true;
    c->closed = closed;
    conn_auth_free(c);
    uv_update_time(c->pool->loop);
    c->end_ms = uv_now(c->pool->loop) + patience_ms;
    conn_kept_remove(c);
    frame_discard(&c->reader); /* parts are free */
    if (c->started)
        conn_read_start(c); /* to drop what comes */
    conn_flush(c);
}

void
conn_finish(struct conn *c, void (*closed)(struct conn *c))
{
    if (!c->closing && !c->finishing)
        conn_finish_within(c, CONN_LINGER_MS, closed);
}

void
conn_leave(struct conn *c, uint32_t patience_ms, void (*closed)(struct conn *c))
{
    if (c->closing || c->finishing)
        return;
    c->leaving = true;
    conn_finish_within(c, patience_ms, closed);
}

static void
close_done(uv_handle_t *handle)
{
    struct conn *c = handle->data;

    conn_queue_drop(&c->queue);
    frame_reader_finish(&c->reader);
    conn_rest_drop(c);
    conn_auth_free(c);
    conn_carry(c, &conn_socket_transport, NULL);
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
    conn_kept_remove(c);
    if (c->transport->close != NULL)
        c->transport->close(c);
    conn_blocked_leave(c);
    frame_discard(&c->reader); /* parts are free */
    conn_timeouts_update(c);
    uv_close(&c->u.handle, close_done);
}

uint64_t
conn_bytes(const struct conn *c)
{
    return frame_reader_bytes(&c->reader) + c->queue.held_bytes + c->rest_len +
           (c->transport->bytes != NULL ? c->transport->bytes(c) : 0);
}
