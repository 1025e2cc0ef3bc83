/* One timer drives it all: on_time() looks at what is due (the end, a query that takes too long, the next try). Reports
 * of queries and of the coordinator change the state, and every change ends in rendezvous_watch(), which sets the
 * timer. */
#include "client/group/rendezvous/rendezvous.h"

#include <stdio.h>
#include <unistd.h>

#include "client/api/cluster.h"
#include "client/group/rendezvous/rendezvous_internal.h"

static void rendezvous_seek(struct rendezvous *r);

void
rendezvous_drop_query(struct rendezvous *r)
{
    coordinator_client_drop(r->query);
    r->query = NULL;
}

static void
pause_for(struct rendezvous *r, uint64_t ms)
{
    rendezvous_state_pause(&r->state, ms, rendezvous_now_ms(r));
    rendezvous_watch(r);
}

static void
rendezvous_no_memory(struct rendezvous *r)
{
    struct ps_error e = {0};

    ps_error_set(&e, PS_ERR_NOMEM, "no memory to ask for a rendezvous");
    rendezvous_fail(r, &e, NULL);
}

/* ---- Where to listen ---- */

void
rendezvous_address_found(void *arg)
{
    struct rendezvous *r = arg;

    r->trouble.code = PS_OK;
    pause_for(r, 0);
}

/* False: a name is looked up first, or that has failed. */
static bool
rendezvous_find_address(struct rendezvous *r)
{
    struct ps_error e = {0};

    if (listen_address_find(&r->listen_at, &e))
        return true;
    if (e.code != PS_ERR_TIMEOUT) {
        rendezvous_fail(r, &e, NULL);
        return false;
    }
    r->trouble = e;
    rendezvous_state_resolving(&r->state, listen_address_must_wait(&r->listen_at), rendezvous_now_ms(r));
    rendezvous_watch(r);
    return false;
}

/* ---- This worker's request ---- */

/* This worker's request to the coordinator. */
static struct rendezvous_request
rendezvous_own_entry(struct rendezvous *r)
{
    return (struct rendezvous_request){.name = r->config.name,
                                       .workers = r->workers,
                                       .task = r->task,
                                       .ranks_min = MIN(r->ask.ranks_min, r->workers),
                                       .settle_ms = r->ask.settle_ms,
                                       .timeout_ms = rendezvous_state_left_ms(&r->state, rendezvous_now_ms(r)),
                                       .incarnation = r->config.incarnation,
                                       .attempt = ++r->attempt,
                                       .epoch = r->ask.epoch,
                                       .address = r->listen_at.advertised,
                                       .host = r->config.host};
}

static Psd__Meet
message_of(const struct rendezvous *r, const struct rendezvous_request *g)
{
    Psd__Meet m = PSD__MEET__INIT;

    m.cluster = (char *)(uintptr_t)ps_cluster_name(r->config.cluster);
    m.group = (char *)(uintptr_t)g->name;
    m.workers = g->workers;
    m.task = g->task;
    m.incarnation = g->incarnation;
    m.attempt = g->attempt;
    m.epoch = g->epoch;
    m.ranks_min = g->ranks_min;
    m.settle_ms = g->settle_ms;
    m.timeout_ms = g->timeout_ms;
    m.address = (char *)(uintptr_t)g->address;
    m.host = (char *)(uintptr_t)g->host;
    return m;
}

/* ---- Asking ---- */

static void
on_connected(void *arg, const char *local)
{
    struct rendezvous *r = arg;
    Psd__Hello hello = PSD__HELLO__INIT;
    struct ps_error e = {0};
    struct rendezvous_request own;
    char agent[128];
    Psd__Meet m;

    if (listen_address_open(&r->listen_at, local, &e) != PS_OK) {
        rendezvous_fail(r, &e, NULL);
        return;
    }
    own = rendezvous_own_entry(r);
    m = message_of(r, &own);
    snprintf(agent, sizeof agent, "worker %u of group '%.48s', pid %d", r->task, r->config.name, (int)getpid());
    hello.cluster = m.cluster;
    hello.shards = ps_cluster_shards(r->config.cluster);
    hello.role = PSD__ROLE__OBSERVER;
    hello.agent = agent;
    if (!coordinator_client_meet(r->query, r->by_shard ? &hello : NULL, &m))
        rendezvous_no_memory(r);
}

static void
on_waits(void *arg)
{
    struct rendezvous *r = arg;

    rendezvous_state_waiting(&r->state);
    r->trouble.code = PS_OK;
    if (!r->by_shard)
        coordinator_redirect(&r->host);
    rendezvous_watch(r);
}

static void
on_met(void *arg, const Psd__Met *m)
{
    rendezvous_met(arg, m);
}

static void
rendezvous_ask_again(struct rendezvous *r, const struct ps_error *why)
{
    bool next = rendezvous_state_retry(&r->state, why->code, rendezvous_now_ms(r));

    r->trouble = *why;
    if (!r->by_shard)
        coordinator_resume(&r->host); /* peers that were redirected from here may come again */
    if (next)
        rendezvous_seek(r);
    else
        rendezvous_watch(r);
}

static void
on_failed(void *arg, const struct ps_error *why)
{
    struct rendezvous *r = arg;
    bool once = r->by_shard && r->ask.once && why->code != PS_ERR_TASK_TAKEN;
    char peer[PS_ERROR_PEER_MAX];

    rendezvous_drop_query(r);
    rendezvous_asked_name(r, peer, sizeof peer);
    if (rendezvous_state_is_final(&r->state, why->code, rendezvous_now_ms(r)) || once)
        rendezvous_fail(r, why, peer);
    else
        rendezvous_ask_again(r, why);
}

static const struct coordinator_client_events rendezvous_query_events = {
    .connected = on_connected, .waits = on_waits, .met = on_met, .failed = on_failed};

static void
rendezvous_ask_at(struct rendezvous *r, const char *address)
{
    struct ps_error e = {0};

    snprintf(r->address_text, sizeof r->address_text, "%s", address);
    if (address_parse(address, &r->address, &e) != PS_OK) { /* it was looked at before */
        rendezvous_fail(r, &e, NULL);
        return;
    }
    rendezvous_state_asking(&r->state, rendezvous_now_ms(r));
    r->query = coordinator_client_start(r->config.pool, r->config.credentials, &r->address, r->config.congestion,
                                        &rendezvous_query_events, r, &r->handles);
    if (r->query == NULL)
        rendezvous_no_memory(r);
    else
        rendezvous_watch(r);
}

/* ---- Workers among themselves ---- */

/* This worker coordinates its own rendezvous: no worker below was found. */
static void
rendezvous_coordinate(struct rendezvous *r)
{
    struct rendezvous_request own;
    struct ps_error e = {0};

    if (!r->host.in) {
        own = rendezvous_own_entry(r);
        if (coordinator_join_own(&r->host, &own, &e) != PS_OK)
            rendezvous_fail(r, &e, NULL);
    } else if (r->state.settled) {
        coordinator_begin_settled(&r->host);
    }
}

/* Ask the next worker below, or coordinate; then begin another round. */
static void
rendezvous_seek(struct rendezvous *r)
{
    if (rendezvous_state_has_next(&r->state,
                                  r->host.in && rendezvous_core_is_settled(&r->host.meet, rendezvous_now_ms(r)))) {
        rendezvous_ask_at(r, cluster_worker_address(r->config.cluster, r->state.at));
        return;
    }
    rendezvous_coordinate(r);
    if (r->ended)
        return;
    rendezvous_state_next_round(&r->state, rendezvous_now_ms(r));
    rendezvous_watch(r);
}

/* Its port may be held for a moment by a process that was just killed. */
static void
rendezvous_seek_first(struct rendezvous *r)
{
    struct ps_error e = {0};
    enum ps_err err = listen_address_open(&r->listen_at, "127.0.0.1", &e);

    if (err == PS_OK) {
        rendezvous_seek(r);
        return;
    }
    if (err == PS_ERR_BUSY) {
        if (!rendezvous_state_taken(&r->state, rendezvous_now_ms(r)) &&
            rendezvous_state_due(&r->state, rendezvous_now_ms(r)) != RENDEZVOUS_DUE_DEADLINE) {
            pause_for(r, RENDEZVOUS_RETRY_MS);
            return;
        }
        e.code = PS_ERR_TASK_TAKEN;
    }
    rendezvous_fail(r, &e, NULL);
}

/* ---- Time ---- */

static void
rendezvous_step(struct rendezvous *r)
{
    struct ps_error e = {0};

    if (r->state.state == RENDEZVOUS_ASKING) {
        ps_error_set(&e, PS_ERR_UNREACHABLE, "no answer within %u ms", rendezvous_state_answer_ms(&r->state));
        on_failed(r, &e);
    } else if (r->state.state == RENDEZVOUS_RESOLVING) {
        listen_address_use_any(&r->listen_at);
        rendezvous_address_found(r);
    } else if (!rendezvous_find_address(r)) {
        return;
    } else if (r->by_shard) {
        rendezvous_ask_at(r, ps_cluster_shard_address(r->config.cluster, 0));
    } else if (!r->config.acceptor->open) {
        rendezvous_seek_first(r);
    } else {
        rendezvous_seek(r);
    }
}

static void
on_time(uv_timer_t *timer)
{
    struct rendezvous *r = timer->data;
    enum rendezvous_due due;

    if (r->ended)
        return;
    due = rendezvous_state_due(&r->state, rendezvous_now_ms(r));
    if (due == RENDEZVOUS_DUE_DEADLINE)
        rendezvous_fail_by_deadline(r);
    else if (due == RENDEZVOUS_DUE_STEP)
        rendezvous_step(r);
    else
        rendezvous_watch(r);
}

void
rendezvous_watch(struct rendezvous *r)
{
    uint64_t now = rendezvous_now_ms(r), due = rendezvous_state_due_ms(&r->state);

    if (r->ended)
        uv_timer_stop(&r->timer);
    else
        uv_timer_start(&r->timer, on_time, due > now ? due - now : 0, 0);
}

/* ---- From outside ---- */

/* A cluster of one worker without shards meets nobody. */
static void
rendezvous_met_nobody(struct rendezvous *r)
{
    struct rendezvous_member self = {
        .task = r->task, .incarnation = r->config.incarnation, .address = "", .host = r->config.host};
    struct rendezvous_table t = {.epoch = r->ask.epoch + 1, .ranks = 1, .members = &self};

    t.group = r->config.seed ^ t.epoch;
    rendezvous_coordinator_met(r, &t);
}

void
rendezvous_start(struct rendezvous *r, const struct rendezvous_ask *ask)
{
    ps_assert(r->state.state == RENDEZVOUS_IDLE && r->query == NULL);
    group_membership_finish(&r->table);
    r->ask = *ask;
    r->ended = false;
    r->error = r->trouble = (struct ps_error){0};
    rendezvous_state_begin(&r->state, ask->deadline_ms, rendezvous_now_ms(r));
    if (!r->by_shard && r->workers == 1)
        rendezvous_met_nobody(r);
    else
        rendezvous_watch(r);
}

bool
rendezvous_over(const struct rendezvous *r)
{
    return r->ended;
}

void
rendezvous_give_up(struct rendezvous *r)
{
    if (r->ended)
        return;
    ps_error_set(&r->error, PS_ERR_CANCELLED, "the rendezvous was given up");
    rendezvous_end(r, PS_ERR_CANCELLED);
}

enum ps_err
rendezvous_take(struct rendezvous *r, struct group_membership *table, struct ps_error *e)
{
    ps_assert(r->ended);
    if (r->result != PS_OK) {
        if (e != NULL)
            *e = r->error;
        return r->result;
    }
    *table = r->table;
    r->table = (struct group_membership){0};
    return PS_OK;
}
