/* Frames through two rings of shared memory (common/net/frame_ring.h), which a connection to a shard uses as well.
 *
 * Out: send() copies a frame into the ring or queues it (ring_out.h), and flush() and poll() copy what the ring has
 * room for. In: poll() gives whole frames to the owner where they lie; a frame of more than half a ring comes in
 * pieces.
 *
 * Both sides poll while they spin. Before a side sleeps it announces that (shm_ring_sleep()), and a side that writes or
 * reads after that rings the doorbell (bell.h).
 *
 *     OPEN ──finish()──► LEAVING (writes what is queued, throws away what comes) ──all is written──► ENDING
 *       └──close()──────────────────────────────────────────────────────────────────────────────►  │ the connection
 *                                                                                       closed() ◄─┘ and timer closed
 */
#include "client/group/links/link_shm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "client/group/links/ring_out.h"

#define READ_AT_ONCE    (8 * MIB) /* bytes, before the loop's other business gets its turn */
#define SHM_LEAVE_CHECK 1         /* ms between two looks at the ring while LEAVING */

enum shm_state { SHM_OPEN, SHM_LEAVING, SHM_ENDING };

struct link_shm {
    struct rank_link link;
    enum shm_state state;
    struct frame_ring ring;
    struct conn *conn; /* NULL: closed */
    struct bell bell;
    struct ring_out out;
    struct frame_reader reader;
    bool reading; /* further up on the stack */
    bool ended;   /* the owner knows of the end */
    bool hung_up; /* the connection has ended */

    uv_timer_t timer; /* while LEAVING */
    uint64_t leave_ms;
    bool timing; /* libuv still has the timer */

    void (*closed)(struct rank_link *l);
};

static struct link_shm *
shm_of(struct rank_link *l)
{
    return CONTAINER_OF(l, struct link_shm, link);
}

size_t
link_shm_ring_bytes(uint32_t ranks)
{
    return ranks <= 8 ? 1 * MIB : ranks <= 32 ? 256 * KIB : SHM_RING_MIN;
}

/* ---- The end, as reported to the owner ---- */

static void
shm_send_end(struct link_shm *t, enum ps_err code, const char *text)
{
    struct ps_error e;

    if (t->ended || t->state != SHM_OPEN)
        return;
    t->ended = true;
    ps_error_set(&e, code, "%s", text);
    t->link.events->ended(&t->link, &e);
}

/* ---- Out ---- */

static bool
write_some(struct link_shm *t)
{
    return t->state != SHM_ENDING && ring_out_write(&t->out);
}

static void
shm_out_done(struct conn_out *o, enum ps_err result)
{
    struct rank_link_out *out = CONTAINER_OF(o, struct rank_link_out, u.conn);

    out->done(out, result);
}

static void
shm_send(struct rank_link *l, struct rank_link_out *out)
{
    struct link_shm *t = shm_of(l);

    out->link = l;
    if (t->conn == NULL || t->state != SHM_OPEN || t->out.mute) {
        out->done(out, PS_ERR_CLOSED);
        return;
    }
    if (ring_out_at_once(&t->out, out)) {
        out->done(out, PS_OK);
        return;
    }
    out->u.conn = (struct conn_out){.done = shm_out_done,
                                    .head = out->head,
                                    .head_len = out->head_len,
                                    .parts = out->parts,
                                    .parts_len = out->parts_len};
    conn_queue_append(&t->out.queue, &out->u.conn);
}

static void
shm_flush(struct rank_link *l)
{
    struct link_shm *t = shm_of(l);

    ring_out_flush(&t->out);
    (void)write_some(t);
}

/* ---- In ---- */

static void
shm_payload_placed(struct link_shm *t)
{
    struct frame_reader *r = &t->reader;
    struct rank_link_dest dest = {0};

    t->link.events->dest(&t->link, &r->head, r->meta, &dest);
    if (dest.discard)
        frame_discard(r);
    else if (dest.parts_len > 0)
        frame_direct(r, dest.parts, dest.parts_len);
}

/* They are the other side's again. */
static void
shm_bytes_taken(struct link_shm *t, size_t n)
{
    if (t->state != SHM_ENDING && frame_ring_taken(&t->ring, n))
        bell_ring(&t->bell, SHM_RING_SPACE);
}

/* Bytes of one frame that comes in pieces, or whose head is wrong. */
static void
shm_feed(struct link_shm *t, size_t n)
{
    const uint8_t *data = shm_ring_out(&t->ring.shm);
    struct frame_reader *r = &t->reader;
    size_t left = n, used;

    for (; left > 0 && t->state == SHM_OPEN && !t->ended; data += used, left -= used) {
        switch (frame_feed(r, data, left, &used)) {
        case FRAME_HEADED: /* not asked for */
        case FRAME_MORE:
            break;
        case FRAME_META:
            shm_payload_placed(t);
            break;
        case FRAME_WHOLE:
            t->link.events->frame(&t->link, &r->head, r->meta, r->payload);
            break;
        case FRAME_BAD:
            shm_send_end(t, r->error.code, r->error.text);
            break;
        }
    }
    if (t->state != SHM_ENDING)
        frame_reader_trim(r);
    shm_bytes_taken(t, n);
}

static void
hand_on(struct link_shm *t, const struct frame_ripe *ripe)
{
    const uint8_t *meta = shm_ring_out(&t->ring.shm) + FRAME_HEAD_SIZE;
    const uint8_t *payload = meta + ripe->head.meta_len + frame_pad(ripe->head.meta_len);
    enum copy_mode way;
    bool tried = ripe->n >= COPY_POLICY_BYTES_MIN && copy_policy_tried(t->ring.shm.taken, ripe->n, &way);
    uint64_t begin = tried ? uv_hrtime() : 0;

    t->link.events->frame(&t->link, &ripe->head, meta, ripe->head.payload_len > 0 ? payload : NULL);
    if (tried)
        copy_policy_note(t->out.copy_policy, way, COPY_OUT, ripe->n, uv_hrtime() - begin);
    shm_bytes_taken(t, ripe->n);
}

/* True: something moved. */
static bool
read_some(struct link_shm *t)
{
    size_t budget = READ_AT_ONCE, n;
    struct frame_ripe ripe;
    bool moved = false;

    if (t->reading)
        return false;
    t->reading = true;
    while (t->state == SHM_OPEN && !t->ended && budget > 0 && (n = frame_ring_next(&t->ring, &t->reader, &ripe)) > 0) {
        if (n == SIZE_MAX) {
            shm_send_end(t, PS_ERR_PROTOCOL, "it wrote what cannot be into shared memory");
            break;
        }
        if (ripe.whole)
            hand_on(t, &ripe);
        else
            shm_feed(t, n);
        budget -= MIN(budget, n);
        moved = true;
    }
    t->reading = false;
    return moved;
}

static bool
shm_poll(struct rank_link *l)
{
    struct link_shm *t = shm_of(l);
    bool wrote = write_some(t);

    return read_some(t) || wrote;
}

static bool
shm_sleep(struct rank_link *l)
{
    struct link_shm *t = shm_of(l);
    bool waits = t->out.queue.first != NULL && !t->out.mute;

    if (t->state != SHM_OPEN || t->ended)
        return true;
    return frame_ring_sleep(&t->ring, &t->reader, waits ? SHM_RING_DATA | SHM_RING_SPACE : SHM_RING_DATA);
}

static void
shm_wake(struct rank_link *l)
{
    struct link_shm *t = shm_of(l);

    if (t->state == SHM_OPEN)
        shm_ring_wake(&t->ring.shm);
}

static void
shm_cut(struct rank_link *l)
{
    struct link_shm *t = shm_of(l);

    if (t->state == SHM_ENDING)
        return;
    frame_discard(&t->reader);
    if (!ring_out_cut(&t->out) && t->conn != NULL)
        (void)shutdown(t->conn->fd, SHUT_WR); /* the other side sees that it has ended */
}

/* ---- Life ---- */

static void
try_end(struct link_shm *t)
{
    if (t->state != SHM_ENDING || t->conn != NULL || t->timing)
        return;
    if (t->closed != NULL)
        t->closed(&t->link);
}

static void
shm_conn_closed(struct conn *c)
{
    struct link_shm *t = c->arg;

    t->conn = t->bell.conn = NULL;
    free(c);
    try_end(t);
}

static void
timer_closed(uv_handle_t *handle)
{
    struct link_shm *t = handle->data;

    t->timing = false;
    try_end(t);
}

static void
end_now(struct link_shm *t, bool politely)
{
    if (t->state == SHM_ENDING)
        return;
    t->state = SHM_ENDING;
    conn_queue_drop(&t->out.queue);
    uv_close((uv_handle_t *)&t->timer, timer_closed);
    if (t->conn != NULL && politely)
        conn_leave(t->conn, RANK_LINK_PART_MS, shm_conn_closed);
    else if (t->conn != NULL)
        conn_close(t->conn, shm_conn_closed);
}

static void
shm_leave_check(uv_timer_t *timer)
{
    struct link_shm *t = timer->data;

    if (frame_ring_drop(&t->ring)) /* so that the other side can write its last, too */
        bell_ring(&t->bell, SHM_RING_SPACE);
    (void)write_some(t);
    if (t->out.queue.first == NULL || t->out.mute || t->hung_up || uv_now(timer->loop) >= t->leave_ms)
        end_now(t, true);
}

static void
shm_finish(struct rank_link *l, uint32_t patience_ms, void (*closed)(struct rank_link *l))
{
    struct link_shm *t = shm_of(l);

    if (t->closed == NULL)
        t->closed = closed;
    if (t->state != SHM_OPEN)
        return;
    t->state = SHM_LEAVING;
    t->leave_ms = uv_now(t->timer.loop) + patience_ms;
    frame_discard(&t->reader); /* nothing is written to a placed payload any more */
    uv_timer_start(&t->timer, shm_leave_check, 0, SHM_LEAVE_CHECK);
}

static void
shm_close(struct rank_link *l, void (*closed)(struct rank_link *l))
{
    struct link_shm *t = shm_of(l);

    if (t->closed == NULL)
        t->closed = closed;
    end_now(t, false);
}

static void
shm_destroy(struct rank_link *l)
{
    struct link_shm *t = shm_of(l);

    frame_reader_finish(&t->reader);
    frame_ring_finish(&t->ring);
    free(t);
}

/* ---- The connection ---- */

static void
shm_bell_rang(struct conn *c, const struct frame_head *head, const void *meta, const void *payload)
{
    struct link_shm *t = c->arg;

    if (head->type == MSG_GROUP_ABORT && t->state == SHM_OPEN && !t->ended) {
        /* it failed before it knew of this link: the answer to its greeting was on the way */
        t->link.events->frame(&t->link, head, meta, payload);
        return;
    }
    if (head->type != MSG_GROUP_BELL || head->meta_len > 0 || head->payload_len > 0) {
        shm_send_end(t, PS_ERR_PROTOCOL, "it sent a frame beside the shared memory");
        return;
    }
    if (t->state == SHM_OPEN)
        (void)shm_poll(&t->link);
}

/* What the other side had written before comes first. */
static void
hung_up(struct conn *c, const struct ps_error *why)
{
    struct link_shm *t = c->arg;

    t->hung_up = true;
    while (read_some(t))
        continue;
    shm_send_end(t, why->code, why->text);
}

static const struct conn_events bell_events = {.frame = shm_bell_rang, .ended = hung_up};

static const struct rank_link_ops shm_ops = {
    .name = "shm",
    .send = shm_send,
    .flush = shm_flush,
    .poll = shm_poll,
    .sleep = shm_sleep,
    .wake = shm_wake,
    .cut = shm_cut,
    .finish = shm_finish,
    .close = shm_close,
    .destroy = shm_destroy,
};

struct rank_link *
link_shm_new(struct conn *conn, struct shm_ring *share, uint32_t rank, struct copy_policy *copying)
{
    struct link_shm *t = calloc(1, sizeof *t);

    if (t == NULL)
        return NULL;
    t->link = (struct rank_link){.ops = &shm_ops, .rank = rank};
    frame_ring_init(&t->ring, share);
    frame_reader_init(&t->reader);
    t->reader.buffers = &conn->pool->buffers;
    bell_init(&t->bell, &t->ring.shm, conn);
    ring_out_init(&t->out, &t->ring, &t->bell, copying, conn->pool->loop);
    uv_timer_init(conn->pool->loop, &t->timer);
    t->timer.data = t;
    t->timing = true;
    t->conn = conn;
    conn->events = &bell_events;
    conn->arg = t;
    return &t->link;
}
