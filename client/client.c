/* The public client: opening, closing, and how a call lets the network move while it waits.
 *
 * A wait without a progress thread: the caller runs the loop until what it waits for is so. The loop sleeps in the
 * kernel until a byte or the timer comes; before that it is polled for a while (spin_us, patience.h). */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/alignment.h"
#include "client/client_state.h"
#include "client/recorder.h"
#include "common/age.h"
#include "common/codec.h"
#include "common/conn_pass.h"
#include "common/wire.h"
#include "common/wire_text.h"

#define TIMEOUT_DEFAULT_MS 60000
#define COPY_DEFAULT       (256 * MIB)
#define REACH_MS           2000 /* closing waits so long for shards that are connected to again, to say goodbye there */
#define NEAR_MS            250  /* this long before a deadline the shards are asked who they wait for */
#define HOLD_US            20   /* a wait looks for so long before it sends what is held */
#define FOREVER            (UINT64_MAX / 2)

static_assert(PS_PATIENCE_NONE == PATIENCE_NONE, "an option is handed over");

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

    if (c->threaded)
        pthread_mutex_lock(&c->mutex);
    uv_update_time(&c->loop); /* it stood still while the thread slept, or the caller did other things */
}

void
client_leave(const ps_client *client)
{
    ps_client *c = (ps_client *)client;

    if (!c->threaded)
        return;
    if (c->told != core_changes(c->core)) {
        c->told = core_changes(c->core);
        pthread_cond_broadcast(&c->changed);
    }
    if (c->wake || core_next_time(c->core) < c->next_poll_ms) {
        c->wake = false;
        uv_async_send(&c->async);
    }
    pthread_mutex_unlock(&c->mutex);
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
        return;
    }
}

/* As Nagle's rule for TCP (RFC 896): a small push waits for others as long as the shard has not answered earlier ones.
 * A system call for each would be most of what it costs. */
static bool
may_hold(const ps_client *c, const struct net_link *n)
{
    return n->held_bytes < NET_HOLD_BYTES && core_unanswered(c->core, n->shard) > n->held;
}

/* What was held goes out. */
static void
release_held(ps_client *c)
{
    for (uint32_t i = 0; i < c->shards; i++)
        c->links[i].flush |= c->links[i].held > 0;
    client_perform(c);
}

/* Write what was queued; true when that was anything. */
static bool
flush_links(ps_client *c)
{
    bool any = false;
    uint32_t i;

    for (i = 0; i < c->shards; i++) {
        struct net_link *n = &c->links[i];

        if (!n->flush && (n->held == 0 || may_hold(c, n)))
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

/* ---- Waiting ---- */

static void
timer_done(uv_timer_t *timer)
{
    ps_client *c = timer->data;

    c->timer_due_ms = 0;
}

/* The timer ends the loop's sleep. It is set anew only when it must ring sooner, since one that rings early does no
 * harm. It repeats: uv_run() may let it ring before it goes to sleep, and must not sleep without it then. */
static void
arm_timer(ps_client *c, uint64_t due_ms)
{
    uint64_t now = uv_now(&c->loop);

    if (c->timer_due_ms > now && due_ms >= c->timer_due_ms)
        return;
    c->timer_due_ms = due_ms;
    uv_timer_start(&c->timer, timer_done, due_ms > now ? due_ms - now : 0, 1);
}

void
client_turn(ps_client *c, bool wait, uint64_t until_ms)
{
    if (!c->holding)
        release_held(c);
    if (wait)
        arm_timer(c, MIN(until_ms, core_next_time(c->core)));
    c->known = c->activity;
    c->pool.sleeps = wait;
    uv_run(&c->loop, wait ? UV_RUN_ONCE : UV_RUN_NOWAIT);
    core_time(c->core, uv_now(&c->loop));
    client_perform(c);
}

uint64_t
client_timeout(const ps_client *c, int timeout_ms)
{
    return timeout_ms < 0 ? (uint64_t)c->options.timeout_ms : (uint64_t)timeout_ms;
}

void
ps_client_flush(ps_client *c)
{
    if (c == NULL)
        return;
    client_enter(c);
    release_held(c);
    client_leave(c);
}

static bool
holds_some(const ps_client *c)
{
    for (uint32_t i = 0; i < c->shards; i++)
        if (c->links[i].held > 0)
            return true;
    return false;
}

/* While pushes are held, what is waited for may come without them: then the next ones can join them. */
static void
look_first(ps_client *c, const struct client_wait *w)
{
    uint64_t until;

    if (!holds_some(c))
        return;
    until = uv_hrtime() + HOLD_US * 1000;
    c->holding = true;
    do
        client_turn(c, false, 0);
    while (!w->ready(w->arg) && holds_some(c) && uv_hrtime() < until);
    c->holding = false;
}

/* Since something came last, or the wait began. */
struct quiet {
    uint64_t since_ns, poll_until_ns;
    bool slept;
};

static void
quiet_begin(const ps_client *c, struct quiet *q, uint64_t now_ns)
{
    uint64_t poll_ns = MAX(patience_now(&c->patience), (uint64_t)c->options.spin_us * 1000);

    *q = (struct quiet){.since_ns = now_ns, .poll_until_ns = now_ns + poll_ns};
}

/* A turn of the loop that polls or, when that has been done for long enough, sleeps. */
static void
quiet_turn(ps_client *c, struct quiet *q, bool may_sleep, uint64_t until_ms)
{
    uint64_t before = c->activity, now_ns = uv_hrtime();
    bool sleep = may_sleep && now_ns >= q->poll_until_ns;

    q->slept |= sleep;
    client_turn(c, sleep, until_ms);
    if (c->activity != before) {
        now_ns = uv_hrtime();
        patience_learn(&c->patience, now_ns - q->since_ns, q->slept);
        quiet_begin(c, q, now_ns);
    } else if (!sleep && may_sleep) {
        sched_yield(); /* who is waited for may want this processor */
    }
}

/* The caller runs the loop. */
static bool
loop_wait(ps_client *c, const struct client_wait *w, uint64_t timeout_ms)
{
    uint64_t deadline, near;
    struct quiet quiet;

    look_first(c, w);
    uv_update_time(&c->loop); /* its time stood still while the caller did other things: the wait would be too short */
    deadline = uv_now(&c->loop) + timeout_ms;
    near = w->near != NULL && timeout_ms >= 4 ? deadline - MIN(NEAR_MS, timeout_ms / 4) : FOREVER;
    quiet_begin(c, &quiet, uv_hrtime());
    while (!w->ready(w->arg)) {
        quiet_turn(c, &quiet, timeout_ms > 0, MIN(deadline, near));
        if (uv_now(&c->loop) >= near) {
            near = FOREVER;
            w->near(w->arg);
            client_perform(c);
        }
        if (uv_now(&c->loop) >= deadline)
            return w->ready(w->arg);
    }
    return true;
}

static uint64_t
bytes_moved(const ps_client *c)
{
    const struct ps_client_stats *s = core_stats(c->core);

    return s->bytes_pushed + s->bytes_pulled;
}

bool
client_wait(ps_client *c, const struct client_wait *w, uint64_t timeout_ms)
{
    uint64_t start, end, moved;
    bool ready;

    if (w->ready(w->arg))
        return true;
    moved = bytes_moved(c);
    start = uv_hrtime();
    ready = c->threaded ? progress_wait(c, w, timeout_ms) : loop_wait(c, w, timeout_ms);
    end = uv_hrtime();
    c->waited_us += (end - start) / 1000;
    if (w->op != NULL && c->recorded)
        recorder_wait(core_op_time(w->op), start, end, ready ? core_op_held_us(w->op) * 1000 : 0,
                      bytes_moved(c) - moved);
    return ready;
}

/* ---- Options ---- */

static enum ps_err
check_age(const struct ps_client_options *o, struct ps_error *e)
{
    struct age_policy age = {(enum age_kind)o->age, o->age_parameter};

    if ((int)o->age < PS_AGE_NONE || o->age > PS_AGE_CUTOFF)
        return ps_fail(e, PS_ERR_INVALID, "age policy %d is not known", (int)o->age);
    return age_check(&age, e);
}

static enum ps_err
check_options(const struct ps_client_options *o, const ps_cluster *cluster, struct ps_error *e)
{
    enum ps_role role = ps_cluster_role(cluster);
    enum ps_err err;

    if (o->job != NULL && (o->job[0] == '\0' || strlen(o->job) > PS_NAME_MAX || !wire_text_ok(o->job, strlen(o->job))))
        return ps_fail(e, PS_ERR_INVALID, "a job's name is 1 to %d bytes of UTF-8 without control characters",
                       PS_NAME_MAX);
    if ((int)o->mode < PS_ASYNC || o->mode > PS_SYNC)
        return ps_fail(e, PS_ERR_INVALID, "mode %d is not known", (int)o->mode);
    if ((int)o->lapse < PS_LAPSE_SHRINK || o->lapse > PS_LAPSE_FAIL)
        return ps_fail(e, PS_ERR_INVALID, "lapse option %d is not known", (int)o->lapse);
    if (o->quorum > ps_cluster_workers(cluster))
        return ps_fail(e, PS_ERR_INVALID, "the quorum is %u, more than the job's workers (%u)", o->quorum,
                       ps_cluster_workers(cluster));
    if (o->lease_ms > WIRE_LEASE_MS_MAX)
        return ps_fail(e, PS_ERR_INVALID, "the lease is %u ms, the longest is %u", o->lease_ms, WIRE_LEASE_MS_MAX);
    if (o->timeout_ms < 0)
        return ps_fail(e, PS_ERR_INVALID, "the default time-out is %d ms", o->timeout_ms);
    if (o->any_cluster && !o->observer)
        return ps_fail(e, PS_ERR_INVALID, "any_cluster is for observers");
    if (!o->observer && role == PS_ROLE_PS)
        return ps_fail(e, PS_ERR_INVALID, "this process is a parameter server of the cluster: it can only observe");
    if (ps_cluster_shards(cluster) == 0)
        return ps_fail(e, PS_ERR_CONFIG,
                       "the cluster has no shards; TF_CONFIG: cluster.ps lists the addresses of those there are");
    if ((err = codec_check(&o->compress, e)) != PS_OK)
        return err;
    return check_age(o, e);
}

/* The environment says so for programs that do not ask. */
static enum ps_err
choose_transport(struct ps_client_options *o, struct ps_error *e)
{
    const char *text = getenv("PSD_TRANSPORT");

    if (o->transport != PS_TRANSPORT_AUTO || text == NULL || strcmp(text, "auto") == 0)
        return PS_OK;
    if (strcmp(text, "tcp") != 0)
        return ps_fail(e, PS_ERR_CONFIG, "PSD_TRANSPORT is '%.40s'; it may be auto or tcp", text);
    o->transport = PS_TRANSPORT_TCP;
    return PS_OK;
}

static enum ps_err
take_credentials(ps_client *c, struct ps_error *e)
{
    struct ps_client_options *o = &c->options;
    struct credentials_wanted wanted = {.ca = o->tls_ca, .cert = o->tls_cert, .key = o->tls_key, .name = o->tls_name};

    o->tls_ca = o->tls_cert = o->tls_key = o->tls_name = NULL; /* the caller's */
    return credentials_open(&c->credentials, &wanted, false, e);
}

static enum ps_err
take_options(ps_client *c, const ps_cluster *cluster, const struct ps_client_options *options, struct ps_error *e)
{
    struct ps_client_options *o = &c->options;
    enum ps_err err;

    if (options != NULL)
        *o = *options;
    if ((err = choose_transport(o, e)) != PS_OK || (err = take_credentials(c, e)) != PS_OK) {
        o->job = o->congestion = NULL; /* the caller's */
        return err;
    }
    c->waits_for_shards = !o->observer;
    o->observer |= ps_cluster_role(cluster) == PS_ROLE_EVALUATOR;
    if (o->timeout_ms == 0)
        o->timeout_ms = TIMEOUT_DEFAULT_MS;
    if (o->lease_ms == 0)
        o->lease_ms = WIRE_LEASE_MS;
    if (o->copy_max == 0)
        o->copy_max = COPY_DEFAULT;
    patience_init(&c->patience, patience_ns(o->patience_us, uv_available_parallelism()));
    o->job = strdup(o->job != NULL ? o->job : "train");
    if (o->congestion != NULL && (o->congestion = strdup(o->congestion)) == NULL) {
        free((char *)o->job);
        o->job = NULL;
    }
    return o->job != NULL ? PS_OK : ps_fail(e, PS_ERR_NOMEM, "no memory for a client");
}

/* ---- Opening ---- */

static uint64_t
random_id(void)
{
    uint64_t id = 0;

    while (id == 0)
        if (uv_random(NULL, NULL, &id, sizeof(id), 0, NULL) != 0)
            id = uv_hrtime() ^ ((uint64_t)getpid() << 40);
    return id;
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
        .incarnation = random_id(),
        .seed = random_id(),
    };
    enum ps_err err;
    uint32_t i;

    if (addresses == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a client");
    for (i = 0; i < c->shards; i++)
        addresses[i] = c->links[i].text;
    (void)gethostname(host, sizeof(host) - 1);
    snprintf(agent, sizeof(agent), "%s:%ld", host, (long)getpid());
    err = core_new(&k, uv_now(&c->loop), &c->core, e);
    free(addresses);
    return err;
}

/* Workers and evaluators wait for shards that are still starting. Who asked to observe asks how they are, and that one
 * is not there is an answer: it has tried every address of the shard's name once. */
static bool
shard_is_not_there(const ps_client *c)
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

    return core_joined(c->core) || core_fatal(c->core, NULL) != PS_OK || shard_is_not_there(c);
}

static enum ps_err
wait_joined(ps_client *c, uint64_t timeout_ms, struct ps_error *e)
{
    struct client_wait w = {.ready = joined_or_failed, .arg = c};
    uint64_t start = uv_hrtime();

    if (client_wait(c, &w, timeout_ms) && core_joined(c->core))
        return PS_OK;
    return core_join_error(c->core, (uv_hrtime() - start) / 1000000, e);
}

static bool
something_came(void *arg)
{
    const ps_client *c = arg;

    return c->activity != c->known;
}

static enum ps_err
make_loop(ps_client *c, struct ps_error *e)
{
    if (uv_loop_init(&c->loop) != 0)
        return ps_fail(e, PS_ERR_IO, "cannot make an event loop: too many open files?");
    c->loop.data = c;
    uv_timer_init(&c->loop, &c->timer);
    c->timer.data = c;
    loop_news_init(&c->news, &c->loop, something_came, c);
    if (conn_pool_init(&c->pool, &c->loop) != PS_OK)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a client");
    return PS_OK;
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
        uv_close((uv_handle_t *)&c->timer, NULL);
        loop_news_close(&c->news);
        uv_run(&c->loop, UV_RUN_DEFAULT);
        uv_loop_close(&c->loop);
    }
    if (c->recorded)
        recorder_close();
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

    if ((err = take_options(c, cluster, options, e)) != PS_OK || (err = make_loop(c, e)) != PS_OK ||
        (err = conn_pass_take(&c->pool, c->options.token, c->options.any_cluster ? NULL : ps_cluster_name(cluster),
                              e)) != PS_OK ||
        (err = net_init(c, cluster, e)) != PS_OK || (err = make_core(c, cluster, e)) != PS_OK)
        return err;
    c->options.token = NULL; /* the caller's */
    client_perform(c);
    if ((err = wait_joined(c, (uint64_t)c->options.timeout_ms, e)) != PS_OK)
        return err;
    return c->options.progress_thread ? progress_start(c, e) : PS_OK;
}

enum ps_err
ps_client_open(const ps_cluster *cluster, const struct ps_client_options *options, ps_client **out,
               struct ps_error *error)
{
    static const struct ps_client_options defaults;
    ps_client *c;
    enum ps_err err;

    if (cluster == NULL || out == NULL)
        return ps_fail(error, PS_ERR_INVALID, "opening a client needs a cluster and a place to put the client");
    *out = NULL;
    if ((err = check_options(options != NULL ? options : &defaults, cluster, error)) != PS_OK)
        return err;
    if ((c = calloc(1, sizeof(*c))) == NULL)
        return ps_fail(error, PS_ERR_NOMEM, "no memory for a client");
    if ((err = open_client(c, cluster, options, error)) != PS_OK) {
        client_free(c);
        return err;
    }
    c->recorded = !c->options.observer;
    if (c->recorded)
        recorder_open(ps_cluster_task(cluster));
    *out = c;
    return PS_OK;
}

/* ---- Closing ---- */

static bool
quiet_or_failed(void *arg)
{
    ps_client *c = arg;

    return core_quiet(c->core) || core_fatal(c->core, NULL) != PS_OK;
}

static bool
reaches_all_or_failed(void *arg)
{
    ps_client *c = arg;

    return core_reaches_all(c->core) || core_fatal(c->core, NULL) != PS_OK;
}

/* A shard that starts again, or restores, would not hear the goodbye, and one that has lost the session would let the
 * others wait for it for ever. */
static void
reach_all(ps_client *c)
{
    struct client_wait w = {.ready = reaches_all_or_failed, .arg = c};

    if (c->options.observer)
        return;
    uv_run(&c->loop, UV_RUN_NOWAIT); /* what has been lost meanwhile is known then */
    client_perform(c);
    (void)client_wait(c, &w, REACH_MS);
}

void
ps_client_close(ps_client *c)
{
    struct client_wait w = {.ready = quiet_or_failed, .arg = c};

    if (c == NULL)
        return;
    progress_stop(c);
    client_enter(c);
    core_cancel_all(c->core);
    client_perform(c);
    if (client_wait(c, &w, (uint64_t)c->options.timeout_ms))
        reach_all(c);
    if (c->recorded && recorder_writes())
        alignment_learn(c);
    core_goodbye(c->core);
    client_perform(c);
    client_free(c);
}

void
ps_client_abandon(ps_client *c)
{
    if (c == NULL)
        return;
    progress_stop(c);
    client_free(c);
}

/* ---- The session ---- */

enum ps_err
ps_client_rejoin(ps_client *c, int timeout_ms, struct ps_error *error)
{
    enum ps_err err;

    if (c == NULL)
        return ps_fail(error, PS_ERR_INVALID, "there is no client");
    client_enter(c);
    if (c->options.observer) {
        err = ps_fail(error, PS_ERR_INVALID, "an observer has no session to join again");
    } else {
        core_rejoin(c->core, random_id(), uv_now(&c->loop));
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
