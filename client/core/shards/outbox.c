/* What goes out on a link: requests are made from the lanes of operations while the windows have room, and handed to
 * the driver as frames, in order.
 *
 * shard_link_pump() is called after everything that may have made room or work. It hands out declares, queries, pings,
 * sets and drains first; then requests that were made for an earlier connection; then it makes new ones, one at a time,
 * in turns with those for an assign's values. Pushes and pulls may wait for other workers, and these for the assign:
 * its values wait for none of them. */
#include "client/core/shards/residual.h"
#include "client/core/shards/shard_link.h"

/* ---- Handing out ---- */

static void
out_append(struct core *c, struct shard_link *l, struct send *s, uint64_t payload_len)
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
out_of_memory(struct core *c, struct shard_link *l)
{
    struct ps_error e;

    core_error_set(c, l, &e, PS_ERR_NOMEM, "no memory to send");
    shard_link_lost(c, l, &e);
}

void
shard_link_post(struct core *c, struct shard_link *l, enum msg_type type, uint64_t request,
                const ProtobufCMessage *message)
{
    struct send *s = request_pool_send(&c->pools);

    if (s == NULL) {
        out_of_memory(c, l);
        return;
    }
    if (shard_link_encode(s, type, request, message, 0) != PS_OK) {
        request_pool_send_put(&c->pools, s);
        out_of_memory(c, l);
        return;
    }
    out_append(c, l, s, 0);
}

/* False: no memory, and the link is lost. */
static bool
part_hand_out(struct core *c, struct shard_link *l, struct request *p)
{
    struct send *s = request_pool_send(&c->pools);

    ps_assert(p->state == REQUEST_WAITING && p->request == 0);
    if (s == NULL) {
        out_of_memory(c, l);
        return false;
    }
    if (request_ids_add(&l->requests, p) != PS_OK || request_encode(c, l, p, s) != PS_OK) {
        request_pool_send_put(&c->pools, s);
        out_of_memory(c, l);
        return false;
    }
    if (request_sequenced(p) && p->was_sent)
        c->stats.resent++;
    if (p->kind == REQUEST_PUSH)
        p->counts = true;
    p->state = REQUEST_HANDED_OUT;
    p->was_sent = true;
    p->send = s;
    s->part = p;
    s->out.asked_len = p->kind == REQUEST_PULL ? p->bytes : 0;
    out_append(c, l, s, request_sends_blocks(p) ? p->bytes : 0);
    return true;
}

/* ---- Making requests ---- */

/* The versions that the request's message will carry: what was seen when it was made. A pull asks for none older than
 * pull.newer_than. */
static enum ps_err
note_versions(struct core_op *op, struct shard_link *l, struct request *p, bool seen)
{
    struct block_walk walk = op_walk(op, l->shard);
    struct block_cursor at = p->from;
    uint64_t at_least = op->kind == OP_PULL ? op->pull.newer_than : 0, version;
    struct walk_block b;

    p->versions.any = seen || at_least > 0;
    p->versions.same = at_least;
    for (uint32_t i = 0; seen && i < p->blocks && block_cursor_next(&walk, &at, &b); i++) {
        var_seen(op->vars[b.var], b.block, &version);
        if (part_versions_put(&p->versions, p->blocks, i, MAX(version, at_least)) != PS_OK)
            return PS_ERR_NOMEM;
    }
    return PS_OK;
}

/* The next stretch of a pull or push. */
static enum ps_err
part_take_stretch(struct core *c, struct shard_link *l, struct lane *lane, struct request *p)
{
    struct core_op *op = lane->op;
    struct block_walk walk = op_walk(op, l->shard);
    bool by_seen = (op->kind == OP_PUSH && !op->rereads) || op->pull.only_changed;
    struct stretch s;

    scatter_stretch(&walk, lane->at, by_seen, &s);
    ps_assert(s.blocks > 0);
    p->from = s.from;
    p->blocks = s.blocks;
    p->bytes = p->gradient_bytes = s.bytes;
    if (note_versions(op, l, p, by_seen && s.seen) != PS_OK ||
        (p->kind == REQUEST_PUSH && op->compress.kind != PS_COMPRESS_NONE &&
         residual_reserve(&c->pools, l, p) != PS_OK))
        return PS_ERR_NOMEM;
    lane->at = s.to;
    lane->queued = !s.end;
    return PS_OK;
}

static bool
lane_has_room(const struct shard_link *l, const struct lane *lane)
{
    if (lane->op->kind == OP_PULL || lane->op->rereads)
        return l->pulling < SHARD_LINK_PULLS_MAX && l->pulling_bytes < SHARD_LINK_PULL_BYTES;
    return !send_window_full(&l->window);
}

static const enum request_kind kind_of_part[] = {[OP_PULL] = REQUEST_PULL,
                                                 [OP_PUSH] = REQUEST_PUSH,
                                                 [OP_TICK] = REQUEST_TICK,
                                                 [OP_BARRIER] = REQUEST_BARRIER,
                                                 [OP_ASSIGN] = REQUEST_STAGE};

/* Fill p with what is next in the lane; lane->queued is false after the last. */
static enum ps_err
part_fill(struct core *c, struct shard_link *l, struct lane *lane, struct request *p)
{
    struct core_op *op = lane->op;

    p->kind = op->rereads ? REQUEST_PULL : kind_of_part[op->kind];
    p->op = op;
    p->lane = lane;
    p->clock = op->clock;
    p->gated = p->kind == REQUEST_PUSH && l->gates && p->clock <= l->gated_through;
    lane->queued = false;
    if ((op->kind == OP_PULL || op->kind == OP_PUSH || op->kind == OP_ASSIGN) &&
        part_take_stretch(c, l, lane, p) != PS_OK) {
        lane->queued = true;
        return PS_ERR_NOMEM;
    }
    if (request_sequenced(p) && send_window_give(&l->window, p) != PS_OK) {
        lane->at = p->from;
        lane->queued = true;
        return PS_ERR_NOMEM;
    }
    if (p->encoding.data != NULL)
        residual_encode(l, p);
    return PS_OK;
}

/* One request of a lane, in no list yet. NULL: no memory, and its operation has ended. */
static struct request *
part_new(struct core *c, struct shard_link *l, struct lane *lane)
{
    struct request *p = request_pool_get(&c->pools);
    struct ps_error e;

    if (p == NULL || part_fill(c, l, lane, p) != PS_OK) {
        if (p != NULL)
            request_pool_put(&c->pools, p);
        core_error_set(c, l, &e, PS_ERR_NOMEM, "no memory to go on");
        op_give_up(c, lane->op, &e);
        return NULL;
    }
    return p;
}

/* The request is in its list. */
static void
part_made(struct shard_link *l, struct lane *lane)
{
    lane->parts++;
    lane->op->left++;
    if (!lane->queued) {
        lane->queued = true; /* it is in the queue until the next line */
        shard_link_unqueue_lane(l, lane);
    }
}

/* Make one request of the first lane. False: there is none, no room, or no memory. */
static bool
make_part(struct core *c, struct shard_link *l)
{
    struct lane *lane = l->first;
    struct request *p;

    if (lane == NULL || !lane_has_room(l, lane) || (p = part_new(c, l, lane)) == NULL)
        return false;
    request_list_append(&l->parts, p);
    l->to_send = p;
    if (p->kind == REQUEST_PULL) {
        l->pulling++;
        l->pulling_bytes += p->bytes;
    }
    part_made(l, lane);
    return true;
}

/* ---- The pump ---- */

void
shard_link_queue_control(struct shard_link *l, struct request *p)
{
    request_list_append(&l->control, p);
    if (l->to_ask == NULL)
        l->to_ask = p;
}

/* Thousands may have been asked and not answered yet: those are not looked at again. */
static bool
pump_control(struct core *c, struct shard_link *l)
{
    struct request *p;

    for (p = l->to_ask; p != NULL; p = p->next, l->asked_past++)
        if (p->state == REQUEST_WAITING && !request_waits(l, p) && !part_hand_out(c, l, p))
            return false;
    l->to_ask = NULL;
    return true;
}

/* The next values of an assign. False: there are none to go, or no memory. */
static bool
pump_values(struct core *c, struct shard_link *l)
{
    struct lane *lane = l->staging;
    struct request *p;

    if (lane == NULL || l->staging_bytes >= SHARD_LINK_STAGE_BYTES || (p = part_new(c, l, lane)) == NULL)
        return false;
    request_list_append(&l->control, p);
    l->staging_bytes += p->bytes;
    part_made(l, lane);
    return part_hand_out(c, l, p);
}

/* In sync a shard refuses a push for a step that its blocks have not come to, and one that came back with older data
 * comes there again only when all workers have sent it their clocks. (Sent too early, the gradient would be lost.) */
static void
query_gate(struct core *c, struct shard_link *l, const struct request *push)
{
    struct request *p;

    if (l->gate != NULL)
        return;
    if ((p = request_new_own(c, REQUEST_GATE)) == NULL) {
        out_of_memory(c, l);
        return;
    }
    p->seq = push->seq;
    p->given_up = true; /* nobody waits for what it would bring */
    shard_link_queue_control(l, p);
    l->gate = p;
    part_hand_out(c, l, p);
}

/* The next of the other requests. False: none is to go, or no memory. */
static bool
pump_part(struct core *c, struct shard_link *l)
{
    struct request *p;

    if (l->state != SHARD_LINK_READY || (l->to_send == NULL && !make_part(c, l)))
        return false;
    p = l->to_send;
    if (p->gated && l->slowest < p->clock) {
        query_gate(c, l, p);
        return false;
    }
    l->to_send = p->next;
    return part_hand_out(c, l, p);
}

void
shard_link_pump(struct core *c, struct shard_link *l)
{
    bool values = true, part = true;

    if (!shard_link_up(l) || c->closing || !pump_control(c, l))
        return;
    while ((values || part) && l->state == SHARD_LINK_READY && l->sending_bytes < SHARD_LINK_SEND_BYTES) {
        values = pump_values(c, l); /* in turns: neither keeps the other from the connection */
        part = pump_part(c, l);
    }
}

/* ---- The queue of lanes ---- */

void
shard_link_queue_lane(struct shard_link *l, struct lane *lane)
{
    lane->queued = true;
    lane->op->left++;
    if (lane->op->kind == OP_ASSIGN) {
        ps_assert(l->staging == NULL); /* a client has one assign under way */
        l->staging = lane;
        return;
    }
    lane->next = NULL;
    lane->prev = l->last;
    if (l->last != NULL)
        l->last->next = lane;
    else
        l->first = lane;
    l->last = lane;
}

void
shard_link_unqueue_lane(struct shard_link *l, struct lane *lane)
{
    ps_assert(lane->queued && lane->op->left > 0);
    lane->queued = false;
    lane->op->left--;
    if (l->staging == lane) {
        l->staging = NULL;
        return;
    }
    if (lane->prev != NULL)
        lane->prev->next = lane->next;
    else
        l->first = lane->next;
    if (lane->next != NULL)
        lane->next->prev = lane->prev;
    else
        l->last = lane->prev;
}
