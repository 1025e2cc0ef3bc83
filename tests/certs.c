#include "tests/certs.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/remove_tree.h"

static void
certs_need(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "certs: %s\n", what);
    ERR_print_errors_fp(stderr);
    abort();
}

void
certs_open(struct certs *c)
{
    *c = (struct certs){.dir = "/tmp/psd-certs-XXXXXX"};
    certs_need(mkdtemp(c->dir) != NULL, "no directory");
}

void
certs_close(struct certs *c)
{
    certs_need(remove_tree(c->dir) == 0, "the directory stays");
}

const char *
certs_path(struct certs *c, const char *file)
{
    char path[sizeof c->paths[0]], *out = c->paths[c->turn++ % 32];

    snprintf(path, sizeof path, "%s/%.40s", c->dir, file);
    return strcpy(out, path);
}

void
certs_write(struct certs *c, const char *file, const char *text)
{
    FILE *f = fopen(certs_path(c, file), "w");

    certs_need(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0, "cannot write a file");
}

/* ---- One ---- */

static const char *
path_of(struct certs *c, const char *file, const char *suffix)
{
    char name[64];

    snprintf(name, sizeof name, "%.32s.%s", file, suffix);
    return certs_path(c, name);
}

static FILE *
open_of(struct certs *c, const char *file, const char *what)
{
    FILE *f = fopen(path_of(c, file, what), "r");

    certs_need(f != NULL, "no such issuer");
    return f;
}

static X509 *
read_cert(struct certs *c, const char *file)
{
    FILE *f = open_of(c, file, "pem");
    X509 *cert = PEM_read_X509(f, NULL, NULL, NULL);

    certs_need(cert != NULL, "a certificate that cannot be read");
    fclose(f);
    return cert;
}

bool
certs_end_at(struct certs *c, const char *file, double at)
{
    X509 *cert = read_cert(c, file);
    bool same = at >= 0 && ASN1_TIME_cmp_time_t(X509_get0_notAfter(cert), (time_t)at) == 0;

    X509_free(cert);
    return same;
}

static EVP_PKEY *
read_key(struct certs *c, const char *file)
{
    FILE *f = open_of(c, file, "key");
    EVP_PKEY *key = PEM_read_PrivateKey(f, NULL, NULL, NULL);

    certs_need(key != NULL, "an issuer's key that cannot be read");
    fclose(f);
    return key;
}

static EVP_PKEY *
new_key(void)
{
    EVP_PKEY_CTX *make = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, NULL);
    EVP_PKEY *key = NULL;

    certs_need(make != NULL && EVP_PKEY_keygen_init(make) == 1 &&
                   EVP_PKEY_CTX_set_ec_paramgen_curve_nid(make, NID_X9_62_prime256v1) == 1 &&
                   EVP_PKEY_keygen(make, &key) == 1,
               "no key");
    EVP_PKEY_CTX_free(make);
    return key;
}

static void
certs_extend(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509_EXTENSION *x;

    if (value == NULL)
        return;
    X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
    x = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    certs_need(x != NULL && X509_add_ext(cert, x, -1) == 1, value);
    X509_EXTENSION_free(x);
}

static void
certs_fill(X509 *cert, const struct cert_spec *spec, EVP_PKEY *key)
{
    static long serial;
    const char *cn = spec->cn != NULL ? spec->cn : spec->file;
    bool usual = spec->from_s == 0 && spec->until_s == 0;

    certs_need(X509_set_version(cert, 2) == 1 && ASN1_INTEGER_set(X509_get_serialNumber(cert), ++serial) == 1 &&
                   X509_gmtime_adj(X509_getm_notBefore(cert), usual ? -CERTS_HOUR_S : spec->from_s) != NULL &&
                   X509_gmtime_adj(X509_getm_notAfter(cert), usual ? 60 * 24 * CERTS_HOUR_S : spec->until_s) != NULL &&
                   X509_set_pubkey(cert, key) == 1 &&
                   X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_UTF8,
                                              (const unsigned char *)cn, -1, -1, 0) == 1,
               "cannot fill a certificate");
}

/* A reader finds the old file or the new one. */
static void
certs_put(struct certs *c, const struct cert_spec *spec, X509 *cert, EVP_PKEY *key)
{
    const char *fresh = certs_path(c, "fresh");
    FILE *f = fopen(fresh, "w");

    certs_need(f != NULL && PEM_write_X509(f, cert) == 1 && fclose(f) == 0 &&
                   rename(fresh, path_of(c, spec->file, "pem")) == 0,
               "cannot write a certificate");
    f = fopen(fresh, "w");
    certs_need(f != NULL && fchmod(fileno(f), 0600) == 0 &&
                   PEM_write_PrivateKey(f, key, spec->passphrase != NULL ? EVP_aes_128_cbc() : NULL, NULL, 0, NULL,
                                        (void *)(uintptr_t)spec->passphrase) == 1 &&
                   fclose(f) == 0 && rename(fresh, path_of(c, spec->file, "key")) == 0,
               "cannot write a key");
}

void
certs_make(struct certs *c, const struct cert_spec *spec)
{
    EVP_PKEY *key = new_key(), *signer = spec->issuer != NULL ? read_key(c, spec->issuer) : key;
    X509 *cert = X509_new(), *issuer = spec->issuer != NULL ? read_cert(c, spec->issuer) : cert;

    certs_need(cert != NULL, "no memory");
    certs_fill(cert, spec, key);
    certs_need(X509_set_issuer_name(cert, X509_get_subject_name(issuer)) == 1, "no issuer");
    certs_extend(cert, issuer, NID_basic_constraints,
                 spec->issuer == NULL || spec->signs ? "critical,CA:TRUE" : "CA:FALSE");
    certs_extend(cert, issuer, NID_subject_key_identifier, "hash");
    if (spec->issuer != NULL)
        certs_extend(cert, issuer, NID_authority_key_identifier, "keyid");
    certs_extend(cert, issuer, NID_subject_alt_name, spec->names);
    certs_extend(cert, issuer, NID_ext_key_usage, spec->usage);
    certs_need(X509_sign(cert, signer, EVP_sha256()) > 0, "cannot sign");
    certs_put(c, spec, cert, key);
    if (signer != key) {
        EVP_PKEY_free(signer);
        X509_free(issuer);
    }
    EVP_PKEY_free(key);
    X509_free(cert);
}

void
certs_make_cas(struct certs *c)
{
    certs_make(c, &(struct cert_spec){.file = "ca"});
    certs_make(c, &(struct cert_spec){.file = "other"});
}

void
certs_make_old(struct certs *c, const char *file)
{
    certs_make(c, &(struct cert_spec){.file = file,
                                      .issuer = "ca",
                                      .names = "IP:127.0.0.1",
                                      .from_s = -48 * CERTS_HOUR_S,
                                      .until_s = -CERTS_HOUR_S});
}
