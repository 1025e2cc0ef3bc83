/* What a process of a cluster shows to the others, and which certificates it accepts (common/net/tls.h): read once,
 * from options or the environment. Glue.
 *
 *     credentials_open(&c, &wanted, false, &e);       // without a CA nothing is encrypted
 *     credentials_connect(&c, conn, "host", &e)       // after conn_init() of a TCP connection, before conn_start()
 *     credentials_accept(&c, conn, ACCEPTOR_SILENCE_MS, &e) // of one that came in
 *     credentials_close(&c);
 *
 * Connecting and accepting do nothing to connections where nothing is encrypted; c may be NULL then. */
#ifndef CLIENT_API_CREDENTIALS_H
#define CLIENT_API_CREDENTIALS_H

#include "common/net/conn.h"

struct credentials {
    struct tls *connects; /* NULL: TCP is plain */
    struct tls *accepts;
    char *name; /* that certificates must name; NULL: the host that is connected to */
};

/* As ps_client_options has them: NULL is what the environment says (PSD_TLS_CA, ...), "" is none. */
struct credentials_wanted {
    const char *ca, *cert, *key, *name;
};

/* accepts: others connect to this process as well, and all of them show certificates. Errors: CONFIG (tls_new(); a
 * certificate and no CA; accepts, and no certificate), NOMEM. */
enum ps_err credentials_open(struct credentials *c, const struct credentials_wanted *wanted, bool accepts,
                             struct ps_error *e) PS_MUST_USE;
void credentials_close(struct credentials *c); /* accepts zeroed and closed ones */

enum ps_err credentials_connect(const struct credentials *c, struct conn *conn, const char *host,
                                struct ps_error *e) PS_MUST_USE;
enum ps_err credentials_accept(const struct credentials *c, struct conn *conn, uint32_t timeout_ms,
                               struct ps_error *e) PS_MUST_USE;

#endif
