/* TLS on the shard's TCP sockets: certificate and CA, and the newcomers that are in their handshake, of which the shard
 * hears when they are through. Glue.
 *
 *     tls_listener_open(&d->tls, options, &e)  // without --tls-cert nothing is encrypted
 *     tls_listener_begin(p)                    // a newcomer, before conn_start()
 *     tls_listener_leave(p)                    // it is through, or gone
 *     tls_listener_reload(&d->tls, options)    // SIGHUP: files again, for the next ones
 *     tls_listener_finish(&d->tls) */
#ifndef SERVER_TLS_LISTENER_H
#define SERVER_TLS_LISTENER_H

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
    struct certificate certificate; /* that it shows */
    struct peer *first, *last;
    uint32_t len;
    uint64_t failed[HANDSHAKES];
    uint64_t log_ms[2]; /* when it was last said that one failed, and that one had to make room */
};

enum ps_err tls_listener_open(struct tls_listener *s, const struct options *o, struct ps_error *e) PS_MUST_USE;
void tls_listener_reload(struct tls_listener *s, const struct options *o);
void tls_listener_finish(struct tls_listener *s); /* accepts zeroed and finished ones */

/* True: frames of this peer, which has a TCP connection, come when it is through. False: no memory. */
bool tls_listener_begin(struct peer *p) PS_MUST_USE;

/* Nothing happens to those that are in no handshake. */
void tls_listener_leave(struct peer *p);

/* It came to nothing: say so, not too often. */
void tls_listener_failed(struct peer *p, const struct ps_error *why);

#endif
