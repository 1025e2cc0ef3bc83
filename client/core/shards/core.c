/* The core's dispatch: the driver's events to links, links' actions to the driver, and what concerns all links. */
#include "client/core/shards/core.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/shards/shard_link.h"

/* ---- Making ---- */

static char *
put_string(char **at, const char *text)
{
    size_t len = strlen(text) + 1;
    char *copy = memcpy(*at, text, len);

    *at += len;
    return copy;
}

static enum ps_err
copy_config(struct core *c, const struct core_config *k)
{
    size_t bytes = strlen(k->cluster) + strlen(k->agent) + strlen(k->job) + 3;
    char *at;
    uint32_t i;

    ps_assert(k->metrics_named <= WIRE_METRICS_MAX);
    for (i = 0; i < k->shards; i++)
        bytes += strlen(k->addresses[i]) + 1;
    for (i = 0; i < k->metrics_named; i++)
        bytes += strlen(k->metric_names[i]) + 1;
    c->config = *k;
    c->strings = at = malloc(bytes);
    c->addresses = malloc(k->shards * sizeof(*c->addresses));
    if (c->strings == NULL || c->addresses == NULL)
        return PS_ERR_NOMEM;
    c->config.cluster = put_string(&at, k->cluster);
    c->config.agent = put_string(&at, k->agent);
    c->config.job = put_string(&at, k->job);
    for (i = 0; i < k->shards; i++)
        c->addresses[i] = put_string(&at, k->addresses[i]);
    c->config.addresses = c->addresses;
    for (i = 0; i < k->metrics_named; i++)
        c->metric_names[i] = put_string(&at, k->metric_names[i]);
    c->config.metric_names = c->metric_names;
    return PS_OK;
}

enum ps_err
core_new(const struct core_config *config, uint64_t now_ms, struct core **out, struct ps_error *e)
{
    struct core *c = calloc(1, sizeof(*c));
    uint32_t i;

    ps_assert(config->shards >= 1 && config->incarnation != 0);
    ps_assert(config->observer || config->task < config->workers);
    if (c == NULL || copy_config(c, config) != PS_OK ||
        (c->links = calloc(config->shards, sizeof(*c->links))) == NULL) {
        core_free(c);
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a client");
    }
    if (c->config.quorum == 0)
        c->config.quorum = c->config.workers;
    c->now_ms = c->timed_ms = now_ms;
    c->rng = config->seed;
    copy_pool_init(&c->copies, c->config.copy_max);
    variables_init(&c->vars, c->config.job, config->shards);
    for (i = 0; i < config->shards; i++)
        shard_link_init(&c->links[i], i);
    for (i = 0; i < config->shards; i++)
        shard_link_connect(c, &c->links[i]);
    *out = c;
    return PS_OK;
}

static void
free_events(struct core *c)
{
    struct core_event *v, *next;

    for (v = c->event_first; v != NULL; v = next) {
        next = v->next;
        free(v);
    }
    free(c->event_reported);
}

void
core_free(struct core *c)
{
    uint32_t i;

    if (c == NULL)
        return;
    for (i = 0; c->links != NULL && i < c->config.shards; i++)
        shard_link_finish(c, &c->links[i]);
    free(c->links);
    ops_finish(c);
    variables_finish(&c->vars);
    request_pools_finish(&c->pools);
    copy_pool_finish(&c->copies);
    free_events(c);
    if (c->definition != NULL)
        psd__define__free_unpacked(c->definition, NULL);
    free(c->addresses);
    free(c->strings);
    free(c);
}

/* ---- Sentences ---- */

/* "shard 1 at 127.0.0.1:4001" */
static void
core_peer(const struct core *c, const struct shard_link *l, char *out, size_t size)
{
    snprintf(out, size, "shard %u at %.100s", l->shard, c->addresses[l->shard]);
}

void
core_error_set(const struct core *c, const struct shard_link *l, struct ps_error *e, enum ps_err code,
               const char *format, ...)
{
    va_list args;

    e->code = code;
    core_peer(c, l, e->peer, sizeof(e->peer));
    va_start(args, format);
    vsnprintf(e->text, sizeof(e->text), format, args);
    va_end(args);
}

/* ---- Actions ---- */

void
core_emit(struct core *c, struct shard_link *l)
{
    if (l->pending)
        return;
    l->pending = true;
    l->pending_next = NULL;
    if (c->pending_last != NULL)
        c->pending_last->pending_next = l;
    else
        c->pending_first = l;
    c->pending_last = l;
}

/* Out of memory, an event is lost: it reports, nothing depends on it. */
void
core_emit_event(struct core *c, const struct ps_error *e)
{
    struct core_event *v = calloc(1, sizeof(*v));

    if (v == NULL)
        return;
    v->error = *e;
    if (c->event_last != NULL)
        c->event_last->next = v;
    else
        c->event_first = v;
    c->event_last = v;
}

static bool
next_event(struct core *c, struct core_action *out)
{
    struct core_event *v = c->event_first;

    free(c->event_reported);
    c->event_reported = v;
    if (v == NULL)
        return false;
    if ((c->event_first = v->next) == NULL)
        c->event_last = NULL;
    *out = (struct core_action){.kind = CORE_EVENT, .error = &v->error};
    return true;
}

static bool
flag_taken(bool *flag)
{
    bool set = *flag;

    *flag = false;
    return set;
}

static bool
link_next_action(struct shard_link *l, struct core_action *out)
{
    struct send *s = l->out_first;

    out->shard = l->shard;
    if (flag_taken(&l->do_disconnect)) {
        l->open = false;
        out->kind = CORE_DISCONNECT;
    } else if (flag_taken(&l->do_connect)) {
        l->open = true;
        out->kind = CORE_CONNECT;
    } else if (flag_taken(&l->do_discard)) {
        out->kind = CORE_DISCARD;
    } else if (s != NULL) {
        if ((l->out_first = s->free) == NULL)
            l->out_last = NULL;
        s->free = NULL;
        out->kind = CORE_SEND;
        out->send = &s->out;
    } else if (flag_taken(&l->do_finish)) {
        l->open = false;
        out->kind = CORE_FINISH;
    } else {
        return false;
    }
    return true;
}

bool
core_next_action(struct core *c, struct core_action *out)
{
    struct shard_link *l;

    *out = (struct core_action){0};
    if (next_event(c, out))
        return true;
    while ((l = c->pending_first) != NULL) {
        if (link_next_action(l, out))
            return true;
        if ((c->pending_first = l->pending_next) == NULL)
            c->pending_last = NULL;
        l->pending = false;
    }
    return false;
}

/* ---- Events ---- */

void
core_connected(struct core *c, uint32_t shard, uint64_t now_ms)
{
    struct shard_link *l = &c->links[shard];

    c->now_ms = now_ms;
    if (l->open && !l->do_disconnect)
        shard_link_connected(c, l);
}

void
core_disconnected(struct core *c, uint32_t shard, const struct ps_error *why, uint64_t now_ms)
{
    struct shard_link *l = &c->links[shard];
    bool old = l->do_disconnect; /* of a connection that the core had done with */
    struct ps_error e;

    c->now_ms = now_ms;
    if (!l->open)
        return;
    l->open = l->do_disconnect = false;
    if (old)
        return;
    core_error_set(c, l, &e, why->code, "%s", why->text);
    if (shard_link_error_final(why->code))
        core_fail(c, &e);
    else
        shard_link_lost(c, l, &e);
}

void
core_meta(struct core *c, uint32_t shard, const struct frame_head *head, const void *meta,
          struct core_payload_dest *place)
{
    shard_link_meta(c, &c->links[shard], head, meta, place);
}

void
core_frame(struct core *c, uint32_t shard, const struct frame_head *head, const void *meta, const void *payload,
           uint64_t now_ms)
{
    c->now_ms = now_ms;
    shard_link_frame(c, &c->links[shard], head, meta, payload);
}

void
core_sent(struct core *c, struct core_send *out, enum ps_err result)
{
    struct send *s = CONTAINER_OF(out, struct send, out);
    struct shard_link *l = &c->links[s->shard];

    ps_assert(s->out_there);
    s->out_there = false;
    if (s->epoch == l->epoch)
        l->sending_bytes -= s->out.head_len + s->out.payload_len;
    if (s->part != NULL) {
        s->part->send = NULL;
        if (result == PS_OK)
            s->part->state = REQUEST_SENT;
    }
    request_pool_send_put(&c->pools, s);
    if (result == PS_OK && s->epoch == l->epoch) {
        if (s->out.payload_len > 0)
            l->silent_ms = 0; /* a slow link that takes bytes is alive; a small frame only fills a buffer */
        shard_link_pump(c, l);
    }
}

void
core_time(struct core *c, uint64_t now_ms)
{
    uint64_t passed = now_ms - c->timed_ms;
    uint32_t i;

    c->now_ms = c->timed_ms = now_ms;
    for (i = 0; i < c->config.shards; i++)
        shard_link_time(c, &c->links[i], passed);
}

uint64_t
core_next_time(const struct core *c)
{
    uint64_t next = UINT64_MAX;
    uint32_t i;

    for (i = 0; i < c->config.shards; i++)
        next = MIN(next, shard_link_next_time(c, &c->links[i]));
    return next;
}

/* ---- The session ---- */

/* Everything under way is dropped; operations that are not done end with this error. */
static void
drop_all(struct core *c, const struct ps_error *e)
{
    struct core_op *op, *next;
    uint32_t i, j;

    op_assign_drop(c);
    for (i = 0; i < c->config.shards; i++)
        shard_link_drop(c, &c->links[i]);
    for (op = c->ops; op != NULL; op = next) {
        next = op->next;
        op->left = 0;
        for (j = 0; j < op->lanes_n; j++)
            op->lanes[j].parts = 0;
        if (op->done)
            op_recycle_if_over(c, op);
        else
            op_end(c, op, e);
    }
}

void
core_fail(struct core *c, const struct ps_error *e)
{
    struct ps_error why = *e;
    uint32_t i;

    if (c->fatal.code != PS_OK)
        return;
    c->fatal = why;
    c->changes++;
    drop_all(c, &why);
    for (i = 0; i < c->config.shards; i++)
        c->links[i].state = SHARD_LINK_FATAL;
}

bool
core_joined(const struct core *c)
{
    uint32_t i;

    if (!c->config.observer)
        return c->joined;
    for (i = 0; i < c->config.shards; i++)
        if (!c->links[i].joined)
            return false;
    return true;
}

enum ps_err
core_fatal(const struct core *c, struct ps_error *e)
{
    if (e != NULL)
        *e = c->fatal;
    return c->fatal.code;
}

/* The link that a join waits for: the first that says why, else the first. */
static const struct shard_link *
join_link(const struct core *c)
{
    const struct shard_link *first = NULL;
    uint32_t i;

    for (i = 0; i < c->config.shards; i++) {
        const struct shard_link *l = &c->links[i];

        if (l->joined)
            continue;
        if (l->trouble.code != PS_OK)
            return l;
        if (first == NULL)
            first = l;
    }
    return first;
}

uint32_t
core_failures(const struct core *c, uint32_t shard)
{
    return c->links[shard].failures;
}

enum ps_err
core_join_error(const struct core *c, uint64_t waited_ms, struct ps_error *e)
{
    const struct shard_link *l = join_link(c);
    char waited[48] = "";
    struct ps_error room;
    enum ps_err code;

    if (e == NULL)
        e = &room;
    if (c->fatal.code != PS_OK) {
        *e = c->fatal;
        return e->code;
    }
    if (l == NULL)
        return ps_fail(e, PS_ERR_TIMEOUT, "waited %llu ms to join", (unsigned long long)waited_ms);
    code = l->trouble.code != PS_OK ? l->trouble.code : PS_ERR_TIMEOUT;
    if (waited_ms > 0)
        snprintf(waited, sizeof waited, "waited %llu ms for ", (unsigned long long)waited_ms);
    core_error_set(c, l, e, code, "%sshard %u at %s: %.300s", waited, l->shard, c->addresses[l->shard],
                   l->trouble.code != PS_OK ? l->trouble.text : "no answer yet");
    return code;
}

void
core_rejoin(struct core *c, uint64_t incarnation, uint64_t now_ms)
{
    struct ps_error e;
    uint32_t i;

    c->now_ms = now_ms;
    ps_fail(&e, PS_ERR_CANCELLED, "the worker joins again");
    drop_all(c, &e);
    c->fatal.code = PS_OK;
    c->joined = false;
    c->config.incarnation = incarnation;
    own_metrics_rejoin(c);
    for (i = 0; i < c->config.shards; i++) {
        struct shard_link *l = &c->links[i];

        send_window_reset(&l->window, 0);
        l->joined = l->session_lost = false;
        l->clock = l->ticked = l->pushed = l->floor = 0;
        l->failures = 0;
        l->trouble.code = PS_OK;
        shard_link_connect(c, l);
    }
}

bool
core_quiet(const struct core *c)
{
    uint32_t i;

    for (i = 0; i < c->config.shards; i++)
        if (!send_window_empty(&c->links[i].window))
            return false;
    return true;
}

bool
core_reaches_all(const struct core *c)
{
    uint32_t i;

    for (i = 0; i < c->config.shards; i++)
        if (!shard_link_up(&c->links[i]))
            return false;
    return true;
}

void
core_cancel_all(struct core *c)
{
    struct core_op *op, *next;

    for (op = c->ops; op != NULL; op = next) {
        next = op->next;
        core_op_cancel(c, op);
    }
}

void
core_goodbye(struct core *c)
{
    Psd__Goodbye goodbye = PSD__GOODBYE__INIT;
    struct ps_error e;
    uint32_t i;

    goodbye.finished = true;
    core_cancel_all(c);
    c->closing = true;
    for (i = 0; i < c->config.shards; i++) {
        struct shard_link *l = &c->links[i];

        if (!shard_link_up(l))
            continue;
        if (!c->config.observer)
            shard_link_post(c, l, MSG_GOODBYE, REQUEST_ID_UNANSWERED, &goodbye.base);
        l->do_finish = shard_link_up(l);
        core_emit(c, l);
    }
    ps_fail(&e, PS_ERR_CLOSED, "the client was closed");
    for (i = 0; i < c->config.shards; i++) {
        if (!c->links[i].do_finish)
            shard_link_drop(c, &c->links[i]);
        c->links[i].state = SHARD_LINK_FATAL;
    }
    c->fatal = e;
}

uint64_t
core_clock(const struct core *c)
{
    return c->clock;
}

uint64_t
core_slowest_clock(const struct core *c)
{
    uint64_t slowest = 0;
    uint32_t i;

    for (i = 0; i < c->config.shards; i++)
        slowest = MAX(slowest, c->links[i].slowest);
    return slowest;
}

uint64_t
core_rolled_back(const struct core *c, uint32_t shard)
{
    return shard < c->config.shards ? c->links[shard].rolled_back : 0;
}

uint64_t
core_unanswered(const struct core *c, uint32_t shard)
{
    const struct send_window *w = &c->links[shard].window;

    return w->next - 1 - w->acked_through;
}

uint32_t
core_pulls_unanswered(const struct core *c, uint32_t shard)
{
    return c->links[shard].pulling;
}

const struct ps_client_stats *
core_stats(const struct core *c)
{
    return &c->stats;
}

uint64_t
core_changes(const struct core *c)
{
    return c->changes;
}
