#include "tests/system/http_tls_client.h"

#include <check.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool
https_open(struct https *s, const char *address, const char *ca, int version)
{
    *s = (struct https){.fd = http_client_connect(address), .context = SSL_CTX_new(TLS_client_method())};
    ck_assert_ptr_nonnull(s->context);
    ck_assert_int_eq(SSL_CTX_load_verify_locations(s->context, ca, NULL), 1);
    SSL_CTX_set_max_proto_version(s->context, version);
    SSL_CTX_set_verify(s->context, SSL_VERIFY_PEER, NULL);
    s->ssl = SSL_new(s->context);
    ck_assert_int_eq(X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(s->ssl), "127.0.0.1"), 1);
    if (s->fd >= 0 && SSL_set_fd(s->ssl, s->fd) == 1 && SSL_connect(s->ssl) == 1)
        return true;
    https_close(s);
    return false;
}

bool
https_shows(const struct https *s, const char *cn)
{
    X509 *cert = SSL_get_peer_certificate(s->ssl);
    char name[128];

    ck_assert_ptr_nonnull(cert);
    X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, name, sizeof name);
    X509_free(cert);
    return strcmp(name, cn) == 0;
}

static ssize_t
take_decrypted(void *ssl, void *data, size_t n)
{
    return SSL_read(ssl, data, (int)n);
}

struct http_reply
https_ask(struct https *s, const char *request, const char *header)
{
    char text[HTTP_CLIENT_REQUEST_MAX];
    struct http_reply r;

    (void)SSL_write(s->ssl, text, http_client_write(text, request, header));
    r = http_client_take(take_decrypted, s->ssl);
    https_close(s);
    return r;
}

void
https_close(struct https *s)
{
    SSL_free(s->ssl);
    SSL_CTX_free(s->context);
    if (s->fd >= 0)
        close(s->fd);
    ERR_clear_error();
}
