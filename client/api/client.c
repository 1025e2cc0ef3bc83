/* The public client: opening, closing, and what every call begins and ends with. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/api/client_state.h"
#include "client/api/clock_offset.h"
#include "client/api/notice.h"
#include "client/api/trace_recorder.h"
#include "common/core/wire/wire.h"
#include "common/net/conn_credentials.h"
#include "common/system/now.h"

#define REACH_MS 2000 /* closing waits so long for shards that are connected to again, to say goodbye there */

const char *
ps_version(void)
{
    return PSD_VERSION;
}

void
ps_free(void *memory)
{
    free(memory);
}

/* ---- Calls ---- */

void
client_enter(const ps_client *client)
{
    ps_client *c = (ps_client *)client;

    progress_enter(&c->progress);
    uv_update_time(&c->loop); /* it stood still while the thread slept, or the caller did other things */
}

void
client_leave(const ps_client *client)
{
    ps_client *c = (ps_client *)client;

    if (c->progress.runs)
        progress_leave(&c->progress, client_progress_status(c));
}

static void
perform_one(ps_client *c, const struct core_action *a)
{
    struct net_link *n = &c->links[a->shard];

    switch (a->kind) {
    case CORE_CONNECT:
        c->wake = true;
        net_connect(n);
        return;
    case CORE_DISCONNECT:
        c->wake = true;
        net_disconnect(n);
        return;
    case CORE_FINISH:
        c->wake = true;
        net_flush(n);
        net_finish_link(n);
        return;
    case CORE_SEND:
        net_send(n, a->send);
        return;
    case CORE_DISCARD:
        net_discard(n);
        return;
    case CORE_EVENT:
        if (c->options.on_event != NULL)
            c->options.on_event(c->options.on_event_arg, a->error);
        else if (c->notices)
            notice_print(c->options.job, c->task, a->error);
        return;
    }
}

/* Of messages of one kind: whether, besides those that are held, some are with the shard that it has not answered. None
 * held: they hinder nothing. */
static bool
client_awaits_earlier(uint64_t unanswered, uint64_t held)
{
    return held == 0 || unanswered > held;
}

/* Whether the messages held for this link may wait for more, so that one system call takes all: a call for each small
 * message would be most of what it costs. Nagle's rule for TCP (RFC 896), for each kind: pushes may wait while the
 * shard owes answers to earlier pushes, ticks or barriers, and pulls while it owes answers to earlier pulls. No pull
 * waits because of an answer to a push: the caller needs its values to go on computing. */
static bool
client_may_hold(const ps_client *c, const struct net_link *n)
{
    return n->held_bytes < NET_HOLD_BYTES &&
           client_awaits_earlier(core_unanswered(c->core, n->shard), n->held_pushes) &&
           client_awaits_earlier(core_pulls_unanswered(c->core, n->shard), n->held_pulls);
}

bool
client_has_held(const ps_client *c)
{
    for (uint32_t i = 0; i < c->shards; i++)
        if (c->links[i].held_bytes > 0)
            return true;
    return false;
}

void
client_release(ps_client *c)
{
    for (uint32_t i = 0; i < c->shards; i++)
        c->links[i].flush |= c->links[i].held_bytes > 0;
    client_perform(c);
}

/* Write what was queued; true when there was anything. */
static bool
flush_links(ps_client *c)
{
    bool any = false;
    uint32_t i;

    for (i = 0; i < c->shards; i++) {
        struct net_link *n = &c->links[i];

        if (!n->flush && (n->held_bytes == 0 || client_may_hold(c, n)))
            continue;
        any = true;
        net_flush(n);
        if (n->outs > 0)
            c->wake = true; /* the socket is full: the loop must watch it */
    }
    return any;
}

void
client_perform(ps_client *c)
{
    struct core_action a;

    if (c->performing)
        return; /* the call that is performing takes what was added */
    c->performing = true;
    do {
        while (core_next_action(c->core, &a))
            perform_one(c, &a);
    } while (flush_links(c));
    c->performing = false;
}

void
ps_client_flush(ps_client *c)
{
    if (c == NULL)
        return;
    client_enter(c);
    client_release(c);
    client_leave(c);
}

/* ---- Opening ---- */

/* An incarnation is a secret: with it a process could go on as this worker. */
static enum ps_err
random_id(uint64_t *id, struct ps_error *e)
{
    int code = 0;

    for (*id = 0; *id == 0 && code == 0;)
        code = uv_random(NULL, NULL, id, sizeof *id, 0, NULL);
    return code == 0 ? PS_OK : ps_fail(e, PS_ERR_IO, "the system gives no random numbers: %s", uv_strerror(code));
}

static enum ps_err
make_core(ps_client *c, const ps_cluster *cluster, struct ps_error *e)
{
    const struct ps_client_options *o = &c->options;
    const char **addresses = malloc(c->shards * sizeof(*addresses));
    char host[128] = "unknown", agent[WIRE_AGENT_MAX];
    struct core_config k = {
        .cluster = ps_cluster_name(cluster),
        .shards = c->shards,
        .addresses = addresses,
        .agent = agent,
        .job = o->job,
        .metric_names = o->metric_names,
        .metrics_named = o->metrics_named,
        .task = o->observer ? 0 : ps_cluster_task(cluster),
        .workers = o->observer ? 1 : ps_cluster_workers(cluster),
        .mode = o->mode,
        .bound = o->bound,
        .quorum = o->quorum,
        .lapse = o->lapse,
        .age = o->age,
        .age_parameter = o->age_parameter,
        .lease_ms = o->lease_ms,
        .observer = o->observer != 0,
        .any_cluster = o->any_cluster != 0,
        .durable = o->durable != 0,
        .compress = o->compress,
        .copy_max = o->copy_max,
    };
    enum ps_err err;
    uint32_t i;

    if (addresses == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a client");
    if ((err = random_id(&k.incarnation, e)) != PS_OK || (err = random_id(&k.seed, e)) != PS_OK) {
        free(addresses);
        return err;
    }
    for (i = 0; i < c->shards; i++)
        addresses[i] = c->links[i].text;
    (void)gethostname(host, sizeof(host) - 1);
    snprintf(agent, sizeof(agent), "%s:%ld", host, (long)getpid());
    err = core_new(&k, uv_now(&c->loop), &c->core, e);
    free(addresses);
    return err;
}

/* Workers and evaluators wait for shards that are still starting. An observer asks how the shards are, and the absence
 * of one is an answer, once every address of the shard's name has been tried. */
static bool
shard_is_unreachable(const ps_client *c)
{
    for (uint32_t i = 0; !c->waits_for_shards && i < c->shards; i++)
        if (core_failures(c->core, i) >= MAX(c->links[i].addresses, 1))
            return true;
    return false;
}

static bool
joined_or_failed(void *arg)
{
    ps_client *c = arg;

    return core_joined(c->core) || core_fatal(c->core, NULL) != PS_OK || shard_is_unreachable(c);
}

static enum ps_err
wait_joined(ps_client *c, uint64_t timeout_ms, struct ps_error *e)
{
    struct client_wait w = {.ready = joined_or_failed, .arg = c};
    struct notice_wait part;
    struct ps_error so_far;
    uint64_t now = monotonic_ms();

    notice_wait_begin(&part, now, timeout_ms);
    while (!client_wait(c, &w, notice_wait_until(&part) - now) && !client_is_interrupted(c)) {
        now = monotonic_ms();
        if (now < notice_wait_until(&part))
            continue; /* the loop's clock is ahead by a part of a millisecond */
        if (!notice_wait_goes_on(&part, now))
            break;
        if (c->waits_for_shards && !c->options.quiet && core_join_error(c->core, now - part.begun_ms, &so_far) != PS_OK)
            notice_print_wait(c->options.job, c->task, &so_far);
    }
    if (core_joined(c->core))
        return PS_OK;
    now = shard_is_unreachable(c) ? part.begun_ms : monotonic_ms(); /* which is no matter of time */
    return client_unfinished(c, core_join_error(c->core, now - part.begun_ms, e), e);
}

static bool
client_on_activity(void *arg)
{
    const ps_client *c = arg;

    return c->activity != c->known;
}

static void
client_interrupted(void *arg)
{
    ps_client *c = arg;

    c->activity++;
    progress_notify(&c->progress);
}

static enum ps_err
make_loop(ps_client *c, struct ps_error *e)
{
    if (uv_loop_init(&c->loop) != 0)
        return ps_fail(e, PS_ERR_IO, "cannot make an event loop: too many open files?");
    c->loop.data = c;
    loop_timer_init(&c->timer, &c->loop);
    loop_wakeup_init(&c->news, &c->loop, client_on_activity, c);
    if (interrupt_watch_open(&c->interrupt, &c->loop, client_interrupted, c) != PS_OK)
        return ps_fail(e, PS_ERR_IO, "cannot make an event loop: too many open files?");
    switch (conn_pool_init(&c->pool, &c->loop)) {
    case PS_OK:
        return PS_OK;
    case PS_ERR_NOMEM:
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a client");
    default:
        return ps_fail(e, PS_ERR_IO, "cannot make an event loop: too many open files?");
    }
}

static void
free_handles(ps_client *c)
{
    struct ps_var *v, *next_var;
    struct ps_op *op, *next_op;

    for (v = c->vars; v != NULL; v = next_var) {
        next_var = v->next;
        free(v);
    }
    for (op = c->ops; op != NULL; op = next_op) {
        next_op = op->next;
        free(op);
    }
    for (op = c->free_ops; op != NULL; op = next_op) {
        next_op = op->next;
        free(op);
    }
    free(c->scratch);
}

/* Close what is open and free all. The progress thread is stopped. */
static void
client_free(ps_client *c)
{
    if (c->loop.data != NULL) {
        net_close(c);
        while (c->conns > 0)
            uv_run(&c->loop, UV_RUN_ONCE);
        conn_pool_finish(&c->pool);
        interrupt_watch_close(&c->interrupt);
        loop_timer_close(&c->timer);
        loop_wakeup_close(&c->news);
        uv_run(&c->loop, UV_RUN_DEFAULT);
        uv_loop_close(&c->loop);
    }
    if (c->recorded)
        trace_recorder_close();
    core_free(c->core);
    net_finish(c);
    free_handles(c);
    credentials_close(&c->credentials);
    free((char *)c->options.job);
    free((char *)c->options.congestion);
    free(c);
}

static enum ps_err
open_client(ps_client *c, const ps_cluster *cluster, const struct ps_client_options *options, struct ps_error *e)
{
    enum ps_err err;

    if ((err = client_options_take(c, cluster, options, e)) != PS_OK || (err = make_loop(c, e)) != PS_OK ||
        (err = conn_credentials_take(&c->pool, c->options.token,
                                     c->options.any_cluster ? NULL : ps_cluster_name(cluster), e)) != PS_OK ||
        (err = net_init(c, cluster, e)) != PS_OK || (err = make_core(c, cluster, e)) != PS_OK)
        return err;
    c->options.token = NULL; /* the caller's, as the next */
    c->options.metric_names = NULL;
    client_perform(c);
    if ((err = wait_joined(c, (uint64_t)c->options.timeout_ms, e)) != PS_OK)
        return err;
    return c->options.progress_thread ? client_progress(c, e) : PS_OK;
}

enum ps_err
ps_client_open(const ps_cluster *cluster, const struct ps_client_options *options, ps_client **out,
               struct ps_error *error)
{
    static const struct ps_client_options defaults;
    ps_client *c;
    enum ps_err err;

    if (cluster == NULL || out == NULL)
        return ps_fail(error, PS_ERR_INVALID, "opening a client needs a cluster and a pointer for the client");
    *out = NULL;
    if ((err = client_options_check(options != NULL ? options : &defaults, cluster, error)) != PS_OK)
        return err;
    if ((c = calloc(1, sizeof(*c))) == NULL)
        return ps_fail(error, PS_ERR_NOMEM, "no memory for a client");
    if ((err = open_client(c, cluster, options, error)) != PS_OK) {
        client_free(c);
        return err;
    }
    c->recorded = !c->options.observer;
    if (c->recorded)
        trace_recorder_open(ps_cluster_task(cluster));
    *out = c;
    return PS_OK;
}

/* ---- Closing ---- */

/* Before a goodbye. */
struct goodbye_wait {
    const struct core *core;
    bool (*so_far)(const struct core *c);
};

/* A client that has failed for good waits for nothing more. */
static bool
so_far_or_failed(void *arg)
{
    const struct goodbye_wait *f = arg;

    return f->so_far(f->core) || core_fatal(f->core, NULL) != PS_OK;
}

static bool
wait_before_goodbye(ps_client *c, bool (*so_far)(const struct core *c), uint64_t timeout_ms)
{
    struct goodbye_wait f = {c->core, so_far};
    struct client_wait w = {.ready = so_far_or_failed, .arg = &f};

    return client_wait(c, &w, timeout_ms);
}

/* A shard that starts again, or restores, would not receive the goodbye, and one that has lost the session would let
 * the other workers wait for this one for ever. */
static void
reach_all(ps_client *c)
{
    if (c->options.observer)
        return;
    uv_run(&c->loop, UV_RUN_NOWAIT); /* connections lost meanwhile are known then */
    client_perform(c);
    (void)wait_before_goodbye(c, core_reaches_all, REACH_MS);
}

void
ps_client_close(ps_client *c)
{
    if (c == NULL)
        return;
    progress_stop(&c->progress);
    client_enter(c);
    core_cancel_all(c->core);
    client_perform(c);
    if (wait_before_goodbye(c, core_quiet, (uint64_t)c->options.timeout_ms))
        reach_all(c);
    if (c->recorded && trace_recorder_writes())
        clock_offset_learn(c);
    core_goodbye(c->core);
    client_perform(c);
    client_free(c);
}

void
ps_client_abandon(ps_client *c)
{
    if (c == NULL)
        return;
    progress_stop(&c->progress);
    client_free(c);
}

/* ---- The session ---- */

enum ps_err
ps_client_rejoin(ps_client *c, int timeout_ms, struct ps_error *error)
{
    uint64_t incarnation;
    enum ps_err err;

    if (c == NULL)
        return ps_fail(error, PS_ERR_INVALID, "there is no client");
    client_enter(c);
    if (c->options.observer) {
        err = ps_fail(error, PS_ERR_INVALID, "an observer has no session to join again");
    } else if ((err = random_id(&incarnation, error)) == PS_OK) {
        core_rejoin(c->core, incarnation, uv_now(&c->loop));
        client_perform(c);
        err = wait_joined(c, client_timeout(c, timeout_ms), error);
    }
    client_leave(c);
    return err;
}

uint64_t
ps_client_clock(const ps_client *c)
{
    uint64_t clock;

    client_enter(c);
    clock = core_clock(c->core);
    client_leave(c);
    return clock;
}

uint64_t
ps_client_slowest_clock(const ps_client *c)
{
    uint64_t clock;

    client_enter(c);
    clock = core_slowest_clock(c->core);
    client_leave(c);
    return clock;
}

uint64_t
ps_client_rolled_back(const ps_client *c, uint32_t shard)
{
    uint64_t pushes;

    client_enter(c);
    pushes = core_rolled_back(c->core, shard);
    client_leave(c);
    return pushes;
}

void
ps_client_cursor(const ps_client *c, struct ps_cursor *out)
{
    client_enter(c);
    *out = core_cursor(c->core);
    client_leave(c);
}

uint64_t
ps_client_start_clock(const ps_client *c)
{
    uint64_t clock;

    client_enter(c);
    clock = core_start_clock(c->core);
    client_leave(c);
    return clock;
}

void
ps_client_start_cursor(ps_client *c, const struct ps_cursor *first, struct ps_cursor *out)
{
    client_enter(c);
    *out = core_start_cursor(c->core, first);
    client_leave(c);
}

uint32_t
ps_client_shards(const ps_client *c)
{
    return c->shards;
}

void
ps_client_stats(const ps_client *c, struct ps_client_stats *out)
{
    client_enter(c);
    *out = *core_stats(c->core);
    out->waited_us = c->waited_us;
    client_leave(c);
}
