/* Frames through memory that both sides share (share.h), where conn_share() was called: a transport (conn_transport.h).
 * The stream then carries bells alone, bytes of any value, and the sign that the other side is alive.
 *
 * Out: conn_flush() comes here, and what the queue has goes into the ring as far as that has room. In: the loop looks
 * between its timers and its poll (before_poll()) into the rings of all that share, and whole frames are fed where they
 * lie: a payload that nobody directed is lent in the ring. It may change while it is looked at, since the other side
 * can write there at any time; head and metadata are copied first (frame_reader.unstable).
 *
 * A loop that would sleep in its poll says so in every ring first (share_sleep()); who puts something there after that
 * rings. A position that one side writes and the other reads costs each a cache miss: so the writer believes the room
 * that it knew until that is too little, and the reader says what it has read when that is worth it (TAKEN_PART). */
#include "common/net/conn_inside.h"

#include <stdlib.h>
#include <string.h>

#define READ_AT_ONCE (1 * MIB) /* before the others get their turn */
#define TAKEN_PART   8         /* of a ring is read before the other side is told */

struct conn_share {
    struct conn *conn;
    struct conn_share *next, **before; /* pool->shared; before NULL: not in it */
    bool in_turn;                      /* conn_share_turn() is below us on the stack */
    struct share share;
    size_t room;   /* at least so much is in the ring out */
    size_t untold; /* bytes that were read, and the other side does not know */
};

static struct conn_share *
conn_share_of(const struct conn *c)
{
    return c->transport_data;
}

/* ---- The list of those that share ---- */

static void
list_add(struct conn_share *s)
{
    struct conn_pool *p = s->conn->pool;

    s->before = &p->shared;
    s->next = p->shared;
    if (s->next != NULL)
        s->next->before = &s->next;
    p->shared = s;
    p->shared_len++;
}

static void
list_remove(struct conn_share *s)
{
    struct conn_pool *p = s->conn->pool;

    if (s->before == NULL)
        return;
    *s->before = s->next;
    if (s->next != NULL)
        s->next->before = s->before;
    if (p->shared_at == s)
        p->shared_at = s->next;
    s->before = NULL;
    p->shared_len--;
}

/* ---- The bell ---- */

/* A socket that is full is full of bells that were not heard yet. */
static void
ring_other(struct conn *c, unsigned what)
{
    uv_buf_t bell = uv_buf_init((char[]){0}, 1);
    ssize_t taken;

    if (!share_ring(&conn_share_of(c)->share, what) || c->shut || c->closing)
        return;
    if ((taken = conn_write(c, &bell, 1)) < 0)
        conn_broke(c, (int)taken);
}

/* ---- Out ---- */

/* Bytes that may be put into the ring, all of them looked for where what is known is little. */
static size_t
room_now(struct conn *c)
{
    struct conn_share *s = conn_share_of(c);

    if (s->room < s->share.ring_bytes / 2)
        s->room = share_room(&s->share);
    if (s->room != SIZE_MAX)
        return s->room;
    s->room = 0;
    conn_broke(c, UV_EPROTO);
    return 0;
}

static bool
conn_share_write(struct conn *c, uint64_t *budget)
{
    struct conn_share *s = conn_share_of(c);
    uv_buf_t bufs[CONN_QUEUE_BUFS];
    size_t room, at = 0;
    uint64_t bytes;
    unsigned n;

    (void)budget; /* the other side's room is the limit */
    if (c->eof)   /* nobody reads it */
        conn_broke(c, UV_EPIPE);
    if (c->eof || (room = room_now(c)) == 0)
        return false;
    conn_queue_prepare(&c->queue, c->pool->loop);
    if (c->closing || c->queue.first == NULL)
        return false;
    bytes = conn_queue_gather(&c->queue, bufs, &n, room);
    for (unsigned i = 0; i < n; at += bufs[i++].len)
        memcpy(share_in(&s->share) + at, bufs[i].base, bufs[i].len);
    share_put(&s->share, bytes);
    s->room -= bytes;
    c->pool->sent += bytes;
    ring_other(c, SHARE_DATA);
    conn_queue_take(&c->queue, bytes);
    return true;
}

/* ---- In ---- */

/* How many of the bytes that are there can be fed. A frame that fits half a ring is not looked at until all of it is
 * there, so that its payload is lent where it lies; what is wrong with a head the reader says. */
static size_t
ripe(const struct conn *c, size_t filled)
{
    const struct share *s = &conn_share_of(c)->share;
    size_t missing = frame_missing(&c->reader);
    struct frame_head head;
    uint64_t bytes;

    if (missing > 0 || filled < FRAME_HEAD_SIZE)
        return MIN(filled, missing);
    if (frame_head_decode(share_out(s), &head, NULL) != PS_OK)
        return FRAME_HEAD_SIZE;
    bytes = FRAME_HEAD_SIZE + head.meta_len + frame_pad(head.meta_len) + head.payload_len + frame_pad(head.payload_len);
    if (bytes > s->ring_bytes / 2)
        return (size_t)MIN(filled, bytes);
    return filled >= bytes ? (size_t)bytes : 0;
}

static bool
may_read(const struct conn *c)
{
    return !c->paused && !c->ended && !c->closing && !c->finishing;
}

static void
taken(struct conn *c, size_t n)
{
    struct conn_share *s = conn_share_of(c);

    share_skip(&s->share, n);
    s->untold += n;
    if (s->untold < s->share.ring_bytes / TAKEN_PART)
        return;
    s->untold = 0;
    share_take(&s->share, 0);
    ring_other(c, SHARE_ROOM);
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
    size_t budget = READ_AT_ONCE, filled, n;
    bool came = false;

    while (budget > 0 && may_read(c)) {
        if ((filled = share_filled(&conn_share_of(c)->share)) == SIZE_MAX) {
            end_nonsense(c);
            break;
        }
        if ((n = ripe(c, filled)) == 0)
            break;
        c->pool->received += n;
        conn_feed(c, share_out(&conn_share_of(c)->share), n);
        taken(c, n);
        budget -= MIN(budget, n);
        came = true;
    }
    return came;
}

/* Look into the ring, write on. True: something came. */
static bool
conn_share_turn(struct conn_share *s)
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
conn_share_place(struct conn *c, void **at, size_t *len)
{
    *at = c->pool->scratch;
    *len = CONN_SCRATCH;
}

/* A bell, or the end, which comes behind what lies in the ring. */
static void
conn_share_came(struct conn *c, const void *at, ssize_t n)
{
    (void)at;
    (void)n;
    if (c->eof && c->finishing)
        conn_over(c, c->eof_status);
    else
        (void)conn_share_turn(conn_share_of(c));
}

/* ---- Sleeping ---- */

static bool
can_sleep(struct conn *c)
{
    struct share *s = &conn_share_of(c)->share;
    size_t filled = 0;
    unsigned wants = 0;

    if (may_read(c)) {
        wants |= SHARE_DATA;
        if (c->eof || (filled = share_filled(s)) == SIZE_MAX || ripe(c, filled) > 0)
            return false;
    }
    if (c->queue.first != NULL && !c->broken)
        wants |= SHARE_ROOM;
    return share_sleep(s, wants, filled);
}

bool
conn_pool_doze(struct conn_pool *p)
{
    for (struct conn_share *s = p->shared; s != NULL; s = s->next) {
        if (can_sleep(s->conn))
            continue;
        for (struct conn_share *t = p->shared; t != s; t = t->next)
            share_wake(&t->share);
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
    for (struct conn_share *s = p->shared; s != NULL; s = s->next)
        share_wake(&s->share);
}

/* It keeps the loop from sleeping, and that is all. */
static void
go_on(uv_idle_t *idle)
{
    (void)idle;
}

/* uv_backend_timeout() cannot be asked: it says 0 as well while a descriptor's watch is yet to be registered, which
 * uv_run() does not heed. Who says in vain that he sleeps loses a bell; who does not say it, sleeps on. */
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
    struct conn_share *s;

    for (s = p->shared; s != NULL; s = p->shared_at) { /* callbacks may change the list */
        p->shared_at = s->next;
        came |= conn_share_turn(s);
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
conn_share_close(struct conn *c)
{
    list_remove(conn_share_of(c));
    if (c->pool->shared == NULL)
        looks_end(c->pool);
}

static void
conn_share_free(struct conn *c)
{
    struct conn_share *s = conn_share_of(c);

    share_finish(&s->share);
    free(s);
}

static const struct transport_ops conn_share_transport = {
    .write = conn_share_write,
    .place = conn_share_place,
    .came = conn_share_came,
    .close = conn_share_close,
    .free = conn_share_free,
    .is_memory = true,
};

enum ps_err
conn_share(struct conn *c, struct share *share)
{
    struct conn_share *s = malloc(sizeof *s);

    ps_assert(c->started && !conn_shares(c) && c->queue.first == NULL && !c->blocked);
    if (s == NULL)
        return PS_ERR_NOMEM;
    if (conn_read_start(c) < 0) {
        free(s);
        return PS_ERR_NOMEM;
    }
    *s = (struct conn_share){.conn = c, .share = *share};
    *share = (struct share){0};
    share_told(&s->share);
    conn_carry(c, &conn_share_transport, s);
    c->reader.unstable = true;
    if (c->pool->shared == NULL)
        looks_begin(c->pool);
    list_add(s);
    return PS_OK;
}
