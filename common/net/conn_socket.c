/* A connection's frames on its socket as they are. Out: the queue's first frames are gathered into one conn_write(),
 * and what the kernel took is taken off the queue; when the socket is full, or CONN_TURN_BYTES are written, the
 * connection is blocked (conn_blocked.c). In: libuv reads to where the frame reader wants the bytes. */
#include "common/net/conn_internal.h"

static bool
conn_socket_write(struct conn *c, uint64_t *budget)
{
    uv_buf_t bufs[CONN_QUEUE_BUFS];
    uint64_t bytes;
    ssize_t taken;
    unsigned n;

    conn_queue_prepare(&c->queue, c->pool->loop);
    if (c->closing || !conn_queue_ready(&c->queue))
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
conn_socket_came(struct conn *c, const void *at, ssize_t n)
{
    if (n < 0) {
        conn_over(c, (int)n);
        return;
    }
    c->pool->received += (uint64_t)n;
    if (!c->finishing)
        conn_feed(c, at, (size_t)n);
}

const struct transport_ops conn_socket_transport = {
    .write = conn_socket_write, .place = conn_read_place, .came = conn_socket_came};
