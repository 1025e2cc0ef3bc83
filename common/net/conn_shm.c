/* Frames through memory that both sides share (shm_ring.h), where conn_shm() was called: a transport
 * (conn_transport.h). The stream then carries only doorbells (bytes of any value), and shows by its end that the other
 * side is gone.
 *
 * Out: conn_flush() calls this, and the queue's frames go into the ring as far as that has space. In: the loop looks
 * between its timers and its poll (before_poll()) into the rings of all connections that share, and whole frames are
 * fed where they lie: a payload that was not directed elsewhere is lent in the ring. It may change while it is read,
 * since the other side can write there at any time; head and metadata are copied first (frame_reader.unstable).
 *
 * A loop that is about to sleep in its poll marks that in every ring first (shm_ring_sleep()); a side that puts
 * something there after that sends a doorbell. */
#include "common/net/conn_internal.h"

#include <stdlib.h>

#include "common/net/frame_ring.h"

#define READ_AT_ONCE (1 * MIB) /* before the other connections get their turn */

struct conn_shm {
    struct conn *conn;
    struct conn_shm *next, **before; /* pool->shm_conns; before NULL: not in it */
    bool in_turn;                    /* conn_shm_turn() is below us on the stack */
    struct frame_ring ring;
};

static struct conn_shm *
conn_shm_of(const struct conn *c)
{
    return c->transport_data;
}

/* ---- The list of those that share ---- */

static void
list_add(struct conn_shm *s)
{
    struct conn_pool *p = s->conn->pool;

    s->before = &p->shm_conns;
    s->next = p->shm_conns;
    if (s->next != NULL)
        s->next->before = &s->next;
    p->shm_conns = s;
    p->shm_len++;
}

static void
list_remove(struct conn_shm *s)
{
    struct conn_pool *p = s->conn->pool;

    if (s->before == NULL)
        return;
    *s->before = s->next;
    if (s->next != NULL)
        s->next->before = s->before;
    if (p->shm_at == s)
        p->shm_at = s->next;
    s->before = NULL;
    p->shm_len--;
}

/* ---- The doorbell ---- */

/* Nothing is lost when the socket is full: it is full of doorbells that were not read yet. */
static void
ring_other(struct conn *c, unsigned what)
{
    uv_buf_t bell = uv_buf_init((char[]){0}, 1);
    ssize_t taken;

    if (!shm_ring_notify(&conn_shm_of(c)->ring.shm, what) || c->shut || c->closing)
        return;
    if ((taken = conn_write(c, &bell, 1)) < 0)
        conn_broke(c, (int)taken);
}

/* ---- Out ---- */

/* budget is not asked: the ring is limit enough. */
static bool
conn_shm_write(struct conn *c, uint64_t *budget)
{
    struct frame_ring *r = &conn_shm_of(c)->ring;
    size_t room, bytes;

    (void)budget;
    if (c->eof) { /* the other side reads no more */
        conn_broke(c, UV_EPIPE);
        return false;
    }
    if ((room = frame_ring_room(r, r->shm.ring_bytes / 2)) == SIZE_MAX)
        conn_broke(c, UV_EPROTO);
    if (room == SIZE_MAX || room == 0)
        return false;
    conn_queue_prepare(&c->queue, c->pool->loop);
    if (c->closing || !conn_queue_ready(&c->queue))
        return false;
    bytes = frame_ring_fill(r, &c->queue, room, NULL, NULL);
    c->pool->sent += bytes;
    ring_other(c, SHM_RING_DATA);
    conn_queue_take(&c->queue, bytes);
    return true;
}

/* ---- In ---- */

static bool
may_read(const struct conn *c)
{
    return !c->paused && !c->ended && !c->closing && !c->finishing;
}

static void
end_nonsense(struct conn *c)
{
    struct ps_error e;

    ps_error_set(&e, PS_ERR_PROTOCOL, "the peer wrote what cannot be into shared memory");
    conn_end(c, &e);
}

/* True: something came. */
static bool
read_some(struct conn *c)
{
    struct frame_ring *r = &conn_shm_of(c)->ring;
    size_t budget = READ_AT_ONCE, n;
    struct frame_ripe ripe;
    bool came = false;

    while (budget > 0 && may_read(c) && (n = frame_ring_next(r, &c->reader, &ripe)) > 0) {
        if (n == SIZE_MAX) {
            end_nonsense(c);
            break;
        }
        c->pool->received += n;
        conn_feed(c, shm_ring_out(&r->shm), n);
        if (frame_ring_taken(r, n))
            ring_other(c, SHM_RING_SPACE);
        budget -= MIN(budget, n);
        came = true;
    }
    return came;
}

/* Look into the ring, write on. True: something came. */
static bool
conn_shm_turn(struct conn_shm *s)
{
    struct conn *c = s->conn;
    bool came;

    if (c->closing || s->in_turn)
        return false;
    s->in_turn = true;
    came = read_some(c);
    if (c->queue.first != NULL)
        conn_flush(c);
    if (!came && c->eof && may_read(c)) /* all that came before the end was read */
        conn_over(c, c->eof_status);
    s->in_turn = false;
    return came;
}

static void
conn_shm_place(struct conn *c, void **at, size_t *len)
{
    *at = c->pool->scratch;
    *len = CONN_SCRATCH;
}

/* A doorbell, or the end of the stream, which counts after what lies in the ring. */
static void
conn_shm_came(struct conn *c, const void *at, ssize_t n)
{
    (void)at;
    (void)n;
    if (c->eof && c->finishing)
        conn_over(c, c->eof_status);
    else
        (void)conn_shm_turn(conn_shm_of(c));
}

/* ---- Sleeping ---- */

static bool
can_sleep(struct conn *c)
{
    unsigned wants = may_read(c) ? SHM_RING_DATA : 0;

    if (wants != 0 && c->eof)
        return false;
    if (conn_queue_ready(&c->queue) && !c->broken)
        wants |= SHM_RING_SPACE;
    return frame_ring_sleep(&conn_shm_of(c)->ring, &c->reader, wants);
}

bool
conn_pool_doze(struct conn_pool *p)
{
    for (struct conn_shm *s = p->shm_conns; s != NULL; s = s->next) {
        if (can_sleep(s->conn))
            continue;
        for (struct conn_shm *t = p->shm_conns; t != s; t = t->next)
            shm_ring_wake(&t->ring.shm);
        return false;
    }
    p->dozes = true;
    return true;
}

void
conn_pool_wake(struct conn_pool *p)
{
    if (!p->dozes)
        return;
    p->dozes = false;
    for (struct conn_shm *s = p->shm_conns; s != NULL; s = s->next)
        shm_ring_wake(&s->ring.shm);
}

/* An idle handle's callback: the handle only keeps the loop from sleeping. */
static void
go_on(uv_idle_t *idle)
{
    (void)idle;
}

/* uv_backend_timeout() is no help: it also returns 0 while a descriptor's watch is yet to be registered, which uv_run()
 * ignores. A loop that marks a sleep in vain costs one doorbell; one that does not mark it sleeps on. */
static bool
may_sleep(const struct conn_pool *p)
{
    return p->sleeps && !uv_is_active((uv_handle_t *)p->idle);
}

static void
before_poll(uv_prepare_t *prepare)
{
    struct conn_pool *p = prepare->data;
    bool came = false;
    struct conn_shm *s;

    for (s = p->shm_conns; s != NULL; s = p->shm_at) { /* callbacks may change the list */
        p->shm_at = s->next;
        came |= conn_shm_turn(s);
    }
    uv_idle_stop(p->awake);
    if (came || (may_sleep(p) && !conn_pool_doze(p)))
        uv_idle_start(p->awake, go_on);
}

static void
after_poll(uv_check_t *check)
{
    conn_pool_wake(check->data);
}

/* ---- Life ---- */

static void
looks_begin(struct conn_pool *p)
{
    uv_prepare_start(p->before, before_poll);
    uv_check_start(p->after, after_poll);
    uv_unref((uv_handle_t *)p->before); /* the connections keep the loop alive */
    uv_unref((uv_handle_t *)p->after);
    uv_unref((uv_handle_t *)p->awake);
}

static void
looks_end(struct conn_pool *p)
{
    uv_prepare_stop(p->before);
    uv_check_stop(p->after);
    uv_idle_stop(p->awake);
}

static void
conn_shm_close(struct conn *c)
{
    list_remove(conn_shm_of(c));
    if (c->pool->shm_conns == NULL)
        looks_end(c->pool);
}

static void
conn_shm_free(struct conn *c)
{
    struct conn_shm *s = conn_shm_of(c);

    frame_ring_finish(&s->ring);
    free(s);
}

static const struct transport_ops conn_shm_transport = {
    .write = conn_shm_write,
    .place = conn_shm_place,
    .came = conn_shm_came,
    .close = conn_shm_close,
    .free = conn_shm_free,
    .is_memory = true,
};

enum ps_err
conn_shm(struct conn *c, struct shm_ring *share)
{
    struct conn_shm *s = malloc(sizeof *s);

    ps_assert(c->started && !conn_shares(c) && c->queue.first == NULL && !c->blocked);
    if (s == NULL)
        return PS_ERR_NOMEM;
    if (conn_read_start(c) < 0) {
        free(s);
        return PS_ERR_NOMEM;
    }
    *s = (struct conn_shm){.conn = c};
    frame_ring_init(&s->ring, share);
    conn_carry(c, &conn_shm_transport, s);
    c->reader.unstable = true;
    if (c->pool->shm_conns == NULL)
        looks_begin(c->pool);
    list_add(s);
    return PS_OK;
}
