/* Listeners and their connections. A connection past its deadline is shut down; libmicrohttpd finds it ended and
 * forgets it. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/core/base/hash.h"
#include "common/system/now.h"
#include "server/http/http_internal.h"

#define PAUSE_MS 1000 /* without accepting, when there were no descriptors */

/* As on psd's other sockets (tls.h): TLS 1.3 with its three usual ciphers; groups that cost a handshake little. There
 * are no session tickets, and no early data, unless libmicrohttpd is asked for them. */
#define PRIORITIES                                                                                                     \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305:-GROUP-ALL:+GROUP-X25519:" \
    "+GROUP-SECP256R1:+GROUP-SECP384R1:%SERVER_PRECEDENCE"

/* ---- Connections ---- */

static void
http_conn_came(struct http_listener *listener, struct MHD_Connection *connection, void **conn)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct http_conn *c = calloc(1, sizeof *c);

    listener->conns_len++;
    listener->http->conns_len++;
    if (c == NULL) { /* no connection stays without a deadline */
        shutdown(info->connect_fd, SHUT_RDWR);
        return;
    }
    c->fd = info->connect_fd;
    c->host = listener->http->newest;
    c->since_ms = monotonic_ms();
    DL_APPEND(listener->http->conns, c);
    *conn = c;
}

static void
http_conn_went(struct http_listener *listener, void **conn)
{
    struct http_conn *c = *conn;

    listener->conns_len--;
    listener->http->conns_len--;
    listener->http->counts.unasked += c == NULL || !c->asked;
    if (c != NULL)
        DL_DELETE(listener->http->conns, c);
    free(c);
    *conn = NULL;
}

static void
on_connection(void *listener, struct MHD_Connection *connection, void **conn, enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        http_conn_came(listener, connection, conn);
    else
        http_conn_went(listener, conn);
}

/* Closes connections past their deadline, and those that hung up in the middle of a request, which libmicrohttpd does
 * not see when that comes together with the last bytes. */
void
http_listeners_close_overdue(struct http *h)
{
    uint64_t now = monotonic_ms();
    struct http_conn *c;

    DL_FOREACH (h->conns, c) {
        bool overdue = now - c->since_ms >= HTTP_LIFE_MS;

        if (c->ended || !(overdue || (c->hung_up && !c->asked)))
            continue;
        c->ended = true;
        h->counts.overdue += overdue;
        shutdown(c->fd, SHUT_RDWR);
    }
}

static void
http_conn_take(struct http *h, int fd, struct sockaddr_storage *address, socklen_t len)
{
    h->newest = sockname_host((struct sockaddr *)address);
    if (http_places_free_of(h, &h->newest))
        (void)MHD_add_connection(h->listeners->prev->daemon, fd, (struct sockaddr *)address, len); /* closes it if it
                                                                                                      fails */
    else
        close(fd);
}

void
http_listeners_accept(struct http *h)
{
    struct sockaddr_storage address;
    socklen_t len;
    int fd;

    for (unsigned n = 0; n < HTTP_CONNECTIONS_MAX && http_places_free(h); n++) {
        len = sizeof address;
        fd = accept4(h->listen_fd, (struct sockaddr *)&address, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            http_conn_take(h, fd, &address, len);
        } else if (errno != EINTR && errno != ECONNABORTED) {
            if (errno != EAGAIN)
                h->accept_ms = monotonic_ms() + PAUSE_MS;
            return;
        }
    }
}

/* ---- Listeners ---- */

/* Keeps the first error that libmicrohttpd reports while it starts. */
static void
note_complaint(void *arg, const char *format, va_list args)
{
    struct http_listener *listener = arg;

    if (listener->complaint[0] != '\0')
        return;
    vsnprintf(listener->complaint, sizeof listener->complaint, format, args);
    listener->complaint[strcspn(listener->complaint, "\n")] = '\0';
}

static bool
http_listener_start_daemon(struct http_listener *listener)
{
    bool tls = listener->pem.cert != NULL;
    struct MHD_OptionItem options[] = {{MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)PRIORITIES},
                                       {MHD_OPTION_HTTPS_MEM_CERT, 0, listener->pem.cert},
                                       {MHD_OPTION_HTTPS_MEM_KEY, 0, listener->pem.key},
                                       {MHD_OPTION_END, 0, NULL}};
    const union MHD_DaemonInfo *info;

    listener->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
            (tls ? MHD_USE_TLS : 0),
        0, NULL, NULL, http_answer, listener->http, MHD_OPTION_EXTERNAL_LOGGER, note_complaint, listener,
        MHD_OPTION_ARRAY, tls ? options : options + ARRAY_LEN(options) - 1, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)HTTP_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_REQUEST_MAX,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_CONNECTION, on_connection, listener,
        MHD_OPTION_NOTIFY_COMPLETED, http_answered, listener->http, MHD_OPTION_END);
    if (listener->daemon == NULL || (info = MHD_get_daemon_info(listener->daemon, MHD_DAEMON_INFO_EPOLL_FD)) == NULL)
        return false;
    listener->epoll_fd = info->epoll_fd;
    return true;
}

static enum ps_err
not_built(const struct http_listener *listener, const struct tls *tls, struct ps_error *e)
{
    if (tls != NULL && listener->complaint[0] != '\0')
        return ps_fail(e, PS_ERR_CONFIG, "--http-tls: libmicrohttpd does not serve with this certificate (%s): %s",
                       tls_shows(tls), listener->complaint);
    return ps_fail(e, PS_ERR_NOMEM, "--http: no memory or descriptors to serve");
}

enum ps_err
http_listener_new(struct http *h, const struct tls *tls, struct http_listener **out, struct ps_error *e)
{
    struct http_listener *listener = calloc(1, sizeof *listener);
    enum ps_err err;

    *out = NULL;
    if (listener == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "--http: no memory to serve");
    listener->http = h;
    if (tls != NULL && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        err = ps_fail(e, PS_ERR_UNSUPPORTED, "--http-tls: libmicrohttpd was built without TLS here");
    else if (tls == NULL || (err = tls_pem(tls, &listener->pem, e)) == PS_OK)
        err = http_listener_start_daemon(listener) ? PS_OK : not_built(listener, tls, e);
    if (err != PS_OK) {
        http_listener_free(listener);
        return err;
    }
    *out = listener;
    return PS_OK;
}

void
http_listener_free(struct http_listener *listener)
{
    if (listener == NULL)
        return;
    if (listener->daemon != NULL)
        MHD_stop_daemon(listener->daemon);
    tls_pem_finish(&listener->pem);
    free(listener);
}

void
http_listeners_change(struct http *h)
{
    struct http_listener *listener, *next, *fresh;

    uv_mutex_lock(&h->lock);
    fresh = h->fresh;
    h->fresh = NULL;
    uv_mutex_unlock(&h->lock);
    if (fresh != NULL)
        DL_APPEND(h->listeners, fresh);
    DL_FOREACH_SAFE (h->listeners, listener, next) {
        if (listener->next == NULL || listener->conns_len > 0)
            continue;
        DL_DELETE(h->listeners, listener);
        http_listener_free(listener);
    }
}

void
http_listeners_run(struct http *h)
{
    struct http_listener *listener;

    DL_FOREACH (h->listeners, listener)
        MHD_run(listener->daemon);
}

void
http_listeners_close(struct http *h)
{
    struct http_listener *listener, *next;

    DL_FOREACH_SAFE (h->listeners, listener, next) {
        DL_DELETE(h->listeners, listener);
        http_listener_free(listener);
    }
    http_listener_free(h->fresh);
    h->fresh = NULL;
}
