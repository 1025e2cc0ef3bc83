/* Guests and where they are. A guest whose time is up is shut down; libmicrohttpd finds it ended and forgets it. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/core/base/hash.h"
#include "common/system/now.h"
#include "server/http/http_inside.h"

#define PAUSE_MS 1000 /* without accepting, when there were no descriptors */

/* As on psd's other sockets (tls.h): TLS 1.3 with its three usual ciphers; groups that cost a handshake little. There
 * are no session tickets, and no early data, unless libmicrohttpd is asked for them. */
#define PRIORITIES                                                                                                     \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305:-GROUP-ALL:+GROUP-X25519:" \
    "+GROUP-SECP256R1:+GROUP-SECP384R1:%SERVER_PRECEDENCE"

/* ---- Guests ---- */

static void
guest_came(struct http_house *house, struct MHD_Connection *connection, void **guest)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct http_guest *g = calloc(1, sizeof *g);

    house->guests_len++;
    house->http->guests_len++;
    if (g == NULL) { /* nobody stays without a deadline */
        shutdown(info->connect_fd, SHUT_RDWR);
        return;
    }
    g->fd = info->connect_fd;
    g->since_ms = monotonic_ms();
    DL_APPEND(house->http->guests, g);
    *guest = g;
}

static void
guest_went(struct http_house *house, void **guest)
{
    struct http_guest *g = *guest;

    house->guests_len--;
    house->http->guests_len--;
    house->http->counts.unasked += g == NULL || !g->asked;
    if (g != NULL)
        DL_DELETE(house->http->guests, g);
    free(g);
    *guest = NULL;
}

static void
on_connection(void *house, struct MHD_Connection *connection, void **guest, enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        guest_came(house, connection, guest);
    else
        guest_went(house, guest);
}

/* Its time is up; or it has hung up in the middle of a request, which libmicrohttpd does not see when that comes
 * together with its last bytes. */
void
http_houses_send_away(struct http *h)
{
    uint64_t now = monotonic_ms();
    struct http_guest *g;

    DL_FOREACH (h->guests, g) {
        bool overdue = now - g->since_ms >= HTTP_LIFE_MS;

        if (g->ended || !(overdue || (g->hung_up && !g->asked)))
            continue;
        g->ended = true;
        h->counts.overdue += overdue;
        shutdown(g->fd, SHUT_RDWR);
    }
}

void
http_houses_accept(struct http *h)
{
    struct http_house *newest = h->houses->prev;
    struct sockaddr_storage address;
    socklen_t len;
    int fd;

    while (h->guests_len < HTTP_CONNECTIONS_MAX) {
        len = sizeof address;
        fd = accept4(h->listen_fd, (struct sockaddr *)&address, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            (void)MHD_add_connection(newest->daemon, fd, (struct sockaddr *)&address, len); /* closes it if it fails */
        } else if (errno != EINTR && errno != ECONNABORTED) {
            if (errno != EAGAIN)
                h->accept_ms = monotonic_ms() + PAUSE_MS;
            return;
        }
    }
}

/* ---- Houses ---- */

/* The first thing that it complains about, while it is built. */
static void
note_complaint(void *arg, const char *format, va_list args)
{
    struct http_house *house = arg;

    if (house->complaint[0] != '\0')
        return;
    vsnprintf(house->complaint, sizeof house->complaint, format, args);
    house->complaint[strcspn(house->complaint, "\n")] = '\0';
}

static bool
build(struct http_house *house)
{
    bool tls = house->pem.cert != NULL;
    struct MHD_OptionItem options[] = {{MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)PRIORITIES},
                                       {MHD_OPTION_HTTPS_MEM_CERT, 0, house->pem.cert},
                                       {MHD_OPTION_HTTPS_MEM_KEY, 0, house->pem.key},
                                       {MHD_OPTION_END, 0, NULL}};
    const union MHD_DaemonInfo *info;

    house->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
            (tls ? MHD_USE_TLS : 0),
        0, NULL, NULL, http_answer, house->http, MHD_OPTION_EXTERNAL_LOGGER, note_complaint, house, MHD_OPTION_ARRAY,
        tls ? options : options + ARRAY_LEN(options) - 1, MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS_MAX,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)HTTP_HOST_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)HTTP_REQUEST_MAX, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_CONNECTION, on_connection, house,
        MHD_OPTION_NOTIFY_COMPLETED, http_answered, house->http, MHD_OPTION_END);
    if (house->daemon == NULL || (info = MHD_get_daemon_info(house->daemon, MHD_DAEMON_INFO_EPOLL_FD)) == NULL)
        return false;
    house->epoll_fd = info->epoll_fd;
    return true;
}

static enum ps_err
not_built(const struct http_house *house, const struct tls *tls, struct ps_error *e)
{
    if (tls != NULL && house->complaint[0] != '\0')
        return ps_fail(e, PS_ERR_CONFIG, "--http-tls: libmicrohttpd does not serve with this certificate (%s): %s",
                       tls_shows(tls), house->complaint);
    return ps_fail(e, PS_ERR_NOMEM, "--http: no memory or descriptors to serve");
}

enum ps_err
http_house_new(struct http *h, const struct tls *tls, struct http_house **out, struct ps_error *e)
{
    struct http_house *house = calloc(1, sizeof *house);
    enum ps_err err;

    *out = NULL;
    if (house == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "--http: no memory to serve");
    house->http = h;
    if (tls != NULL && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        err = ps_fail(e, PS_ERR_UNSUPPORTED, "--http-tls: libmicrohttpd was built without TLS here");
    else if (tls == NULL || (err = tls_pem(tls, &house->pem, e)) == PS_OK)
        err = build(house) ? PS_OK : not_built(house, tls, e);
    if (err != PS_OK) {
        http_house_free(house);
        return err;
    }
    *out = house;
    return PS_OK;
}

void
http_house_free(struct http_house *house)
{
    if (house == NULL)
        return;
    if (house->daemon != NULL)
        MHD_stop_daemon(house->daemon);
    tls_pem_finish(&house->pem);
    free(house);
}

void
http_houses_change(struct http *h)
{
    struct http_house *house, *next, *fresh;

    uv_mutex_lock(&h->lock);
    fresh = h->fresh;
    h->fresh = NULL;
    uv_mutex_unlock(&h->lock);
    if (fresh != NULL)
        DL_APPEND(h->houses, fresh);
    DL_FOREACH_SAFE (h->houses, house, next) {
        if (house->next == NULL || house->guests_len > 0)
            continue;
        DL_DELETE(h->houses, house);
        http_house_free(house);
    }
}

void
http_houses_run(struct http *h)
{
    struct http_house *house;

    DL_FOREACH (h->houses, house)
        MHD_run(house->daemon);
}

void
http_houses_close(struct http *h)
{
    struct http_house *house, *next;

    DL_FOREACH_SAFE (h->houses, house, next) {
        DL_DELETE(h->houses, house);
        http_house_free(house);
    }
    http_house_free(h->fresh);
    h->fresh = NULL;
}
