/* TLS on one connection: writes become records, and the content of records that come in is read. Glue, but does no I/O
 * of its own: bytes go through two functions of the owner's.
 *
 *     tls_stream_new(tls, "shard0.example", &io, arg, &s, &e);     // a client names its server
 *     tls_stream_handshake(s, &e)      until TLS_DONE, whenever bytes have come
 *     tls_stream_read(s, data, n, &got, &e), tls_stream_write(s, data, n, &e)
 *     tls_stream_bye(s), tls_stream_free(s)
 *
 * Copies: a record is read by io.read() where OpenSSL decrypts it, and its content is copied to where it belongs; a
 * record is made by OpenSSL in its own buffer, which io.write() is given. Those are the copies that TLS needs. */
#ifndef COMMON_NET_TLS_STREAM_H
#define COMMON_NET_TLS_STREAM_H

#include "common/net/tls.h"

#define TLS_RECORD_MAX          (16 * KIB) /* bytes that one record carries */
#define TLS_RECORD_OVERHEAD_MAX 256        /* more than a record is longer */
#define TLS_HANDSHAKE_MAX       (64 * KIB) /* bytes that the other side may send before the handshake is done */
#define TLS_BINDING_SIZE        32

struct tls_io {
    /* At most n bytes from the other side. Negative: none are there now; 0: it has ended. */
    long (*read)(void *arg, void *data, size_t n);
    /* Take all of these. False: out of memory. */
    bool (*write)(void *arg, const void *data, size_t n);
};

struct tls_stream;

enum tls_step {
    TLS_DONE, /* it is done; something was read */
    TLS_WAIT, /* for bytes of the other side */
    TLS_END,  /* the other side has ended */
    TLS_BAD   /* *e says why. Final. An alert for the other side may have been written */
};

/* name: for clients, the host or IP address that the server's certificate must name; copied. io is borrowed until the
 * end, t is not. */
enum ps_err tls_stream_new(const struct tls *t, const char *name, const struct tls_io *io, void *arg,
                           struct tls_stream **out, struct ps_error *e) PS_MUST_USE;
void tls_stream_free(struct tls_stream *s); /* accepts NULL */

/* PS_ERR_TLS: the handshake failed; the sentence names the certificate, why, and what to do. */
enum tls_step tls_stream_handshake(struct tls_stream *s, struct ps_error *e);

/* The cause of a failed handshake, roughly, for counters. */
enum tls_blame {
    TLS_BLAMES_OTHER,      /* version, ciphers, a breach of the protocol; or the other side does not trust this one */
    TLS_BLAMES_STRANGER,   /* the other side speaks no TLS */
    TLS_BLAMES_CERTIFICATE /* its certificate is not trusted, or it has none */
};
enum tls_blame tls_stream_blames(const struct tls_stream *s);

/* The other side has begun as a psd peer without TLS does. */
bool tls_stream_is_plain(const struct tls_stream *s);

/* After the handshake. Errors: PS_ERR_TLS (an alert: the other side refuses), PS_ERR_CLOSED (records that were not made
 * by the other side, or broke on the way). */
enum tls_step tls_stream_read(struct tls_stream *s, void *data, size_t n, size_t *got, struct ps_error *e);

/* Bytes have come that were not read: tls_stream_read() can continue without more. */
bool tls_stream_pending(const struct tls_stream *s);

/* Write all of it, in records of at most TLS_RECORD_MAX. False: no memory. */
bool tls_stream_write(struct tls_stream *s, const void *data, size_t n);

/* Write the last record, which ends the stream. */
void tls_stream_bye(struct tls_stream *s);

/* 32 bytes that only both sides of this connection know, and that no other connection has (RFC 5705, RFC 9266's way
 * with a label of its own). After the handshake. False: there are none. */
bool tls_stream_binding(const struct tls_stream *s, uint8_t out[TLS_BINDING_SIZE]);

#endif
