/* Connections of a client: resolve, connect, carry frames between the core and conn.h.
 *
 * The happy path: net_connect() parses numbers or asks for a name's addresses, connects, proves its token where it has
 * one (conn_credentials.h), and calls core_connected(); frames go through net_meta() and net_frame(); net_send() wraps
 * what the core hands out.
 *
 * While a name is looked up (resolve.h) there is no connection yet. A link has one such question at a time: an attempt
 * that is given up leaves it to the next one, and only the end of the client leaves it behind.
 *
 * A connection that the core has done with is detached (conn->link == NULL) and frees itself when libuv has closed it;
 * nothing of it reaches the core any more but the end of its frames. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/api/client_state.h"
#include "client/api/resolve.h"
#include "common/core/wire/shm_offer.h"
#include "common/net/conn_credentials.h"
#include "common/net/sockname.h"

#define SHARE_RING (1 * MIB) /* each way: a few of the largest blocks, and the caches hold it */

struct net_conn {
    struct conn conn;
    ps_client *client;
    struct net_link *link; /* NULL: detached */
    uv_connect_t connect;
    bool loopback;

    /* An offer to share memory: nothing else is sent before the answer. */
    bool offered;
    struct shm_ring share;
    struct conn_out offer;
    uint8_t offer_frame[SHM_OFFER_FRAME_MAX];
};

struct net_out {
    struct conn_out out;
    struct core_send *send;
    struct net_conn *conn;
    struct net_out *free;
};

/* ---- The end of a connection ---- */

static void
net_conn_free(struct net_conn *nc)
{
    nc->client->conns--;
    nc->client->activity++;
    shm_ring_finish(&nc->share);
    free(nc);
}

static void
net_disconnect_closed(struct conn *c)
{
    net_conn_free(c->arg);
}

static void
clear_held(struct net_link *n)
{
    n->held_pushes = n->held_pulls = 0;
    n->held_bytes = 0;
}

static struct net_conn *
net_detach(struct net_link *n)
{
    struct net_conn *nc = n->conn;

    n->conn = NULL;
    n->outs = 0;
    n->flush = false;
    clear_held(n);
    if (nc != NULL)
        nc->link = NULL;
    return nc;
}

/* No connection has come to be. */
static void
net_not_connected(struct net_link *n, enum ps_err code, const char *what, const char *why)
{
    ps_client *c = n->client;
    struct ps_error e;

    ps_fail(&e, code, "%s: %s", what, why);
    core_disconnected(c->core, n->shard, &e, uv_now(&c->loop));
    client_perform(c);
}

/* Nor will this connection. */
static void
net_fail_open(struct net_conn *nc, enum ps_err code, const char *what, const char *why)
{
    struct net_link *n = nc->link;

    conn_close(&nc->conn, net_disconnect_closed);
    net_detach(n);
    net_not_connected(n, code, what, why);
}

void
net_disconnect(struct net_link *n)
{
    struct net_conn *nc = net_detach(n);

    n->wants_address = false;
    if (nc != NULL)
        conn_close(&nc->conn, net_disconnect_closed);
}

void
net_finish_link(struct net_link *n)
{
    struct net_conn *nc = net_detach(n);

    if (nc != NULL)
        conn_finish(&nc->conn, net_disconnect_closed);
}

/* ---- Shared memory ---- */

static void
net_connected(struct net_conn *nc)
{
    ps_client *c = nc->client;

    core_connected(c->core, nc->link->shard, uv_now(&c->loop));
    client_perform(c);
}

static void
net_offer_done(struct conn_out *out, enum ps_err result)
{
    (void)out;
    (void)result; /* on failure the connection ends, and reports it */
}

/* False: no memory can be shared, or the shard is on another machine. */
static bool
net_offer(struct net_conn *nc)
{
    struct shm_offer offer = {.pid = (uint32_t)getpid()};

    if (nc->client->options.transport != PS_TRANSPORT_AUTO || (!nc->loopback && !nc->link->address.is_unix) ||
        shm_ring_make(&nc->share, SHARE_RING, NULL) != PS_OK)
        return false;
    offer.fd = (uint32_t)nc->share.fd;
    offer.token = nc->share.token;
    nc->offer = (struct conn_out){.done = net_offer_done, .head = nc->offer_frame};
    nc->offer.head_len = shm_offer_encode(&offer, nc->offer_frame);
    nc->offered = true;
    conn_send(&nc->conn, &nc->offer, false);
    return true;
}

/* The shard has found the memory, or has not. Its other messages, a refusal for one, are the core's. */
static void
net_answered(struct net_conn *nc, const struct frame_head *head, const void *meta)
{
    bool yes = false;

    nc->offered = false;
    if (head->type == MSG_SHARED && shm_answer_decode(head, meta, &yes, NULL) == PS_OK && yes &&
        conn_shm(&nc->conn, &nc->share) != PS_OK) {
        net_fail_open(nc, PS_ERR_NOMEM, "cannot share memory", "no memory");
        return;
    }
    shm_ring_finish(&nc->share);
    net_connected(nc);
}

/* ---- Frames in ---- */

static void
net_meta(struct conn *c, const struct frame_head *head, const void *meta)
{
    struct net_conn *nc = c->arg;
    struct core_payload_dest place;

    nc->client->activity++;
    if (nc->link == NULL || nc->offered) {
        frame_discard(conn_reader(c));
        return;
    }
    core_meta(nc->client->core, nc->link->shard, head, meta, &place);
    if (head->payload_len > 0 && place.discard)
        frame_discard(conn_reader(c));
    else if (head->payload_len > 0 && place.n > 0)
        frame_direct(conn_reader(c), place.parts, place.n);
    client_perform(nc->client);
}

static void
net_frame(struct conn *c, const struct frame_head *head, const void *meta, const void *payload)
{
    struct net_conn *nc = c->arg;

    nc->client->activity++;
    if (nc->link != NULL && nc->offered)
        net_answered(nc, head, meta);
    if (nc->link == NULL || head->type == MSG_SHARED)
        return;
    core_frame(nc->client->core, nc->link->shard, head, meta, payload, uv_now(&nc->client->loop));
    client_perform(nc->client);
}

static void
net_ended(struct conn *c, const struct ps_error *why)
{
    struct net_conn *nc = c->arg;
    struct net_link *n = nc->link;

    nc->client->activity++;
    if (n == NULL)
        return;
    net_detach(n);
    conn_close(c, net_disconnect_closed);
    core_disconnected(nc->client->core, n->shard, why, uv_now(&nc->client->loop));
    client_perform(nc->client);
}

/* Both sides have proven what they had to. */
static void
net_admitted(struct conn *c, enum role role, const char *token)
{
    struct net_conn *nc = c->arg;

    (void)role;
    (void)token;
    nc->client->activity++;
    if (nc->link != NULL && !net_offer(nc))
        net_connected(nc);
}

static const struct conn_events net_events = {
    .meta = net_meta, .frame = net_frame, .ended = net_ended, .admitted = net_admitted};

/* ---- Connecting ---- */

static const char *
net_congestion(const struct net_conn *nc)
{
    const char *wanted = nc->client->options.congestion;

    if (wanted != NULL)
        return wanted[0] != '\0' ? wanted : NULL;
    /* A congestion control that paces by measured rates halves what a loopback can carry. */
    return nc->loopback ? "reno" : NULL;
}

static void
net_connect_done(uv_connect_t *req, int status)
{
    struct net_conn *nc = CONTAINER_OF(req, struct net_conn, connect);
    ps_client *c = nc->client;

    c->activity++;
    if (nc->link == NULL)
        return;
    if (status == 0 && conn_start(&nc->conn, net_congestion(nc)) != PS_OK)
        status = UV_EIO;
    if (status != 0) {
        net_fail_open(nc, PS_ERR_UNREACHABLE, "cannot connect", uv_strerror(status));
        return;
    }
    if (conn_credentials_connect(&nc->conn, c->options.observer ? ROLE_NONE : ROLE_TRAIN) != PS_OK)
        net_fail_open(nc, PS_ERR_NOMEM, "cannot prove the token", "no memory");
}

/* With a handle, attached to its link; NULL: it failed. */
static struct net_conn *
net_open(struct net_link *n)
{
    struct net_conn *nc = calloc(1, sizeof(*nc));

    if (nc == NULL || conn_init(&nc->conn, &n->client->pool, n->address.is_unix, &net_events, nc) != PS_OK) {
        free(nc);
        net_not_connected(n, PS_ERR_UNREACHABLE, "cannot make a socket", "no memory or no descriptor");
        return NULL;
    }
    nc->client = n->client;
    nc->link = n;
    n->conn = nc;
    n->client->conns++;
    return nc;
}

static void
net_connect_unix(struct net_link *n)
{
    struct net_conn *nc = net_open(n);

    if (nc != NULL)
        uv_pipe_connect(&nc->connect, &nc->conn.u.pipe, n->address.path, net_connect_done);
}

static void
net_connect_tcp(struct net_link *n, const struct sockaddr *to)
{
    struct net_conn *nc = net_open(n);
    struct ps_error e;
    int rc;

    if (nc == NULL)
        return;
    nc->loopback = sockname_is_loopback(to);
    if (credentials_connect(&n->client->credentials, &nc->conn, n->address.host, &e) != PS_OK)
        net_fail_open(nc, e.code, "cannot connect", e.text);
    else if ((rc = uv_tcp_connect(&nc->connect, &nc->conn.u.tcp, to, net_connect_done)) != 0)
        net_fail_open(nc, PS_ERR_UNREACHABLE, "cannot connect", uv_strerror(rc));
}

/* ---- Names ---- */

/* The next of a name's addresses, in rotation: one of them answers. */
static const struct addrinfo *
pick_address(struct net_link *n, const struct addrinfo *list)
{
    const struct addrinfo *at;
    uint32_t k;

    n->addresses = 0;
    for (at = list; at != NULL; at = at->ai_next)
        n->addresses++;
    for (at = list, k = n->attempts++ % n->addresses; k > 0; k--)
        at = at->ai_next;
    return at;
}

static void
net_resolved(struct net_link *n)
{
    bool wanted = n->wants_address;
    struct addrinfo *list;
    const char *why;

    if (n->resolve == NULL || !resolve_done(n->resolve, &list, &why))
        return;
    resolve_leave(n->resolve);
    n->resolve = NULL;
    n->wants_address = false;
    if (wanted && list != NULL)
        net_connect_tcp(n, pick_address(n, list)->ai_addr);
    else if (wanted)
        net_not_connected(n, PS_ERR_UNREACHABLE, "cannot look the name up", why);
    if (list != NULL)
        freeaddrinfo(list);
}

/* Some name of this client's was looked up, or a call is to end. */
static void
net_wake(uv_async_t *async)
{
    ps_client *c = async->data;

    c->activity++;
    for (uint32_t i = 0; i < c->shards; i++)
        net_resolved(&c->links[i]);
    if (c->interrupted)
        progress_notify(&c->progress);
}

static void
net_resolve(struct net_link *n)
{
    if (n->resolve == NULL)
        n->resolve = resolve_start(n->address.host, n->address.port, &n->client->woken);
    if (n->resolve != NULL)
        n->wants_address = true;
    else
        net_not_connected(n, PS_ERR_UNREACHABLE, "cannot look the name up", "no memory or no thread");
}

void
net_connect(struct net_link *n)
{
    struct sockaddr_storage to;

    if (n->address.is_unix)
        net_connect_unix(n);
    else if (uv_ip4_addr(n->address.host, n->address.port, (struct sockaddr_in *)&to) == 0 ||
             uv_ip6_addr(n->address.host, n->address.port, (struct sockaddr_in6 *)&to) == 0)
        net_connect_tcp(n, (struct sockaddr *)&to);
    else
        net_resolve(n);
}

/* ---- Frames out ---- */

static void
net_send_done(struct conn_out *out, enum ps_err result)
{
    struct net_out *o = CONTAINER_OF(out, struct net_out, out);
    struct net_conn *nc = o->conn;
    ps_client *c = nc->client;

    c->activity++;
    if (nc->link != NULL)
        nc->link->outs--;
    core_sent(c->core, o->send, result);
    o->free = c->free_outs;
    c->free_outs = o;
    client_perform(c);
}

void
net_send(struct net_link *n, struct core_send *send)
{
    ps_client *c = n->client;
    struct net_out *o = c->free_outs;
    struct ps_error e;

    if (o != NULL)
        c->free_outs = o->free;
    else if (n->conn != NULL)
        o = malloc(sizeof(*o));
    if (o == NULL || n->conn == NULL) {
        /* Without memory the connection is given up: the core sends again on the next one. */
        free(o);
        core_sent(c->core, send, PS_ERR_CLOSED);
        if (n->conn == NULL)
            return;
        net_disconnect(n);
        ps_fail(&e, PS_ERR_NOMEM, "no memory to send");
        core_disconnected(c->core, n->shard, &e, uv_now(&c->loop));
        return;
    }
    *o = (struct net_out){.send = send, .conn = n->conn};
    o->out.done = net_send_done;
    o->out.head = send->head;
    o->out.head_len = send->head_len;
    o->out.parts = send->parts;
    o->out.parts_len = send->parts_len;
    n->outs++;
    if (c->holding) {
        n->held_pulls += send->asked_len > 0;
        n->held_pushes += send->asked_len == 0;
        n->held_bytes += send->head_len + send->payload_len + send->asked_len;
    } else {
        n->flush = true;
    }
    conn_send(&n->conn->conn, &o->out, true);
}

void
net_flush(struct net_link *n)
{
    n->flush = false;
    clear_held(n);
    if (n->conn != NULL)
        conn_flush(&n->conn->conn);
}

void
net_discard(struct net_link *n)
{
    if (n->conn != NULL)
        frame_discard(conn_reader(&n->conn->conn));
}

/* ---- All of them ---- */

enum ps_err
net_init(ps_client *c, const ps_cluster *cluster, struct ps_error *e)
{
    uint32_t i;
    enum ps_err err;

    c->shards = ps_cluster_shards(cluster);
    if (uv_async_init(&c->loop, &c->woken, net_wake) != 0)
        return ps_fail(e, PS_ERR_IO, "cannot make an event loop: too many open files?");
    c->woken.data = c;
    c->wakes = true;
    if ((c->links = calloc(c->shards, sizeof(*c->links))) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a client");
    for (i = 0; i < c->shards; i++) {
        struct net_link *n = &c->links[i];

        n->client = c;
        n->shard = i;
        if ((err = address_parse(ps_cluster_shard_address(cluster, i), &n->address, e)) != PS_OK)
            return err;
        if ((n->text = strdup(ps_cluster_shard_address(cluster, i))) == NULL)
            return ps_fail(e, PS_ERR_NOMEM, "no memory for a client");
    }
    return PS_OK;
}

void
net_close(ps_client *c)
{
    for (uint32_t i = 0; c->links != NULL && i < c->shards; i++) {
        net_disconnect(&c->links[i]);
        resolve_leave(c->links[i].resolve);
        c->links[i].resolve = NULL;
    }
    if (c->wakes)
        uv_close((uv_handle_t *)&c->woken, NULL);
}

void
net_finish(ps_client *c)
{
    struct net_out *o, *next;
    uint32_t i;

    ps_assert(c->conns == 0);
    for (o = c->free_outs; o != NULL; o = next) {
        next = o->free;
        free(o);
    }
    for (i = 0; c->links != NULL && i < c->shards; i++)
        free(c->links[i].text);
    free(c->links);
}
