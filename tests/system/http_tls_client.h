/* The same over TLS: a peer of OpenSSL's, which libmicrohttpd's GnuTLS must get on with. */
#ifndef TESTS_SYSTEM_HTTP_TLS_CLIENT_H
#define TESTS_SYSTEM_HTTP_TLS_CLIENT_H

#include <openssl/ssl.h>

#include "tests/system/http_client.h"

struct https {
    int fd;
    SSL_CTX *context;
    SSL *ssl;
};

/* Connect and shake hands. ca: of the server's certificate, which must name 127.0.0.1; version: the highest that is
 * spoken. False: it failed, and there is nothing to close. */
bool https_open(struct https *s, const char *address, const char *ca, int version);

/* The other side's certificate is of this one: "psd". */
bool https_shows(const struct https *s, const char *cn);

/* One request on the open connection, which ends with it. */
struct http_reply https_ask(struct https *s, const char *request, const char *header);
void https_close(struct https *s);

#endif
