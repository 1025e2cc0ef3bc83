/* The happy path: numbers() or a lookup finds addresses, connect_next() tries them in turn, connected() and the owner's
 * inquiry_meet(), then frames. An inquiry that was dropped lives on until libuv has closed its handles. */
#include "client/group/rendezvous/inquiry.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/api/resolve.h"
#include "client/group/rendezvous/post.h"
#include "common/net/conn_credentials.h"
#include "common/net/sockname.h"

#define REQUEST_HELLO 1
#define REQUEST_MEET  2

/* A connection of its own, so that the next address can be tried while this one is being closed. */
struct inquiry_conn {
    struct conn conn;
    uv_connect_t connect;
    struct inquiry *inquiry; /* NULL: it was given up */
    uint32_t *handles;
};

struct inquiry {
    struct conn_pool *pool;
    const struct credentials *credentials;
    const struct inquiry_to *to; /* NULL: dropped */
    void *arg;
    struct address address;
    char *congestion;
    struct resolve *lookup;
    uv_async_t woken; /* by the lookup, or to say later what went wrong at once */
    struct addrinfo *list, *next;
    struct sockaddr_storage number;
    bool is_number, tried;
    struct inquiry_conn *conn;
    struct arena arena;
    struct ps_error why;
    uint32_t *handles;
};

/* ---- The end ---- */

static void
inquiry_free(uv_handle_t *handle)
{
    struct inquiry *q = handle->data;

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
    struct inquiry_conn *ic = CONTAINER_OF(c, struct inquiry_conn, conn);

    --*ic->handles;
    free(ic);
}

static void
give_up_conn(struct inquiry *q)
{
    struct inquiry_conn *ic = q->conn;

    if (ic == NULL)
        return;
    ic->inquiry = NULL;
    q->conn = NULL;
    conn_close(&ic->conn, conn_gone);
}

void
inquiry_drop(struct inquiry *q)
{
    if (q == NULL)
        return;
    q->to = NULL;
    give_up_conn(q);
    resolve_leave(q->lookup);
    q->lookup = NULL;
    if (!uv_is_closing((uv_handle_t *)&q->woken))
        uv_close((uv_handle_t *)&q->woken, inquiry_free);
}

static void
fail(struct inquiry *q, enum ps_err code, const char *text)
{
    struct ps_error e;

    give_up_conn(q);
    if (q->to == NULL)
        return;
    ps_error_set(&e, code, "%.400s", text);
    q->to->failed(q->arg, &e);
}

/* ---- Answers ---- */

static void
take_message(struct inquiry *q, const struct wire_msg *m)
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
        fail(q, m->u.error->code < PS_ERR_COUNT ? (enum ps_err)m->u.error->code : PS_ERR_INTERNAL, m->u.error->text);
        return;
    case MSG_EVENT: /* a shard that stops: its ERROR is next */
        return;
    default:
        fail(q, PS_ERR_PROTOCOL, "the host of a meeting answered with something else");
    }
}

static void
on_frame(struct conn *c, const struct frame_head *head, const void *meta, const void *payload)
{
    struct inquiry *q = CONTAINER_OF(c, struct inquiry_conn, conn)->inquiry;
    struct wire_msg m;
    struct ps_error e;

    (void)payload;
    if (q == NULL)
        return;
    arena_reset(&q->arena);
    if (wire_decode(head, meta, &q->arena, &m, &e) != PS_OK)
        fail(q, PS_ERR_PROTOCOL, e.text);
    else
        take_message(q, &m);
}

static void
on_ended(struct conn *c, const struct ps_error *why)
{
    struct inquiry *q = CONTAINER_OF(c, struct inquiry_conn, conn)->inquiry;

    if (q != NULL)
        fail(q, why->code, why->text);
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
inquiry_meet(struct inquiry *q, const Psd__Hello *hello, const Psd__Meet *m)
{
    struct conn *c = &q->conn->conn;

    return (hello == NULL || post_message(c, MSG_HELLO, REQUEST_HELLO, &hello->base)) &&
           post_message(c, MSG_MEET, REQUEST_MEET, &m->base);
}

/* ---- Connecting ---- */

static void connect_next(struct inquiry *q);

static void
local_address(const struct inquiry *q, char *out, size_t size)
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
congestion_for(const struct inquiry *q)
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
    struct inquiry *q = CONTAINER_OF(c, struct inquiry_conn, conn)->inquiry;
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
    struct inquiry_conn *ic = CONTAINER_OF(connect, struct inquiry_conn, connect);
    struct inquiry *q = ic->inquiry;

    if (q == NULL)
        return;
    if (status == 0 && conn_start(&ic->conn, congestion_for(q)) != PS_OK)
        status = UV_EIO;
    if (status != 0) {
        give_up_conn(q);
        ps_error_set(&q->why, PS_ERR_UNREACHABLE, "cannot connect: %s", uv_strerror(status));
        connect_next(q);
        return;
    }
    if (conn_credentials_connect(&ic->conn, ROLE_TRAIN) != PS_OK)
        fail(q, PS_ERR_NOMEM, "no memory to prove the token");
}

static const struct sockaddr *
next_address(struct inquiry *q)
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
connect_next(struct inquiry *q)
{
    const struct sockaddr *at = NULL;
    struct inquiry_conn *ic;
    struct ps_error e;
    int status = 0;

    if (q->address.is_unix ? q->tried : (at = next_address(q)) == NULL) {
        fail(q, q->why.code, q->why.text);
        return;
    }
    q->tried = true;
    if ((ic = calloc(1, sizeof *ic)) == NULL ||
        conn_init(&ic->conn, q->pool, q->address.is_unix, &events, NULL) != PS_OK) {
        free(ic);
        fail(q, PS_ERR_NOMEM, "cannot make a socket: no memory or no descriptor");
        return;
    }
    ic->inquiry = q;
    ic->handles = q->handles;
    ++*q->handles;
    q->conn = ic;
    if (!q->address.is_unix && credentials_connect(q->credentials, &ic->conn, q->address.host, &e) != PS_OK) {
        fail(q, e.code, e.text);
        return;
    }
    if (q->address.is_unix)
        uv_pipe_connect(&ic->connect, &ic->conn.u.pipe, q->address.path, connect_done);
    else
        status = uv_tcp_connect(&ic->connect, &ic->conn.u.tcp, at, connect_done);
    if (status == 0)
        return;
    give_up_conn(q);
    ps_error_set(&q->why, PS_ERR_UNREACHABLE, "cannot connect: %s", uv_strerror(status));
    uv_async_send(&q->woken);
}

/* ---- Names ---- */

static bool
numbers(struct inquiry *q)
{
    return uv_ip4_addr(q->address.host, q->address.port, (struct sockaddr_in *)&q->number) == 0 ||
           uv_ip6_addr(q->address.host, q->address.port, (struct sockaddr_in6 *)&q->number) == 0;
}

/* Begun; or the lookup is done; or an address failed at once. */
static void
on_woken(uv_async_t *async)
{
    struct inquiry *q = async->data;
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

struct inquiry *
inquiry_start(struct conn_pool *pool, const struct credentials *credentials, const struct address *address,
              const char *congestion, const struct inquiry_to *to, void *arg, uint32_t *handles)
{
    struct inquiry *q = calloc(1, sizeof *q);

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
    q->is_number = !address->is_unix && numbers(q);
    if (!address->is_unix && !q->is_number &&
        (q->lookup = resolve_start(address->host, address->port, &q->woken)) == NULL) {
        inquiry_drop(q);
        return NULL;
    }
    if (q->lookup == NULL)
        uv_async_send(&q->woken);
    return q;
}
