#include "client/group/rendezvous/door.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/group/rendezvous/post.h"
#include "common/core/cluster/address.h"
#include "common/net/conn_credentials.h"
#include "common/net/sockname.h"

#define LOOK_MS 1000 /* how often silent guests are looked for */

/* A connection of which nothing is known yet. */
struct door_guest {
    struct door *door;
    struct conn *conn;
    uint64_t since_ms;
    struct door_guest *next;
};

/* ---- Guests ---- */

void
door_conn_closed(struct conn *c)
{
    free(c);
}

static void
guest_gone(struct conn *c)
{
    struct door *d = c->arg;

    d->handles--;
    free(c);
}

/* It is nobody's any more. */
static struct conn *
guest_take(struct door_guest *g)
{
    struct door *d = g->door;
    struct conn *c = g->conn;
    struct door_guest **at = &d->guests;

    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    d->guests_count--;
    free(g);
    return c;
}

static void
guest_send_away(struct door_guest *g)
{
    struct door *d = g->door;
    struct conn *c = guest_take(g);

    c->arg = d;
    conn_close(c, guest_gone);
}

/* It is told why, in what may be another version than its own. */
static void
guest_refuse(struct door_guest *g, enum ps_err code, const char *text)
{
    struct door *d = g->door;
    struct conn *c = guest_take(g);

    c->arg = d;
    post_error(c, 0, code, text);
    conn_leave(c, CONN_LINGER_MS, guest_gone);
}

static void
guest_frame(struct conn *c, const struct frame_head *head, const void *meta, const void *payload)
{
    struct door_guest *g = c->arg;
    struct door *d = g->door;

    (void)payload;
    for (uint32_t i = 0; i < DOOR_KINDS_MAX; i++)
        if (d->kinds[i].take != NULL && d->kinds[i].type == head->type) {
            guest_take(g);
            d->handles--;
            d->kinds[i].take(d->kinds[i].arg, c, head, meta);
            return;
        }
    guest_refuse(g, PS_ERR_PROTOCOL, "that is not what a connection to a worker begins with");
}

/* Nobody's first frame has a payload that is worth keeping. */
static void
guest_meta(struct conn *c, const struct frame_head *head, const void *meta)
{
    (void)head;
    (void)meta;
    frame_discard(conn_reader(c));
}

/* It has been told why. */
static void
guest_let_go(struct door_guest *g)
{
    struct door *d = g->door;
    struct conn *c = guest_take(g);

    c->arg = d;
    conn_leave(c, CONN_LINGER_MS, guest_gone);
}

static void
guest_ended(struct conn *c, const struct ps_error *why)
{
    bool speaks = why->code == PS_ERR_VERSION || why->code == PS_ERR_PROTOCOL || why->code == PS_ERR_TLS;

    if (c->refused)
        guest_let_go(c->arg);
    else if (speaks && conn_tells(c))
        guest_refuse(c->arg, why->code, why->code == PS_ERR_TLS ? CONN_TLS_WANTED : why->text);
    else
        guest_send_away(c->arg);
}

/* It has proven that it belongs here; what it is for its next frame says. */
static void
guest_admitted(struct conn *c, enum role role, const char *token)
{
    (void)c;
    (void)role;
    (void)token;
}

static const struct conn_events guest_events = {
    .meta = guest_meta, .frame = guest_frame, .ended = guest_ended, .admitted = guest_admitted};

static void
guest_add(struct door *d, struct conn *c)
{
    struct door_guest *g = calloc(1, sizeof *g), **at = &d->guests;

    if (d->guests_count == DOOR_GUESTS_MAX)
        guest_send_away(d->guests);
    if (g == NULL) {
        c->arg = d;
        conn_close(c, guest_gone);
        return;
    }
    *g = (struct door_guest){.door = d, .conn = c, .since_ms = uv_now(d->pool->loop)};
    c->arg = g;
    while (*at != NULL)
        at = &(*at)->next;
    *at = g;
    d->guests_count++;
}

static void
connection_came(uv_stream_t *listener, int status)
{
    struct door *d = listener->data;
    struct conn *c = status == 0 ? malloc(sizeof *c) : NULL;

    d->owing = status == 0;
    if (c == NULL || conn_init(c, d->pool, false, &guest_events, NULL) != PS_OK) {
        free(c);
        return; /* look() tries again */
    }
    d->owing = false;
    d->handles++;
    c->arg = d;
    if (uv_accept(listener, &c->u.stream) != 0 ||
        credentials_accept(d->credentials, c, DOOR_SILENCE_MS, NULL) != PS_OK || conn_start(c, NULL) != PS_OK ||
        conn_credentials_listen(c) != PS_OK) {
        conn_close(c, guest_gone);
        return;
    }
    guest_add(d, c);
}

static void
look(uv_timer_t *timer)
{
    struct door *d = timer->data;

    while (d->guests != NULL && d->guests->since_ms + DOOR_SILENCE_MS <= uv_now(d->pool->loop))
        guest_send_away(d->guests);
    if (d->owing)
        connection_came((uv_stream_t *)&d->listener, 0);
}

void
door_for(struct door *d, uint16_t type, door_take take, void *arg)
{
    uint32_t free_kind = DOOR_KINDS_MAX;

    for (uint32_t i = 0; i < DOOR_KINDS_MAX; i++) {
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
    ps_assert(free_kind < DOOR_KINDS_MAX);
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
door_number(const struct address *address, struct sockaddr_storage *out)
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
    if (!door_number(&address, out))
        return ps_fail(e, PS_ERR_INVALID, "'%s' is not known as a number", listen);
    return PS_OK;
}

bool
door_may_open(const char *listen_at)
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
tell_address(struct door *d)
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
door_open(struct door *d, struct conn_pool *pool, const char *listen, struct ps_error *e)
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
        (status = uv_listen((uv_stream_t *)&d->listener, DOOR_BACKLOG, connection_came)) != 0) {
        door_close(d);
        return listen_error(status, listen, e);
    }
    uv_timer_start(&d->timer, look, LOOK_MS, LOOK_MS);
    uv_unref((uv_handle_t *)&d->timer);
    tell_address(d);
    return PS_OK;
}

static void
handle_closed(uv_handle_t *handle)
{
    struct door *d = handle->data;

    d->handles--;
}

void
door_close(struct door *d)
{
    if (!d->open)
        return;
    d->open = false;
    while (d->guests != NULL)
        guest_send_away(d->guests);
    uv_close((uv_handle_t *)&d->listener, handle_closed);
    uv_close((uv_handle_t *)&d->timer, handle_closed);
}

bool
door_closed(const struct door *d)
{
    return d->handles == 0;
}
