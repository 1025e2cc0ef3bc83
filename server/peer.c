/* A frame, happily: conn reads it; at its metadata the payload is admitted to the memory cap; when it is whole the
 * shard gets it (borrowing the bytes) and the payload leaves the cap. Answers are queued during the turn and written at
 * its end; an answer with blocks is built only when it is first in line, from a snapshot of the newest commit that is
 * held until the bytes were sent or copied.
 *
 * A connection ends in one of three ways, and the shard hears of each exactly once (SHARD_CLOSED):
 *     the stream ended or failed     conn says ended: the shard is told, the connection is closed
 *     its bytes were no frame        the shard is told why (SHARD_BROKEN), answers with ERROR and asks to close
 *     the shard asks to close        what is queued goes out first; the shard is told when it is gone */
#include "peer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/wire.h"
#include "figures.h"
#include "log.h"

#define DESCRIPTORS_KEPT 8

/* ---- Answers ---- */

/* A frame that waits to be sent: bytes of the shard's, or blocks. */
struct answer {
    struct conn_out out;
    struct peer *peer;
    uint64_t counted; /* in the memory cap */
    uint8_t *bytes;
    struct shard_data *data;
    struct store_snapshot *snapshot;
};

static void peer_closed(struct conn *c);

static void
resume(struct peer *p)
{
    if (!p->paused_stuffed && !p->paused_for_room && !p->paused_for_turn)
        conn_read_resume(&p->conn);
}

static void
stuffed_check(struct peer *p)
{
    bool stuffed = in_flight_stuffed(&p->daemon->in_flight, &p->part);

    if (stuffed == p->paused_stuffed)
        return;
    p->paused_stuffed = stuffed;
    if (!stuffed) {
        resume(p);
        return;
    }
    p->daemon->in_flight.part_waits++;
    conn_read_pause(&p->conn);
}

static void
answer_count(struct answer *a, uint64_t bytes)
{
    in_flight_queue(&a->peer->daemon->in_flight, &a->peer->part, bytes);
    a->counted += bytes;
}

static void
answer_release(struct conn_out *out)
{
    struct answer *a = CONTAINER_OF(out, struct answer, out);
    struct store *store = a->peer->daemon->store;

    if (a->snapshot != NULL)
        store->ops->snapshot_unref(store, a->snapshot);
    a->snapshot = NULL;
}

static enum ps_err
answer_prepare(struct conn_out *out)
{
    struct answer *a = CONTAINER_OF(out, struct answer, out);
    struct daemon *d = a->peer->daemon;
    struct shard_reply reply;
    enum ps_err err;

    if ((err = d->store->ops->snapshot_ref(d->store, &a->snapshot)) != PS_OK)
        return err;
    if ((err = shard_data_open(d->shard, a->data, a->snapshot, &reply)) != PS_OK) {
        answer_release(out);
        return err;
    }
    out->head = reply.head;
    out->head_len = reply.head_len;
    out->parts = reply.parts;
    out->parts_len = reply.parts_len;
    answer_count(a, reply.payload_len); /* should the peer be slow, this much may be copied */
    return PS_OK;
}

static void
answer_done(struct conn_out *out, enum ps_err result)
{
    struct answer *a = CONTAINER_OF(out, struct answer, out);
    struct peer *p = a->peer;

    answer_release(out);
    in_flight_sent(&p->daemon->in_flight, &p->part, a->counted);
    p->sent++;
    shard_data_free(a->data);
    free(a->bytes);
    free(a);
    if (result == PS_ERR_CLOSED)
        return;
    if (result == PS_OK) {
        stuffed_check(p);
        return;
    }
    log_line(LOG_LEVEL_ERROR, "cannot answer: %s peer=%s", ps_strerror(result), p->conn.peer);
    conn_close(&p->conn, peer_closed); /* one answer is missing: the worker comes back and asks again */
}

static struct answer *
answer_new(struct peer *p)
{
    struct answer *a = calloc(1, sizeof *a);

    if (a == NULL)
        return NULL;
    a->peer = p;
    a->out.done = answer_done;
    return a;
}

static void
answer_queue(struct answer *a, uint64_t bytes)
{
    struct peer *p = a->peer;
    struct daemon *d = p->daemon;

    answer_count(a, bytes + sizeof *a);
    conn_send(&p->conn, &a->out, true);
    stuffed_check(p);
    if (p->flushing)
        return;
    p->flushing = true;
    p->flush_next = d->flush_first;
    d->flush_first = p;
}

/* Without memory for an answer the connection goes: the worker comes back and asks again. */
static void
out_of_memory(struct peer *p)
{
    log_line(LOG_LEVEL_ERROR, "out of memory for an answer peer=%s", p->conn.peer);
    peer_close(p);
}

void
peer_send(struct peer *p, uint8_t *bytes, size_t len)
{
    struct answer *a = answer_new(p);

    if (a == NULL) {
        free(bytes);
        out_of_memory(p);
        return;
    }
    a->bytes = bytes;
    a->out.head = bytes;
    a->out.head_len = len;
    answer_queue(a, len);
}

void
peer_send_data(struct peer *p, struct shard_data *data)
{
    struct answer *a = answer_new(p);

    if (a == NULL) {
        shard_data_free(data);
        out_of_memory(p);
        return;
    }
    a->data = data;
    a->out.prepare = answer_prepare;
    a->out.release = answer_release;
    a->out.pinned = true;
    answer_queue(a, shard_data_bytes(data));
}

void
peers_flush(struct daemon *d)
{
    while (d->flush_first != NULL) {
        struct peer *p = d->flush_first;

        d->flush_first = p->flush_next;
        p->flushing = false;
        conn_flush(&p->conn);
    }
}

/* ---- Events ---- */

static struct shard_event
event_of(const struct peer *p, enum shard_event_kind kind)
{
    return (struct shard_event){.kind = kind, .conn = p->id, .in_flight_bytes = in_flight_bytes(&p->daemon->in_flight)};
}

static void
tell_closed(struct peer *p)
{
    struct shard_event event = event_of(p, SHARD_CLOSED);

    if (!p->opened || p->told_closed)
        return;
    p->told_closed = true;
    daemon_step(p->daemon, &event);
}

static void
unlist(struct peer *p)
{
    struct peer **at = &p->daemon->flush_first, **turn = &p->daemon->turn_first;

    while (p->flushing && *at != p)
        at = &(*at)->flush_next;
    if (p->flushing)
        *at = p->flush_next;
    while (p->paused_for_turn && *turn != p)
        turn = &(*turn)->turn_next;
    if (p->paused_for_turn)
        *turn = p->turn_next;
    p->flushing = p->paused_for_turn = false;
}

static void
peer_closed(struct conn *c)
{
    struct peer *p = c->arg;
    struct daemon *d = p->daemon;

    tell_closed(p);
    in_flight_forget(&d->in_flight, &p->part);
    unlist(p);
    HASH_DEL(d->peers, p);
    free(p);
    peers_admit(d);
}

void
peer_close(struct peer *p)
{
    conn_finish(&p->conn, peer_closed);
}

static void
payload_leave(struct peer *p)
{
    in_flight_leave(&p->daemon->in_flight, &p->part, p->payload);
    p->payload = 0;
}

static void
on_meta(struct conn *c, const struct frame_head *head, const void *meta)
{
    struct peer *p = c->arg;
    struct daemon *d = p->daemon;

    (void)meta;
    if (in_flight_admit(&d->in_flight, &p->part, head->payload_len)) {
        p->payload = head->payload_len;
        return;
    }
    p->paused_for_room = true;
    conn_read_pause(c);
    if (daemon_may_log(d, &d->full_log_ms))
        log_line(LOG_LEVEL_WARNING, "messages in memory reached their cap: reading waits in_flight=%llu max=%llu",
                 (unsigned long long)in_flight_bytes(&d->in_flight), (unsigned long long)d->in_flight.max);
}

void
peers_admit(struct daemon *d)
{
    struct in_flight_part *part;

    while ((part = in_flight_next(&d->in_flight)) != NULL) {
        struct peer *p = CONTAINER_OF(part, struct peer, part);

        p->payload = part->incoming;
        p->paused_for_room = false;
        resume(p);
    }
}

/* ---- Shares of a turn ---- */

/* A message that costs more to handle than to send. */
static void
count_small(struct peer *p)
{
    struct daemon *d = p->daemon;

    if (p->turn != d->turn) {
        if (p->small < PEER_SMALL_MAX)
            conn_read_at_most(&p->conn, 0);
        p->turn = d->turn;
        p->small = 0;
    }
    if (++p->small < PEER_SMALL_MAX || p->paused_for_turn)
        return;
    p->paused_for_turn = true;
    p->turn_next = d->turn_first;
    d->turn_first = p;
    conn_read_at_most(&p->conn, PEER_SMALL_READ);
    conn_read_pause(&p->conn);
}

void
peers_next_turn(struct daemon *d)
{
    d->turn++;
    while (d->turn_first != NULL) {
        struct peer *p = d->turn_first;

        d->turn_first = p->turn_next;
        p->paused_for_turn = false;
        resume(p);
    }
}

/* All of the payload lay in what had been read already when it was told to wait. */
static void
stop_waiting(struct peer *p)
{
    in_flight_forget(&p->daemon->in_flight, &p->part);
    p->payload = 0;
    p->paused_for_room = false;
    resume(p);
}

static void
on_frame(struct conn *c, const struct frame_head *head, const void *meta, const void *payload)
{
    struct peer *p = c->arg;
    struct shard_event event = event_of(p, SHARD_FRAME);
    struct shard_figures figures;

    if (head->type == MSG_QUERY) {
        figures_read(p->daemon, &figures);
        event.figures = &figures;
    }
    event.head = head;
    event.meta = meta;
    event.payload = payload;
    daemon_step(p->daemon, &event);
    if (head->payload_len + head->meta_len <= PEER_SMALL_BYTES)
        count_small(p);
    if (p->paused_for_room)
        stop_waiting(p);
    payload_leave(p);
    peers_admit(p->daemon);
}

static void
on_ended(struct conn *c, const struct ps_error *why)
{
    struct peer *p = c->arg;
    struct shard_event event = event_of(p, SHARD_BROKEN);

    if (p->opened && (why->code == PS_ERR_PROTOCOL || why->code == PS_ERR_VERSION)) {
        event.error = why;
        daemon_step(p->daemon, &event);
        return;
    }
    if (why->code != PS_ERR_CLOSED)
        log_line(LOG_LEVEL_INFO, "connection lost: %s peer=%s", why->text, c->peer);
    tell_closed(p);
    conn_close(c, peer_closed);
}

static const struct conn_events peer_events = {.meta = on_meta, .frame = on_frame, .ended = on_ended};

/* ---- Accepting ---- */

/* Loopback has no congestion and no losses to learn from; what is made for long paths (bbr paces) halves its rate. */
static const char *
congestion_for(struct peer *p, bool is_unix)
{
    const char *wanted = p->daemon->options->tcp_congestion;
    struct sockaddr_storage address;
    int len = sizeof address;
    const struct sockaddr_in *v4 = (const void *)&address;
    const struct sockaddr_in6 *v6 = (const void *)&address;

    if (is_unix)
        return NULL;
    if (strcmp(wanted, "auto") != 0)
        return strcmp(wanted, "system") == 0 ? NULL : wanted;
    if (uv_tcp_getpeername(&p->conn.u.tcp, (struct sockaddr *)&address, &len) != 0)
        return NULL;
    if (address.ss_family == AF_INET)
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127 ? "reno" : NULL;
    if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        return v6->sin6_addr.s6_addr[12] == 127 ? "reno" : NULL;
    return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) ? "reno" : NULL;
}

/* Why the newcomer cannot stay, or NULL. When not one descriptor is left libuv closes newcomers by itself, unseen: so
 * the last few are kept to say so. */
static const char *
why_refuse(const struct peer *p)
{
    struct daemon *d = p->daemon;
    struct rlimit limit;
    uv_os_fd_t fd;

    if (HASH_COUNT(d->peers) > d->options->connections_max) {
        d->connections_refused++;
        return "this shard has as many connections as --connections-max allows";
    }
    if (uv_fileno(&p->conn.u.handle, &fd) == 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
        limit.rlim_cur != RLIM_INFINITY && (rlim_t)fd + DESCRIPTORS_KEPT >= limit.rlim_cur) {
        d->descriptors_refused++;
        return "this shard has used up its file descriptors (ulimit -n)";
    }
    return NULL;
}

/* It is told, and goes. */
static void
refuse(struct peer *p, const char *text)
{
    struct daemon *d = p->daemon;
    Psd__Error message = PSD__ERROR__INIT;
    uint8_t *bytes;
    size_t len;

    message.code = PS_ERR_LIMIT;
    message.text = (char *)(uintptr_t)text;
    if (daemon_may_log(d, &d->refused_log_ms))
        log_line(LOG_LEVEL_WARNING, "refused a connection: %s peer=%s", text, p->conn.peer);
    bytes = wire_encode_new(MSG_ERROR, 0, &message.base, 0, &len);
    if (bytes != NULL)
        peer_send(p, bytes, len);
    peer_close(p);
    peers_flush(d);
}

static void
begin(struct peer *p, bool is_unix)
{
    struct daemon *d = p->daemon;
    struct shard_event event;
    const char *why;
    enum ps_err err;

    if ((err = conn_start(&p->conn, congestion_for(p, is_unix))) != PS_OK) {
        log_line(LOG_LEVEL_WARNING, "cannot read from a connection: %s", ps_strerror(err));
        conn_close(&p->conn, peer_closed);
        return;
    }
    if ((why = why_refuse(p)) != NULL) {
        refuse(p, why);
        return;
    }
    p->opened = true;
    event = event_of(p, SHARD_OPENED);
    event.peer = p->conn.peer;
    daemon_step(d, &event);
}

void
peer_accept(struct daemon *d, uv_stream_t *listening, bool is_unix)
{
    struct peer *p = calloc(1, sizeof *p);
    int status;

    if (p == NULL || conn_init(&p->conn, &d->pool, is_unix, &peer_events, p) != PS_OK) {
        if (daemon_may_log(d, &d->accept_log_ms))
            log_line(LOG_LEVEL_ERROR, "cannot accept connections: out of memory");
        free(p);
        return;
    }
    p->daemon = d;
    p->id = ++d->next_id;
    HASH_ADD(hh, d->peers, id, sizeof p->id, p);
    if ((status = uv_accept(listening, &p->conn.u.stream)) != 0) {
        if (daemon_may_log(d, &d->accept_log_ms))
            log_line(LOG_LEVEL_WARNING, "cannot accept a connection: %s", uv_strerror(status));
        conn_close(&p->conn, peer_closed);
        return;
    }
    begin(p, is_unix);
}

struct peer *
peer_find(struct daemon *d, uint64_t id)
{
    struct peer *p;

    HASH_FIND(hh, d->peers, &id, sizeof id, p);
    return p;
}

/* ---- Housekeeping ---- */

static bool
holds_room(const struct daemon *d, const struct peer *p)
{
    return p->part.incoming > 0 || p->part.outgoing > d->in_flight.part_max / 16;
}

void
peers_check_stalls(struct daemon *d)
{
    uint64_t now = uv_now(&d->loop);
    struct peer *p, *next;

    HASH_ITER (hh, d->peers, p, next) {
        uint64_t offset = conn_reader(&p->conn)->offset;

        if (offset - p->seen_offset >= PEER_STALL_BYTES || p->sent != p->seen_sent || !holds_room(d, p)) {
            p->seen_offset = offset;
            p->seen_sent = p->sent;
            p->moved_ms = now;
        } else if (d->in_flight.first != NULL && now - p->moved_ms >= PEER_STALL_MS) {
            log_line(LOG_LEVEL_WARNING, "closed: it stalls while others wait for memory peer=%s", p->conn.peer);
            conn_close(&p->conn, peer_closed);
        }
    }
}

void
peers_close_all(struct daemon *d)
{
    struct peer *p, *next;

    HASH_ITER (hh, d->peers, p, next)
        peer_close(p);
}
