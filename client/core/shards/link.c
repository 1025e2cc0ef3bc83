/* The life of a link: connect, greet, be welcomed, restore what a shard lost, lose the connection, try again.
 *
 * The happy path: link_connect() asks for a connection; link_connected() says HELLO; link_welcomed() settles the
 * session (reunion.h) and the outbox goes on from there. */
#include "client/core/shards/link.h"

#include <string.h>

#include "client/core/shards/residual.h"
#include "client/core/shards/reunion.h"

void
link_init(struct link *l, uint32_t shard)
{
    *l = (struct link){.shard = shard};
    window_init(&l->window);
    requests_init(&l->requests);
}

void
link_finish(struct core *c, struct link *l)
{
    link_drop(c, l);
    window_finish(&l->window);
    requests_finish(&l->requests);
    places_finish(&l->places);
    arena_finish(&l->arena);
}

bool
link_error_final(enum ps_err code)
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
    uint64_t full = failures >= 8 ? LINK_BACKOFF_MAX : MIN(LINK_BACKOFF_MIN << failures, LINK_BACKOFF_MAX);

    return full / 2 + core_random(c) % (full / 2 + 1);
}

void
link_connect(struct core *c, struct link *l)
{
    ps_assert(!l->open || l->do_disconnect);
    l->state = LINK_CONNECTING;
    l->due_ms = c->now_ms + LINK_GREET_MS;
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
link_connected(struct core *c, struct link *l)
{
    const struct core_config *k = &c->config;
    Psd__Hello hello = PSD__HELLO__INIT;
    Psd__AgePolicy age;
    Psd__Job job;

    if (l->state != LINK_CONNECTING)
        return;
    l->state = LINK_GREETING;
    l->due_ms = c->now_ms + LINK_GREET_MS;
    l->silent_ms = 0;
    l->draining = false;
    hello.cluster = (char *)(k->any_cluster ? "" : k->cluster);
    hello.shard = l->shard;
    hello.shards = k->shards;
    hello.agent = (char *)k->agent;
    hello.role = k->observer ? PSD__ROLE__OBSERVER : PSD__ROLE__WORKER;
    if (!k->observer) {
        hello_fill_job(c, &job, &age);
        hello.job = &job;
        hello.task = k->task;
        hello.incarnation = k->incarnation;
        hello.resume = l->joined;
        hello.lease_ms = k->lease_ms;
        hello.acked_through = l->window.acked_through;
        tally_name(c, l, &hello);
    }
    link_post(c, l, MSG_HELLO, REQUEST_HELLO, &hello.base);
}

/* ---- Losing the connection ---- */

/* What the driver holds or was about to get of this connection belongs to no part any more. */
static void
forget_sends(struct core *c, struct link *l)
{
    struct send *s, *next;

    for (s = l->out_first; s != NULL; s = next) {
        next = s->free;
        s->out_there = false;
        if (s->part != NULL)
            s->part->send = NULL;
        pool_send_put(&c->pools, s);
    }
    l->out_first = l->out_last = NULL;
    l->sending_bytes = 0;
    l->epoch++;
}

static void
forget_connection(struct core *c, struct link *l)
{
    forget_sends(c, l);
    requests_clear(&l->requests);
    l->reading = NULL;
    l->decoded = false;
    l->do_connect = l->do_discard = l->do_finish = l->reset_wanted = false;
    if (l->open) {
        l->do_disconnect = true;
        core_emit(c, l);
    }
}

static void
part_hold(struct part *p)
{
    if (p->send != NULL)
        p->send->part = NULL;
    p->send = NULL;
    p->state = PART_HELD;
}

/* Every part is to be sent again, but those that nobody waits for. */
static void
hold_parts(struct core *c, struct link *l)
{
    struct part *p, *next;

    for (p = l->parts.first; p != NULL; p = next) {
        next = p->next;
        part_hold(p);
        if (p->given_up && p->kind == PART_PULL)
            part_end(c, l, p);
    }
    for (p = l->control.first; p != NULL; p = next) {
        next = p->next;
        part_hold(p);
        if (p->kind == PART_WHY && p->op != NULL)
            p->op->whys--;
        if (p->given_up || p->kind == PART_WHY || p->kind == PART_ALIVE)
            part_end(c, l, p);
    }
    l->to_send = l->parts.first;
    l->to_ask = l->control.first;
}

/* The shard has let everybody go: what a drain waits for. */
static void
drained(struct core *c, struct link *l)
{
    struct part *p, *next;

    for (p = l->control.first; p != NULL; p = next) {
        struct core_op *op = p->op;
        struct lane *lane = p->lane;

        next = p->next;
        if (p->kind != PART_DRAIN)
            continue;
        part_end(c, l, p);
        if (op != NULL)
            op_answered(c, op, lane, NULL);
    }
}

void
link_lost(struct core *c, struct link *l, const struct ps_error *why)
{
    bool was_up = link_up(l);
    struct ps_error e;

    if (l->state == LINK_FATAL || l->state == LINK_IDLE)
        return;
    forget_connection(c, l);
    if (l->draining || (why != NULL && why->code == PS_ERR_DRAINING))
        drained(c, l);
    hold_parts(c, l);
    l->state = LINK_BACKOFF;
    l->due_ms = c->now_ms;
    if (why == NULL)
        return;
    l->trouble = *why;
    l->due_ms += backoff_ms(c, l->failures++);
    if (!was_up)
        return;
    core_say(c, l, &e, PS_ERR_CLOSED, "lost the connection: %.300s; connecting again", why->text);
    core_emit_event(c, &e);
}

void
link_drop(struct core *c, struct link *l)
{
    struct lane *lane;

    forget_connection(c, l);
    while ((lane = l->first) != NULL)
        link_unqueue_lane(l, lane);
    while (l->parts.first != NULL) {
        if (!l->parts.first->was_sent)
            residual_undo(l, l->parts.first);
        part_end(c, l, l->parts.first);
    }
    while (l->control.first != NULL) {
        if (l->control.first->kind == PART_WHY && l->control.first->op != NULL)
            l->control.first->op->whys--;
        part_hold(l->control.first);
        part_end(c, l, l->control.first);
    }
    l->restoring = 0;
}

/* ---- Refused ---- */

void
link_refused(struct core *c, struct link *l, const struct ps_error *why)
{
    if (why->code == PS_ERR_NOT_FOUND && l->joined) {
        l->joined = false;
        l->session_lost = true;
        link_lost(c, l, NULL);
        l->trouble = *why;
        return;
    }
    if (link_error_final(why->code) || why->code == PS_ERR_NOT_FOUND) {
        core_fail(c, why);
        return;
    }
    link_lost(c, l, why);
}

/* ---- Welcomed ---- */

static bool
welcome_is_of_cluster(struct core *c, struct link *l, const Psd__Welcome *w)
{
    const struct core_config *k = &c->config;
    struct ps_error e;

    if (k->any_cluster || (strcmp(w->cluster, k->cluster) == 0 && w->shard == l->shard && w->shards == k->shards))
        return true;
    core_say(c, l, &e, PS_ERR_CLUSTER, "expected shard %u of %u of cluster '%.80s', found shard %u of %u of '%.80s'",
             l->shard, k->shards, k->cluster, w->shard, w->shards, w->cluster);
    core_fail(c, &e);
    return false;
}

/* Out of memory in the middle of it: the connection is dropped, and what was begun is begun again. */
static void
link_starved(struct core *c, struct link *l)
{
    struct ps_error e;

    core_say(c, l, &e, PS_ERR_NOMEM, "no memory to go on with this shard");
    link_lost(c, l, &e);
}

void
link_welcomed(struct core *c, struct link *l, const Psd__Welcome *w)
{
    bool again = l->boot_known;
    struct ps_error e;

    if (!welcome_is_of_cluster(c, l, w))
        return;
    l->slowest = w->slowest_clock;
    l->round = w->round;
    l->cursor = place_welcomed(w->cursor);
    if (reunion_settle(c, l, w) != PS_OK) {
        link_starved(c, l);
        return;
    }
    l->joined = true;
    l->session_lost = false;
    l->boot_known = true;
    l->boot = w->boot;
    l->restored_boot = w->restored_boot;
    l->trouble.code = PS_OK;
    l->state = l->restoring > 0 ? LINK_RESTORING : LINK_READY;
    l->probed = false;
    if (again) {
        c->stats.reconnects++;
        core_say(c, l, &e, PS_OK, "connected again");
        core_emit_event(c, &e);
    }
    if (!c->joined && reunion_finish_join(c) != PS_OK)
        link_starved(c, l);
}

void
link_restored(struct core *c, struct link *l)
{
    ps_assert(l->restoring > 0);
    if (--l->restoring == 0 && l->state == LINK_RESTORING) {
        l->state = LINK_READY;
        l->trouble.code = PS_OK;
    }
    link_pump(c, l);
}

/* Who reads a shard that lost its data can only wait until those who train have declared there again; and they, until
 * it can make blocks: its store may have had no room, or its disk an error. The caller hears once why. */
void
link_restore_later(struct core *c, struct link *l, struct part *p, const struct ps_error *why)
{
    if (why->code != PS_ERR_NOT_FOUND && why->code != l->trouble.code)
        core_emit_event(c, why);
    l->trouble = *why;
    requests_remove(&l->requests, p);
    part_hold(p);
    l->attach_ms = c->now_ms + LINK_ATTACH_MS;
}

/* ---- Time ---- */

static void
post_ping(struct core *c, struct link *l)
{
    struct part *p = part_own(c, PART_ALIVE);

    if (p == NULL)
        return;
    link_ask(l, p);
    link_pump(c, l);
}

static bool
link_waits(const struct link *l)
{
    return l->parts.first != NULL || l->control.first != NULL;
}

static uint64_t
keep_alive_ms(const struct core *c, const struct link *l)
{
    return c->config.observer ? UINT64_MAX : l->sent_ms + MAX(c->config.lease_ms / 3, 1);
}

static void
link_up_time(struct core *c, struct link *l)
{
    struct ps_error e;

    if (l->attach_ms != 0 && c->now_ms >= l->attach_ms) {
        l->attach_ms = 0;
        l->to_ask = l->control.first;
        link_pump(c, l);
    }
    if (link_waits(l) && l->silent_ms >= LINK_DEAD_MS) {
        core_say(c, l, &e, PS_ERR_TIMEOUT, "nothing heard for %d ms", LINK_DEAD_MS);
        link_lost(c, l, &e);
    } else if (link_waits(l) && l->silent_ms >= LINK_PROBE_MS && !l->probed) {
        l->probed = true;
        post_ping(c, l);
    } else if (c->now_ms >= keep_alive_ms(c, l)) {
        post_ping(c, l);
    }
}

void
link_time(struct core *c, struct link *l, uint64_t passed_ms)
{
    struct ps_error e;

    /* A caller that computes for a minute does not drive the core: such a gap says nothing about the shard. */
    l->silent_ms += MIN(passed_ms, 1000);
    switch (l->state) {
    case LINK_CONNECTING:
    case LINK_GREETING:
        if (c->now_ms < l->due_ms)
            return;
        core_say(c, l, &e, PS_ERR_TIMEOUT, "%s within %d ms",
                 l->state == LINK_CONNECTING ? "no connection" : "connected, but no answer to hello", LINK_GREET_MS);
        link_lost(c, l, &e);
        return;
    case LINK_BACKOFF:
        if (c->now_ms >= l->due_ms)
            link_connect(c, l);
        return;
    case LINK_READY:
    case LINK_RESTORING:
        link_up_time(c, l);
        return;
    default:
        return;
    }
}

uint64_t
link_next_time(const struct core *c, const struct link *l)
{
    switch (l->state) {
    case LINK_CONNECTING:
    case LINK_GREETING:
    case LINK_BACKOFF:
        return l->due_ms;
    case LINK_READY:
    case LINK_RESTORING:
        return link_waits(l) ? MIN(c->now_ms + 1000, keep_alive_ms(c, l)) : keep_alive_ms(c, l);
    default:
        return UINT64_MAX;
    }
}
