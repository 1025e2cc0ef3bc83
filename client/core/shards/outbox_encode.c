/* Messages, one function for each kind of request: s gets head and spans. */
#include "client/core/shards/residual.h"
#include "client/core/shards/shard_link.h"

enum ps_err
shard_link_encode(struct send *s, enum msg_type type, uint64_t request, const ProtobufCMessage *message,
                  uint64_t payload_len)
{
    size_t size = wire_size(message);

    if (request_pool_send_reserve(s, size) != PS_OK)
        return PS_ERR_NOMEM;
    wire_encode(type, request, message, payload_len, s->head);
    s->out.head_len = size;
    return PS_OK;
}

/* Ids, numbers and (when it carries any) versions of a request's blocks into the core's scratch; for a push the spans
 * of its gradients as well. */
static enum ps_err
list_blocks(struct core *c, struct shard_link *l, struct request *p, struct send *s)
{
    struct core_op *op = p->op;
    struct block_walk walk = op_walk(op, l->shard);
    struct block_cursor at = p->from;
    struct walk_block b;
    bool more;
    uint32_t i;

    for (i = 0; i < p->blocks; i++) {
        more = block_cursor_next(&walk, &at, &b);
        ps_assert(more && op->vars[b.var]->shard[l->shard].known);
        c->var_ids[i] = op->vars[b.var]->shard[l->shard].id;
        c->block_numbers[i] = (uint32_t)b.block;
        if (p->versions.any)
            c->block_versions[i] = request_version(p, i);
        if (request_sends_blocks(p) && p->encoding.data == NULL &&
            spans_add(&s->spans, op->grads[b.var] + b.first, walk_block_bytes(&b)) != PS_OK)
            return PS_ERR_NOMEM;
    }
    return PS_OK;
}

static enum ps_err
encode_pull(struct core *c, struct shard_link *l, struct request *p, struct send *s)
{
    Psd__Pull m = PSD__PULL__INIT;

    if (list_blocks(c, l, p, s) != PS_OK)
        return PS_ERR_NOMEM;
    m.n_var = m.n_block = p->blocks;
    m.var = c->var_ids;
    m.block = c->block_numbers;
    m.n_newer_than = p->versions.any ? p->blocks : 0;
    m.newer_than = c->block_versions;
    m.clock = p->clock;
    m.now = p->op->pull.now != 0 || p->op->kind == OP_PUSH; /* resync.c: a push that survived; and its values again */
    m.assigned = c->assigns.done;
    m.with_assign = p->op->with_assign;
    return shard_link_encode(s, MSG_PULL, p->request, &m.base, 0);
}

/* A session that was made again may be ahead of this worker; in async and ssp all that it pushes is at that clock until
 * it has caught up. In sync the clock says which step a gradient belongs to. */
static uint64_t
push_clock(const struct core *c, const struct shard_link *l, const struct request *p)
{
    return c->config.mode == PS_SYNC ? p->clock : MAX(p->clock, l->floor);
}

static Psd__Cursor *
cursor_message(Psd__Cursor *m, struct ps_cursor at)
{
    psd__cursor__init(m);
    m->epoch = at.epoch;
    m->position = at.position;
    return m;
}

static enum ps_err
encode_push(struct core *c, struct shard_link *l, struct request *p, struct send *s)
{
    Psd__Push m = PSD__PUSH__INIT;
    Psd__Norm norm = PSD__NORM__INIT;
    Psd__Cursor begins, ends;

    if (list_blocks(c, l, p, s) != PS_OK ||
        (p->encoding.data != NULL && spans_add(&s->spans, p->encoding.data, p->bytes) != PS_OK))
        return PS_ERR_NOMEM;
    m.seq = p->seq;
    m.encoding = p->encoding.data != NULL ? p->op->compress.kind : PS_COMPRESS_NONE;
    m.clock = push_clock(c, l, p);
    m.acked_through = l->window.acked_through;
    m.n_var = m.n_block = p->blocks;
    m.var = c->var_ids;
    m.block = c->block_numbers;
    m.n_from_version = p->versions.any ? p->blocks : 0;
    m.from_version = c->block_versions;
    m.want_value = p->op->want;
    m.durable = p->op->durable;
    if (p->op->with_norm) {
        norm.l2 = p->op->norm;
        m.norm = &norm;
    }
    if (p->op->with_cursor) {
        m.cursor_from = cursor_message(&begins, p->op->begins);
        m.cursor = cursor_message(&ends, p->op->ends);
    }
    return shard_link_encode(s, MSG_PUSH, p->request, &m.base, p->bytes);
}

/* Of the blocks of a gated push, at its clock, and so new that none is sent. */
static enum ps_err
encode_gate(struct core *c, struct shard_link *l, struct request *p, struct send *s)
{
    Psd__Pull m = PSD__PULL__INIT;
    struct request *push = send_window_find(&l->window, p->seq);

    if (list_blocks(c, l, push, s) != PS_OK)
        return PS_ERR_NOMEM;
    s->spans.n = 0;
    for (uint32_t i = 0; i < push->blocks; i++)
        c->block_versions[i] = UINT64_MAX;
    m.n_var = m.n_block = m.n_newer_than = push->blocks;
    m.var = c->var_ids;
    m.block = c->block_numbers;
    m.newer_than = c->block_versions;
    m.clock = push->clock;
    return shard_link_encode(s, MSG_PULL, p->request, &m.base, 0);
}

static enum ps_err
encode_tick(struct core *c, struct shard_link *l, struct request *p, struct send *s)
{
    Psd__Tick m = PSD__TICK__INIT;
    struct metrics_message metrics;
    Psd__Cursor ends;

    m.seq = p->seq;
    if (p->op != NULL && p->op->with_cursor)
        m.cursor = cursor_message(&ends, p->op->ends);
    m.metrics = own_metrics_message(c, l, &metrics);
    m.clock = p->clock;
    m.round = c->round;
    m.assigned = l->shard != 0 ? c->assigns.done : 0;
    m.given_up = l->shard != 0 ? c->assigns.given_up : 0;
    m.acked_through = l->window.acked_through;
    return shard_link_encode(s, MSG_TICK, p->request, &m.base, 0);
}

static enum ps_err
encode_barrier(struct core *c, struct shard_link *l, struct request *p, struct send *s)
{
    Psd__Barrier m = PSD__BARRIER__INIT;
    Psd__Place place = PSD__PLACE__INIT;
    Psd__Cursor at = PSD__CURSOR__INIT;

    (void)c;
    m.seq = p->seq;
    m.name = p->op->name;
    if (p->op->at_cursor) {
        at.epoch = p->op->ends.epoch;
        at.position = p->op->ends.position;
        place.at = &at;
        place.again = p->op->again;
        m.place = &place;
    }
    m.acked_through = l->window.acked_through;
    return shard_link_encode(s, MSG_BARRIER, p->request, &m.base, 0);
}

static enum ps_err
encode_skip(struct core *c, struct shard_link *l, struct request *p, struct send *s)
{
    Psd__Skip m = PSD__SKIP__INIT;

    (void)c;
    m.seq = p->seq;
    m.push = p->counts || p->was_counted;
    m.acked_through = l->window.acked_through;
    return shard_link_encode(s, MSG_SKIP, p->request, &m.base, 0);
}

/* Who has the first values does not wait for them; nor does a link that is to go on with other variables. */
static bool
declare_gives(const struct request *p)
{
    return p->var->spec.init.kind == PS_INIT_GIVEN &&
           (p->kind == REQUEST_RESTORE || (p->op->kind == OP_ASSIGN && p->op->assign.phase != ASSIGN_WAIT));
}

static enum ps_err
encode_declare(struct core *c, struct shard_link *l, struct request *p, struct send *s)
{
    struct var_message room;

    (void)c;
    (void)l;
    (void)var_message(p->var, &room);
    room.declare.gives = declare_gives(p);
    return shard_link_encode(s, MSG_DECLARE, p->request, &room.declare.base, 0);
}

static enum ps_err
encode_attach(struct core *c, struct shard_link *l, struct request *p, struct send *s)
{
    Psd__Attach m = PSD__ATTACH__INIT;

    (void)l;
    m.job = (char *)c->config.job;
    m.name = p->var != NULL ? p->var->name : p->op->name;
    return shard_link_encode(s, MSG_ATTACH, p->request, &m.base, 0);
}

static enum ps_err
encode_restore(struct core *c, struct shard_link *l, struct request *p, struct send *s)
{
    return c->config.observer ? encode_attach(c, l, p, s) : encode_declare(c, l, p, s);
}

static enum ps_err
encode_query(struct core *c, struct shard_link *l, struct request *p, struct send *s)
{
    Psd__Query m = PSD__QUERY__INIT;

    (void)l;
    if (p->kind == REQUEST_DELAY_QUERY) {
        m.kind = PSD__QUERY_KIND__BLOCKED;
        m.job = (char *)c->config.job;
    } else {
        m.kind = (Psd__QueryKind)p->op->query;
        m.job = p->op->name;
        m.after = p->op->place.after;
        m.from = p->op->place.from;
    }
    return shard_link_encode(s, MSG_QUERY, p->request, &m.base, 0);
}

static enum ps_err
encode_ping(struct core *c, struct shard_link *l, struct request *p, struct send *s)
{
    Psd__Ping m = PSD__PING__INIT;

    (void)c;
    (void)l;
    m.token = p->request;
    return shard_link_encode(s, MSG_PING, p->request, &m.base, 0);
}

static enum ps_err
encode_set(struct core *c, struct shard_link *l, struct request *p, struct send *s)
{
    (void)c;
    (void)l;
    return shard_link_encode(s, MSG_SET, p->request, &p->op->set->base, 0);
}

static enum ps_err
encode_drain(struct core *c, struct shard_link *l, struct request *p, struct send *s)
{
    Psd__Drain m = PSD__DRAIN__INIT;

    (void)c;
    (void)l;
    return shard_link_encode(s, MSG_DRAIN, p->request, &m.base, 0);
}

static enum ps_err
encode_ask(struct core *c, struct shard_link *l, struct request *p, struct send *s)
{
    (void)c;
    (void)l;
    return shard_link_encode(s, p->op->ask_type, p->request, p->op->ask, 0);
}

static enum ps_err
encode_define(struct core *c, struct shard_link *l, struct request *p, struct send *s)
{
    (void)l;
    return shard_link_encode(s, MSG_DEFINE, p->request, &c->definition->base, 0);
}

static enum ps_err
encode_stage(struct core *c, struct shard_link *l, struct request *p, struct send *s)
{
    Psd__Assign m;

    if (list_blocks(c, l, p, s) != PS_OK)
        return PS_ERR_NOMEM;
    op_assign_message(c, l, p, &m);
    m.n_var = m.n_block = p->blocks;
    m.var = c->var_ids;
    m.block = c->block_numbers;
    return shard_link_encode(s, MSG_ASSIGN, p->request, &m.base, p->bytes);
}

static enum ps_err
encode_assign(struct core *c, struct shard_link *l, struct request *p, struct send *s)
{
    Psd__Assign m;

    op_assign_message(c, l, p, &m);
    return shard_link_encode(s, MSG_ASSIGN, p->request, &m.base, 0);
}

typedef enum ps_err (*encode_part)(struct core *c, struct shard_link *l, struct request *p, struct send *s);

static const encode_part encoders[] = {
    [REQUEST_PULL] = encode_pull,         [REQUEST_PUSH] = encode_push,      [REQUEST_TICK] = encode_tick,
    [REQUEST_BARRIER] = encode_barrier,   [REQUEST_SKIP] = encode_skip,      [REQUEST_DECLARE] = encode_declare,
    [REQUEST_QUERY] = encode_query,       [REQUEST_PING] = encode_ping,      [REQUEST_RESTORE] = encode_restore,
    [REQUEST_DELAY_QUERY] = encode_query, [REQUEST_ALIVE] = encode_ping,     [REQUEST_SET] = encode_set,
    [REQUEST_DRAIN] = encode_drain,       [REQUEST_ATTACH] = encode_attach,  [REQUEST_OTHER] = encode_ask,
    [REQUEST_GATE] = encode_gate,         [REQUEST_DEFINE] = encode_define,  [REQUEST_STAGE] = encode_stage,
    [REQUEST_ASSIGN] = encode_assign,     [REQUEST_ABANDON] = encode_assign,
};

enum ps_err
request_encode(struct core *c, struct shard_link *l, struct request *p, struct send *s)
{
    return encoders[p->kind](c, l, p, s);
}
