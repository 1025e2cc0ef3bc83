/* Writing. The usual way: conn_send() appends to the queue (conn_queue.c), conn_flush() prepares the first frames,
 * gathers them into one conn_write() and takes off the queue what the kernel took. When the socket is full the
 * connection is blocked (conn_blocked.c) until it has room again, and conn_flush() goes on. A flush that has written
 * CONN_TURN_BYTES ends so too, so that one fast reader does not starve the others. When writing fails the reading side
 * usually has something to say about it (a last ERROR frame), so the owner is told when that ends, or a little later.
 */
#include "common/net/conn_tls.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

void
conn_broke(struct conn *c, int status)
{
    if (c->broken || c->closing)
        return;
    c->broken = true;
    c->broken_status = status;
    uv_update_time(c->pool->loop); /* who drives the loop himself may have been away */
    c->end_ms = uv_now(c->pool->loop) + (c->reading && !c->finishing ? CONN_TELL_MS : 1);
}

void
conn_unblocked(struct conn *c)
{
    if (c->tls != NULL)
        conn_tls_unblocked(c);
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

/* A Unix socket's peer has what was written. */
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
    conn_due_update(c);
}

/* When conn_finish() was called and all is sent: say so, and wait for the peer to do the same. */
static void
finish_next(struct conn *c)
{
    if (!c->finishing || c->shut || c->closing || c->blocked || (c->queue.first != NULL && !c->broken))
        return;
    if (c->tls != NULL && c->started && !c->broken)
        conn_tls_bye(c);
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

/* One system call's worth. False: enough for now. */
static bool
write_some(struct conn *c, uint64_t *budget)
{
    uv_buf_t bufs[CONN_QUEUE_BUFS];
    uint64_t bytes;
    ssize_t taken;
    unsigned n;

    conn_queue_prepare(&c->queue, c->pool->loop);
    if (c->closing || c->queue.first == NULL)
        return false;
    bytes = conn_queue_gather(&c->queue, bufs, &n, UINT64_MAX);
    if ((taken = conn_write(c, bufs, n)) < 0) {
        conn_broke(c, (int)taken);
        return false;
    }
    *budget -= MIN(*budget, (uint64_t)taken);
    c->pool->sent += (uint64_t)taken;
    conn_queue_take(&c->queue, (uint64_t)taken);
    if ((uint64_t)taken == bytes && *budget > 0)
        return true;
    if (!c->closing && c->queue.first != NULL)
        conn_block(c);
    return false;
}

void
conn_flush(struct conn *c)
{
    uint64_t budget = CONN_TURN_BYTES;

    if (c->flushing)
        return;
    c->flushing = true;
    while (may_write(c) && c->queue.first != NULL &&
           (c->share != NULL ? conn_share_write(c)
            : c->tls != NULL ? conn_tls_write(c, &budget)
                             : write_some(c, &budget)))
        continue;
    c->flushing = false;
    finish_next(c);
    conn_due_update(c);
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
