/* The happy path: coordinator_client_is_numeric() or a lookup finds addresses, connect_next() tries them in turn,
 * connected() and the owner's coordinator_client_meet(), then frames. A query that was dropped lives on until libuv has
 * closed its handles. */
#include "client/group/rendezvous/coordinator_client.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/api/resolve.h"
#include "client/group/rendezvous/send_message.h"
#include "common/net/conn_credentials.h"
#include "common/net/sockname.h"

#define REQUEST_HELLO 1
#define REQUEST_MEET  2

/* A connection of its own, so that the next address can be tried while this one is being closed. */
struct coordinator_client_conn {
    struct conn conn;
    uv_connect_t connect;
    struct coordinator_client *client; /* NULL: it was given up */
    uint32_t *handles;
};

struct coordinator_client {
    struct conn_pool *pool;
    const struct credentials *credentials;
    const struct coordinator_client_events *to; /* NULL: dropped */
    void *arg;
    struct address address;
    char *congestion;
    struct resolve *lookup;
    uv_async_t woken; /* by the lookup, or to report later what went wrong at once */
    struct addrinfo *list, *next;
    struct sockaddr_storage number;
    bool is_number, tried;
    struct coordinator_client_conn *conn;
    struct arena arena;
    struct ps_error why;
    uint32_t *handles;
};

/* ---- The end ---- */

static void
coordinator_client_free(uv_handle_t *handle)
{
    struct coordinator_client *q = handle->data;

    --*q->handles;
    if (q->list != NULL)
        freeaddrinfo(q->list);
    arena_finish(&q->arena);
    free(q->congestion);
    free(q);
}

static void
conn_gone(struct conn *c)
{
    struct coordinator_client_conn *ic = CONTAINER_OF(c, struct coordinator_client_conn, conn);

    --*ic->handles;
    free(ic);
}

static void
coordinator_client_drop_conn(struct coordinator_client *q)
{
    struct coordinator_client_conn *ic = q->conn;

    if (ic == NULL)
        return;
    ic->client = NULL;
    q->conn = NULL;
    conn_close(&ic->conn, conn_gone);
}

void
coordinator_client_drop(struct coordinator_client *q)
{
    if (q == NULL)
        return;
    q->to = NULL;
    coordinator_client_drop_conn(q);
    resolve_leave(q->lookup);
    q->lookup = NULL;
    if (!uv_is_closing((uv_handle_t *)&q->woken))
        uv_close((uv_handle_t *)&q->woken, coordinator_client_free);
}

static void
coordinator_client_fail(struct coordinator_client *q, enum ps_err code, const char *text)
{
    struct ps_error e;

    coordinator_client_drop_conn(q);
    if (q->to == NULL)
        return;
    ps_error_set(&e, code, "%.400s", text);
    q->to->failed(q->arg, &e);
}

/* ---- Answers ---- */

static void
take_message(struct coordinator_client *q, const struct wire_msg *m)
{
    switch (m->type) {
    case MSG_WELCOME:
    case MSG_MEETING:
        q->to->waits(q->arg);
        return;
    case MSG_MET:
        q->to->met(q->arg, m->u.met);
        return;
    case MSG_ERROR:
        coordinator_client_fail(q, m->u.error->code < PS_ERR_COUNT ? (enum ps_err)m->u.error->code : PS_ERR_INTERNAL,
                                m->u.error->text);
        return;
    case MSG_EVENT: /* a shard that stops: its ERROR is next */
        return;
    default:
        coordinator_client_fail(q, PS_ERR_PROTOCOL, "the coordinator of a rendezvous answered with something else");
    }
}

static void
on_frame(struct conn *c, const struct frame_head *head, const void *meta, const void *payload)
{
    struct coordinator_client *q = CONTAINER_OF(c, struct coordinator_client_conn, conn)->client;
    struct wire_msg m;
    struct ps_error e;

    (void)payload;
    if (q == NULL)
        return;
    arena_reset(&q->arena);
    if (wire_decode(head, meta, &q->arena, &m, &e) != PS_OK)
        coordinator_client_fail(q, PS_ERR_PROTOCOL, e.text);
    else
        take_message(q, &m);
}

static void
on_ended(struct conn *c, const struct ps_error *why)
{
    struct coordinator_client *q = CONTAINER_OF(c, struct coordinator_client_conn, conn)->client;

    if (q != NULL)
        coordinator_client_fail(q, why->code, why->text);
}

static void
on_meta(struct conn *c, const struct frame_head *head, const void *meta)
{
    (void)head;
    (void)meta;
    frame_discard(conn_reader(c)); /* none of the answers has a payload: it is refused when it is whole */
}

static void on_admitted(struct conn *c, enum role role, const char *token);

static const struct conn_events events = {
    .meta = on_meta, .frame = on_frame, .ended = on_ended, .admitted = on_admitted};

bool
coordinator_client_meet(struct coordinator_client *q, const Psd__Hello *hello, const Psd__Meet *m)
{
    struct conn *c = &q->conn->conn;

    return (hello == NULL || send_message(c, MSG_HELLO, REQUEST_HELLO, &hello->base)) &&
           send_message(c, MSG_MEET, REQUEST_MEET, &m->base);
}

/* ---- Connecting ---- */

static void connect_next(struct coordinator_client *q);

static void
local_address(const struct coordinator_client *q, char *out, size_t size)
{
    struct sockaddr_storage at = {0};
    int len = sizeof at;
    char text[64], *port;

    snprintf(out, size, "127.0.0.1");
    if (q->address.is_unix || uv_tcp_getsockname(&q->conn->conn.u.tcp, (struct sockaddr *)&at, &len) != 0)
        return;
    sockname_text(&at, text, sizeof text);
    if ((port = strrchr(text, ':')) == NULL)
        return;
    *port = '\0';
    snprintf(out, size, "%s", text);
}

static const char *
congestion_for(const struct coordinator_client *q)
{
    struct sockaddr_storage to = {0};
    int len = sizeof to;

    if (q->congestion != NULL)
        return q->congestion[0] != '\0' ? q->congestion : NULL;
    if (q->address.is_unix || uv_tcp_getpeername(&q->conn->conn.u.tcp, (struct sockaddr *)&to, &len) != 0)
        return NULL;
    return sockname_is_loopback((struct sockaddr *)&to) ? "reno" : NULL;
}

/* Now it is a connection. */
static void
on_admitted(struct conn *c, enum role role, const char *token)
{
    struct coordinator_client *q = CONTAINER_OF(c, struct coordinator_client_conn, conn)->client;
    char local[64];

    (void)role;
    (void)token;
    if (q == NULL)
        return;
    local_address(q, local, sizeof local);
    q->to->connected(q->arg, local);
}

static void
connect_done(uv_connect_t *connect, int status)
{
    struct coordinator_client_conn *ic = CONTAINER_OF(connect, struct coordinator_client_conn, connect);
    struct coordinator_client *q = ic->client;

    if (q == NULL)
        return;
    if (status == 0 && conn_start(&ic->conn, congestion_for(q)) != PS_OK)
        status = UV_EIO;
    if (status != 0) {
        coordinator_client_drop_conn(q);
        ps_error_set(&q->why, PS_ERR_UNREACHABLE, "cannot connect: %s", uv_strerror(status));
        connect_next(q);
        return;
    }
    if (conn_credentials_connect(&ic->conn, ROLE_TRAIN) != PS_OK)
        coordinator_client_fail(q, PS_ERR_NOMEM, "no memory to prove the token");
}

static const struct sockaddr *
next_address(struct coordinator_client *q)
{
    const struct addrinfo *at = q->next;

    if (q->is_number) {
        q->is_number = false;
        return (const struct sockaddr *)&q->number;
    }
    if (at == NULL)
        return NULL;
    q->next = at->ai_next;
    return at->ai_addr;
}

/* The next of its addresses; without one, it failed as the last one did. */
static void
connect_next(struct coordinator_client *q)
{
    const struct sockaddr *at = NULL;
    struct coordinator_client_conn *ic;
    struct ps_error e;
    int status = 0;

    if (q->address.is_unix ? q->tried : (at = next_address(q)) == NULL) {
        coordinator_client_fail(q, q->why.code, q->why.text);
        return;
    }
    q->tried = true;
    if ((ic = calloc(1, sizeof *ic)) == NULL ||
        conn_init(&ic->conn, q->pool, q->address.is_unix, &events, NULL) != PS_OK) {
        free(ic);
        coordinator_client_fail(q, PS_ERR_NOMEM, "cannot make a socket: no memory or no descriptor");
        return;
    }
    ic->client = q;
    ic->handles = q->handles;
    ++*q->handles;
    q->conn = ic;
    if (!q->address.is_unix && credentials_connect(q->credentials, &ic->conn, q->address.host, &e) != PS_OK) {
        coordinator_client_fail(q, e.code, e.text);
        return;
    }
    if (q->address.is_unix)
        uv_pipe_connect(&ic->connect, &ic->conn.u.pipe, q->address.path, connect_done);
    else
        status = uv_tcp_connect(&ic->connect, &ic->conn.u.tcp, at, connect_done);
    if (status == 0)
        return;
    coordinator_client_drop_conn(q);
    ps_error_set(&q->why, PS_ERR_UNREACHABLE, "cannot connect: %s", uv_strerror(status));
    uv_async_send(&q->woken);
}

/* ---- Names ---- */

static bool
coordinator_client_is_numeric(struct coordinator_client *q)
{
    return uv_ip4_addr(q->address.host, q->address.port, (struct sockaddr_in *)&q->number) == 0 ||
           uv_ip6_addr(q->address.host, q->address.port, (struct sockaddr_in6 *)&q->number) == 0;
}

/* Begun; or the lookup is done; or an address failed at once. */
static void
on_woken(uv_async_t *async)
{
    struct coordinator_client *q = async->data;
    const char *why;

    if (q->to == NULL || q->conn != NULL)
        return;
    if (q->lookup == NULL) {
        connect_next(q);
        return;
    }
    if (!resolve_done(q->lookup, &q->list, &why))
        return;
    resolve_leave(q->lookup);
    q->lookup = NULL;
    q->next = q->list;
    ps_error_set(&q->why, PS_ERR_UNREACHABLE, "cannot find '%.128s': %.128s", q->address.host,
                 q->list == NULL && why != NULL ? why : "it has no address");
    connect_next(q);
}

struct coordinator_client *
coordinator_client_start(struct conn_pool *pool, const struct credentials *credentials, const struct address *address,
                         const char *congestion, const struct coordinator_client_events *to, void *arg,
                         uint32_t *handles)
{
    struct coordinator_client *q = calloc(1, sizeof *q);

    if (q == NULL || (congestion != NULL && (q->congestion = strdup(congestion)) == NULL) ||
        uv_async_init(pool->loop, &q->woken, on_woken) != 0) {
        if (q != NULL)
            free(q->congestion);
        free(q);
        return NULL;
    }
    q->pool = pool;
    q->credentials = credentials;
    q->to = to;
    q->arg = arg;
    q->address = *address;
    q->woken.data = q;
    q->handles = handles;
    ++*handles;
    ps_error_set(&q->why, PS_ERR_UNREACHABLE, "cannot connect");
    q->is_number = !address->is_unix && coordinator_client_is_numeric(q);
    if (!address->is_unix && !q->is_number &&
        (q->lookup = resolve_start(address->host, address->port, &q->woken)) == NULL) {
        coordinator_client_drop(q);
        return NULL;
    }
    if (q->lookup == NULL)
        uv_async_send(&q->woken);
    return q;
}
