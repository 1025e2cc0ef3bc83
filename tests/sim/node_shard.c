/* The shard's driver.
 *
 * The happy path: listener_accept() gives the core a connection; conn_bytes() feeds its frame reader and gives whole
 * frames to node_shard_take(); the turn's timer ends the turn: commit, let the ledger look, hand the actions out.
 *
 * A kill may strike inside any of these: node_shard_die() closes the ends and frees the core at once, and a function in
 * progress sees n->core == NULL, or another life, and returns. Connection structs stay until net says that they are
 * gone. */
#include "tests/sim/node_shard.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/wire/wire.h"

#define STEP_TRIES 64 /* turns that one event may fill */

struct shard_conn {
    struct node_shard *node;
    struct shard_conn *prev, *next; /* while the core may know it */
    uint64_t id;
    struct net_end *end;
    struct frame_reader reader;
    char peer[32];
    uint32_t task; /* the worker's task, from its hello */
    uint64_t incarnation;
    bool asks;     /* its hello is not answered */
    bool apart;    /* its worker is of another job than the ledger's */
    bool ended;    /* no more frames */
    bool lost;     /* to be closed */
    bool reported; /* the core knows that it is gone, or is itself gone */
};

/* An outgoing frame of either kind. */
struct shard_out {
    struct sim_net_out out;
    struct node_shard *node;
    struct shard_conn *conn;
    uint8_t *bytes;
    struct shard_data *data;
    struct store_snapshot *snap;
};

static void node_shard_plan(struct node_shard *n);

uint64_t
node_shard_ms(const struct node_shard *n)
{
    return n->sim->now_us / SIM_MS + n->clock_offset_ms;
}

/* ---- Sending ---- */

static enum ps_err
out_prepare(struct sim_net_out *out)
{
    struct shard_out *o = CONTAINER_OF(out, struct shard_out, out);
    struct store *store = o->node->store;
    struct shard_reply reply;
    enum ps_err err;

    if ((err = store->ops->snapshot_ref(store, &o->snap)) != PS_OK)
        return err;
    if ((err = shard_data_open(o->node->core, o->data, o->snap, &reply)) == PS_ERR_ROLLED_BACK ||
        err == PS_ERR_DROPPED) {
        o->conn->lost = true;
        sim_in(o->node->sim, &o->node->hang_up, 0);
        return err;
    }
    if (err != PS_OK) {
        sim_fail(o->node->sim, "s%u cannot open an answer: %s", o->node->index, ps_err_name(err));
        return err;
    }
    out->head = reply.head;
    out->head_len = reply.head_len;
    out->parts = reply.parts;
    out->parts_len = reply.parts_len;
    return PS_OK;
}

static void
out_release(struct sim_net_out *out)
{
    struct shard_out *o = CONTAINER_OF(out, struct shard_out, out);

    if (o->snap != NULL)
        o->node->store->ops->snapshot_unref(o->node->store, o->snap);
    o->snap = NULL;
}

static void
out_done(struct sim_net_out *out, enum ps_err result)
{
    struct shard_out *o = CONTAINER_OF(out, struct shard_out, out);

    (void)result;
    out_release(out);
    shard_data_free(o->data);
    free(o->bytes);
    free(o);
}

/* ---- What goes by: the ledger learns variable ids from frames and lapses from the log ---- */

static struct shard_conn *
conn_find(struct node_shard *n, uint64_t id)
{
    struct shard_conn *c = n->conns;

    while (c != NULL && c->id != id)
        c = c->next;
    return c;
}

static struct node_request *
asked_new(struct node_shard *n, uint64_t conn, const struct wire_msg *msg)
{
    struct node_request *a;

    n->asked = sim_grow(n->asked, &n->asked_room, n->asked_len, sizeof *n->asked);
    a = &n->asked[n->asked_len++];
    *a = (struct node_request){.type = msg->type, .conn = conn, .request = msg->request};
    return a;
}

/* Takes it out. */
static bool
asked_take(struct node_shard *n, enum msg_type type, uint64_t conn, const struct wire_msg *answer,
           struct node_request *out)
{
    for (size_t i = 0; i < n->asked_len; i++) {
        *out = n->asked[i];
        if (out->type != type || out->conn != conn || out->request != answer->request)
            continue;
        n->asked[i] = n->asked[--n->asked_len];
        return true;
    }
    sim_fail(n->sim, "s%u answered a %s that nobody asked for", n->index, wire_type_name(type));
    return false;
}

static void
see_declare(struct node_shard *n, const struct shard_conn *c, const struct wire_msg *msg)
{
    struct node_request *a = asked_new(n, c->id, msg);

    a->apart = c->apart;
    snprintf(a->name, sizeof a->name, "%s", msg->u.declare->name);
}

static void
see_declared(struct node_shard *n, uint64_t conn, const struct wire_msg *msg)
{
    struct node_request a;

    if (asked_take(n, MSG_DECLARE, conn, msg, &a) && !a.apart)
        ledger_declared(n->ledger, n->index, msg->u.declared->var, a.name, n->store);
}

static void
see_evict(struct node_shard *n, uint64_t conn, const struct wire_msg *msg)
{
    struct node_request *a = asked_new(n, conn, msg);

    a->task = msg->u.evict->task;
    a->incarnation = ledger_live(n->ledger, n->index, a->task);
}

static void
see_evicted(struct node_shard *n, uint64_t conn, const struct wire_msg *msg)
{
    struct node_request a;

    if (asked_take(n, MSG_EVICT, conn, msg, &a) && msg->u.evicted->live)
        ledger_evicted(n->ledger, n->index, a.task, a.incarnation);
}

static void
see_hello(struct shard_conn *c, const Psd__Hello *m)
{
    c->apart = m->job != NULL && strcmp(m->job->name, c->node->model->job) != 0;
    c->task = m->task;
    c->incarnation = m->incarnation;
    c->asks = m->incarnation != 0 && !c->apart;
}

/* The first message that it gets answers its hello. */
static void
see_greeting(struct node_shard *n, uint64_t conn, const struct wire_msg *msg)
{
    struct shard_conn *c = conn_find(n, conn);

    if (c == NULL || !c->asks)
        return;
    c->asks = false;
    ledger_greeted(n->ledger, n->index, c->task, c->incarnation,
                   msg->type == MSG_ERROR ? (enum ps_err)msg->u.error->code : PS_OK);
}

static bool
node_shard_look(struct node_shard *n, const struct frame_head *head, const void *meta, struct wire_msg *msg)
{
    struct ps_error e;

    arena_reset(&n->arena);
    if (wire_decode(head, meta, &n->arena, msg, &e) == PS_OK)
        return true;
    sim_fail(n->sim, "s%u: a %s does not decode: %s", n->index, wire_type_name((enum msg_type)head->type), e.text);
    return false;
}

/* Where old pushes are dropped, the ledger needs each push's age. */
static void
see_push(struct node_shard *n, const Psd__Push *m, const float *gradient)
{
    for (size_t i = 0; i < m->n_var; i++) {
        uint64_t from = m->n_from_version > 0 ? m->from_version[i] : UINT64_MAX;

        gradient += ledger_push_arrived(n->ledger, n->index, m->var[i], m->block[i], gradient, from);
    }
}

/* A worker that is gone when the answer leaves does not learn that its push was refused. */
static void
see_durable(struct node_shard *n, const struct shard_conn *c, const Psd__Push *m)
{
    if (m->durable && m->cursor != NULL && (!n->profile.durable || n->saver.said_not_durable))
        ledger_turned_away(n->ledger, c->task, &(struct ps_cursor){m->cursor->epoch, m->cursor->position});
}

static void
see_came(struct node_shard *n, const struct shard_conn *c, const Psd__Push *m)
{
    for (size_t i = 0; i < m->n_var; i++)
        ledger_push_came(n->ledger, n->index, c->incarnation, m->var[i], m->block[i], m->clock);
}

static void
see_in(struct shard_conn *c, const struct frame_head *head, const void *meta, const void *payload)
{
    struct node_shard *n = c->node;
    struct wire_msg msg;

    if (head->type != MSG_HELLO && head->type != MSG_DECLARE && head->type != MSG_PUSH && head->type != MSG_EVICT)
        return;
    if (!node_shard_look(n, head, meta, &msg))
        return;
    if (msg.type == MSG_HELLO)
        see_hello(c, msg.u.hello);
    if (msg.type == MSG_EVICT)
        see_evict(n, c->id, &msg);
    if (msg.type == MSG_DECLARE)
        see_declare(n, c, &msg);
    if (c->apart)
        return;
    if (msg.type == MSG_PUSH && n->model->age == PS_AGE_CUTOFF)
        see_push(n, msg.u.push, payload);
    if (msg.type == MSG_PUSH) {
        see_durable(n, c, msg.u.push);
        see_came(n, c, msg.u.push);
    }
}

static void
see_out(struct node_shard *n, uint64_t conn, const uint8_t *bytes)
{
    struct frame_head head;
    struct wire_msg msg;
    struct ps_error e;

    if (frame_head_decode(bytes, &head, &e) != PS_OK) {
        sim_fail(n->sim, "s%u sent no frame: %s", n->index, e.text);
        return;
    }
    if (!node_shard_look(n, &head, bytes + FRAME_HEAD_SIZE, &msg))
        return;
    if (msg.type == MSG_DECLARED && msg.u.declared->declare == NULL)
        see_declared(n, conn, &msg);
    else if (msg.type == MSG_DECLARED) /* to an attach: perhaps before the declaring worker's answer */
        ledger_declared(n->ledger, n->index, msg.u.declared->var, msg.u.declared->declare->name, n->store);
    if (msg.type == MSG_EVICTED)
        see_evicted(n, conn, &msg);
    if (msg.type == MSG_WELCOME || msg.type == MSG_ERROR)
        see_greeting(n, conn, &msg);
    if (msg.type == MSG_ERROR)
        sim_trace(n->sim, "s%u > error %s to c%" PRIu64 ": %s", n->index, ps_err_name((enum ps_err)msg.u.error->code),
                  conn, msg.u.error->text);
}

static void
see_log(struct node_shard *n, const char *text)
{
    uint32_t task;

    sim_trace(n->sim, "s%u log %s", n->index, text);
    if (sscanf(text, "worker lapsed job=train task=%u", &task) == 1 ||
        sscanf(text, "worker evicted job=train task=%u", &task) == 1)
        ledger_lapsed(n->ledger, task);
}

/* ---- Connections ---- */

static void
conn_unlink(struct shard_conn *c)
{
    if (c->reported)
        return;
    c->reported = true;
    if (c->prev != NULL)
        c->prev->next = c->next;
    else
        c->node->conns = c->next;
    if (c->next != NULL)
        c->next->prev = c->prev;
}

/* One answer is missing: the client reconnects and asks again. */
static void
hang_up_comes(struct sim_timer *t)
{
    struct node_shard *n = CONTAINER_OF(t, struct node_shard, hang_up);
    struct shard_conn *c, *next;

    for (c = n->conns; c != NULL; c = next) {
        next = c->next;
        if (!c->lost)
            continue;
        c->lost = false;
        c->ended = true;
        net_close(c->end);
    }
}

/* ---- Turns ---- */

static void
perform_send(struct node_shard *n, struct shard_action *a)
{
    struct shard_conn *c = conn_find(n, a->conn);
    struct shard_out *o;

    if (a->kind == SHARD_SEND)
        see_out(n, a->conn, a->bytes);
    o = sim_alloc(sizeof *o);
    o->node = n;
    o->conn = c;
    o->bytes = a->bytes;
    o->data = a->data;
    o->out.done = out_done;
    if (a->kind == SHARD_DATA) {
        o->out.prepare = out_prepare;
        o->out.release = out_release;
    } else {
        o->out.head = a->bytes;
        o->out.head_len = a->len;
    }
    if (c == NULL)
        out_done(&o->out, PS_ERR_CLOSED);
    else
        net_send(c->end, &o->out);
}

static void
perform_close(struct node_shard *n, const struct shard_action *a)
{
    struct shard_conn *c = conn_find(n, a->conn);

    if (c == NULL)
        return;
    c->ended = true;
    sim_trace(n->sim, "s%u > close c%" PRIu64, n->index, c->id);
    net_finish_end(c->end);
}

static void
node_shard_perform(struct node_shard *n, struct shard_action *a)
{
    switch (a->kind) {
    case SHARD_SEND:
    case SHARD_DATA:
        perform_send(n, a);
        break;
    case SHARD_CLOSE:
        perform_close(n, a);
        break;
    case SHARD_LOG:
        see_log(n, a->text);
        free(a->text);
        break;
    case SHARD_DRAIN_BEGUN: /* the core turns new connections away as well */
        break;
    case SHARD_STOPPED:
        n->stopped = true;
        break;
    case SHARD_RESTORE_WANTED: /* there are no files here */
        free(a->text);
        free(a->job);
        break;
    case SHARD_SAVE_INSTANT:
        ledger_instant(n->ledger, n->index);
        break;
    case SHARD_SAVE_BEGUN:
    case SHARD_SAVE_CLOSE:
    case SHARD_SAVE_ABANDONED:
    case SHARD_REDO:
        node_saver_action(&n->saver, a);
        break;
    }
}

/* False: killed on the way. */
static bool
perform_all(struct node_shard *n)
{
    struct shard_action a;

    while (shard_next_action(n->core, &a)) {
        node_shard_perform(n, &a);
        if (node_shard_strikes(n, KILL_WHEN_LOGGED) && a.kind == SHARD_REDO) {
            node_shard_killed(n, "when it has logged");
            return false;
        }
        if (node_shard_strikes(n, KILL_AMONG_ANSWERS) && sim_chance(n->sim, 400)) {
            node_shard_killed(n, "among its answers");
            return false;
        }
    }
    return true;
}

/* False: killed on the way. */
static bool
node_shard_commit(struct node_shard *n)
{
    bool dirty = shard_dirty(n->core);
    enum ps_err err;

    if (node_shard_strikes(n, KILL_BEFORE_COMMIT) && dirty) {
        node_shard_killed(n, "before a commit");
        return false;
    }
    if ((err = shard_commit(n->core)) != PS_OK) {
        n->failed_commits++;
        sim_trace(n->sim, "s%u failed turn: %s", n->index, ps_err_name(err));
    } else if (dirty) {
        n->commits++;
    }
    ledger_commit(n->ledger, n->index, n->store);
    if (node_shard_strikes(n, KILL_AFTER_COMMIT) && dirty) {
        node_shard_killed(n, "after a commit");
        return false;
    }
    return true;
}

/* What waits is counted in all, in its identity's share, and for its connection, which may be on its way out. */
static void
node_shard_check_waiting(struct node_shard *n)
{
    uint64_t all = shard_waiting_bytes(n->core), sum = 0;
    const struct shard_conn *c;

    for (c = n->conns; c != NULL; c = c->next)
        sum += shard_connection_waiting_bytes(n->core, c->id);
    if (sum > all || n->share.parked_bytes != all)
        sim_fail(n->sim, "s%u counts %llu bytes of pulls that wait, %llu in their share, and connections have %llu",
                 n->index, (unsigned long long)all, (unsigned long long)n->share.parked_bytes, (unsigned long long)sum);
}

void
node_shard_end_turn(struct node_shard *n)
{
    sim_cancel(n->sim, &n->turn);
    n->turn_open = false;
    n->turn_events = 0;
    n->turns++;
    if (!node_shard_commit(n) || !perform_all(n))
        return;
    if (n->stopped && n->state == SHARD_DRAINING) {
        sim_trace(n->sim, "s%u stopped", n->index);
        node_shard_die(n);
        return;
    }
    node_shard_check_waiting(n);
    node_shard_plan(n);
}

static void
turn_ends(struct sim_timer *t)
{
    node_shard_end_turn(CONTAINER_OF(t, struct node_shard, turn));
}

static void
open_turn(struct node_shard *n)
{
    n->turn_open = true;
    n->turn_limit = (uint32_t)sim_between(n->sim, 1, n->profile.turn_events_max);
    sim_in(n->sim, &n->turn, sim_below(n->sim, n->profile.turn_us_max + 1));
}

/* Give the core one event. The turn may end on the way, and the process with it. */
static void
node_shard_take(struct node_shard *n, struct shard_event *event)
{
    event->now_ms = node_shard_ms(n);
    for (int tries = 0; shard_step(n->core, event) == SHARD_TURN_FULL; tries++) {
        if (tries == STEP_TRIES)
            sim_fail(n->sim, "s%u: an event fills turn after turn", n->index);
        node_shard_end_turn(n);
        if (n->core == NULL || n->sim->failed)
            return;
    }
    if (!n->turn_open)
        open_turn(n);
    if (++n->turn_events >= n->turn_limit || sim_chance(n->sim, 50))
        node_shard_end_turn(n);
}

static void
take_simple(struct node_shard *n, enum shard_event_kind kind, uint64_t conn)
{
    struct shard_event event = {.kind = kind, .conn = conn};

    node_shard_take(n, &event);
}

/* ---- Time and work ---- */

/* After every turn: the core's next requests. */
static void
node_shard_plan(struct node_shard *n)
{
    uint64_t next = shard_next_time(n->core), us;

    if (shard_busy(n->core) && n->work.place == 0)
        sim_in(n->sim, &n->work, sim_below(n->sim, n->profile.turn_us_max + 1));
    if (next == UINT64_MAX) {
        sim_cancel(n->sim, &n->time);
        return;
    }
    us = next > n->clock_offset_ms ? (next - n->clock_offset_ms) * SIM_MS : 0;
    sim_at(n->sim, &n->time, MAX(us, n->sim->now_us) + sim_below(n->sim, 2 * SIM_MS));
}

static void
time_comes(struct sim_timer *t)
{
    take_simple(CONTAINER_OF(t, struct node_shard, time), SHARD_TIME, 0);
}

static void
work_comes(struct sim_timer *t)
{
    struct node_shard *n = CONTAINER_OF(t, struct node_shard, work);

    if (shard_busy(n->core))
        take_simple(n, SHARD_WORK, 0);
}

/* ---- Reading ---- */

/* The core borrows metadata and payload during the step only: it gets copies that are gone right after it. */
static void
take_frame(struct shard_conn *c)
{
    struct node_shard *n = c->node;
    const struct frame_reader *r = &c->reader;
    uint8_t *meta = sim_alloc(r->head.meta_len), *payload = NULL;
    struct shard_event event = {.kind = SHARD_FRAME,
                                .conn = c->id,
                                .role = ROLE_ADMIN,
                                .token = NODE_SHARD_TOKEN,
                                .share = &n->share,
                                .head = &r->head,
                                .meta = meta};

    memcpy(meta, r->meta, r->head.meta_len);
    if (r->head.payload_len > 0) {
        payload = sim_alloc(r->head.payload_len);
        memcpy(payload, r->payload, r->head.payload_len);
    }
    event.payload = payload;
    see_in(c, &r->head, meta, payload);
    node_shard_take(n, &event);
    free(meta);
    free(payload);
}

static void
take_broken(struct shard_conn *c)
{
    struct shard_event event = {.kind = SHARD_BROKEN, .conn = c->id, .error = &c->reader.error};

    sim_fail(c->node->sim, "s%u got bytes that are no frame: %s", c->node->index, c->reader.error.text);
    c->ended = true;
    node_shard_take(c->node, &event);
}

/* What workers and tools send is let in at its head. */
static void
take_head(struct shard_conn *c)
{
    struct ps_error e;

    if (shard_head(c->node->core, c->id, &c->reader.head, ROLE_ADMIN, &e) != PS_OK)
        sim_fail(c->node->sim, "s%u refuses a frame at its head: %s", c->node->index, e.text);
}

static void
node_shard_feed(struct shard_conn *c, const uint8_t *at, size_t n)
{
    size_t used;

    while (n > 0 && !c->ended) {
        enum frame_event what = frame_feed(&c->reader, at, n, &used);

        at += used;
        n -= used;
        if (what == FRAME_WHOLE)
            take_frame(c);
        else if (what == FRAME_BAD)
            take_broken(c);
        else if (what == FRAME_HEADED)
            take_head(c);
        else if (what == FRAME_MORE)
            return;
    }
}

/* As a socket gives them: into the reader's place when it has one, else into scratch. */
static void
conn_bytes(struct net_end *e, const uint8_t *data, size_t n)
{
    struct shard_conn *c = e->arg;

    while (n > 0 && !c->ended) {
        uint8_t *scratch = NULL, *to;
        void *at;
        size_t len;

        frame_want(&c->reader, &at, &len);
        len = MIN(len, n);
        to = at != NULL ? at : (scratch = sim_alloc(len + FRAME_ALIGN)) + frame_offset(&c->reader);
        memcpy(to, data, len);
        node_shard_feed(c, to, len);
        free(scratch);
        data += len;
        n -= len;
    }
}

static void
conn_end(struct shard_conn *c)
{
    struct node_shard *n = c->node;

    c->ended = true;
    if (c->reported)
        return;
    conn_unlink(c);
    take_simple(n, SHARD_CLOSED, c->id);
}

static void
conn_closed(struct net_end *e, enum ps_err why, const char *text)
{
    (void)why;
    (void)text;
    conn_end(e->arg);
}

static void
conn_gone(struct net_end *e)
{
    struct shard_conn *c = e->arg;

    conn_end(c);
    frame_reader_finish(&c->reader);
    free(c);
}

static const struct net_user conn_user = {.bytes = conn_bytes, .closed = conn_closed, .gone = conn_gone};

static void
listener_accept(struct net_listener *l, struct net_end *e)
{
    struct node_shard *n = CONTAINER_OF(l, struct node_shard, listener);
    struct shard_conn *c = sim_alloc(sizeof *c);
    struct shard_event event = {.kind = SHARD_OPENED, .peer = c->peer};

    c->node = n;
    c->id = event.conn = ++n->next_conn;
    c->end = e;
    c->next = n->conns;
    if (c->next != NULL)
        c->next->prev = c;
    n->conns = c;
    frame_reader_init(&c->reader);
    c->reader.heads = true;
    snprintf(c->peer, sizeof c->peer, "sim:%" PRIu64, c->id);
    e->user = &conn_user;
    e->arg = c;
    node_shard_take(n, &event);
}

void
node_shard_event(struct node_shard *n, struct shard_event *event)
{
    if (n->core != NULL)
        node_shard_take(n, event);
}

/* ---- Lives, the rest of which is node_life.c's ---- */

static void
restart_comes(struct sim_timer *t)
{
    node_shard_start(CONTAINER_OF(t, struct node_shard, restart));
}

/* Its connections are gone with it. */
void
node_shard_hang_up(struct node_shard *n)
{
    while (n->conns != NULL) {
        struct shard_conn *c = n->conns;

        c->ended = true;
        conn_unlink(c);
        net_close(c->end);
    }
    sim_cancel(n->sim, &n->hang_up);
    n->listener.up = false;
    n->asked_len = 0;
}

void
node_shard_init(struct node_shard *n, struct sim *s, struct sim_net *net, struct ledger *l, const struct sim_model *m,
                uint32_t index, const struct node_shard_profile *p)
{
    *n = (struct node_shard){.sim = s, .net = net, .ledger = l, .model = m, .index = index, .profile = *p};
    n->store = store_mem_new(p->store_bytes_max);
    ps_assert(n->store != NULL);
    n->clock_offset_ms = sim_below(s, 1000000);
    n->listener.accept = listener_accept;
    n->turn.run = turn_ends;
    n->time.run = time_comes;
    n->work.run = work_comes;
    n->restart.run = restart_comes;
    n->hang_up.run = hang_up_comes;
    if (p->durable)
        node_saver_init(&n->saver, n, &p->saver);
}

void
node_shard_finish(struct node_shard *n)
{
    node_shard_stop(n);
    if (n->profile.durable)
        node_saver_finish(&n->saver);
    if (n->store != NULL)
        n->store->ops->close(n->store);
    n->store = NULL;
    free(n->asked);
    arena_finish(&n->arena);
}
