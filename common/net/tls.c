#include "common/net/tls_internal.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/system/secret.h"

#define CIPHERS       "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
#define TLS_KEY_MAX   (64 * KIB) /* bytes of a file with a key */
#define READ_AT_ONCE  (64 * KIB) /* several records with one system call */
#define CERT_LIST_MAX (32 * KIB) /* bytes of certificates that the other side may show */

/* ---- Texts ---- */

/* OpenSSL's printed text, cut to size. */
static void
take_text(BIO *from, char *out, size_t size)
{
    int n = from != NULL ? BIO_read(from, out, (int)size - 1) : 0;

    out[n > 0 ? n : 0] = '\0';
    BIO_free(from);
}

void
tls_time_text(const ASN1_TIME *when, char *out, size_t size)
{
    BIO *text = BIO_new(BIO_s_mem());

    if (text != NULL && when != NULL)
        ASN1_TIME_print(text, when);
    take_text(text, out, size);
}

void
tls_name_text(const X509_NAME *name, char *out, size_t size)
{
    BIO *text = BIO_new(BIO_s_mem());

    if (text != NULL && name != NULL) /* escapes control characters and what is not ASCII */
        X509_NAME_print_ex(text, name, 0, XN_FLAG_ONELINE & ~(unsigned long)XN_FLAG_SPC_EQ);
    take_text(text, out, size);
}

/* In unix time; 0: before it, or no time at all. */
static uint64_t
unix_time(const ASN1_TIME *when)
{
    struct tm utc;
    time_t at;

    if (ASN1_TIME_to_tm(when, &utc) != 1 || (at = timegm(&utc)) < 0)
        return 0;
    return (uint64_t)at;
}

/* ---- Files ---- */

/* A key with a passphrase: it is not asked for, since there is no terminal. */
static int
no_passphrase(char *out, int size, int writing, void *was_asked)
{
    (void)out;
    (void)size;
    (void)writing;
    *(bool *)was_asked = true;
    return -1;
}

static enum ps_err
bad_file(struct ps_error *e, const char *what, const char *path)
{
    const char *reason = NULL;
    bool missing = false;
    unsigned long code;

    while ((code = ERR_get_error()) != 0) {
        if (reason == NULL)
            reason = ERR_reason_error_string(code);
        missing |= ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE;
        missing |= ERR_GET_LIB(code) == ERR_LIB_X509 && ERR_GET_REASON(code) == X509_R_NO_CERTIFICATE_OR_CRL_FOUND;
    }
    if (access(path, R_OK) != 0)
        return ps_fail(e, PS_ERR_CONFIG, "cannot read the %s '%.200s': %s", what, path, strerror(errno));
    if (missing)
        return ps_fail(e, PS_ERR_CONFIG, "'%.200s' holds no %s in PEM form", path, what);
    return ps_fail(e, PS_ERR_CONFIG, "'%.200s' is no %s that can be used: %.128s", path, what,
                   reason != NULL ? reason : "it makes no sense");
}

static enum ps_err
check_times(struct tls *t, const struct tls_files *files, X509 *cert, struct ps_error *e)
{
    char subject[128], begin[40], end[40];

    tls_name_text(X509_get_subject_name(cert), subject, sizeof subject);
    tls_time_text(X509_get0_notBefore(cert), begin, sizeof begin);
    tls_time_text(X509_get0_notAfter(cert), end, sizeof end);
    if (X509_cmp_current_time(X509_get0_notAfter(cert)) < 0)
        return ps_fail(e, PS_ERR_CONFIG, "the certificate '%.200s' (%s) has expired on %s: renew it", files->cert,
                       subject, end);
    if (X509_cmp_current_time(X509_get0_notBefore(cert)) > 0)
        return ps_fail(e, PS_ERR_CONFIG, "the certificate '%.200s' (%s) is valid from %s on: is the clock right?",
                       files->cert, subject, begin);
    snprintf(t->shows, sizeof t->shows, "%s, until %s", subject, end);
    t->ends = unix_time(X509_get0_notAfter(cert));
    return PS_OK;
}

/* A file that others may read is refused. *out stays NULL, with OpenSSL's error, when it holds no key. */
static enum ps_err
read_key(const char *path, bool *asked, EVP_PKEY **out, struct ps_error *e)
{
    size_t len = 0;
    char *text = NULL;
    enum ps_err err;
    BIO *bio;

    if (access(path, R_OK) != 0)
        return bad_file(e, "private key", path);
    if ((err = secret_read(path, TLS_KEY_MAX, &text, &len, e)) != PS_OK)
        return err;
    if ((bio = BIO_new_mem_buf(text, (int)len)) != NULL)
        *out = PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, asked);
    BIO_free(bio);
    secret_free(text, len);
    return PS_OK;
}

static enum ps_err
use_cert(struct tls *t, const struct tls_files *files, struct ps_error *e)
{
    EVP_PKEY *key = NULL;
    bool asked = false;
    enum ps_err err;

    if (SSL_CTX_use_certificate_chain_file(t->context, files->cert) != 1)
        return bad_file(e, "certificate", files->cert);
    if ((err = check_times(t, files, SSL_CTX_get0_certificate(t->context), e)) != PS_OK)
        return err;
    ERR_clear_error();
    if ((err = read_key(files->key, &asked, &key, e)) != PS_OK)
        return err;
    if (key != NULL && SSL_CTX_use_PrivateKey(t->context, key) == 1 && SSL_CTX_check_private_key(t->context) == 1)
        err = PS_OK;
    else if (asked)
        err = ps_fail(e, PS_ERR_CONFIG, "the key '%.200s' is protected by a passphrase: give one without", files->key);
    else if (ERR_GET_LIB(ERR_peek_last_error()) == ERR_LIB_X509)
        err = ps_fail(e, PS_ERR_CONFIG, "the key '%.200s' does not belong to the certificate '%.200s'", files->key,
                      files->cert);
    else
        err = bad_file(e, "private key", files->key);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return err;
}

static enum ps_err
use_ca(struct tls *t, const char *ca, struct ps_error *e)
{
    STACK_OF(X509_NAME) * names;

    if (SSL_CTX_load_verify_locations(t->context, ca, NULL) != 1)
        return bad_file(e, "CA certificate", ca);
    if (t->side == TLS_CLIENT) {
        SSL_CTX_set_verify(t->context, SSL_VERIFY_PEER, NULL);
        return PS_OK;
    }
    if ((names = SSL_load_client_CA_file(ca)) == NULL)
        return bad_file(e, "CA certificate", ca);
    SSL_CTX_set_client_CA_list(t->context, names); /* clients that have several choose by it */
    SSL_CTX_set_verify(t->context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    t->authenticates = true;
    return PS_OK;
}

/* ---- Contexts ---- */

static bool
set_up(SSL_CTX *c)
{
    SSL_CTX_set_options(c, SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS); /* an idle connection holds none */
    SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_max_cert_list(c, CERT_LIST_MAX);
    SSL_CTX_set_read_ahead(c, 1);
    SSL_CTX_set_default_read_buffer_len(c, READ_AT_ONCE);
    return SSL_CTX_set_num_tickets(c, 0) == 1 && SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(c, TLS1_3_VERSION) == 1 && SSL_CTX_set_ciphersuites(c, CIPHERS) == 1;
}

static enum ps_err
check_files(enum tls_side side, const struct tls_files *files, struct ps_error *e)
{
    if (files->cert != NULL && files->key == NULL)
        return ps_fail(e, PS_ERR_CONFIG, "a certificate, '%.200s', and no key that belongs to it", files->cert);
    if (files->cert == NULL && files->key != NULL)
        return ps_fail(e, PS_ERR_CONFIG, "a key, '%.200s', and no certificate that it belongs to", files->key);
    if (side == TLS_SERVER && files->cert == NULL)
        return ps_fail(e, PS_ERR_CONFIG, "TLS needs a certificate and its key");
    if (side == TLS_CLIENT && files->ca == NULL)
        return ps_fail(e, PS_ERR_CONFIG, "a certificate, '%.200s', and no CA by which to know the others",
                       files->cert != NULL ? files->cert : "");
    return PS_OK;
}

static enum ps_err
tls_load_files(struct tls *t, const struct tls_files *files, struct ps_error *e)
{
    enum ps_err err;

    ERR_clear_error();
    t->context = SSL_CTX_new(t->side == TLS_SERVER ? TLS_server_method() : TLS_client_method());
    if (t->context == NULL || !set_up(t->context))
        return ps_fail(e, PS_ERR_NOMEM, "no memory for TLS, or OpenSSL has no TLS 1.3");
    if (files->cert != NULL && (err = use_cert(t, files, e)) != PS_OK)
        return err;
    return files->ca != NULL ? use_ca(t, files->ca, e) : PS_OK;
}

enum ps_err
tls_reload(struct tls *t, const struct tls_files *files, struct ps_error *e)
{
    struct tls fresh = {.side = t->side};
    enum ps_err err;

    if ((err = check_files(t->side, files, e)) != PS_OK)
        return err;
    if ((err = tls_load_files(&fresh, files, e)) != PS_OK) {
        SSL_CTX_free(fresh.context);
        return err;
    }
    SSL_CTX_free(t->context); /* connections that are there keep theirs */
    *t = fresh;
    return PS_OK;
}

enum ps_err
tls_new(enum tls_side side, const struct tls_files *files, struct tls **out, struct ps_error *e)
{
    struct tls *t = calloc(1, sizeof *t);
    enum ps_err err;

    *out = NULL;
    if (t == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for TLS");
    t->side = side;
    if ((err = tls_reload(t, files, e)) != PS_OK) {
        free(t);
        return err;
    }
    *out = t;
    return PS_OK;
}

void
tls_free(struct tls *t)
{
    if (t == NULL)
        return;
    SSL_CTX_free(t->context);
    free(t);
}

bool
tls_authenticates(const struct tls *t)
{
    return t->authenticates;
}

const char *
tls_shows(const struct tls *t)
{
    return t->shows;
}

uint64_t
tls_ends(const struct tls *t)
{
    return t->ends;
}

/* ---- For other libraries ---- */

static char *
copy_text(BIO *from)
{
    char *data, *copy;
    long n = BIO_get_mem_data(from, &data);

    if ((copy = malloc((size_t)n + 1)) == NULL)
        return NULL;
    memcpy(copy, data, (size_t)n);
    copy[n] = '\0';
    return copy;
}

static bool
write_certs(BIO *out, SSL_CTX *context)
{
    STACK_OF(X509) *behind = NULL;
    bool good = PEM_write_bio_X509(out, SSL_CTX_get0_certificate(context)) == 1;

    SSL_CTX_get0_chain_certs(context, &behind);
    for (int i = 0; i < sk_X509_num(behind) && good; i++) /* -1 of NULL */
        good = PEM_write_bio_X509(out, sk_X509_value(behind, i)) == 1;
    return good;
}

enum ps_err
tls_pem(const struct tls *t, struct tls_pem *out, struct ps_error *e)
{
    BIO *cert = BIO_new(BIO_s_mem()), *key = BIO_new(BIO_s_secmem()); /* which is overwritten when it is freed */

    *out = (struct tls_pem){0};
    if (cert != NULL && key != NULL && write_certs(cert, t->context) &&
        PEM_write_bio_PrivateKey(key, SSL_CTX_get0_privatekey(t->context), NULL, NULL, 0, NULL, NULL) == 1) {
        out->cert = copy_text(cert);
        out->key = copy_text(key);
    }
    BIO_free(cert);
    BIO_free(key);
    if (out->cert != NULL && out->key != NULL)
        return PS_OK;
    tls_pem_finish(out);
    return ps_fail(e, PS_ERR_NOMEM, "no memory for TLS");
}

void
tls_pem_finish(struct tls_pem *p)
{
    if (p->key != NULL)
        explicit_bzero(p->key, strlen(p->key));
    free(p->key);
    free(p->cert);
    *p = (struct tls_pem){0};
}
