/* TLS between a connection's frames and its socket (tls_stream.h). conn.h includes what an owner calls; this is what
 * the connection's rooms call. Nobody else includes it. */
#ifndef COMMON_CONN_TLS_H
#define COMMON_CONN_TLS_H

#include "common/net/conn_inside.h"

/* conn_start(): the handshake begins. */
enum ps_err conn_tls_begin(struct conn *c) PS_MUST_USE;

/* What lies on the socket is TLS's, not frames, bells, or bytes to be dropped. */
bool conn_tls_reads(const struct conn *c);

/* Read what is there: the handshake goes on, or frames come. True: something came. */
bool conn_tls_read(struct conn *c);

/* Bytes were read that were not handed out yet. */
bool conn_tls_pending(const struct conn *c);

/* One piece of the queue, which is not empty, into records and onto the socket. False: enough for now. */
bool conn_tls_write(struct conn *c, uint64_t *budget);

/* The socket has room again: records that wait go out first. */
void conn_tls_unblocked(struct conn *c);

/* The handshake took too long. */
void conn_tls_late(struct conn *c);

/* No more of it: the owner hears why. */
void conn_tls_end(struct conn *c, const struct ps_error *why);

/* The last record, before the stream is shut down. */
void conn_tls_bye(struct conn *c);

uint64_t conn_tls_bytes(const struct conn *c);

/* It is closed. Accepts those without TLS. */
void conn_tls_free(struct conn *c);

#endif
