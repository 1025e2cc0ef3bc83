#include "client/group/links/link_tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

struct link_tcp {
    struct rank_link link;
    struct conn *conn; /* NULL: closed */
    void (*closed)(struct rank_link *l);
};

/* ---- Frames ---- */

static void
tcp_meta(struct conn *c, const struct frame_head *head, const void *meta)
{
    struct link_tcp *t = c->arg;
    struct rank_link_dest dest = {0};

    t->link.events->dest(&t->link, head, meta, &dest);
    if (dest.discard)
        frame_discard(conn_reader(c));
    else if (dest.parts_len > 0)
        frame_direct(conn_reader(c), dest.parts, dest.parts_len);
}

static void
tcp_frame(struct conn *c, const struct frame_head *head, const void *meta, const void *payload)
{
    struct link_tcp *t = c->arg;

    t->link.events->frame(&t->link, head, meta, payload);
}

static void
tcp_ended(struct conn *c, const struct ps_error *why)
{
    struct link_tcp *t = c->arg;

    t->link.events->ended(&t->link, why);
}

static const struct conn_events tcp_events = {.meta = tcp_meta, .frame = tcp_frame, .ended = tcp_ended};

static void
tcp_out_done(struct conn_out *o, enum ps_err result)
{
    struct rank_link_out *out = CONTAINER_OF(o, struct rank_link_out, u.conn);

    out->done(out, result);
}

static void
tcp_send(struct rank_link *l, struct rank_link_out *out)
{
    struct link_tcp *t = CONTAINER_OF(l, struct link_tcp, link);

    out->link = l;
    if (t->conn == NULL) {
        out->done(out, PS_ERR_CLOSED);
        return;
    }
    out->u.conn = (struct conn_out){.done = tcp_out_done,
                                    .head = out->head,
                                    .head_len = out->head_len,
                                    .parts = out->parts,
                                    .parts_len = out->parts_len};
    conn_send(t->conn, &out->u.conn, true);
}

static void
tcp_flush(struct rank_link *l)
{
    struct link_tcp *t = CONTAINER_OF(l, struct link_tcp, link);

    if (t->conn != NULL)
        conn_flush(t->conn);
}

static bool
tcp_poll(struct rank_link *l)
{
    struct link_tcp *t = CONTAINER_OF(l, struct link_tcp, link);

    return t->conn != NULL && conn_poll(t->conn);
}

static void
tcp_cut(struct rank_link *l)
{
    struct link_tcp *t = CONTAINER_OF(l, struct link_tcp, link);

    if (t->conn != NULL)
        conn_cut(t->conn);
}

/* ---- Life ---- */

static void
tcp_closed(struct conn *c)
{
    struct link_tcp *t = c->arg;

    t->conn = NULL;
    free(c);
    if (t->closed != NULL)
        t->closed(&t->link);
}

static void
tcp_finish(struct rank_link *l, uint32_t patience_ms, void (*closed)(struct rank_link *l))
{
    struct link_tcp *t = CONTAINER_OF(l, struct link_tcp, link);

    if (t->closed == NULL)
        t->closed = closed;
    if (t->conn != NULL)
        conn_leave(t->conn, patience_ms, tcp_closed);
}

static void
tcp_close(struct rank_link *l, void (*closed)(struct rank_link *l))
{
    struct link_tcp *t = CONTAINER_OF(l, struct link_tcp, link);

    if (t->closed == NULL)
        t->closed = closed;
    if (t->conn != NULL)
        conn_close(t->conn, tcp_closed);
}

static void
tcp_destroy(struct rank_link *l)
{
    free(CONTAINER_OF(l, struct link_tcp, link));
}

static const struct rank_link_ops tcp_ops = {
    .name = "tcp",
    .send = tcp_send,
    .flush = tcp_flush,
    .poll = tcp_poll,
    .cut = tcp_cut,
    .finish = tcp_finish,
    .close = tcp_close,
    .destroy = tcp_destroy,
};

/* Notice bytes that the other side does not take, and a connection on which nothing moves at all. */
static void
notice_silence(int fd, uint32_t silence_ms)
{
    unsigned user_ms = silence_ms < 1000 ? 1000 : silence_ms;
    int on = 1, idle_s = (int)(user_ms / 2000), probe_s = (int)(user_ms / 8000), probes = 4;

    idle_s = idle_s < 1 ? 1 : idle_s > 7200 ? 7200 : idle_s;
    probe_s = probe_s < 1 ? 1 : probe_s > 600 ? 600 : probe_s;
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &probe_s, sizeof probe_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_ms, sizeof user_ms);
}

struct rank_link *
link_tcp_new(struct conn *conn, uint32_t rank, uint32_t silence_ms)
{
    struct link_tcp *t = calloc(1, sizeof *t);

    if (t == NULL)
        return NULL;
    t->link = (struct rank_link){.ops = &tcp_ops, .rank = rank};
    t->conn = conn;
    conn->events = &tcp_events;
    conn->arg = t;
    notice_silence(conn->fd, silence_ms);
    return &t->link;
}
