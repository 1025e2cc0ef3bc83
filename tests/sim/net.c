/* Byte streams with latency, cuts and silence.
 *
 * The happy path: net_dial() plans an arrival at the listener, which accepts, and an answer to the dialler, which is
 * opened. net_send() queues a frame; end_pump() copies a piece of the queue into a chunk as long as the window has
 * room, and chunk_arrives() hands it to the other end, which makes room again. A chunk of no bytes says that the
 * connection ended.
 *
 * Ends die in one place, end_die(); a connection is freed by conn_reap() when both ends are dead and nothing is on the
 * way. */
#include "tests/sim/net.h"

#include <stdlib.h>
#include <string.h>

#include "common/core/wire/frame.h"

#define PIN_US              (10 * SIM_MS) /* parts of a frame with release() are held at most so long */
#define CUT_LEARN_US        (50 * SIM_MS) /* an end learns of a cut within */
#define TCP_GIVES_UP_MIN_US (60 * SIM_SECOND)
#define TCP_GIVES_UP_MAX_US (200 * SIM_SECOND)
#define LINGER_US           (2 * SIM_SECOND)

struct net_chunk {
    struct sim_timer timer;
    struct net_end *from;
    struct net_chunk *next;
    bool survives; /* it was on its way when the direction fell silent, and arrives */
    size_t n;      /* 0: the end of the stream */
    uint8_t data[];
};

struct sim_net_conn {
    struct sim_net *net;
    struct sim_net_conn *prev, *next;
    struct net_end end[2]; /* the one that dialled, the one that accepted */
    struct net_listener *to;
    struct sim_timer reap;
    struct sim_timer arrive; /* the dial, at the listener */
    uint64_t latency_min_us, latency_max_us;
    size_t chunk_max, window;
    uint64_t number;
};

static void end_pump(struct net_end *e);

static struct net_end *
net_other(struct net_end *e)
{
    return e == &e->conn->end[0] ? &e->conn->end[1] : &e->conn->end[0];
}

static struct sim *
sim_of(const struct net_end *e)
{
    return e->conn->net->sim;
}

static bool
net_sends(const struct net_end *e)
{
    return e->state == END_OPEN || e->state == END_FINISHING;
}

static uint64_t
net_latency(const struct sim_net_conn *c)
{
    return sim_between(c->net->sim, c->latency_min_us, c->latency_max_us);
}

/* ---- Frames that are being sent ---- */

static void
out_begin(struct sim_net_out *o, uint64_t now_us)
{
    o->payload = 0;
    for (size_t i = 0; i < o->parts_len; i++)
        o->payload += o->parts[i].len;
    o->total = o->head_len + o->payload + frame_pad(o->payload);
    o->ready = true;
    o->ready_us = now_us;
}

/* n bytes of the frame from its byte `from`: head, parts, zeros. */
static void
out_copy(const struct sim_net_out *o, size_t from, size_t n, uint8_t *to)
{
    struct span piece = {o->head, o->head_len};
    size_t at = 0;

    if (o->copy != NULL) {
        memcpy(to, o->copy + (from - o->copy_from), n);
        return;
    }
    memset(to, 0, n);
    for (size_t i = 0;; piece = o->parts[i++]) {
        size_t low = MAX(from, at), high = MIN(from + n, at + piece.len);

        if (low < high)
            memcpy(to + (low - from), (const uint8_t *)piece.data + (low - at), high - low);
        at += piece.len;
        if (i == o->parts_len || at >= from + n)
            return;
    }
}

static void
out_release(struct sim_net_out *o)
{
    if (o->ready && o->release != NULL && !o->released) {
        o->released = true;
        o->release(o);
    }
}

static void
out_end(struct sim_net_out *o, enum ps_err result)
{
    out_release(o);
    free(o->copy);
    o->copy = NULL;
    o->done(o, result);
}

/* As psd's connections do: a slow reader does not pin the store. */
static void
out_unpin(struct sim_net_out *o)
{
    size_t n = o->total - o->sent;
    uint8_t *copy = sim_alloc(n);

    out_copy(o, o->sent, n, copy);
    o->copy = copy;
    o->copy_from = o->sent;
    out_release(o);
}

static struct sim_net_out *
outs_pop(struct net_end *e)
{
    struct sim_net_out *o = e->first;

    e->first = o->next;
    if (e->first == NULL)
        e->last = NULL;
    return o;
}

/* ---- Ends ---- */

static void
plan_reap(struct sim_net_conn *c)
{
    sim_in(c->net->sim, &c->reap, 0);
}

static void
conn_unlink(struct sim_net_conn *c)
{
    if (c->prev != NULL)
        c->prev->next = c->next;
    else
        c->net->conns = c->next;
    if (c->next != NULL)
        c->next->prev = c->prev;
    c->net->conns_len--;
}

static void
conn_reap(struct sim_timer *t)
{
    struct sim_net_conn *c = CONTAINER_OF(t, struct sim_net_conn, reap);

    for (int i = 0; i < 2; i++) {
        const struct net_user *user = c->end[i].user;

        if (c->end[i].state != END_DEAD || user == NULL)
            continue;
        c->end[i].user = NULL;
        user->gone(&c->end[i]);
    }
    if (c->end[0].state != END_DEAD || (c->end[1].state != END_DEAD && c->end[1].state != END_UNBORN))
        return;
    if (c->end[0].chunk_first != NULL || c->end[1].chunk_first != NULL)
        return;
    conn_unlink(c);
    sim_cancel(c->net->sim, &c->arrive);
    free(c);
}

/* Its queue ends, without a call to the owner. */
static void
end_die(struct net_end *e)
{
    if (e->state == END_DEAD || e->state == END_UNBORN)
        return;
    e->state = END_DEAD;
    sim_cancel(sim_of(e), &e->pump);
    sim_cancel(sim_of(e), &e->late);
    while (e->first != NULL)
        out_end(outs_pop(e), PS_ERR_CLOSED);
    plan_reap(e->conn);
}

static void
end_lost(struct net_end *e, enum ps_err why, const char *text)
{
    bool tell = e->state == END_DIALING || e->state == END_OPEN;

    if (e->state == END_DEAD || e->state == END_UNBORN)
        return;
    end_die(e);
    if (tell)
        e->user->closed(e, why, text);
}

/* ---- Chunks ---- */

static void
chunk_unlink(struct net_chunk *k)
{
    struct net_chunk **at = &k->from->chunk_first, *last = NULL;

    for (; *at != k; at = &(*at)->next)
        last = *at;
    *at = k->next;
    if (k->next == NULL)
        k->from->chunk_last = last;
}

static void
chunk_arrives(struct sim_timer *t)
{
    struct net_chunk *k = CONTAINER_OF(t, struct net_chunk, timer);
    struct net_end *from = k->from, *to = net_other(from);

    if (to->held_us > sim_of(from)->now_us) {
        sim_at(sim_of(from), t, to->held_us);
        return;
    }
    if (k != from->chunk_first) { /* an older one was held up */
        sim_at(sim_of(from), t, from->chunk_first->timer.at_us);
        return;
    }
    chunk_unlink(k);
    if (from->lost && !k->survives) {
        plan_reap(from->conn);
        free(k);
        return; /* its arrival is never reported: the window stays full */
    }
    if (k->n == 0)
        end_lost(to, PS_ERR_CLOSED, "the other end closed the connection");
    else if (to->state == END_OPEN)
        to->user->bytes(to, k->data, k->n);
    from->in_flight -= k->n;
    free(k);
    if (net_sends(from))
        end_pump(from);
    plan_reap(from->conn);
}

static void
chunk_go(struct net_end *e, struct net_chunk *k)
{
    uint64_t at = sim_of(e)->now_us + net_latency(e->conn);

    at = MAX(at, e->last_us);
    k->from = e;
    k->timer.run = chunk_arrives;
    if (e->chunk_last != NULL)
        e->chunk_last->next = k;
    else
        e->chunk_first = k;
    e->chunk_last = k;
    e->in_flight += k->n;
    e->last_us = at;
    sim_at(sim_of(e), &k->timer, at);
}

static void
send_end_of_stream(struct net_end *e)
{
    chunk_go(e, sim_alloc(sizeof(struct net_chunk)));
}

static void
chunks_drop(struct net_end *e)
{
    while (e->chunk_first != NULL) {
        struct net_chunk *k = e->chunk_first;

        chunk_unlink(k);
        sim_cancel(sim_of(e), &k->timer);
        free(k);
    }
}

/* Drop what is on the way, or the last part of it. */
static void
chunks_thin(struct net_end *e)
{
    bool survives = sim_chance(sim_of(e), 700);

    for (struct net_chunk *k = e->chunk_first; k != NULL; k = k->next) {
        k->survives = survives;
        survives = survives && sim_chance(sim_of(e), 800);
    }
}

/* ---- Sending ---- */

/* Make the first frame of the queue ready. False: there is none. */
static bool
first_ready(struct net_end *e)
{
    while (e->first != NULL && !e->first->ready) {
        struct sim_net_out *o = e->first;
        enum ps_err err = o->prepare != NULL ? o->prepare(o) : PS_OK;

        if (err == PS_OK) {
            out_begin(o, sim_of(e)->now_us);
            return true;
        }
        outs_pop(e);
        out_end(o, err);
    }
    return e->first != NULL && net_sends(e);
}

/* Fill one chunk from the queue; frames that went into it whole are done. */
static size_t
chunk_fill(struct net_end *e, uint8_t *to, size_t room)
{
    size_t got = 0;

    while (got < room && first_ready(e)) {
        struct sim_net_out *o = e->first;
        size_t n = MIN(room - got, o->total - o->sent);

        out_copy(o, o->sent, n, to + got);
        o->sent += n;
        got += n;
        if (o->sent < o->total)
            break;
        outs_pop(e);
        out_end(o, PS_OK);
    }
    return got;
}

static void
unpin_first(struct net_end *e)
{
    struct sim_net_out *o = e->first;

    if (o == NULL || !o->ready || o->release == NULL || o->released)
        return;
    if (sim_of(e)->now_us >= o->ready_us + PIN_US)
        out_unpin(o);
    else
        sim_at(sim_of(e), &e->pump, o->ready_us + PIN_US);
}

static void
end_pump(struct net_end *e)
{
    struct sim_net_conn *c = e->conn;

    if (e->pumping)
        return;
    e->pumping = true;
    while (net_sends(e) && e->first != NULL && e->in_flight < c->window) {
        size_t room = (size_t)sim_between(c->net->sim, 1, c->chunk_max);
        struct net_chunk *k;

        room = MIN(room, c->window - e->in_flight);
        k = sim_alloc(sizeof *k + room);
        k->n = chunk_fill(e, k->data, room);
        if (k->n > 0)
            chunk_go(e, k);
        else
            free(k);
    }
    e->pumping = false;
    unpin_first(e);
    if (e->state == END_FINISHING && e->first == NULL) {
        send_end_of_stream(e);
        end_die(e);
    }
}

static void
end_pump_later(struct sim_timer *t)
{
    end_pump(CONTAINER_OF(t, struct net_end, pump));
}

void
net_send(struct net_end *e, struct sim_net_out *o)
{
    o->next = NULL;
    o->sent = 0;
    o->ready = o->released = false;
    o->copy = NULL;
    if (e->state != END_OPEN) {
        out_end(o, PS_ERR_CLOSED);
        return;
    }
    if (e->last != NULL)
        e->last->next = o;
    else
        e->first = o;
    e->last = o;
    if (sim_chance(sim_of(e), 500))
        end_pump(e);
    else if (e->pump.place == 0)
        sim_in(sim_of(e), &e->pump, sim_below(sim_of(e), 200));
}

/* The rest of a frame whose owner has dropped it. */
static void
rest_done(struct sim_net_out *o, enum ps_err result)
{
    (void)result;
    free(o);
}

static struct sim_net_out *
rest_of(const struct sim_net_out *o, bool zeros)
{
    struct sim_net_out *rest = sim_alloc(sizeof *rest);

    *rest = (struct sim_net_out){
        .done = rest_done, .sent = o->sent, .total = o->total, .payload = o->payload, .ready = true};
    rest->ready_us = o->ready_us;
    rest->copy = sim_alloc(o->total - o->sent);
    rest->copy_from = o->sent;
    if (!zeros)
        out_copy(o, o->sent, o->total - o->sent, rest->copy);
    return rest;
}

void
net_drop(struct net_end *e, bool zeros)
{
    struct sim_net_out *all = e->first, *rest = NULL;

    if (all != NULL && all->ready && all->sent > 0)
        rest = rest_of(all, zeros);
    e->first = e->last = rest;
    while (all != NULL) {
        struct sim_net_out *o = all;

        all = o->next;
        out_end(o, PS_ERR_CANCELLED);
    }
}

/* ---- Dialling ---- */

static void
end_learns(struct sim_timer *t)
{
    struct net_end *e = CONTAINER_OF(t, struct net_end, late);

    if (e->held_us > sim_of(e)->now_us)
        sim_at(sim_of(e), t, e->held_us);
    else if (e->why != PS_OK)
        end_lost(e, e->why, e->text);
    else if (e->state == END_DIALING) {
        e->state = END_OPEN;
        e->user->opened(e);
    } else if (e->state == END_FINISHING)
        net_close(e); /* lingered long enough */
}

/* The first deadline stands: an end that lingers does not wait until TCP gives up because the connection falls silent.
 */
static void
learn_later(struct net_end *e, uint64_t delay_us, enum ps_err why, const char *text)
{
    if (e->state == END_DEAD || e->state == END_UNBORN)
        return;
    if (e->late.place != 0 && e->late.at_us <= sim_of(e)->now_us + delay_us)
        return;
    e->why = why;
    e->text = text;
    sim_in(sim_of(e), &e->late, delay_us);
}

static void
dial_arrives(struct sim_timer *t)
{
    struct sim_net_conn *c = CONTAINER_OF(t, struct sim_net_conn, arrive);
    struct net_end *dialler = &c->end[0], *e = &c->end[1];
    uint64_t back = net_latency(c);

    if (dialler->state != END_DIALING) {
        plan_reap(c);
        return;
    }
    if (c->to->hidden_us > c->net->sim->now_us)
        return; /* it is never notified; the dialler gives up */
    if (!c->to->up) {
        learn_later(dialler, back, PS_ERR_UNREACHABLE, "connection refused");
        return;
    }
    e->state = END_OPEN;
    e->last_us = c->net->sim->now_us + back;
    learn_later(dialler, back, PS_OK, NULL);
    c->to->accept(c->to, e);
}

static void
end_init(struct net_end *e, struct sim_net_conn *c)
{
    e->conn = c;
    e->pump.run = end_pump_later;
    e->late.run = end_learns;
}

/* Most connections move whole frames, some a few bytes at a time. */
static void
draw_profile(struct sim_net_conn *c)
{
    struct sim *s = c->net->sim;
    const struct net_profile *p = &c->net->profile;
    size_t small_chunk = (size_t)sim_between(s, 300, 8000), small_window = (size_t)sim_between(s, 1000, 16000);

    c->latency_min_us = p->latency_min_us;
    c->latency_max_us = sim_between(s, p->latency_min_us, p->latency_max_us);
    c->chunk_max = sim_chance(s, 500) ? MIN(p->chunk_max, small_chunk) : p->chunk_max;
    c->window = sim_chance(s, 200) ? MIN(p->window_max, small_window) : p->window_max;
    /* Half a megabyte in a second at least, or a large variable takes minutes and the run looks as if it hung. */
    c->window = MAX(c->window, (size_t)c->latency_max_us / 2);
}

struct net_end *
net_dial(struct sim_net *n, struct net_listener *to, const struct net_user *user, void *arg)
{
    struct sim_net_conn *c = sim_alloc(sizeof *c);

    c->net = n;
    c->to = to;
    c->next = n->conns;
    if (c->next != NULL)
        c->next->prev = c;
    n->conns = c;
    n->conns_len++;
    c->number = ++n->conns_made;
    c->reap.run = conn_reap;
    c->arrive.run = dial_arrives;
    end_init(&c->end[0], c);
    end_init(&c->end[1], c);
    draw_profile(c);
    c->end[0].state = END_DIALING;
    c->end[0].user = user;
    c->end[0].arg = arg;
    sim_in(n->sim, &c->arrive, net_latency(c));
    return &c->end[0];
}

/* ---- Closing ---- */

void
net_close(struct net_end *e)
{
    bool accepted = net_other(e)->state != END_UNBORN; /* whether or not the dialler knows */

    if (e->state == END_DEAD || e->state == END_UNBORN)
        return;
    end_die(e);
    if (!accepted)
        return;
    if (sim_chance(sim_of(e), 300))
        chunks_drop(e); /* a reset overtakes what is on the way */
    send_end_of_stream(e);
}

void
net_finish_end(struct net_end *e)
{
    if (e->state != END_OPEN) {
        net_close(e);
        return;
    }
    e->state = END_FINISHING;
    learn_later(e, LINGER_US, PS_OK, NULL);
    end_pump(e);
}

static bool
conn_is_open(const struct sim_net_conn *c)
{
    return c->end[0].state == END_OPEN && c->end[1].state == END_OPEN;
}

size_t
net_open_conns(const struct sim_net *n)
{
    size_t count = 0;

    for (const struct sim_net_conn *c = n->conns; c != NULL; c = c->next)
        count += conn_is_open(c);
    return count;
}

struct sim_net_conn *
net_open_conn(struct sim_net *n, size_t nth)
{
    for (struct sim_net_conn *c = n->conns; c != NULL; c = c->next)
        if (conn_is_open(c) && nth-- == 0)
            return c;
    return NULL;
}

static void
fall_silent(struct net_end *e)
{
    if (e->lost)
        return;
    chunks_thin(e);
    e->lost = true;
}

void
net_hold(struct net_end *e, uint64_t until_us)
{
    e->held_us = MAX(e->held_us, until_us);
}

void
net_cut(struct sim_net_conn *c)
{
    for (int i = 0; i < 2; i++) {
        fall_silent(&c->end[i]);
        learn_later(&c->end[i], sim_below(c->net->sim, CUT_LEARN_US), PS_ERR_CLOSED, "connection reset");
    }
}

void
net_silence(struct sim_net_conn *c, unsigned directions)
{
    for (int i = 0; i < 2; i++) {
        if (directions & 1u << i)
            fall_silent(&c->end[i]);
        learn_later(&c->end[i], sim_between(c->net->sim, TCP_GIVES_UP_MIN_US, TCP_GIVES_UP_MAX_US), PS_ERR_CLOSED,
                    "connection timed out");
    }
}

uint64_t
net_conn_number(const struct sim_net_conn *c)
{
    return c->number;
}

/* ---- The network ---- */

void
net_init(struct sim_net *n, struct sim *s, const struct net_profile *p)
{
    *n = (struct sim_net){.sim = s, .profile = *p};
}

void
net_finish(struct sim_net *n)
{
    while (n->conns != NULL) {
        struct sim_net_conn *c = n->conns;

        for (int i = 0; i < 2; i++) {
            end_die(&c->end[i]);
            chunks_drop(&c->end[i]);
        }
        sim_cancel(n->sim, &c->reap);
        sim_cancel(n->sim, &c->arrive);
        if (c->end[0].state == END_DEAD)
            conn_reap(&c->reap);
    }
}
