/* TLS on the shard's TCP sockets: certificate and CA, and the connections that are in their handshake, of which the
 * shard is notified when it is done. Glue.
 *
 *     tls_listener_open(&d->tls, options, &e)  // without --tls-cert nothing is encrypted
 *     tls_listener_begin(p)                    // a new connection, before conn_start()
 *     tls_listener_leave(p)                    // its handshake is done, or it is closed
 *     tls_listener_reload(&d->tls, options)    // SIGHUP: read the files again, for new connections
 *     tls_listener_finish(&d->tls) */
#ifndef SERVER_DAEMON_TLS_LISTENER_H
#define SERVER_DAEMON_TLS_LISTENER_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "server/access/certificate.h"
#include "server/core/turn/stats.h"

#define TLS_LISTENER_HANDSHAKES_MAX 1024 /* at once; one more ends the oldest */

struct options;
struct peer;
struct tls;

struct tls_listener {
    struct tls *tls;                /* NULL: TCP is plain */
    struct certificate certificate; /* the one that it presents */
    struct peer *first, *last;
    uint32_t len;
    uint64_t failed[HANDSHAKES];
    uint64_t log_ms[2]; /* when it was last logged that a handshake failed, and that one was closed for a new one */
};

enum ps_err tls_listener_open(struct tls_listener *s, const struct options *o, struct ps_error *e) PS_MUST_USE;
void tls_listener_reload(struct tls_listener *s, const struct options *o);
void tls_listener_finish(struct tls_listener *s); /* accepts zeroed and finished ones */

/* True: frames of this peer, which has a TCP connection, come when the handshake is done. False: no memory. */
bool tls_listener_begin(struct peer *p) PS_MUST_USE;

/* Does nothing for peers that are in no handshake. */
void tls_listener_leave(struct peer *p);

/* The handshake failed: log it, not too often. */
void tls_listener_failed(struct peer *p, const struct ps_error *why);

#endif
