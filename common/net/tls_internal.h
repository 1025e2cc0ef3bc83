/* Shared by the files that use OpenSSL: tls.c, tls_stream.c, tls_errors.c. No other file includes this. */
#ifndef COMMON_NET_TLS_INTERNAL_H
#define COMMON_NET_TLS_INTERNAL_H

#include <openssl/ssl.h>

#include "common/net/tls.h"

struct tls {
    enum tls_side side;
    SSL_CTX *context; /* for the next connections */
    bool authenticates;
    char shows[TLS_SHOWS_MAX];
    uint64_t ends;
};

/* ---- tls.c ---- */

/* A moment as certificates have it, for people. */
void tls_time_text(const ASN1_TIME *when, char *out, size_t size);

/* "CN = psd, O = lab"; cut off when size is too small, and without control characters. */
void tls_name_text(const X509_NAME *name, char *out, size_t size);

/* ---- tls_errors.c ---- */

/* Why the other side's certificate is not trusted. code: X509_V_ERR_*; cert: the one that it was about, may be NULL;
 * wanted: the name that it should have had, may be NULL. */
void tls_error_untrusted(long code, X509 *cert, const char *wanted, char *out, size_t size);

/* Why OpenSSL failed: from its error queue, which is emptied. */
void tls_error_text(char *out, size_t size);

#endif
