/* What goes out on a link: parts are made from the lanes of operations while the windows have room, and handed to the
 * driver as frames, in order.
 *
 * link_pump() is called after everything that may have made room or work. It hands out declares, queries, pings, sets
 * and drains first; then parts that were made for an earlier connection; then it makes new ones, one at a time. */
#include "client/core/shards/link.h"
#include "client/core/shards/residual.h"

/* ---- Handing out ---- */

static void
out_append(struct core *c, struct link *l, struct send *s, uint64_t payload_len)
{
    s->shard = l->shard;
    s->epoch = l->epoch;
    s->out_there = true;
    s->free = NULL;
    s->out.head = s->head;
    s->out.parts = s->spans.item;
    s->out.parts_len = s->spans.n;
    s->out.payload_len = payload_len;
    if (l->out_last != NULL)
        l->out_last->free = s;
    else
        l->out_first = s;
    l->out_last = s;
    l->sending_bytes += s->out.head_len + payload_len;
    l->sent_ms = c->now_ms;
    core_emit(c, l);
}

static void
out_of_memory(struct core *c, struct link *l)
{
    struct ps_error e;

    core_say(c, l, &e, PS_ERR_NOMEM, "no memory to send");
    link_lost(c, l, &e);
}

void
link_post(struct core *c, struct link *l, enum msg_type type, uint64_t request, const ProtobufCMessage *message)
{
    struct send *s = pool_send(&c->pools);

    if (s == NULL) {
        out_of_memory(c, l);
        return;
    }
    if (link_encode(s, type, request, message, 0) != PS_OK) {
        pool_send_put(&c->pools, s);
        out_of_memory(c, l);
        return;
    }
    out_append(c, l, s, 0);
}

/* False: no memory, and the link is lost. */
static bool
part_hand_out(struct core *c, struct link *l, struct part *p)
{
    struct send *s = pool_send(&c->pools);

    ps_assert(p->state == PART_HELD && p->request == 0);
    if (s == NULL) {
        out_of_memory(c, l);
        return false;
    }
    if (requests_add(&l->requests, p) != PS_OK || part_encode(c, l, p, s) != PS_OK) {
        pool_send_put(&c->pools, s);
        out_of_memory(c, l);
        return false;
    }
    if (part_sequenced(p) && p->was_sent)
        c->stats.resent++;
    if (p->kind == PART_PUSH)
        p->counts = true;
    p->state = PART_HANDED;
    p->was_sent = true;
    p->send = s;
    s->part = p;
    s->out.asked_len = p->kind == PART_PULL ? p->bytes : 0;
    out_append(c, l, s, p->kind == PART_PUSH ? p->bytes : 0);
    return true;
}

/* ---- Making parts ---- */

/* The versions that the part's message will carry: what was seen when it was made. A pull asks for none older than
 * pull.newer_than. */
static enum ps_err
note_versions(struct core_op *op, struct link *l, struct part *p, bool seen)
{
    struct walk walk = {op->vars, op->n, l->shard};
    struct cursor at = p->from;
    uint64_t at_least = op->kind == OP_PULL ? op->pull.newer_than : 0, version;
    struct walk_block b;

    p->versions.any = seen || at_least > 0;
    p->versions.same = at_least;
    for (uint32_t i = 0; seen && i < p->blocks && cursor_next(&walk, &at, &b); i++) {
        var_seen(op->vars[b.var], b.block, &version);
        if (part_versions_put(&p->versions, p->blocks, i, MAX(version, at_least)) != PS_OK)
            return PS_ERR_NOMEM;
    }
    return PS_OK;
}

/* The next stretch of a pull or push. */
static enum ps_err
part_take_stretch(struct core *c, struct link *l, struct lane *lane, struct part *p)
{
    struct core_op *op = lane->op;
    struct walk walk = {op->vars, op->n, l->shard};
    bool by_seen = op->kind == OP_PUSH || op->pull.only_changed;
    struct stretch s;

    gather_stretch(&walk, lane->at, by_seen, &s);
    ps_assert(s.blocks > 0);
    p->from = s.from;
    p->blocks = s.blocks;
    p->bytes = p->gradient_bytes = s.bytes;
    if (note_versions(op, l, p, by_seen && s.seen) != PS_OK ||
        (p->kind == PART_PUSH && op->compress.kind != PS_COMPRESS_NONE && residual_room(&c->pools, l, p) != PS_OK))
        return PS_ERR_NOMEM;
    lane->at = s.to;
    lane->queued = !s.end;
    return PS_OK;
}

static bool
lane_has_room(const struct link *l, const struct lane *lane)
{
    if (lane->op->kind == OP_PULL)
        return l->pulling < LINK_PULLS_MAX && l->pulling_bytes < LINK_PULL_BYTES;
    return !window_full(&l->window);
}

static const enum part_kind kind_of_part[] = {
    [OP_PULL] = PART_PULL, [OP_PUSH] = PART_PUSH, [OP_TICK] = PART_TICK, [OP_BARRIER] = PART_BARRIER};

/* Fill p with what is next in the lane; lane->queued is false after the last. */
static enum ps_err
part_fill(struct core *c, struct link *l, struct lane *lane, struct part *p)
{
    struct core_op *op = lane->op;

    p->kind = kind_of_part[op->kind];
    p->op = op;
    p->lane = lane;
    p->clock = op->clock;
    p->gated = p->kind == PART_PUSH && l->gates && p->clock <= l->gated_through;
    lane->queued = false;
    if ((op->kind == OP_PULL || op->kind == OP_PUSH) && part_take_stretch(c, l, lane, p) != PS_OK) {
        lane->queued = true;
        return PS_ERR_NOMEM;
    }
    if (op->kind != OP_PULL && window_give(&l->window, p) != PS_OK) {
        lane->at = p->from;
        lane->queued = true;
        return PS_ERR_NOMEM;
    }
    if (p->encoding.data != NULL)
        residual_encode(l, p);
    return PS_OK;
}

/* Make one part of the first lane. False: there is none, no room, or no memory. */
static bool
make_part(struct core *c, struct link *l)
{
    struct lane *lane = l->first;
    struct ps_error e;
    struct part *p;

    if (lane == NULL || !lane_has_room(l, lane))
        return false;
    p = pool_part(&c->pools);
    if (p == NULL || part_fill(c, l, lane, p) != PS_OK) {
        if (p != NULL)
            pool_part_put(&c->pools, p);
        core_say(c, l, &e, PS_ERR_NOMEM, "no memory to go on");
        op_give_up(c, lane->op, &e);
        return false;
    }
    parts_append(&l->parts, p);
    l->to_send = p;
    if (p->kind == PART_PULL) {
        l->pulling++;
        l->pulling_bytes += p->bytes;
    }
    lane->parts++;
    lane->op->left++;
    if (!lane->queued) {
        lane->queued = true; /* it is in the queue until the next line */
        link_unqueue_lane(l, lane);
    }
    return true;
}

/* ---- The pump ---- */

void
link_ask(struct link *l, struct part *p)
{
    parts_append(&l->control, p);
    if (l->to_ask == NULL)
        l->to_ask = p;
}

/* Thousands may have been asked and not answered yet: those are not looked at again. */
static bool
pump_control(struct core *c, struct link *l)
{
    struct part *p;

    for (p = l->to_ask; p != NULL; p = p->next, l->asked_past++)
        if (p->state == PART_HELD && !part_waits(l, p) && !part_hand_out(c, l, p))
            return false;
    l->to_ask = NULL;
    return true;
}

/* In sync a shard refuses a push for a step that its blocks have not come to, and one that came back with older data
 * comes there again only when all workers have told it their clocks. (Sent too early, the gradient would be lost.) */
static void
ask_gate(struct core *c, struct link *l, const struct part *push)
{
    struct part *p;

    if (l->gate != NULL)
        return;
    if ((p = part_own(c, PART_GATE)) == NULL) {
        out_of_memory(c, l);
        return;
    }
    p->seq = push->seq;
    p->given_up = true; /* nobody waits for what it would bring */
    link_ask(l, p);
    l->gate = p;
    part_hand_out(c, l, p);
}

void
link_pump(struct core *c, struct link *l)
{
    struct part *p;

    if (!link_up(l) || c->closing || !pump_control(c, l) || l->state != LINK_READY)
        return;
    while (l->sending_bytes < LINK_SEND_BYTES && (l->to_send != NULL || make_part(c, l))) {
        p = l->to_send;
        if (p->gated && l->slowest < p->clock) {
            ask_gate(c, l, p);
            return;
        }
        l->to_send = p->next;
        if (!part_hand_out(c, l, p))
            return;
    }
}

/* ---- The queue of lanes ---- */

void
link_queue_lane(struct link *l, struct lane *lane)
{
    lane->queued = true;
    lane->op->left++;
    lane->next = NULL;
    lane->prev = l->last;
    if (l->last != NULL)
        l->last->next = lane;
    else
        l->first = lane;
    l->last = lane;
}

void
link_unqueue_lane(struct link *l, struct lane *lane)
{
    ps_assert(lane->queued && lane->op->left > 0);
    if (lane->prev != NULL)
        lane->prev->next = lane->next;
    else
        l->first = lane->next;
    if (lane->next != NULL)
        lane->next->prev = lane->prev;
    else
        l->last = lane->prev;
    lane->queued = false;
    lane->op->left--;
}
