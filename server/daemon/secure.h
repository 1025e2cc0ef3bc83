/* TLS on the shard's TCP sockets: certificate and CA, and the newcomers that are in their handshake, of which the shard
 * hears when they are through. Glue.
 *
 *     secure_open(&d->secure, options, &e)     // without --tls-cert nothing is encrypted
 *     secure_begin(p)                          // a newcomer, before conn_start()
 *     secure_leave(p)                          // it is through, or gone
 *     secure_reload(&d->secure, options)       // SIGHUP: files again, for the next ones
 *     secure_finish(&d->secure) */
#ifndef SERVER_SECURE_H
#define SERVER_SECURE_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "server/access/certificate.h"
#include "server/core/turn/stats.h"

#define SECURE_HANDSHAKES_MAX 1024 /* at once; one more ends the oldest */

struct options;
struct peer;
struct tls;

struct secure {
    struct tls *tls;                /* NULL: TCP is plain */
    struct certificate certificate; /* that it shows */
    struct peer *first, *last;
    uint32_t len;
    uint64_t failed[HANDSHAKES];
    uint64_t log_ms[2]; /* when it was last said that one failed, and that one had to make room */
};

enum ps_err secure_open(struct secure *s, const struct options *o, struct ps_error *e) PS_MUST_USE;
void secure_reload(struct secure *s, const struct options *o);
void secure_finish(struct secure *s); /* accepts zeroed and finished ones */

/* True: frames of this peer, which has a TCP connection, come when it is through. False: no memory. */
bool secure_begin(struct peer *p) PS_MUST_USE;

/* Nothing happens to those that are in no handshake. */
void secure_leave(struct peer *p);

/* It came to nothing: say so, not too often. */
void secure_failed(struct peer *p, const struct ps_error *why);

#endif
