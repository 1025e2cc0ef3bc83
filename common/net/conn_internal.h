/* Shared by the parts of a connection (conn.h): conn.c, conn_read.c, conn_write.c, conn_blocked.c, conn_timeouts.c,
 * conn_auth.c; and its transports: conn_socket.c, conn_tls.c, conn_shm.c. No other file includes this. */
#ifndef COMMON_NET_CONN_INTERNAL_H
#define COMMON_NET_CONN_INTERNAL_H

#include "common/net/conn.h"
#include "common/net/conn_transport.h"

#define CONN_TELL_MS     100 /* after a failed write: how long the reading side may take to find the reason */
#define CONN_LOOK_MS     1   /* while leaving: between two checks, at first; then twice as long ... */
#define CONN_LOOK_MS_MAX 16  /* ... up to this */

/* ---- conn.c ---- */

/* No more frames; the owner is notified once. status: libuv's, of a stream that ended or failed. */
void conn_end(struct conn *c, const struct ps_error *why);
void conn_end_uv(struct conn *c, int status);

/* ---- conn_write.c ---- */

/* All is sent, and conn_leave() was called: close if it was acknowledged, else check again later. */
void conn_leave_look(struct conn *c);

/* The socket has space again, or it is this connection's turn. */
void conn_unblocked(struct conn *c);

/* Nothing more can be written: the owner is notified, unless the reading side ends first. */
void conn_broke(struct conn *c, int status);

/* ---- conn_blocked.c ---- */

enum ps_err conn_blocked_init(struct conn_pool *p) PS_MUST_USE; /* PS_ERR_NOMEM, PS_ERR_LIMIT */
void conn_blocked_finish(struct conn_pool *p);

/* Give bytes to the socket. Returns how many it took, 0: it is full; negative: libuv's status. */
ssize_t conn_write(struct conn *c, const uv_buf_t *bufs, unsigned n);

/* Nothing is written before conn_unblocked(), which the loop calls when the socket has space; never from within
 * this. */
void conn_block(struct conn *c);

/* The socket is about to be closed. */
void conn_blocked_leave(struct conn *c);

/* ---- conn_socket.c ---- */

/* transport_ops.came(), of a stream that carries frames or bytes to discard. */
void conn_socket_came(struct conn *c, const void *at, ssize_t n);

/* ---- conn_read.c ---- */

/* Gives bytes of the stream to the frame reader, and the resulting events to the owner. */
void conn_feed(struct conn *c, const uint8_t *data, size_t n);

/* Where the next bytes of the stream go, and how many of them: never none. */
void conn_read_place(struct conn *c, void **at, size_t *len);

/* There is nothing more to read. status: libuv's. */
void conn_over(struct conn *c, int status);

/* Watch the socket. Negative: libuv's status. */
int conn_read_start(struct conn *c);

/* Bytes kept back: do not hand them out in the next iteration; drop them. */
void conn_kept_remove(struct conn *c);
void conn_rest_drop(struct conn *c);

/* ---- conn_auth.c ---- */

/* For a connection in authentication. Takes a frame. False: authentication is over, and the frame is the owner's. */
bool conn_auth_takes(struct conn *c, const struct frame_head *head, const void *meta);

/* Whether a frame with this head, of which the rest has yet to come, will be authentication's. */
bool conn_auth_expects(const struct conn *c, const struct frame_head *head);

/* Bytes that are no frame, or no frame of the authentication; its deadline has passed. The connection ends. */
void conn_auth_broken(struct conn *c, const struct ps_error *why);
void conn_auth_late(struct conn *c);

/* A proof has waited for long enough: it is looked at. */
void conn_auth_held_over(struct conn *c);

/* Accepts connections without one. */
void conn_auth_free(struct conn *c);

/* ---- conn_credentials.c ---- */

/* Accepts pools without one. */
void conn_credentials_free(struct conn_pool *p);

/* ---- conn_timeouts.c ---- */

/* Its deadline may have changed. */
void conn_timeouts_update(struct conn *c);

#endif
