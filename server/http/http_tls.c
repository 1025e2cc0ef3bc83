/* The certificate with which HTTP is served. OpenSSL checks the files, as it does those of psd's other sockets, so that
 * errors in them have the same messages; libmicrohttpd, whose TLS is GnuTLS, receives files that were found good. It
 * takes no other certificate later, so a renewed one comes with a listener of its own, and no client that connects
 * meanwhile is refused: the socket is not libmicrohttpd's. */
#include "server/http/http_internal.h"
#include "server/process/log.h"
#include "server/process/options.h"

bool
http_tls_files(const struct options *o, struct tls_files *files)
{
    bool own = o->http_tls_cert != NULL;

    *files =
        (struct tls_files){.cert = own ? o->http_tls_cert : o->tls_cert, .key = own ? o->http_tls_key : o->tls_key};
    return o->http_tls != 0;
}

enum ps_err
http_tls_listener(struct http *h, const struct tls_files *files, struct http_listener **out, struct certificate *shown,
                  struct ps_error *e)
{
    struct tls *tls = NULL;
    enum ps_err err;

    *shown = (struct certificate){0};
    if (files == NULL)
        return http_listener_new(h, NULL, out, e);
    if ((err = tls_new(TLS_SERVER, files, &tls, e)) == PS_OK && (err = http_listener_new(h, tls, out, e)) == PS_OK)
        certificate_read(shown, tls);
    tls_free(tls);
    return err;
}

void
http_reload_tls(struct http *h, const struct options *o)
{
    struct http_listener *fresh, *unused;
    struct certificate shown;
    struct tls_files files;
    struct ps_error e;

    if (h == NULL || !http_tls_files(o, &files))
        return;
    if (http_tls_listener(h, &files, &fresh, &shown, &e) != PS_OK) {
        log_line(LOG_LEVEL_ERROR, "HTTP's certificate and key stay as they are: %s", e.text);
        certificate_watch(&h->certificate, "HTTP");
        return;
    }
    uv_mutex_lock(&h->lock);
    unused = h->fresh;
    h->fresh = fresh;
    http_tell(h);
    http_listener_free(unused);
    log_line(LOG_LEVEL_INFO, "HTTP's certificate and key were read again, for new connections certificate=\"%s\"",
             shown.shows);
    h->certificate = shown;
    certificate_watch(&shown, "HTTP");
}
