/* TLS 1.3 for the TCP connections of psd and libpsclient: the certificate of one side and the CA that it trusts. Glue;
 * OpenSSL stays in tls.c, tls_errors.c and tls_stream.c (one connection: tls_stream.h).
 *
 *     tls_new(TLS_SERVER, &files, &t, &e)         // certificate, key, CA from PEM files
 *     tls_stream_new(t, ...)                      // for each connection; existing ones keep their certificate
 *     tls_reload(t, &files, &e)                   // the files again, for the next ones; a bad one changes nothing
 *     tls_free(t)
 *
 * The protocol is TLS 1.3 alone, with its three usual ciphers, AES-128-GCM first (the fastest where the processor has
 * AES). No session tickets: every connection presents its certificate, so a renewal or removal takes effect from then
 * on, and nothing can be replayed. A certificate is trusted when the CA file leads to it and it is within its validity
 * period. A client checks that the server's certificate names the host that it wanted; a server with a CA takes only
 * clients with a certificate of that CA, whatever their names. */
#ifndef COMMON_NET_TLS_H
#define COMMON_NET_TLS_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

#define TLS_SHOWS_MAX 256

enum tls_side { TLS_CLIENT, TLS_SERVER };

/* Names of PEM files; NULL: none. A certificate comes with its key, and may be followed by those between it and the CA.
 * A server has a certificate; a client has a CA. */
struct tls_files {
    const char *cert, *key;
    const char *ca; /* client: the CA of its servers; server: of its clients, which then must present a certificate */
};

struct tls;

/* PS_ERR_CONFIG: a file is missing, is not what it should be, is protected by a passphrase, does not belong to the
 * other, the certificate has expired or is not valid yet, or others may read the key (secret.h). The sentence names the
 * file. */
enum ps_err tls_new(enum tls_side side, const struct tls_files *files, struct tls **out,
                    struct ps_error *e) PS_MUST_USE;
enum ps_err tls_reload(struct tls *t, const struct tls_files *files, struct ps_error *e) PS_MUST_USE;
void tls_free(struct tls *t); /* accepts NULL */

/* A server that takes only clients with a certificate of its CA. */
bool tls_authenticates(const struct tls *t);

/* The name in its own certificate, and its end, for logs: "CN = psd, until Nov 25 14:00:00 2026 GMT"; "" without one.
 * Shorter than TLS_SHOWS_MAX. */
const char *tls_shows(const struct tls *t);

/* When that certificate ends, in Unix time; 0: there is none, or its end is not known. Certificates between it and the
 * CA, and the CA's, are not counted: where one ends before, this one is not trusted from then on. */
uint64_t tls_ends(const struct tls *t);

/* The same certificate, those behind it and its key, as PEM: for a library with another TLS implementation. Freed with
 * tls_pem_finish(), which overwrites the key. PS_ERR_NOMEM. */
struct tls_pem {
    char *cert, *key;
};
enum ps_err tls_pem(const struct tls *t, struct tls_pem *out, struct ps_error *e) PS_MUST_USE;
void tls_pem_finish(struct tls_pem *p); /* accepts zeroed and finished ones */

#endif
