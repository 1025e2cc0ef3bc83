/* The transport of a connection's frames: the plain socket (conn_socket.c), TLS records on it (conn_tls.c), or memory
 * that both sides share, beside it (conn_shm.c). Each is a table of functions; the other parts of a connection call
 * that table, and depend on none. A connection begins with its socket; conn_tls() and conn_shm() call conn_carry().
 *
 *     conn_flush() ──► write(), while it is true ──► the peer         unblocked(): the socket has space again
 *     conn_feed() ◄── came() ◄── libuv, which reads to where place() says
 *     conn_feed() ◄── read() ◄── libuv, where place() gives no buffer: it only reports that there are bytes
 *
 * Included by the connection's parts alone. */
#ifndef COMMON_NET_CONN_TRANSPORT_H
#define COMMON_NET_CONN_TRANSPORT_H

#include "common/net/conn.h"

/* A function may be NULL where its comment says what that means. */
struct transport_ops {
    /* conn_start(): the socket is connected. NULL: nothing has to be done. */
    enum ps_err (*begin)(struct conn *c);

    /* One piece of the queue, which is not empty. False: enough for now. budget: bytes of this turn that are left. */
    bool (*write)(struct conn *c, uint64_t *budget);
    /* Bytes that the transport itself has kept back come before the queue. NULL: it keeps none. */
    void (*unblocked)(struct conn *c);
    /* All frames are written, and the stream is about to be shut down. May block the connection, and is called again
     * when it is not any more. NULL: nothing is sent. */
    void (*bye)(struct conn *c);

    /* Where the stream's next bytes go, and how many of them; none: read() reads. */
    void (*place)(struct conn *c, void **at, size_t *len);
    /* n bytes lie there; negative: libuv's status, and the stream has ended. */
    void (*came)(struct conn *c, const void *at, ssize_t n);
    /* Read what there is, without waiting. True: something came. NULL: place() always gives a buffer. */
    bool (*read)(struct conn *c);
    /* Bytes were read that are not handed out yet: read() does not need the socket. NULL: never. */
    bool (*pending)(const struct conn *c);

    void (*late)(struct conn *c);            /* c->transport_ms has passed. NULL: it sets none */
    uint64_t (*bytes)(const struct conn *c); /* of heap. NULL: none */
    void (*close)(struct conn *c);           /* the socket is about to be closed. NULL: nothing has to be done */
    void (*free)(struct conn *c);            /* c->transport_data; the socket is closed, or another one carries. NULL */

    /* Frames do not go through the stream, which only wakes: it is watched while reading is paused, too. Bytes may
     * change while they are read. */
    bool is_memory;
};

extern const struct transport_ops conn_socket_transport;

/* Use this transport from now on; the former is freed. */
void conn_carry(struct conn *c, const struct transport_ops *ops, void *data);

#endif
