/* What an operation waits for, in words, and asking the shards which workers hold it back. */
#include "client/core/shards/op.h"

#include <stdio.h>

#include "client/core/shards/setting.h"
#include "client/core/shards/shard_link.h"

/* "pull of 'w' and 3 more at clock 7". */
static void
op_describe(const struct core_op *op, char *out, size_t size)
{
    static const char *const word[] = {[OP_PULL] = "pull", [OP_PUSH] = "push", [OP_DECLARE] = "declaration"};
    char more[32] = "";

    switch (op->kind) {
    case OP_PULL:
    case OP_PUSH:
        if (op->n > 1)
            snprintf(more, sizeof(more), " and %zu more", op->n - 1);
        snprintf(out, size, "%s%s%s of '%.80s'%s at clock %llu", op->durable ? "durable " : "", word[op->kind],
                 op->want ? " and pull" : "", op->vars[0]->name, more, (unsigned long long)op->clock);
        return;
    case OP_DECLARE:
        snprintf(out, size, "declaration of '%.80s'", op->vars[0]->name);
        return;
    case OP_ATTACH:
        snprintf(out, size, "attach to '%.80s'", op->name);
        return;
    case OP_TICK:
        snprintf(out, size, "tick to clock %llu", (unsigned long long)op->clock);
        return;
    case OP_BARRIER:
        snprintf(out, size, "barrier '%.80s'", op->name);
        return;
    case OP_QUERY:
        snprintf(out, size, "query");
        return;
    case OP_PING:
        snprintf(out, size, "ping");
        return;
    case OP_SET:
        setting_describe(op, out, size);
        return;
    case OP_DRAIN:
        snprintf(out, size, "drain");
        return;
    case OP_ASSIGN:
        if (op->n > 1)
            snprintf(more, sizeof(more), " and %zu more", op->n - 1);
        snprintf(out, size, "%s of '%.80s'%s", op->assign.first ? "declaration with values" : "assign",
                 op->vars[0]->name, more);
        return;
    case OP_OTHER:
        snprintf(out, size, "%s", wire_type_name(op->ask_type));
        return;
    }
}

/* The first of its lanes that is not through; NULL: none. */
static const struct lane *
op_waiting_lane(const struct core_op *op)
{
    uint32_t i;

    for (i = 0; i < op->lanes_n; i++)
        if (op->lanes[i].queued || op->lanes[i].parts > 0)
            return &op->lanes[i];
    return NULL;
}

/* What is known of why a link does not answer. */
static void
describe_delay(const struct core *c, const struct shard_link *l, const struct core_op *op, char *out, size_t size)
{
    uint64_t slowest = core_slowest_clock(c);

    if (!shard_link_up(l))
        snprintf(out, size, "; not connected: %.200s", l->trouble.text[0] != '\0' ? l->trouble.text : "connecting");
    else if (l->state == SHARD_LINK_RESTORING && l->trouble.code != PS_OK)
        snprintf(out, size, "; it lost its data, and a variable is asked for again: %.200s", l->trouble.text);
    else if (l->state == SHARD_LINK_RESTORING)
        snprintf(out, size, "; it lost its data and variables are being declared again");
    else if (l->gate != NULL && op->kind == OP_PUSH)
        snprintf(out, size, "; it came back with older data and waits for the clocks of the other workers");
    else if (op->delay_text[0] != '\0')
        snprintf(out, size, "; %s", op->delay_text);
    else if (op->kind == OP_PULL && !op->pull.now && c->config.mode != PS_ASYNC && slowest < op->clock)
        snprintf(out, size, "; the slowest worker was last heard of at clock %llu", (unsigned long long)slowest);
    else
        out[0] = '\0';
}

enum ps_err
core_op_waiting(const struct core *c, const struct core_op *op, uint64_t waited_ms, struct ps_error *e)
{
    const struct lane *lane = op_waiting_lane(op);
    char what[192], why[384] = "";
    struct ps_error room;
    const struct shard_link *l;

    if (e == NULL)
        e = &room;
    op_describe(op, what, sizeof(what));
    if (lane == NULL && op->kind == OP_ASSIGN)
        return ps_fail(e, PS_ERR_TIMEOUT, "waited %llu ms for: %s; it is behind another one of this client",
                       (unsigned long long)waited_ms, what);
    if (lane == NULL)
        return ps_fail(e, PS_ERR_TIMEOUT, "waited %llu ms for: %s", (unsigned long long)waited_ms, what);
    l = &c->links[lane->shard];
    describe_delay(c, l, op, why, sizeof(why));
    core_error_set(c, l, e, PS_ERR_TIMEOUT, "waited %llu ms for shard %u at %s: %s%.250s",
                   (unsigned long long)waited_ms, l->shard, c->addresses[l->shard], what, why);
    return PS_ERR_TIMEOUT;
}

void
core_op_query_delay(struct core *c, struct core_op *op)
{
    uint32_t i;

    if (op->done || (op->kind != OP_PULL && op->kind != OP_PUSH && op->kind != OP_BARRIER && op->kind != OP_ASSIGN))
        return;
    for (i = 0; i < op->lanes_n; i++) {
        struct shard_link *l = &c->links[op->lanes[i].shard];
        struct request *p;

        if (op->lanes[i].parts == 0 || !shard_link_up(l) || (p = request_pool_get(&c->pools)) == NULL)
            continue;
        p->kind = REQUEST_DELAY_QUERY;
        p->op = op;
        op->delay_queries++;
        shard_link_queue_control(l, p);
        shard_link_pump(c, l);
        if (op->done)
            return;
    }
}
