/* DATA: its payload is sent straight to the user buffers of the request that it answers, which then ends. */
#include "client/core/shards/inbox.h"

/* ---- Where the payload goes ---- */

/* Where the blocks that the payload holds go; *bytes: how long it must be. */
static enum ps_err
data_find_buffers(struct shard_link *l, struct request *p, uint64_t *bytes)
{
    const Psd__Data *d = l->msg.u.data;
    struct core_op *op = p->op;
    struct block_walk walk = op_walk(op, l->shard);
    struct block_cursor at = p->from;
    struct walk_block b;
    uint32_t i;

    *bytes = 0;
    l->payload_parts.n = 0;
    for (i = 0; i < p->blocks && block_cursor_next(&walk, &at, &b); i++) {
        if (p->kind == REQUEST_PULL && p->versions.any && d->version[i] <= request_version(p, i))
            continue;
        if (MUTATION(PLACED_BY_ORDER))
            b.first = (at.nth - 1) * b.len;
        *bytes += walk_block_bytes(&b);
        if (payload_parts_add(&l->payload_parts, op->out[b.var] + b.first, walk_block_bytes(&b)) != PS_OK)
            return PS_ERR_NOMEM;
    }
    return PS_OK;
}

/* The request that a DATA frame answers; NULL: it broke the protocol, and the core has failed. */
static struct request *
data_part(struct core *c, struct shard_link *l)
{
    struct request *p = request_ids_find(&l->requests, l->msg.request);
    bool pull = p != NULL && p->kind == REQUEST_PULL;
    bool push = p != NULL && (p->kind == REQUEST_PUSH || p->kind == REQUEST_SKIP);

    if (!pull && !push && (p == NULL || p->kind != REQUEST_GATE)) {
        inbox_broke(c, l, "sent data that was not asked for");
        return NULL;
    }
    if (p->given_up)
        return p;
    if ((push && (!p->op->want || l->msg.u.data->seq != p->seq)) || l->msg.u.data->n_version != p->blocks) {
        inbox_broke(c, l, "sent data that does not match what was asked for");
        return NULL;
    }
    return p;
}

bool
inbox_data_begin(struct core *c, struct shard_link *l, struct core_payload_dest *place)
{
    struct request *p = data_part(c, l);
    struct ps_error e;
    uint64_t bytes;

    if (p == NULL)
        return false;
    if (p->given_up) {
        place->discard = true;
        return true;
    }
    if (data_find_buffers(l, p, &bytes) != PS_OK) {
        core_error_set(c, l, &e, PS_ERR_NOMEM, "no memory to receive");
        shard_link_lost(c, l, &e);
        return false;
    }
    if (bytes != l->msg.payload_len) {
        inbox_broke(c, l, "sent data whose length does not fit its blocks");
        return false;
    }
    l->reading = p;
    place->parts = l->payload_parts.item;
    place->n = l->payload_parts.n;
    return true;
}

/* ---- When it is there ---- */

static void
note_data(struct core *c, struct shard_link *l, struct request *p)
{
    const Psd__Data *d = l->msg.u.data;
    struct block_walk walk = op_walk(p->op, l->shard);
    struct block_cursor at = p->from;
    struct walk_block b;
    uint32_t i;

    for (i = 0; i < p->blocks && block_cursor_next(&walk, &at, &b); i++) {
        if (p->kind != REQUEST_PULL || !p->versions.any || d->version[i] > request_version(p, i))
            p->op->blocks_transferred++;
        var_see(p->op->vars[b.var], b.block, d->version[i]);
    }
    op_assign_known(c, d->newest_assign);
    p->op->newest_assign = MAX(p->op->newest_assign, d->newest_assign);
    p->lane->assigned = MIN(p->lane->assigned, d->assigned);
    c->stats.bytes_pulled += l->msg.payload_len;
    l->slowest = MAX(l->slowest, d->clock);
}

void
inbox_data(struct core *c, struct shard_link *l)
{
    struct request *p = request_ids_find(&l->requests, l->msg.request);
    const Psd__Data *d = l->msg.u.data;
    struct ps_error error = {0};

    ps_assert(p != NULL); /* data_part() has looked */
    l->reading = NULL;
    if (p->given_up) {
        inbox_answered(c, l, p, NULL);
        return;
    }
    if (d->n_code > 0 && d->n_code != p->blocks) {
        inbox_broke(c, l, "sent data with codes for other blocks");
        return;
    }
    note_data(c, l, p);
    p->op->held_us = MAX(p->op->held_us, d->held_us);
    if (p->kind == REQUEST_PUSH)
        shard_link_note_codes(c, l, p, d->n_code > 0 ? d->code : NULL, PS_OK, &error);
    inbox_answered(c, l, p, error.code != PS_OK ? &error : NULL);
}
