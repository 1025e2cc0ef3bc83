/* A certificate that psd presents on some of its sockets: its name and when it ends, for logs and metrics. Glue.
 *
 *     certificate_read(&c, tls)        // whenever its file was read
 *     certificate_watch(&c, "HTTP")    // and whenever it could have been: a line in the log where its end is near */
#ifndef SERVER_ACCESS_CERTIFICATE_H
#define SERVER_ACCESS_CERTIFICATE_H

#include "common/core/base/base.h"
#include "common/net/tls.h"

#define CERTIFICATE_SOON_DAYS 14 /* the same as in the alert */

struct certificate {
    char shows[TLS_SHOWS_MAX]; /* as tls_shows(); "": there is none */
    uint64_t ends;             /* as tls_ends(); 0: there is none, or not known */
};

void certificate_read(struct certificate *c, const struct tls *t);

/* "ends within 3 days", "has expired"; false: its end is far, or not known, or there is none. */
bool certificate_warning(uint64_t ends, uint64_t now, char *out, size_t size);

/* sockets: which ones present it, "TCP". */
void certificate_watch(const struct certificate *c, const char *sockets);

#endif
