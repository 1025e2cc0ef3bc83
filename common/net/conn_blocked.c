/* Sockets whose buffers are full. The connection writes by sendmsg() itself, not through libuv: uv_write() and
 * uv_try_write() raise SIGPIPE where the peer has gone, and a library changes no signal of the program that uses it.
 *
 * A connection whose socket is full, or whose turn is over, is blocked: conn_block(). The pool has an epoll descriptor
 * of its own for these sockets, since libuv watches each of them already, to read; the loop watches that descriptor.
 * When a socket has space the connection is not blocked any more and continues (conn_unblocked()). A socket is armed
 * for one event at a time, and stays listed until it is closed. */
#include "common/net/conn_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS_MAX 64

ssize_t
conn_write(struct conn *c, const uv_buf_t *bufs, unsigned n)
{
    /* libuv's buffers are laid out as iovec's */
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)bufs, .msg_iovlen = n};
    ssize_t taken;

    do
        taken = sendmsg(c->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (taken < 0 && errno == EINTR);
    if (taken >= 0)
        return taken;
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS ? 0 : uv_translate_sys_error(errno);
}

void
conn_block(struct conn *c)
{
    struct conn_pool *p = c->pool;
    struct epoll_event event = {.events = EPOLLOUT | EPOLLONESHOT, .data.ptr = c};

    ps_assert(!c->blocked && !c->closing);
    if (epoll_ctl(p->blocked_fd, c->listed ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->fd, &event) != 0) {
        conn_broke(c, uv_translate_sys_error(errno));
        return;
    }
    c->blocked = c->listed = true;
    if (p->blocked_len++ == 0)
        uv_ref((uv_handle_t *)p->blocked);
}

static void
conn_blocked_end(struct conn *c)
{
    struct conn_pool *p = c->pool;

    if (!c->blocked)
        return;
    c->blocked = false;
    if (--p->blocked_len == 0)
        uv_unref((uv_handle_t *)p->blocked);
}

/* The socket may stay open in another process, and must not be listed then. */
void
conn_blocked_leave(struct conn *c)
{
    conn_blocked_end(c);
    if (c->listed)
        (void)epoll_ctl(c->pool->blocked_fd, EPOLL_CTL_DEL, c->fd, NULL);
    c->listed = false;
}

/* A callback may close any of them; their memory stays until the loop runs its close callbacks. */
static void
conn_blocked_poll(uv_poll_t *poll, int status, int what)
{
    struct conn_pool *p = poll->data;
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(p->blocked_fd, events, EVENTS_MAX, 0);

    (void)status;
    (void)what;
    for (int i = 0; i < n; i++) {
        struct conn *c = events[i].data.ptr;

        if (!c->blocked)
            continue;
        conn_blocked_end(c);
        conn_unblocked(c);
    }
}

static void
conn_blocked_closed(uv_handle_t *handle)
{
    free(handle);
}

enum ps_err
conn_blocked_init(struct conn_pool *p)
{
    uv_poll_t *blocked = malloc(sizeof *blocked);
    int status;

    p->blocked_fd = epoll_create1(EPOLL_CLOEXEC);
    status = blocked == NULL ? UV_ENOMEM : p->blocked_fd < 0 ? uv_translate_sys_error(errno) : 0;
    if (status == 0)
        status = uv_poll_init(p->loop, blocked, p->blocked_fd);
    if (status != 0) {
        if (p->blocked_fd >= 0)
            close(p->blocked_fd);
        free(blocked);
        return conn_uv_error(status);
    }
    p->blocked = blocked;
    blocked->data = p;
    uv_poll_start(blocked, UV_READABLE, conn_blocked_poll);
    uv_unref((uv_handle_t *)blocked);
    return PS_OK;
}

void
conn_blocked_finish(struct conn_pool *p)
{
    ps_assert(p->blocked_len == 0);
    uv_close((uv_handle_t *)p->blocked, conn_blocked_closed);
    close(p->blocked_fd);
}
