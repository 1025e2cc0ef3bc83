#include "client/group/rendezvous/acceptor.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/group/rendezvous/send_message.h"
#include "common/core/cluster/address.h"
#include "common/net/conn_credentials.h"
#include "common/net/sockname.h"

#define ACCEPTOR_TIMER_MS 1000 /* how often silent connections are looked for */

/* A connection of which nothing is known yet. */
struct acceptor_pending {
    struct acceptor *acceptor;
    struct conn *conn;
    uint64_t since_ms;
    struct acceptor_pending *next;
};

/* ---- Pending connections ---- */

void
acceptor_conn_closed(struct conn *c)
{
    free(c);
}

static void
pending_closed(struct conn *c)
{
    struct acceptor *d = c->arg;

    d->handles--;
    free(c);
}

/* Take the connection out of the list: it is not pending any more. */
static struct conn *
pending_take(struct acceptor_pending *g)
{
    struct acceptor *d = g->acceptor;
    struct conn *c = g->conn;
    struct acceptor_pending **at = &d->pending;

    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    d->pending_count--;
    free(g);
    return c;
}

static void
pending_drop(struct acceptor_pending *g)
{
    struct acceptor *d = g->acceptor;
    struct conn *c = pending_take(g);

    c->arg = d;
    conn_close(c, pending_closed);
}

/* The peer is told why, in what may be another version than its own. */
static void
pending_refuse(struct acceptor_pending *g, enum ps_err code, const char *text)
{
    struct acceptor *d = g->acceptor;
    struct conn *c = pending_take(g);

    c->arg = d;
    send_error(c, 0, code, text);
    conn_leave(c, CONN_LINGER_MS, pending_closed);
}

static void
pending_frame(struct conn *c, const struct frame_head *head, const void *meta, const void *payload)
{
    struct acceptor_pending *g = c->arg;
    struct acceptor *d = g->acceptor;

    (void)payload;
    for (uint32_t i = 0; i < ACCEPTOR_KINDS_MAX; i++)
        if (d->kinds[i].take != NULL && d->kinds[i].type == head->type) {
            pending_take(g);
            d->handles--;
            d->kinds[i].take(d->kinds[i].arg, c, head, meta);
            return;
        }
    pending_refuse(g, PS_ERR_PROTOCOL, "that is not what a connection to a worker begins with");
}

/* No first frame has a payload that is worth keeping. */
static void
pending_meta(struct conn *c, const struct frame_head *head, const void *meta)
{
    (void)head;
    (void)meta;
    frame_discard(conn_reader(c));
}

/* The peer has been told why. */
static void
pending_leave(struct acceptor_pending *g)
{
    struct acceptor *d = g->acceptor;
    struct conn *c = pending_take(g);

    c->arg = d;
    conn_leave(c, CONN_LINGER_MS, pending_closed);
}

static void
pending_ended(struct conn *c, const struct ps_error *why)
{
    bool speaks = why->code == PS_ERR_VERSION || why->code == PS_ERR_PROTOCOL || why->code == PS_ERR_TLS;

    if (c->refused)
        pending_leave(c->arg);
    else if (speaks && conn_tells(c))
        pending_refuse(c->arg, why->code, why->code == PS_ERR_TLS ? CONN_TLS_WANTED : why->text);
    else
        pending_drop(c->arg);
}

/* The peer has proven that it belongs here; its next frame says what the connection is for. */
static void
pending_admitted(struct conn *c, enum role role, const char *token)
{
    (void)c;
    (void)role;
    (void)token;
}

static const struct conn_events pending_events = {
    .meta = pending_meta, .frame = pending_frame, .ended = pending_ended, .admitted = pending_admitted};

static void
pending_add(struct acceptor *d, struct conn *c)
{
    struct acceptor_pending *g = calloc(1, sizeof *g), **at = &d->pending;

    if (d->pending_count == ACCEPTOR_PENDING_MAX)
        pending_drop(d->pending);
    if (g == NULL) {
        c->arg = d;
        conn_close(c, pending_closed);
        return;
    }
    *g = (struct acceptor_pending){.acceptor = d, .conn = c, .since_ms = uv_now(d->pool->loop)};
    c->arg = g;
    while (*at != NULL)
        at = &(*at)->next;
    *at = g;
    d->pending_count++;
}

static void
acceptor_on_connection(uv_stream_t *listener, int status)
{
    struct acceptor *d = listener->data;
    struct conn *c = status == 0 ? malloc(sizeof *c) : NULL;

    d->accept_owed = status == 0;
    if (c == NULL || conn_init(c, d->pool, false, &pending_events, NULL) != PS_OK) {
        free(c);
        return; /* acceptor_on_timer() tries again */
    }
    d->accept_owed = false;
    d->handles++;
    c->arg = d;
    if (uv_accept(listener, &c->u.stream) != 0 ||
        credentials_accept(d->credentials, c, ACCEPTOR_SILENCE_MS, NULL) != PS_OK || conn_start(c, NULL) != PS_OK ||
        conn_credentials_listen(c) != PS_OK) {
        conn_close(c, pending_closed);
        return;
    }
    pending_add(d, c);
}

static void
acceptor_on_timer(uv_timer_t *timer)
{
    struct acceptor *d = timer->data;

    while (d->pending != NULL && d->pending->since_ms + ACCEPTOR_SILENCE_MS <= uv_now(d->pool->loop))
        pending_drop(d->pending);
    if (d->accept_owed)
        acceptor_on_connection((uv_stream_t *)&d->listener, 0);
}

void
acceptor_route(struct acceptor *d, uint16_t type, acceptor_take take, void *arg)
{
    uint32_t free_kind = ACCEPTOR_KINDS_MAX;

    for (uint32_t i = 0; i < ACCEPTOR_KINDS_MAX; i++) {
        if (d->kinds[i].take != NULL && d->kinds[i].type == type) {
            d->kinds[i].take = take;
            d->kinds[i].arg = arg;
            return;
        }
        if (d->kinds[i].take == NULL)
            free_kind = i;
    }
    if (take == NULL)
        return;
    ps_assert(free_kind < ACCEPTOR_KINDS_MAX);
    d->kinds[free_kind].type = type;
    d->kinds[free_kind].take = take;
    d->kinds[free_kind].arg = arg;
}

/* ---- Listening ---- */

static enum ps_err
listen_error(int status, const char *listen, struct ps_error *e)
{
    return ps_fail(e, status == UV_EADDRNOTAVAIL ? PS_ERR_UNREACHABLE : conn_uv_error(status),
                   "cannot listen at %s: %s", listen, uv_strerror(status));
}

bool
acceptor_parse_number(const struct address *address, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof *out);
    return uv_ip4_addr(address->host, address->port, (struct sockaddr_in *)out) == 0 ||
           uv_ip6_addr(address->host, address->port, (struct sockaddr_in6 *)out) == 0;
}

static enum ps_err
read_number(const char *listen, struct sockaddr_storage *out, struct ps_error *e)
{
    struct address address;
    enum ps_err err;

    if ((err = address_parse(listen, &address, e)) != PS_OK)
        return err;
    if (address.is_unix)
        return ps_fail(e, PS_ERR_INVALID, "ranks listen at TCP addresses, not at '%s'", listen);
    if (!acceptor_parse_number(&address, out))
        return ps_fail(e, PS_ERR_INVALID, "'%s' is not known as a number", listen);
    return PS_OK;
}

bool
acceptor_may_open(const char *listen_at)
{
    struct sockaddr_storage at;
    int fd, yes = 1;
    bool may;

    if (read_number(listen_at, &at, NULL) != PS_OK)
        return false;
    fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    may = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
          bind(fd, (struct sockaddr *)&at,
               at.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)) == 0 &&
          listen(fd, 1) == 0;
    if (fd >= 0)
        close(fd);
    return may;
}

static void
acceptor_read_address(struct acceptor *d)
{
    struct sockaddr_storage at = {0};
    int len = sizeof at;

    if (uv_tcp_getsockname(&d->listener, (struct sockaddr *)&at, &len) != 0)
        return;
    sockname_text(&at, d->address, sizeof d->address);
    d->port = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                             : ((struct sockaddr_in *)&at)->sin_port);
}

enum ps_err
acceptor_open(struct acceptor *d, struct conn_pool *pool, const char *listen, struct ps_error *e)
{
    struct sockaddr_storage at = {0};
    enum ps_err err;
    int status;

    d->pool = pool;
    if ((err = read_number(listen, &at, e)) != PS_OK)
        return err;
    if ((status = uv_tcp_init(pool->loop, &d->listener)) != 0)
        return listen_error(status, listen, e);
    uv_timer_init(pool->loop, &d->timer);
    d->listener.data = d->timer.data = d;
    d->handles = 2;
    d->open = true;
    if ((status = uv_tcp_bind(&d->listener, (struct sockaddr *)&at, 0)) != 0 ||
        (status = uv_listen((uv_stream_t *)&d->listener, ACCEPTOR_BACKLOG, acceptor_on_connection)) != 0) {
        acceptor_close(d);
        return listen_error(status, listen, e);
    }
    uv_timer_start(&d->timer, acceptor_on_timer, ACCEPTOR_TIMER_MS, ACCEPTOR_TIMER_MS);
    uv_unref((uv_handle_t *)&d->timer);
    acceptor_read_address(d);
    return PS_OK;
}

static void
handle_closed(uv_handle_t *handle)
{
    struct acceptor *d = handle->data;

    d->handles--;
}

void
acceptor_close(struct acceptor *d)
{
    if (!d->open)
        return;
    d->open = false;
    while (d->pending != NULL)
        pending_drop(d->pending);
    uv_close((uv_handle_t *)&d->listener, handle_closed);
    uv_close((uv_handle_t *)&d->timer, handle_closed);
}

bool
acceptor_closed(const struct acceptor *d)
{
    return d->handles == 0;
}
