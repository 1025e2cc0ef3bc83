/* Writing. The usual way: conn_send() appends to the queue (conn_queue.c), and conn_flush() has the transport write of
 * it (conn_transport.h) until nothing is left, or the socket is full, or CONN_TURN_BYTES are written, so that one fast
 * reader does not starve the others: then the connection is blocked (conn_blocked.c), and continues later. When writing
 * fails the reading side usually has the reason (a last ERROR frame), so the owner is notified when that ends, or a
 * little later. */
#include "common/net/conn_internal.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

void
conn_broke(struct conn *c, int status)
{
    if (c->broken || c->closing)
        return;
    c->broken = true;
    c->broken_status = status;
    uv_update_time(c->pool->loop); /* a loop that its owner runs may be behind */
    c->end_ms = uv_now(c->pool->loop) + (c->reading && !c->finishing ? CONN_TELL_MS : 1);
}

void
conn_unblocked(struct conn *c)
{
    if (c->transport->unblocked != NULL)
        c->transport->unblocked(c);
    conn_flush(c);
}

static void
shutdown_done(uv_shutdown_t *shutdown, int status)
{
    struct conn *c = CONTAINER_OF(shutdown, struct conn, shutdown);

    if (!c->closing && (status < 0 || c->eof))
        conn_close(c, NULL);
    else if (!c->closing && c->leaving)
        conn_leave_look(c);
}

/* Whether a Unix socket's peer has read all that was written. */
static bool
is_acknowledged(const struct conn *c)
{
    int left = 0;

    return c->u.handle.type != UV_TCP || (ioctl(c->fd, SIOCOUTQ, &left) == 0 && left == 0);
}

void
conn_leave_look(struct conn *c)
{
    uint64_t now = uv_now(c->pool->loop);

    if (is_acknowledged(c)) {
        conn_close(c, NULL);
        return;
    }
    c->look_wait_ms = c->look_wait_ms == 0 ? CONN_LOOK_MS : MIN(2 * c->look_wait_ms, CONN_LOOK_MS_MAX);
    c->look_ms = now + c->look_wait_ms;
    conn_timeouts_update(c);
}

/* When conn_finish() was called and all is sent: shut the stream down, and wait for the peer to do the same. */
static void
finish_next(struct conn *c)
{
    if (!c->finishing || c->shut || c->closing || c->blocked || (c->queue.first != NULL && !c->broken))
        return;
    if (c->transport->bye != NULL && c->started && !c->broken)
        c->transport->bye(c);
    if (c->blocked)
        return;
    c->shut = true;
    if (!c->started || c->broken || uv_shutdown(&c->shutdown, &c->u.stream, shutdown_done) < 0)
        conn_close(c, NULL);
}

static bool
may_write(const struct conn *c)
{
    return c->started && !c->closing && !c->broken && !c->blocked && !c->shut;
}

void
conn_flush(struct conn *c)
{
    uint64_t budget = CONN_TURN_BYTES;

    if (c->flushing)
        return;
    c->flushing = true;
    while (may_write(c) && c->queue.first != NULL && c->transport->write(c, &budget))
        continue;
    c->flushing = false;
    finish_next(c);
    conn_timeouts_update(c);
}

void
conn_send(struct conn *c, struct conn_out *out, bool later)
{
    conn_queue_append(&c->queue, out);
    if (!later)
        conn_flush(c);
}

void
conn_cut(struct conn *c)
{
    ps_assert(!c->flushing);
    if (c->closing)
        return;
    frame_discard(&c->reader);
    if (!conn_queue_cut(&c->queue))
        conn_broke(c, UV_ENOMEM);
    conn_flush(c);
}
