/* A frame that succeeds: conn reads it; where not all of it comes at once, the shard says at its head whether it may
 * come, and it is admitted to the memory cap; when it is whole the shard gets it (borrowing the bytes) and it leaves
 * the cap.
 *
 * A connection ends in one of three ways, and the shard is notified of each exactly once (SHARD_CLOSED):
 *     the stream ended or failed     conn reports it: the shard is notified, the connection is closed
 *     its bytes were no frame        the shard receives why (SHARD_BROKEN), answers with ERROR and asks to close
 *     the shard asks to close        what is queued is sent first; the shard is notified when it is closed */
#include "server/daemon/peer.h"

#include <stdlib.h>

#include "common/core/wire/wire.h"
#include "server/daemon/daemon_stats.h"
#include "server/process/log.h"

/* ---- Reading on ---- */

void
peer_resume(struct peer *p)
{
    if (!p->paused_stuffed && !p->paused_for_room && !p->paused_for_turn)
        conn_read_resume(&p->conn);
}

/* ---- Shares of a turn ---- */

/* A message of p has arrived. True: turns are shared with other connections now (daemon.h). */
static bool
peer_shares_turn(struct peer *p)
{
    struct daemon *d = p->daemon;

    if (d->message_turn != d->turn)
        d->message_peer = p->id;
    else if (d->message_peer != p->id)
        d->shared_until = d->turn + PEER_SHARED_TURNS;
    d->message_turn = d->turn;
    return d->turn < d->shared_until;
}

/* Counts a message that costs more to handle than to send. */
static void
count_small(struct peer *p, uint32_t share)
{
    struct daemon *d = p->daemon;

    if (p->turn != d->turn) {
        if (!p->had_share)
            conn_read_at_most(&p->conn, 0);
        p->had_share = false;
        p->turn = d->turn;
        p->small = 0;
    }
    if (++p->small < share || p->paused_for_turn)
        return;
    p->had_share = true;
    p->paused_for_turn = true;
    p->turn_next = d->turn_first;
    d->turn_first = p;
    conn_read_at_most(&p->conn, (size_t)PEER_SMALL_ALONE * FRAME_HEAD_SIZE); /* what is kept back is memory */
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
        peer_resume(p);
    }
}

/* ---- Memory for frames ---- */

static void
frame_leave(struct peer *p)
{
    in_flight_leave(&p->daemon->in_flight, &p->part, p->admitted);
    p->admitted = 0;
}

static void
frame_admitted(struct peer *p, uint64_t bytes)
{
    p->admitted = bytes;
    p->admitted_at = conn_reader(&p->conn)->offset;
}

/* Memory that the frame takes until it is whole (frame.h). */
static uint64_t
frame_bytes(const struct frame_head *head)
{
    uint64_t payload = head->payload_len + frame_pad(head->payload_len);

    return head->meta_len + (payload > 0 ? buffer_pool_size(payload) : 0);
}

static enum ps_err
on_head(struct conn *c, const struct frame_head *head, struct ps_error *why)
{
    struct peer *p = c->arg;
    struct daemon *d = p->daemon;
    uint64_t bytes = frame_bytes(head);
    enum ps_err err;

    if (bytes <= PEER_FRAME_FREE)
        return PS_OK;
    if ((err = shard_head(d->shard, p->id, head, p->role, why)) != PS_OK)
        return err;
    peers_count_other(d);
    if (in_flight_admit(&d->in_flight, &p->part, bytes)) {
        frame_admitted(p, bytes);
        return PS_OK;
    }
    p->paused_for_room = true;
    conn_read_pause(c);
    if (daemon_may_log(d, &d->full_log_ms))
        log_line(LOG_LEVEL_WARNING, "messages in memory reached their cap: reading waits in_flight=%llu max=%llu",
                 (unsigned long long)in_flight_bytes(&d->in_flight), (unsigned long long)d->in_flight.max);
    return PS_OK;
}

void
peers_count_other(struct daemon *d)
{
    d->in_flight.other = d->rings_bytes + d->pool.kept_bytes + shard_waiting_bytes(d->shard);
}

static void
peer_read_on(struct peer *p)
{
    frame_admitted(p, p->part.incoming);
    p->paused_for_room = false;
    peer_check_stuffed(p); /* what has taken memory is read */
    peer_resume(p);
}

void
peers_admit(struct daemon *d)
{
    struct in_flight_part *part;
    enum in_flight_kind kind;

    if (d->admitting || d->in_flight.first == NULL)
        return;
    d->admitting = true;
    peers_count_other(d);
    while ((part = in_flight_next(&d->in_flight, &kind)) != NULL) {
        struct peer *p = CONTAINER_OF(part, struct peer, part);

        if (kind == IN_FLIGHT_FRAME)
            peer_read_on(p);
        else
            conn_flush(&p->conn);
    }
    d->admitting = false;
}

/* All of the frame had been read when it was made to wait, and there was no memory to keep it back. */
static void
stop_waiting(struct peer *p)
{
    in_flight_forget(&p->daemon->in_flight, &p->part);
    p->admitted = 0;
    p->paused_for_room = false;
    peer_resume(p);
}

/* ---- Closing ---- */

struct shard_event
peer_event(const struct peer *p, enum shard_event_kind kind)
{
    return (struct shard_event){.kind = kind, .conn = p->id, .in_flight_bytes = in_flight_bytes(&p->daemon->in_flight)};
}

static void
tell_closed(struct peer *p)
{
    struct shard_event event = peer_event(p, SHARD_CLOSED);

    if (!p->opened || p->reported_closed)
        return;
    p->reported_closed = true;
    p->daemon->opened_len--;
    daemon_step(p->daemon, &event);
}

static void
peer_unlist(struct peer *p)
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
peer_lingers(struct peer *p, bool lingers)
{
    struct daemon *d = p->daemon;

    if (p->lingers == lingers)
        return;
    p->lingers = lingers;
    if (!lingers) {
        DL_DELETE2(d->lingering, p, linger_prev, linger_next);
        d->lingering_len--;
        return;
    }
    DL_APPEND2(d->lingering, p, linger_prev, linger_next);
    d->lingering_len++;
}

static void
peer_anonymous(struct peer *p)
{
    in_flight_assign(&p->part, IN_FLIGHT_ROLE, NULL);
    in_flight_assign(&p->part, IN_FLIGHT_IDENTITY, NULL);
    if (p->identity != NULL)
        p->identity->reserved -= p->reserved;
    client_identity_give(&p->daemon->identities, p->identity);
    p->identity = NULL;
}

void
peer_identify(struct peer *p, const char *name)
{
    struct daemon *d = p->daemon;

    peer_anonymous(p);
    in_flight_assign(&p->part, IN_FLIGHT_ROLE, &d->roles[p->role]);
    if ((p->identity = client_identity_take(&d->identities, name)) != NULL)
        in_flight_assign(&p->part, IN_FLIGHT_IDENTITY, &p->identity->share);
    p->reserved = p->reserved && p->identity != NULL;
    if (p->reserved)
        p->identity->reserved++;
}

void
peer_closed(struct conn *c)
{
    struct peer *p = c->arg;
    struct daemon *d = p->daemon;

    tell_closed(p);
    tls_listener_leave(p);
    restore_requests_gone(d, p->id);
    in_flight_forget(&d->in_flight, &p->part);
    peer_anonymous(p);
    d->rings_bytes -= p->ring_bytes;
    d->leaving_bytes -= p->leaving;
    peer_unlist(p);
    peer_lingers(p, false);
    peer_looked_at(p, false);
    peer_proven(p);
    HASH_DEL(d->peers, p);
    free(p);
    peers_admit(d);
}

void
peers_end_lingering(struct daemon *d, uint32_t most)
{
    while (d->lingering_len > most) {
        struct peer *p = d->lingering;

        peer_lingers(p, false);
        conn_close(&p->conn, peer_closed);
    }
}

void
peer_close(struct peer *p)
{
    if (p->shaking) { /* before the handshake is done nothing can be sent */
        conn_close(&p->conn, peer_closed);
        return;
    }
    conn_finish(&p->conn, peer_closed);
    peer_lingers(p, true);
}

/* ---- Shared memory ---- */

/* A peer on another machine has no memory here: the process that it names would be a different one. */
static bool
may_share(const struct peer *p)
{
    return p->conn.local && !p->spoke && p->daemon->pool.shm_len < p->daemon->options->shared_max;
}

/* What is shared must not push out messages that are there: of them none could be given up for it. */
static bool
peer_has_room_for_ring(struct daemon *d, uint64_t bytes)
{
    peers_count_other(d);
    return d->rings_bytes + bytes <= d->in_flight.max / 2 && in_flight_bytes(&d->in_flight) + bytes <= d->in_flight.max;
}

/* False: the memory cannot be used here. */
static bool
peer_take_offer(struct peer *p, const struct shm_offer *offer)
{
    struct daemon *d = p->daemon;
    struct shm_ring memory;
    struct ps_error e;
    uint64_t bytes;

    if (!may_share(p))
        return false;
    if (shm_ring_find(&memory, (pid_t)offer->pid, (int)offer->fd, offer->token, &e) != PS_OK) {
        log_line(LOG_LEVEL_DEBUG, "no shared memory: %s peer=%s", e.text, p->conn.peer);
        return false;
    }
    bytes = 2 * memory.ring_bytes;
    if (memory.ring_bytes > PEER_RING_MAX || !peer_has_room_for_ring(d, bytes)) {
        log_line(LOG_LEVEL_DEBUG, "no shared memory: %zu bytes are too many peer=%s", memory.ring_bytes, p->conn.peer);
        shm_ring_finish(&memory);
        return false;
    }
    p->memory = memory;
    p->ring_bytes = bytes;
    d->rings_bytes += bytes;
    return true;
}

static void
answer_done(struct conn_out *out, enum ps_err result)
{
    (void)out;
    (void)result; /* when it failed the connection ends, and reports that */
}

/* The answer is the last frame on the stream: it is small, and the first one. */
static void
on_offer(struct peer *p, const struct frame_head *head, const void *meta)
{
    struct shm_offer offer;
    struct ps_error e;
    bool yes;

    if (shm_offer_decode(head, meta, &offer, &e) != PS_OK || p->answered) {
        log_line(LOG_LEVEL_INFO, "closed: it offers memory where it may not peer=%s", p->conn.peer);
        conn_close(&p->conn, peer_closed);
        return;
    }
    p->answered = true;
    yes = peer_take_offer(p, &offer);
    p->answer = (struct conn_out){.done = answer_done, .head = p->answer_frame};
    p->answer.head_len = shm_answer_encode(yes, p->answer_frame);
    conn_send(&p->conn, &p->answer, false);
    if (yes && (conn_queued(&p->conn) || conn_shm(&p->conn, &p->memory) != PS_OK)) {
        shm_ring_finish(&p->memory);
        conn_close(&p->conn, peer_closed);
    }
}

/* ---- Frames ---- */

static void
on_frame(struct conn *c, const struct frame_head *head, const void *meta, const void *payload)
{
    struct peer *p = c->arg;
    struct shard_event event = peer_event(p, SHARD_FRAME);
    struct shard_figures figures;
    bool shared = peer_shares_turn(p);

    if (head->type == MSG_SHARE) {
        on_offer(p, head, meta);
        return;
    }
    p->spoke = true;
    if (head->type == MSG_QUERY) {
        daemon_stats_read(p->daemon, &figures);
        event.figures = &figures;
    }
    event.head = head;
    event.meta = meta;
    event.payload = payload;
    event.unstable = conn_shares(c);
    event.role = p->role;
    event.token = p->token;
    event.share = p->identity != NULL ? &p->identity->waiting : NULL;
    daemon_step(p->daemon, &event);
    if (head->payload_len + head->meta_len <= PEER_SMALL_BYTES)
        count_small(p, shared ? PEER_SMALL_SHARED : PEER_SMALL_ALONE);
    if (p->paused_for_room)
        stop_waiting(p);
    frame_leave(p);
    peer_check_stuffed(p);
    peers_admit(p->daemon);
}

static void
on_ended(struct conn *c, const struct ps_error *why)
{
    struct peer *p = c->arg;
    struct shard_event event = peer_event(p, SHARD_BROKEN);

    if (p->shaking) {
        peer_not_secured(p, why);
        return;
    }
    if (c->refused) {
        peer_denied(p, why);
        tell_closed(p);
        conn_finish(c, peer_closed);
        return;
    }
    if (p->opened && (why->code == PS_ERR_PROTOCOL || why->code == PS_ERR_VERSION || why->code == PS_ERR_DENIED)) {
        event.error = why;
        daemon_step(p->daemon, &event);
        return;
    }
    if (why->code != PS_ERR_CLOSED)
        log_line(LOG_LEVEL_INFO, "connection lost: %s peer=%s", why->text, c->peer);
    tell_closed(p);
    conn_close(c, peer_closed);
}

const struct conn_events peer_events = {
    .secured = peer_secured, .head = on_head, .frame = on_frame, .ended = on_ended, .admitted = peer_admitted};

struct peer *
peer_find(struct daemon *d, uint64_t id)
{
    struct peer *p;

    HASH_FIND(hh, d->peers, &id, sizeof id, p);
    return p;
}

/* ---- Housekeeping ---- */

/* Gives back what is in memory of the frame that is being read; the rest of it will be discarded. */
static void
frame_drop(struct peer *p)
{
    struct frame_reader *r = conn_reader(&p->conn);
    uint64_t kept;

    frame_discard(r);
    frame_reader_trim(r);
    kept = MIN(p->admitted, frame_reader_bytes(r));
    in_flight_leave(&p->daemon->in_flight, &p->part, p->admitted - kept);
    p->admitted = kept;
}

/* Ends a connection that takes more than its share. It is sent the reason, unless it does not read. */
static void
peer_expel(struct peer *p, const char *why)
{
    struct shard_event event = peer_event(p, SHARD_BROKEN);
    struct ps_error e;

    if (p->expelled) { /* it does not go either */
        conn_close(&p->conn, peer_closed);
        return;
    }
    p->expelled = true;
    p->daemon->refused[REFUSAL_IN_FLIGHT]++;
    log_line(LOG_LEVEL_WARNING, "closed: %s peer=%s identity=\"%s\"", why, p->conn.peer,
             p->identity != NULL ? p->identity->name : "");
    if (!p->opened || p->reported_closed || conn_queued(&p->conn)) {
        conn_close(&p->conn, peer_closed);
        return;
    }
    ps_error_set(&e, PS_ERR_LIMIT, "%s", why);
    event.error = &e;
    conn_read_pause(&p->conn);
    frame_drop(p);
    daemon_step(p->daemon, &event);
}

/* Whether the rest of its message comes, and its answers are fetched. */
static enum peer_pace_verdict
peer_look(struct peer *p)
{
    const struct daemon *d = p->daemon;
    const struct peer_pace_now reads = {.awaited = p->admitted > 0,
                                        .item = p->admitted_at,
                                        .bytes = conn_reader(&p->conn)->offset,
                                        .ms = d->watched_ms};
    const struct peer_pace_now fetches = {.awaited = p->part.outgoing > IN_FLIGHT_STUFFED && conn_writes(&p->conn),
                                          .item = p->sent,
                                          .bytes = conn_written(&p->conn),
                                          .ms = d->watched_ms};
    enum peer_pace_verdict read = peer_pace_look(&p->reads, &reads, d->options->frame_ms);
    enum peer_pace_verdict fetched = peer_pace_look(&p->fetches, &fetches, d->options->frame_ms);

    return read != PEER_PACE_FAIR ? read : fetched;
}

static void
peer_judge(struct peer *p)
{
    static const char *const why[] = {
        [PEER_PACE_LATE] = "its message did not come, or its answer was not fetched, within --frame-timeout while "
                           "others waited for memory",
        [PEER_PACE_STALLED] = "it stalls while others wait for memory (--in-flight)"};
    enum peer_pace_verdict verdict = peer_look(p);

    if (verdict != PEER_PACE_FAIR && p->leaving == 0 && in_flight_is_awaited_from(&p->daemon->in_flight, &p->part))
        peer_expel(p, why[verdict]);
}

void
peers_check_stalls(struct daemon *d)
{
    uint64_t now = uv_now(&d->loop);
    struct peer *p, *next;

    d->watched_ms += MIN(now - d->looked_ms, PEER_WATCH_MS);
    d->looked_ms = now;
    peers_admit(d);
    HASH_ITER (hh, d->peers, p, next)
        peer_judge(p);
}

/* ---- Too much in memory ---- */

/* What it holds of answers and of requests that wait. */
static uint64_t
peer_holds(const struct peer *p)
{
    return p->part.outgoing + shard_connection_waiting_bytes(p->daemon->shard, p->id);
}

static uint64_t
peer_identity_holds(const struct peer *p)
{
    const struct client_identity *i = p->identity;

    return i != NULL ? i->share.outgoing + i->waiting.parked_bytes : 0;
}

static bool
peer_holds_more(const struct peer *p, const struct peer *than)
{
    uint64_t a = peer_identity_holds(p), b = than != NULL ? peer_identity_holds(than) : 0;

    return than == NULL || (a != b ? a > b : peer_holds(p) > peer_holds(than));
}

static struct peer *
peer_largest(struct daemon *d)
{
    struct peer *p, *next, *largest = NULL;

    HASH_ITER (hh, d->peers, p, next)
        if (p->leaving == 0 && peer_holds(p) > 0 && peer_holds_more(p, largest))
            largest = p;
    return largest;
}

static void
peer_shed(struct peer *p)
{
    struct daemon *d = p->daemon;

    p->leaving = peer_holds(p);
    d->leaving_bytes += p->leaving;
    d->refused[REFUSAL_IN_FLIGHT]++;
    log_line(LOG_LEVEL_WARNING,
             "closed: LIMIT: it does not fetch its answers, and memory is full (--in-flight) peer=%s identity=\"%s\"",
             p->conn.peer, p->identity != NULL ? p->identity->name : "");
    conn_close(&p->conn, peer_closed);
}

void
peers_shed(struct daemon *d)
{
    struct in_flight *f = &d->in_flight;
    struct peer *p;

    peers_count_other(d);
    d->pool.read_max = in_flight_bytes(f) - d->rings_bytes > f->max / 2 ? PEER_FRAME_FREE : 0;
    while (in_flight_over(f, d->leaving_bytes) && (p = peer_largest(d)) != NULL)
        peer_shed(p);
}

void
peers_close_all(struct daemon *d)
{
    struct peer *p, *next;

    HASH_ITER (hh, d->peers, p, next)
        if (p->unproven)
            conn_close(&p->conn, peer_closed);
        else
            peer_close(p);
}
