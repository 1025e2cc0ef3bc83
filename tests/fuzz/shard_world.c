/* Events in, actions out, and the record of what was answered. */
#include "tests/fuzz/shard_world.h"

#include <stdlib.h>
#include <string.h>

#define COMMITS_PER_CHECK 8

/* ---- Requests ---- */

static void
asked_add(struct shard_world_request *a, uint64_t number)
{
    for (size_t i = 0; i < a->len; i++)
        if (a->number[i] == number)
            return;
    ps_assert(a->len < WORLD_ASKED);
    a->number[a->len++] = number;
}

static bool
asked_remove(struct shard_world_request *a, uint64_t number)
{
    for (size_t i = 0; i < a->len; i++)
        if (a->number[i] == number) {
            a->number[i] = a->number[--a->len];
            return true;
        }
    return false;
}

static struct world_conn *
shard_world_find(struct shard_world *w, uint64_t id)
{
    for (int i = 0; i < WORLD_CONNS; i++)
        if (w->conn[i].id == id)
            return &w->conn[i];
    return NULL;
}

/* ---- What comes out ---- */

static void
shard_world_answered(struct world_conn *c, uint64_t request)
{
    bool asked = asked_remove(&c->requests, request);

    ps_assert(asked || c->wild);
}

/* A repeat is answered once more, so one that is not recorded is no mistake; one that was never sent is. */
static void
shard_world_acked(struct world_conn *c, uint64_t seq)
{
    ps_assert(c->wild || (seq >= 1 && seq <= c->seq_max));
    asked_remove(&c->seqs, seq);
}

static void
shard_world_note(struct world_conn *c, const struct wire_msg *msg)
{
    switch (msg->type) {
    case MSG_ACK:
        for (size_t i = 0; i < msg->u.ack->n_seq; i++)
            shard_world_acked(c, msg->u.ack->seq[i]);
        break;
    case MSG_DATA:
        if (msg->u.data->seq > 0)
            shard_world_acked(c, msg->u.data->seq);
        else
            shard_world_answered(c, msg->request);
        break;
    case MSG_WELCOME:
        c->seq_max = MAX(c->seq_max, msg->u.welcome->last_seq);
        shard_world_answered(c, msg->request);
        break;
    case MSG_DECLARED:
    case MSG_REPORT:
    case MSG_PONG:
    case MSG_SET_DONE:
    case MSG_SAVE_DONE:
    case MSG_MET:
    case MSG_EVICTED:
    case MSG_DEFINED:
    case MSG_DROPPED:
    case MSG_ASSIGNED:
        shard_world_answered(c, msg->request);
        break;
    case MSG_ERROR:
        ps_assert(msg->u.error->text[0] != '\0');
        if (msg->request != 0)
            shard_world_answered(c, msg->request);
        break;
    case MSG_EVENT:
        break;
    default:
        ps_assert(false);
    }
}

/* Header, metadata and pad are one whole, valid frame. */
static void
shard_world_receive(struct shard_world *w, struct world_conn *c, const uint8_t *bytes, size_t len, size_t payload_len)
{
    struct frame_head head;
    struct wire_msg msg;
    struct ps_error e;

    ps_assert(frame_head_decode(bytes, &head, &e) == PS_OK);
    ps_assert(len == FRAME_HEAD_SIZE + head.meta_len + frame_pad(head.meta_len) && head.payload_len == payload_len);
    arena_reset(&w->arena);
    ps_assert(wire_decode(&head, bytes + FRAME_HEAD_SIZE, &w->arena, &msg, &e) == PS_OK);
    shard_world_note(c, &msg);
}

static void
shard_world_deliver(struct shard_world *w, struct world_conn *c, struct shard_data *data)
{
    struct store_snapshot *snap;
    struct shard_reply reply;
    size_t sum = 0;

    ps_assert(shard_data_bytes(data) > 0);
    ps_assert(w->store->ops->snapshot_ref(w->store, &snap) == PS_OK);
    ps_assert(shard_data_open(w->shard, data, snap, &reply) == PS_OK);
    for (size_t i = 0; i < reply.parts_len; i++)
        sum += reply.parts[i].len;
    ps_assert(sum == reply.payload_len);
    shard_world_receive(w, c, reply.head, reply.head_len, reply.payload_len);
    w->store->ops->snapshot_unref(w->store, snap);
}

void
world_deliver(struct shard_world *w)
{
    struct world_data *d;
    struct world_conn *c;

    while ((d = w->data) != NULL) {
        w->data = d->next;
        if ((c = shard_world_find(w, d->conn)) != NULL)
            shard_world_deliver(w, c, d->data);
        shard_data_free(d->data);
        free(d);
    }
}

static void
keep_data(struct shard_world *w, uint64_t conn, struct shard_data *data)
{
    struct world_data **at = &w->data, *d = malloc(sizeof *d);

    ps_assert(d != NULL);
    *d = (struct world_data){.conn = conn, .data = data};
    while (*at != NULL)
        at = &(*at)->next;
    *at = d;
}

static void
shard_world_perform(struct shard_world *w, struct shard_action *a)
{
    struct world_conn *c = a->conn != 0 ? shard_world_find(w, a->conn) : NULL; /* NULL: it was lost in this turn */

    ps_assert(c == NULL || !c->ended);
    switch (a->kind) {
    case SHARD_SEND:
        if (c != NULL)
            shard_world_receive(w, c, a->bytes, a->len, 0);
        free(a->bytes);
        break;
    case SHARD_DATA:
        keep_data(w, a->conn, a->data);
        break;
    case SHARD_CLOSE:
        if (c != NULL)
            c->ended = true;
        break;
    case SHARD_LOG:
        ps_assert(a->text != NULL && a->text[0] != '\0');
        free(a->text);
        break;
    case SHARD_DRAIN_BEGUN:
        break;
    case SHARD_STOPPED:
        w->stopped = true;
        break;
    case SHARD_RESTORE_WANTED: /* there are no files here */
        free(a->text);
        free(a->job);
        break;
    case SHARD_SAVE_INSTANT:
        break;
    case SHARD_SAVE_BEGUN:
    case SHARD_SAVE_CLOSE:
    case SHARD_SAVE_ABANDONED:
    case SHARD_REDO:
        disk_action(w, a);
        break;
    }
}

void
world_turn(struct shard_world *w)
{
    bool dirty = shard_dirty(w->shard);
    enum ps_err err = shard_commit(w->shard);
    struct shard_action a;

    ps_assert(err == PS_OK || dirty);
    while (shard_next_action(w->shard, &a))
        shard_world_perform(w, &a);
    if (!w->late_data)
        world_deliver(w);
    check_turn(w);
    if (dirty && err == PS_OK && ++w->commits >= COMMITS_PER_CHECK)
        check_store(w);
}

/* ---- Events ---- */

void
world_event(struct shard_world *w, struct shard_event *event)
{
    event->now_ms = w->now_ms;
    for (int turns = 0; shard_step(w->shard, event) == SHARD_TURN_FULL; turns++) {
        ps_assert(turns < 3);
        world_turn(w);
    }
}

void
world_open(struct shard_world *w, struct world_conn *c)
{
    if (c->id != 0)
        world_lose(w, c);
    *c = (struct world_conn){.id = ++w->ids};
    world_event(w, &(struct shard_event){.kind = SHARD_OPENED, .conn = c->id, .peer = "127.0.0.1:9"});
}

/* Messages on their way to it are lost with it. */
void
world_lose(struct shard_world *w, struct world_conn *c)
{
    uint64_t id = c->id;

    *c = (struct world_conn){0};
    world_event(w, &(struct shard_event){.kind = SHARD_CLOSED, .conn = id});
}

void
world_pass(struct shard_world *w, uint64_t ms)
{
    uint64_t until = w->now_ms + ms;

    while (shard_next_time(w->shard) <= until) {
        w->now_ms = MAX(w->now_ms, shard_next_time(w->shard));
        world_event(w, &(struct shard_event){.kind = SHARD_TIME});
        ps_assert(shard_next_time(w->shard) > w->now_ms);
    }
    w->now_ms = until;
}

void
world_work(struct shard_world *w)
{
    for (int steps = 0; shard_busy(w->shard); steps++) {
        ps_assert(steps < 10000);
        world_event(w, &(struct shard_event){.kind = SHARD_WORK});
        world_turn(w);
    }
}

void
world_frame(struct shard_world *w, struct world_conn *c, const struct world_frame *f)
{
    float *payload = f->n > 0 ? malloc(f->n * sizeof *payload) : NULL;
    uint8_t *meta = malloc(f->meta_len + (f->meta_len == 0));
    struct frame_head head = {.version = FRAME_VERSION,
                              .type = (uint16_t)f->type,
                              .meta_len = (uint32_t)f->meta_len,
                              .payload_len = f->n * sizeof *payload,
                              .request = f->request};
    struct shard_event event = {.kind = SHARD_FRAME,
                                .conn = c->id,
                                .role = ROLE_ADMIN,
                                .head = &head,
                                .meta = meta,
                                .payload = payload,
                                .in_flight_bytes = 1};

    ps_assert(meta != NULL && (f->n == 0 || payload != NULL));
    memcpy(meta, f->meta, f->meta_len);
    for (size_t i = 0; i < f->n; i++)
        payload[i] = f->value;
    if (f->asks) {
        asked_add(&c->requests, f->request);
        c->last_request = f->request;
    }
    if (f->seq > 0) {
        asked_add(&c->seqs, f->seq);
        c->seq_max = MAX(c->seq_max, f->seq);
    }
    world_event(w, &event);
    free(payload);
    free(meta);
}

/* ---- Life ---- */

static void
shard_world_start(struct shard_world *w)
{
    struct ps_error e;

    ps_assert(shard_new(&w->config, w->store, w->now_ms, &w->shard, &e) == PS_OK);
    disk_attach(w);
}

static void
drop_data(struct shard_world *w)
{
    struct world_data *d;

    while ((d = w->data) != NULL) {
        w->data = d->next;
        shard_data_free(d->data);
        free(d);
    }
}

void
world_start(struct shard_world *w, const struct shard_config *config, uint64_t store_bytes, bool durable)
{
    *w = (struct shard_world){.config = *config, .now_ms = 1000, .store_bytes = store_bytes};
    w->store = store_mem_new(store_bytes);
    ps_assert(w->store != NULL);
    if (durable)
        disk_start(w, GIB);
    shard_world_start(w);
}

static void
end_process(struct shard_world *w)
{
    drop_data(w);
    shard_free(w->shard);
    for (int what = 0; what < STORE_MEM_FAILS; what++)
        store_mem_fail_at(w->store, (enum store_mem_fail)what, 0);
    disk_detach(w);
    store_mem_crash(w->store);
    memset(w->conn, 0, sizeof w->conn);
    w->stopped = false;
}

void
world_crash(struct shard_world *w)
{
    end_process(w);
    shard_world_start(w);
    check_store(w);
}

/* Under a new boot, with other versions. */
void
world_power(struct shard_world *w)
{
    if (w->disk.store == NULL)
        return;
    end_process(w);
    w->store->ops->close(w->store);
    w->store = store_mem_new(w->store_bytes);
    ps_assert(w->store != NULL);
    memset(w->version, 0, sizeof w->version);
    w->config.boot = 100 + ++w->disk.powers;
    disk_rebuild(w, w->config.boot);
    shard_world_start(w);
    disk_replay(w);
    world_turn(w);
    check_store(w);
}

static void
all_go(struct shard_world *w)
{
    for (int i = 0; i < WORLD_CONNS; i++)
        if (w->conn[i].id != 0)
            world_lose(w, &w->conn[i]);
    world_turn(w);
}

void
world_end(struct shard_world *w)
{
    for (int what = 0; what < STORE_MEM_FAILS; what++)
        store_mem_fail_at(w->store, (enum store_mem_fail)what, 0);
    world_turn(w);
    world_work(w);
    all_go(w);
    world_pass(w, 2 * WIRE_LEASE_MS_MAX);
    world_turn(w);
    world_work(w);
    check_store(w);
    check_empty(w);
    world_event(w, &(struct shard_event){.kind = SHARD_DRAIN});
    world_turn(w);
    ps_assert(w->stopped);
    world_deliver(w);
    shard_free(w->shard);
    disk_end(w);
    w->store->ops->close(w->store);
    arena_finish(&w->arena);
}
