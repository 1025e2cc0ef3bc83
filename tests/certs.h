/* Certificates that a test makes for itself, in a directory of its own that is removed with it: nothing lies in the
 * tree, and the test sets their times, counted from now.
 *
 *     certs_open(&c);
 *     certs_make(&c, &(struct cert_spec){.file = "ca"});
 *     certs_make(&c, &(struct cert_spec){.file = "psd", .issuer = "ca", .names = "IP:127.0.0.1"});
 *     certs_path(&c, "psd.pem"), certs_path(&c, "psd.key")
 *     certs_close(&c);
 *
 * What goes wrong ends the process. */
#ifndef TESTS_CERTS_H
#define TESTS_CERTS_H

#include <stdbool.h>
#include <stddef.h>

struct certs {
    char dir[64];
    char paths[32][128]; /* the last that certs_path() has returned */
    unsigned turn;
};

struct cert_spec {
    const char *file;       /* FILE.pem and FILE.key; those that are there are replaced in one move each */
    const char *issuer;     /* the file of a CA that was made before; NULL: its own, and a CA */
    const char *cn;         /* NULL: what file says */
    const char *names;      /* subjectAltName, "DNS:localhost,IP:127.0.0.1"; NULL: none */
    const char *usage;      /* extendedKeyUsage, "clientAuth"; NULL: any */
    long from_s, until_s;   /* from now; both 0: from an hour ago until in sixty days */
    const char *passphrase; /* of the key's file; NULL: none */
    bool signs;             /* it is a CA although it has an issuer */
};

#define CERTS_HOUR_S (60L * 60)

void certs_open(struct certs *c);
void certs_close(struct certs *c);
void certs_make(struct certs *c, const struct cert_spec *spec);

/* Two CAs: "ca", and "other", which no peer trusts. */
void certs_make_cas(struct certs *c);

/* The CA's, for this host, expired an hour ago. */
void certs_make_old(struct certs *c, const char *file);

/* The last 32 stay. */
const char *certs_path(struct certs *c, const char *file);

/* The certificate in FILE.pem ends at this second of unix time. */
bool certs_end_at(struct certs *c, const char *file, double at);

/* A file of this text. */
void certs_write(struct certs *c, const char *file, const char *text);

#endif
