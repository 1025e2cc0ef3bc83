/* The life of a link: connect, greet, be welcomed, restore what a shard lost, lose the connection, try again.
 *
 * The happy path: shard_link_connect() asks for a connection; shard_link_connected() sends HELLO; shard_link_welcomed()
 * settles the session (resync.h) and the outbox goes on from there. */
#include "client/core/shards/shard_link.h"

#include <string.h>

#include "client/core/shards/residual.h"
#include "client/core/shards/resync.h"

void
shard_link_init(struct shard_link *l, uint32_t shard)
{
    *l = (struct shard_link){.shard = shard};
    send_window_init(&l->window);
    request_ids_init(&l->requests);
}

void
shard_link_finish(struct core *c, struct shard_link *l)
{
    shard_link_drop(c, l);
    send_window_finish(&l->window);
    request_ids_finish(&l->requests);
    payload_parts_finish(&l->payload_parts);
    arena_finish(&l->arena);
}

bool
shard_link_error_final(enum ps_err code)
{
    switch (code) {
    case PS_ERR_CLUSTER:
    case PS_ERR_MISMATCH:
    case PS_ERR_VERSION:
    case PS_ERR_TLS:
    case PS_ERR_FENCED:
    case PS_ERR_LEASE_LAPSED:
    case PS_ERR_PROTOCOL:
    case PS_ERR_INVALID:
    case PS_ERR_SEQUENCE:
    case PS_ERR_UNSUPPORTED:
    case PS_ERR_DENIED:
    case PS_ERR_DROPPED:
        return true;
    default:
        return false;
    }
}

/* ---- Connecting ---- */

static uint64_t
core_random(struct core *c)
{
    /* splitmix64 (Steele, Lea and Flood, OOPSLA 2014). */
    uint64_t z = (c->rng += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Doubled by each failure, and drawn between half and all of that, so that workers do not come back in step. */
static uint64_t
backoff_ms(struct core *c, uint32_t failures)
{
    uint64_t full =
        failures >= 8 ? SHARD_LINK_BACKOFF_MAX : MIN(SHARD_LINK_BACKOFF_MIN << failures, SHARD_LINK_BACKOFF_MAX);

    return full / 2 + core_random(c) % (full / 2 + 1);
}

void
shard_link_connect(struct core *c, struct shard_link *l)
{
    ps_assert(!l->open || l->do_disconnect);
    l->state = SHARD_LINK_CONNECTING;
    l->due_ms = c->now_ms + SHARD_LINK_GREET_MS;
    l->do_connect = true;
    core_emit(c, l);
}

static void
hello_fill_job(const struct core *c, Psd__Job *job, Psd__AgePolicy *age)
{
    const struct core_config *k = &c->config;

    psd__age_policy__init(age);
    age->kind = (Psd__AgeKind)k->age;
    age->parameter = k->age_parameter;
    psd__job__init(job);
    job->name = (char *)k->job;
    job->mode = (Psd__Mode)k->mode;
    job->bound = k->bound;
    job->workers = k->workers;
    job->quorum = k->quorum;
    job->lapse = (Psd__Lapse)k->lapse;
    job->age = age;
}

void
shard_link_connected(struct core *c, struct shard_link *l)
{
    const struct core_config *k = &c->config;
    Psd__Hello hello = PSD__HELLO__INIT;
    Psd__AgePolicy age;
    Psd__Job job;

    if (l->state != SHARD_LINK_CONNECTING)
        return;
    l->state = SHARD_LINK_GREETING;
    l->due_ms = c->now_ms + SHARD_LINK_GREET_MS;
    l->silent_ms = 0;
    l->draining = false;
    hello.cluster = (char *)(k->any_cluster ? "" : k->cluster);
    hello.shard = l->shard;
    hello.shards = k->shards;
    hello.agent = (char *)k->agent;
    hello.codes = PS_ERR_COUNT - 1;
    hello.role = k->observer ? PSD__ROLE__OBSERVER : PSD__ROLE__WORKER;
    if (!k->observer) {
        hello_fill_job(c, &job, &age);
        hello.job = &job;
        hello.task = k->task;
        hello.incarnation = k->incarnation;
        hello.resume = l->joined;
        hello.boot = l->joined ? l->boot : 0;
        hello.lease_ms = k->lease_ms;
        hello.acked_through = l->window.acked_through;
        hello.round = MUTATION(ROUND_NOT_SAID) ? 0 : c->round;
        own_metrics_name(c, l, &hello);
    }
    shard_link_post(c, l, MSG_HELLO, REQUEST_ID_HELLO, &hello.base);
}

/* ---- Losing the connection ---- */

/* What the driver holds or was about to get of this connection belongs to no request any more. */
static void
forget_sends(struct core *c, struct shard_link *l)
{
    struct send *s, *next;

    for (s = l->out_first; s != NULL; s = next) {
        next = s->free;
        s->out_there = false;
        if (s->part != NULL)
            s->part->send = NULL;
        request_pool_send_put(&c->pools, s);
    }
    l->out_first = l->out_last = NULL;
    l->sending_bytes = 0;
    l->epoch++;
}

static void
forget_connection(struct core *c, struct shard_link *l)
{
    forget_sends(c, l);
    request_ids_clear(&l->requests);
    l->reading = NULL;
    l->decoded = false;
    l->do_connect = l->do_discard = l->do_finish = l->reset_wanted = false;
    if (l->open) {
        l->do_disconnect = true;
        core_emit(c, l);
    }
}

static void
requeue_request(struct request *p)
{
    if (p->send != NULL)
        p->send->part = NULL;
    p->send = NULL;
    p->state = REQUEST_WAITING;
}

/* Every request is to be sent again, but those that nobody waits for. */
static void
requeue_requests(struct core *c, struct shard_link *l)
{
    struct request *p, *next;

    for (p = l->parts.first; p != NULL; p = next) {
        next = p->next;
        requeue_request(p);
        if (p->given_up && !request_sequenced(p))
            request_end(c, l, p);
    }
    for (p = l->control.first; p != NULL; p = next) {
        next = p->next;
        requeue_request(p);
        if (p->kind == REQUEST_DELAY_QUERY && p->op != NULL)
            p->op->delay_queries--;
        if (p->given_up || p->kind == REQUEST_DELAY_QUERY || p->kind == REQUEST_ALIVE)
            request_end(c, l, p);
    }
    l->to_send = l->parts.first;
    l->to_ask = l->control.first;
}

/* The shard has closed its connections: a drain waits for that. */
static void
shard_link_drained(struct core *c, struct shard_link *l)
{
    struct request *p, *next;

    for (p = l->control.first; p != NULL; p = next) {
        struct core_op *op = p->op;
        struct lane *lane = p->lane;

        next = p->next;
        if (p->kind != REQUEST_DRAIN)
            continue;
        request_end(c, l, p);
        if (op != NULL)
            op_answered(c, op, lane, NULL);
    }
}

void
shard_link_lost(struct core *c, struct shard_link *l, const struct ps_error *why)
{
    bool was_up = shard_link_up(l);
    struct ps_error e;

    if (l->state == SHARD_LINK_FATAL || l->state == SHARD_LINK_IDLE)
        return;
    forget_connection(c, l);
    if (l->draining || (why != NULL && why->code == PS_ERR_DRAINING))
        shard_link_drained(c, l);
    requeue_requests(c, l);
    l->state = SHARD_LINK_BACKOFF;
    l->due_ms = c->now_ms;
    if (why == NULL)
        return;
    l->trouble = *why;
    l->due_ms += backoff_ms(c, l->failures++);
    if (!was_up)
        return;
    core_error_set(c, l, &e, PS_ERR_CLOSED, "lost the connection: %.300s; connecting again", why->text);
    core_emit_event(c, &e);
}

void
shard_link_drop(struct core *c, struct shard_link *l)
{
    struct lane *lane;

    forget_connection(c, l);
    while ((lane = l->first != NULL ? l->first : l->staging) != NULL)
        shard_link_unqueue_lane(l, lane);
    while (l->parts.first != NULL) {
        if (!l->parts.first->was_sent)
            residual_undo(l, l->parts.first);
        request_end(c, l, l->parts.first);
    }
    while (l->control.first != NULL) {
        if (l->control.first->kind == REQUEST_DELAY_QUERY && l->control.first->op != NULL)
            l->control.first->op->delay_queries--;
        requeue_request(l->control.first);
        request_end(c, l, l->control.first);
    }
    l->restoring = 0;
}

/* ---- Refused ---- */

void
shard_link_refused(struct core *c, struct shard_link *l, const struct ps_error *why)
{
    if (why->code == PS_ERR_NOT_FOUND && l->joined) {
        l->joined = false;
        l->session_lost = true;
        shard_link_lost(c, l, NULL);
        l->trouble = *why;
        return;
    }
    if (shard_link_error_final(why->code) || why->code == PS_ERR_NOT_FOUND) {
        core_fail(c, why);
        return;
    }
    shard_link_lost(c, l, why);
}

/* ---- Welcomed ---- */

static bool
welcome_is_of_cluster(struct core *c, struct shard_link *l, const Psd__Welcome *w)
{
    const struct core_config *k = &c->config;
    struct ps_error e;

    if (k->any_cluster || (strcmp(w->cluster, k->cluster) == 0 && w->shard == l->shard && w->shards == k->shards))
        return true;
    core_error_set(c, l, &e, PS_ERR_CLUSTER,
                   "expected shard %u of %u of cluster '%.80s', found shard %u of %u of '%.80s'", l->shard, k->shards,
                   k->cluster, w->shard, w->shards, w->cluster);
    core_fail(c, &e);
    return false;
}

/* Out of memory in the middle of it: the connection is dropped, and what was begun is begun again. */
static void
shard_link_no_memory(struct core *c, struct shard_link *l)
{
    struct ps_error e;

    core_error_set(c, l, &e, PS_ERR_NOMEM, "no memory to go on with this shard");
    shard_link_lost(c, l, &e);
}

void
shard_link_welcomed(struct core *c, struct shard_link *l, const Psd__Welcome *w)
{
    bool again = l->boot_known;
    struct ps_error e;

    if (!welcome_is_of_cluster(c, l, w))
        return;
    l->slowest = w->slowest_clock;
    l->round = w->round;
    l->cursor = step_cursor_welcomed(w->cursor);
    l->begins = step_begins_of(w->begins, w->clock);
    l->defines = w->defines;
    if (resync_settle(c, l, w) != PS_OK) {
        shard_link_no_memory(c, l);
        return;
    }
    l->joined = true;
    l->session_lost = false;
    l->boot_known = true;
    l->boot = w->boot;
    l->restored_boot = w->restored_boot;
    l->assigns = w->assigns;
    op_assign_known(c, w->assigned);
    if (l->shard == 0 && w->given_up != 0)
        c->assigns.given_up = w->given_up;
    l->trouble.code = PS_OK;
    l->state = l->restoring > 0 ? SHARD_LINK_RESTORING : SHARD_LINK_READY;
    l->probed = false;
    if (again) {
        c->stats.reconnects++;
        core_error_set(c, l, &e, PS_OK, "connected again");
        core_emit_event(c, &e);
    }
    if (!c->joined && resync_finish_join(c, false) != PS_OK)
        shard_link_no_memory(c, l);
    op_assign_resume(c);
}

void
shard_link_restored(struct core *c, struct shard_link *l)
{
    ps_assert(l->restoring > 0);
    if (--l->restoring == 0 && l->state == SHARD_LINK_RESTORING) {
        l->state = SHARD_LINK_READY;
        l->trouble.code = PS_OK;
        l->to_ask = l->control.first; /* values of an assign were held back */
    }
    shard_link_pump(c, l);
}

/* A reader of a shard that lost its data can only wait until the training workers have declared there again; and they,
 * until it can make blocks: its store may have had no room, or its disk an error. The caller gets the reason once. */
void
shard_link_restore_later(struct core *c, struct shard_link *l, struct request *p, const struct ps_error *why)
{
    if (why->code != PS_ERR_NOT_FOUND && why->code != l->trouble.code)
        core_emit_event(c, why);
    l->trouble = *why;
    request_ids_remove(&l->requests, p);
    requeue_request(p);
    l->attach_ms = c->now_ms + SHARD_LINK_ATTACH_MS;
}

/* ---- Time ---- */

static void
post_ping(struct core *c, struct shard_link *l)
{
    struct request *p = request_new_own(c, REQUEST_ALIVE);

    if (p == NULL)
        return;
    shard_link_queue_control(l, p);
    shard_link_pump(c, l);
}

static bool
link_waits(const struct shard_link *l)
{
    return l->parts.first != NULL || l->control.first != NULL;
}

static uint64_t
keep_alive_ms(const struct core *c, const struct shard_link *l)
{
    return c->config.observer ? UINT64_MAX : l->sent_ms + MAX(c->config.lease_ms / 3, 1);
}

static void
link_up_time(struct core *c, struct shard_link *l)
{
    struct ps_error e;

    if (l->attach_ms != 0 && c->now_ms >= l->attach_ms) {
        l->attach_ms = 0;
        l->to_ask = l->control.first;
        shard_link_pump(c, l);
    }
    if (link_waits(l) && l->silent_ms >= SHARD_LINK_DEAD_MS) {
        core_error_set(c, l, &e, PS_ERR_TIMEOUT, "nothing received for %d ms", SHARD_LINK_DEAD_MS);
        shard_link_lost(c, l, &e);
    } else if (link_waits(l) && l->silent_ms >= SHARD_LINK_PROBE_MS && !l->probed) {
        l->probed = true;
        post_ping(c, l);
    } else if (c->now_ms >= keep_alive_ms(c, l)) {
        post_ping(c, l);
    }
}

void
shard_link_time(struct core *c, struct shard_link *l, uint64_t passed_ms)
{
    struct ps_error e;

    /* A caller that computes for a minute does not drive the core: such a gap says nothing about the shard. */
    l->silent_ms += MIN(passed_ms, 1000);
    switch (l->state) {
    case SHARD_LINK_CONNECTING:
    case SHARD_LINK_GREETING:
        if (c->now_ms < l->due_ms)
            return;
        core_error_set(c, l, &e, PS_ERR_TIMEOUT, "%s within %d ms",
                       l->state == SHARD_LINK_CONNECTING ? "no connection" : "connected, but no answer to hello",
                       SHARD_LINK_GREET_MS);
        shard_link_lost(c, l, &e);
        return;
    case SHARD_LINK_BACKOFF:
        if (c->now_ms >= l->due_ms)
            shard_link_connect(c, l);
        return;
    case SHARD_LINK_READY:
    case SHARD_LINK_RESTORING:
        link_up_time(c, l);
        return;
    default:
        return;
    }
}

uint64_t
shard_link_next_time(const struct core *c, const struct shard_link *l)
{
    switch (l->state) {
    case SHARD_LINK_CONNECTING:
    case SHARD_LINK_GREETING:
    case SHARD_LINK_BACKOFF:
        return l->due_ms;
    case SHARD_LINK_READY:
    case SHARD_LINK_RESTORING:
        return link_waits(l) ? MIN(c->now_ms + 1000, keep_alive_ms(c, l)) : keep_alive_ms(c, l);
    default:
        return UINT64_MAX;
    }
}
