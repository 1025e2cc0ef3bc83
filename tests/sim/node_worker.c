/* The worker's process.
 *
 * The happy path: node_worker_start() makes a core; node_worker_perform() dials, sends and closes as the core asks;
 * bytes go through a frame reader to core_meta() and core_frame(); whenever something may have ended, script_poll()
 * runs from the queue, never from within the core's or the network's calls.
 *
 * A connection struct lives until net says that it is gone; a core that died before has no links any more, so nothing
 * late reaches the next one. */
#include "tests/sim/node_worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENT_MS 1800000 /* longer than any run waits */

struct worker_link {
    struct node_worker *worker;
    uint32_t shard;
    struct net_end *end;
    struct frame_reader reader;
    bool dead;       /* the core is not told of it any more */
    bool skips_meta; /* core_meta() is optional */
};

struct worker_out {
    struct sim_net_out out;
    struct node_worker *worker;
    struct core_send *send;
};

uint64_t
node_worker_ms(const struct node_worker *w)
{
    return w->sim->now_us / SIM_MS + w->clock_offset_ms;
}

/* It is one of the ledger's. */
static bool
node_worker_trains(const struct node_worker *w)
{
    return !w->profile.observer && !w->profile.apart;
}

static bool
node_worker_stopped(const struct node_worker *w)
{
    return w->held_us > w->sim->now_us;
}

/* ---- What the core wants ---- */

static void
out_done(struct sim_net_out *out, enum ps_err result)
{
    struct worker_out *o = CONTAINER_OF(out, struct worker_out, out);
    struct node_worker *w = o->worker;

    w->sends_out--;
    core_sent(w->core, o->send, result);
    free(o);
    node_worker_perform(w);
}

static void
perform_send(struct node_worker *w, const struct core_action *a)
{
    struct worker_out *o = sim_alloc(sizeof *o);

    o->worker = w;
    o->send = a->send;
    o->out.head = a->send->head;
    o->out.head_len = a->send->head_len;
    o->out.parts = a->send->parts;
    o->out.parts_len = a->send->parts_len;
    o->out.done = out_done;
    w->sends_out++;
    if (node_worker_trains(w))
        receipts_sent(w, a->shard, a->send);
    if (w->links[a->shard] == NULL)
        out_done(&o->out, PS_ERR_CLOSED);
    else
        net_send(w->links[a->shard]->end, &o->out);
}

static void
link_leave(struct node_worker *w, uint32_t shard, bool finish)
{
    struct worker_link *l = w->links[shard];

    if (l == NULL)
        return;
    w->links[shard] = NULL;
    l->dead = true;
    if (finish) {
        w->finishing[shard] = l;
        net_finish_end(l->end);
    } else {
        net_close(l->end);
    }
}

static const struct net_user link_user;

static void
perform_connect(struct node_worker *w, uint32_t shard)
{
    struct worker_link *l = sim_alloc(sizeof *l);

    if (w->links[shard] != NULL)
        sim_fail(w->sim, "w%u connects to s%u twice", w->task, shard);
    link_leave(w, shard, false);
    l->worker = w;
    l->shard = shard;
    l->skips_meta = sim_chance(w->sim, 150);
    frame_reader_init(&l->reader);
    w->links[shard] = l;
    l->end = net_dial(w->net, w->listeners[shard], &link_user, l);
}

static void
perform_event(struct node_worker *w, const struct ps_error *e)
{
    sim_trace(w->sim, "w%u event %s: %s (%s)", w->task, ps_err_name(e->code), e->text, e->peer);
    if (e->code == PS_ERR_CLOSED)
        script_lost(w);
    if (w->profile.apart)
        return;
    if (e->code == PS_ERR_ROLLED_BACK || e->code == PS_ERR_RESTORED)
        receipts_rolled_back(w, w->taking);
}

static void
perform_one(struct node_worker *w, const struct core_action *a)
{
    switch (a->kind) {
    case CORE_CONNECT:
        perform_connect(w, a->shard);
        break;
    case CORE_DISCONNECT:
        link_leave(w, a->shard, false);
        break;
    case CORE_FINISH:
        link_leave(w, a->shard, true);
        break;
    case CORE_SEND:
        perform_send(w, a);
        break;
    case CORE_DISCARD:
        if (w->links[a->shard] != NULL)
            frame_discard(&w->links[a->shard]->reader);
        break;
    case CORE_EVENT:
        perform_event(w, a->error);
        break;
    }
}

static void
node_worker_plan(struct node_worker *w)
{
    uint64_t next = core_next_time(w->core), us;

    if (w->poll.place == 0)
        sim_in(w->sim, &w->poll, 0);
    if (next == UINT64_MAX) {
        sim_cancel(w->sim, &w->time);
        return;
    }
    us = next > w->clock_offset_ms ? (next - w->clock_offset_ms) * SIM_MS : 0;
    sim_at(w->sim, &w->time, us);
}

void
node_worker_perform(struct node_worker *w)
{
    struct core_action a;

    if (w->performing || w->core == NULL)
        return; /* the loop below, further up the stack, goes on */
    w->performing = true;
    while (core_next_action(w->core, &a))
        perform_one(w, &a);
    w->performing = false;
    node_worker_plan(w);
}

/* ---- Connections ---- */

static void
link_opened(struct net_end *e)
{
    struct worker_link *l = e->arg;

    if (l->dead)
        return;
    core_connected(l->worker->core, l->shard, node_worker_ms(l->worker));
    node_worker_perform(l->worker);
}

static void
link_is_lost(struct worker_link *l, const struct ps_error *why)
{
    struct node_worker *w = l->worker;

    if (l->dead)
        return;
    l->dead = true;
    w->links[l->shard] = NULL;
    core_disconnected(w->core, l->shard, why, node_worker_ms(w));
    node_worker_perform(w);
}

static void
link_closed(struct net_end *e, enum ps_err why, const char *text)
{
    struct ps_error error = {.code = why};

    snprintf(error.text, sizeof error.text, "%s", text);
    link_is_lost(e->arg, &error);
}

static void
link_gone(struct net_end *e)
{
    struct worker_link *l = e->arg;

    if (l->worker->finishing[l->shard] == l)
        l->worker->finishing[l->shard] = NULL;
    frame_reader_finish(&l->reader);
    free(l);
}

static void
take_meta(struct worker_link *l)
{
    struct core_payload_dest place = {0};

    if (l->skips_meta)
        return;
    core_meta(l->worker->core, l->shard, &l->reader.head, l->reader.meta, &place);
    if (place.discard)
        frame_discard(&l->reader);
    else if (place.n > 0)
        frame_direct(&l->reader, place.parts, place.n);
    node_worker_perform(l->worker);
}

/* Payloads without a destination lie in memory that is freed right after the call. */
static void
take_frame(struct worker_link *l)
{
    const struct frame_reader *r = &l->reader;
    struct node_worker *w = l->worker;
    uint32_t shard = l->shard;
    void *payload = NULL;

    if (r->payload != NULL) {
        payload = sim_alloc(r->head.payload_len);
        memcpy(payload, r->payload, r->head.payload_len);
    }
    w->taking = l->shard;
    if (node_worker_trains(w))
        receipts_got(w, l->shard, &r->head, r->meta);
    core_frame(w->core, l->shard, &r->head, r->meta, payload, node_worker_ms(w));
    free(payload);
    node_worker_perform(w);
    if (node_worker_trains(w))
        receipts_taken(w, shard);
}

static void
take_broken(struct worker_link *l)
{
    sim_fail(l->worker->sim, "w%u got bytes that are no frame: %s", l->worker->task, l->reader.error.text);
    net_close(l->end);
    link_is_lost(l, &l->reader.error);
}

static void
node_worker_feed(struct worker_link *l, const uint8_t *at, size_t n)
{
    size_t used;

    while (n > 0 && !l->dead) {
        enum frame_event what = frame_feed(&l->reader, at, n, &used);

        at += used;
        n -= used;
        if (what == FRAME_META)
            take_meta(l);
        else if (what == FRAME_WHOLE)
            take_frame(l);
        else if (what == FRAME_BAD)
            take_broken(l);
        else
            return;
    }
}

static void
link_bytes(struct net_end *e, const uint8_t *data, size_t n)
{
    struct worker_link *l = e->arg;

    while (n > 0 && !l->dead) {
        uint8_t *scratch = NULL, *to;
        void *at;
        size_t len;

        frame_want(&l->reader, &at, &len);
        len = MIN(len, n);
        to = at != NULL ? at : (scratch = sim_alloc(len + FRAME_ALIGN)) + frame_offset(&l->reader);
        memcpy(to, data, len);
        node_worker_feed(l, to, len);
        free(scratch);
        data += len;
        n -= len;
    }
}

static const struct net_user link_user = {
    .opened = link_opened, .bytes = link_bytes, .closed = link_closed, .gone = link_gone};

/* ---- Timers ---- */

static void
time_comes(struct sim_timer *t)
{
    struct node_worker *w = CONTAINER_OF(t, struct node_worker, time);

    if (node_worker_stopped(w)) {
        sim_at(w->sim, t, w->held_us);
        return;
    }
    core_time(w->core, node_worker_ms(w));
    node_worker_perform(w);
}

static void
poll_comes(struct sim_timer *t)
{
    struct node_worker *w = CONTAINER_OF(t, struct node_worker, poll);
    uint64_t next;

    if (node_worker_stopped(w)) {
        sim_at(w->sim, t, w->held_us);
        return;
    }
    w->profile.program->poll(w);
    next = w->profile.program->next_us(w);
    if (next == UINT64_MAX)
        sim_cancel(w->sim, &w->wake);
    else
        sim_at(w->sim, &w->wake, next);
}

static void
wake_comes(struct sim_timer *t)
{
    struct node_worker *w = CONTAINER_OF(t, struct node_worker, wake);

    sim_in(w->sim, &w->poll, 0);
}

static void
restart_comes(struct sim_timer *t)
{
    node_worker_start(CONTAINER_OF(t, struct node_worker, restart));
}

/* ---- Lives ---- */

void
node_worker_init(struct node_worker *w, struct sim *s, struct sim_net *net, struct ledger *l, const struct sim_model *m,
                 uint32_t task, struct net_listener **listeners, const struct worker_profile *p)
{
    *w = (struct node_worker){
        .sim = s, .net = net, .ledger = l, .model = m, .task = task, .listeners = listeners, .profile = *p};
    w->clock_offset_ms = sim_below(s, 1000000);
    w->time.run = time_comes;
    w->poll.run = poll_comes;
    w->wake.run = wake_comes;
    w->restart.run = restart_comes;
}

static void
config_fill(struct node_worker *w, struct core_config *c, const char **addresses)
{
    static const char *const names[MODEL_SHARDS_MAX] = {"sim-0",  "sim-1",  "sim-2",  "sim-3", "sim-4",  "sim-5",
                                                        "sim-6",  "sim-7",  "sim-8",  "sim-9", "sim-10", "sim-11",
                                                        "sim-12", "sim-13", "sim-14", "sim-15"};
    const struct sim_model *m = w->model;
    uint64_t seed;

    w->incarnation = sim_rand(w->sim) | 1;
    seed = sim_rand(w->sim);
    for (uint32_t i = 0; i < m->shards; i++)
        addresses[i] = names[i];
    *c = (struct core_config){.cluster = m->cluster,
                              .shards = m->shards,
                              .addresses = addresses,
                              .agent = "sim worker",
                              .job = m->job,
                              .metric_names = model_metric_names,
                              .metrics_named = MODEL_METRICS,
                              .task = w->task,
                              .workers = model_workers(m, w->round),
                              .mode = m->mode,
                              .bound = m->bound,
                              .quorum = model_quorum(m, w->round),
                              .lapse = m->lapse,
                              .age = m->age,
                              .age_parameter = m->age_parameter,
                              .lease_ms = w->profile.patient ? PATIENT_MS : w->profile.lease_ms,
                              .observer = w->profile.observer,
                              .copy_max = GIB,
                              .incarnation = w->incarnation,
                              .seed = seed};
}

void
node_worker_start(struct node_worker *w)
{
    const char *addresses[MODEL_SHARDS_MAX];
    struct core_config config;
    struct ps_error e;
    enum ps_err err;

    config_fill(w, &config, addresses);
    sim_trace(w->sim, "w%u starts, run %u", w->task, w->round + 1);
    if (node_worker_trains(w))
        ledger_starts(w->ledger, w->task, w->round);
    err = core_new(&config, node_worker_ms(w), &w->core, &e);
    if (err != PS_OK) {
        sim_fail(w->sim, "w%u does not start: %s", w->task, e.text);
        return;
    }
    w->held_us = 0;
    w->profile.program->start(w);
    node_worker_perform(w);
}

/* The process is gone: its sockets, its memory. */
static void
process_end(struct node_worker *w)
{
    w->performing = true; /* the core's remaining actions are not carried out */
    for (uint32_t i = 0; i < w->model->shards; i++) {
        link_leave(w, i, false);
        if (w->finishing[i] != NULL)
            net_close(w->finishing[i]->end);
    }
    w->performing = false;
    ps_assert(w->sends_out == 0);
    core_free(w->core);
    w->core = NULL;
    w->profile.program->stop(w);
    receipts_finish(w);
    sim_cancel(w->sim, &w->time);
    sim_cancel(w->sim, &w->poll);
    sim_cancel(w->sim, &w->wake);
}

void
node_worker_crash(struct node_worker *w, bool silent, uint64_t down_us)
{
    if (w->core == NULL || w->phase == WORKER_GONE)
        return;
    sim_trace(w->sim, "w%u crashes%s", w->task, silent ? ", with its machine" : "");
    w->crashes++;
    for (uint32_t i = 0; silent && i < w->model->shards; i++)
        if (w->links[i] != NULL)
            net_silence(w->links[i]->end->conn, 3);
    if (w->phase == WORKER_LEAVING && w->entered && w->model->rounds > 1)
        down_us = UINT64_MAX; /* it had sent goodbye: its next process is that of the next run */
    process_end(w);
    w->phase = down_us == UINT64_MAX ? WORKER_GONE : WORKER_DOWN;
    if (down_us != UINT64_MAX)
        sim_in(w->sim, &w->restart, down_us);
}

void
node_worker_hold(struct node_worker *w, uint64_t for_us)
{
    if (w->core == NULL)
        return;
    sim_trace(w->sim, "w%u is stopped for %" PRIu64 " ms", w->task, for_us / SIM_MS);
    w->held_us = MAX(w->held_us, w->sim->now_us + for_us);
    for (uint32_t i = 0; i < w->model->shards; i++)
        if (w->links[i] != NULL)
            net_hold(w->links[i]->end, w->held_us);
}

void
node_worker_cut(struct node_worker *w)
{
    sim_trace(w->sim, "w%u is cut off", w->task);
    for (uint32_t i = 0; i < w->model->shards; i++)
        if (w->links[i] != NULL)
            net_cut(w->links[i]->end->conn);
}

void
node_worker_again(struct node_worker *w, uint64_t in_us)
{
    ps_assert(node_worker_over(w));
    w->round++;
    w->joined_before = false;
    w->phase = WORKER_DOWN;
    sim_in(w->sim, &w->restart, in_us);
}

void
node_worker_sits_out(struct node_worker *w, uint32_t round)
{
    ps_assert(w->core == NULL);
    w->round = round;
    w->joined_before = false;
    w->phase = WORKER_GONE;
    ledger_sits_out(w->ledger, w->task, round);
}

bool
node_worker_over(const struct node_worker *w)
{
    return w->phase == WORKER_GONE && w->core == NULL;
}

void
node_worker_watch(struct node_worker *w, uint64_t limit_us)
{
    if (w->core != NULL && !node_worker_stopped(w))
        w->profile.program->watch(w, limit_us);
}

void
node_worker_finish(struct node_worker *w)
{
    sim_cancel(w->sim, &w->restart);
    if (w->core != NULL)
        process_end(w);
    w->phase = WORKER_GONE;
}
