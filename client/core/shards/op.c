/* Operations: making, ending, giving up. See op.h. They start in op_train.c and op_ask.c; op_wait.c puts what they wait
 * for into words. */
#include "client/core/shards/op.h"

#include <stdlib.h>
#include <string.h>

#include "client/core/shards/setting.h"
#include "client/core/shards/shard_link.h"

#define OP_KEPT_MAX 64 /* an operation on the free list keeps lists of at most so many variables and lanes */

/* ---- Making and recycling ---- */

static void
op_free_lists(struct core_op *op)
{
    free(op->vars);
    free(op->grads);
    free(op->out);
    op->vars = NULL;
    op->grads = NULL;
    op->out = NULL;
    op->room = 0;
    free(op->lanes);
    op->lanes = NULL;
    op->lanes_room = 0;
}

static void
op_free_copy(struct core *c, struct core_op *op)
{
    copy_pool_give(&c->copies, op->copy, op->copy_bytes, op->copy_size);
    op->copy = NULL;
}

static void
op_free_messages(struct core_op *op)
{
    if (op->set != NULL)
        psd__set__free_unpacked(op->set, NULL);
    if (op->ask != NULL)
        protobuf_c_message_free_unpacked(op->ask, NULL);
    op->set = NULL;
    op->ask = NULL;
}

static void
op_recycle(struct core *c, struct core_op *op)
{
    ps_assert(op->done && !op->owned && op->left == 0 && op->delay_queries == 0);
    if (op->prev != NULL)
        op->prev->next = op->next;
    else
        c->ops = op->next;
    if (op->next != NULL)
        op->next->prev = op->prev;
    op_free_copy(c, op);
    free(op->answer);
    op->answer = NULL;
    op_free_messages(op);
    if (op->room > OP_KEPT_MAX || op->lanes_room > OP_KEPT_MAX)
        op_free_lists(op);
    op->next = c->free_ops;
    c->free_ops = op;
}

void
op_recycle_if_over(struct core *c, struct core_op *op)
{
    if (op->done && !op->owned && op->left == 0)
        op_recycle(c, op);
}

struct core_op *
op_new(struct core *c, enum op_kind kind)
{
    struct core_op *op = c->free_ops;

    if (op != NULL)
        c->free_ops = op->next;
    else if ((op = calloc(1, sizeof(*op))) == NULL)
        return NULL;
    op->kind = kind;
    op->done = false;
    op->owned = true;
    op->left = 0;
    op->delay_queries = 0;
    op->result.code = PS_OK;
    op->result.text[0] = op->result.peer[0] = '\0';
    op->n = 0;
    op->answered = false;
    op->want = op->durable = false;
    op->compress.kind = PS_COMPRESS_NONE;
    op->encoded.note = NULL;
    op->with_norm = op->with_cursor = false;
    op->norm = 0;
    op->variables = 0;
    op->pull = (struct ps_pull_options){0};
    op->newest_assign = op->with_assign = 0;
    op->rereads = false;
    op->assign = (struct op_assign){0};
    op->clock = c->clock;
    op->blocks_transferred = op->held_us = 0;
    op->lanes_n = 0;
    op->name[0] = op->place.after[0] = op->delay_text[0] = '\0';
    op->place.from = 0;
    op->answer_len = 0;
    op->prev = NULL;
    op->next = c->ops;
    if (c->ops != NULL)
        c->ops->prev = op;
    c->ops = op;
    return op;
}

enum ps_err
op_undo(struct core *c, struct core_op *op, struct ps_error *e, const char *what)
{
    op->done = true;
    op->owned = false;
    op_recycle(c, op);
    return ps_fail(e, PS_ERR_NOMEM, "no memory to start a %s", what);
}

enum ps_err
op_reserve(struct core_op *op, size_t n, uint32_t lanes)
{
    if (n > op->room) {
        void *vars = realloc(op->vars, n * sizeof(struct core_var *));

        if (vars == NULL)
            return PS_ERR_NOMEM;
        op->vars = vars;
        void *grads = realloc(op->grads, n * sizeof(const float *));

        if (grads == NULL)
            return PS_ERR_NOMEM;
        op->grads = grads;
        void *out = realloc(op->out, n * sizeof(float *));

        if (out == NULL)
            return PS_ERR_NOMEM;
        op->out = out;
        op->room = n;
    }
    if (lanes > op->lanes_room) {
        void *list = realloc(op->lanes, lanes * sizeof(struct lane));

        if (list == NULL)
            return PS_ERR_NOMEM;
        op->lanes = list;
        op->lanes_room = lanes;
    }
    return PS_OK;
}

struct lane *
op_add_lane(struct core_op *op, uint32_t shard)
{
    struct lane *lane = &op->lanes[op->lanes_n++];

    *lane = (struct lane){.op = op, .shard = shard, .assigned = UINT64_MAX};
    return lane;
}

void
ops_finish(struct core *c)
{
    struct core_op *op, *next;

    for (op = c->ops; op != NULL; op = next) {
        next = op->next;
        op_free_copy(c, op);
        free(op->answer);
        op_free_messages(op);
        op_free_lists(op);
        free(op);
    }
    for (op = c->free_ops; op != NULL; op = next) {
        next = op->next;
        op_free_lists(op);
        free(op);
    }
    c->ops = c->free_ops = NULL;
}

/* ---- Ending ---- */

/* Queries about it that are under way are for no operation any more. */
static void
drop_delay_queries(struct core *c, struct core_op *op)
{
    struct request *p;
    uint32_t i;

    for (i = 0; i < c->config.shards && op->delay_queries > 0; i++)
        for (p = c->links[i].control.first; p != NULL; p = p->next)
            if (p->kind == REQUEST_DELAY_QUERY && p->op == op) {
                p->op = NULL;
                p->given_up = true;
                op->delay_queries--;
            }
}

static bool
op_declares(const struct core_op *op)
{
    return op->kind == OP_DECLARE || op->kind == OP_ATTACH || (op->kind == OP_ASSIGN && op->assign.first);
}

/* Of a declare, or an attach, which may have found nothing. */
static void
end_declare(struct core_op *op)
{
    for (size_t i = 0; i < op->n; i++) {
        op->vars[i]->declaring--;
        if (op->result.code == PS_OK)
            op->vars[i]->declared = true;
    }
}

void
op_end(struct core *c, struct core_op *op, const struct ps_error *result)
{
    ps_assert(!op->done);
    if (result != &op->result)
        op->result = *result;
    op->done = true;
    c->changes++;
    if (op_declares(op))
        end_declare(op);
    else if (op->kind == OP_PUSH)
        c->stats.pushes++;
    else if (op->kind == OP_PULL)
        c->stats.pulls++;
    drop_delay_queries(c, op);
    op_free_copy(c, op);
    if (op->kind == OP_ASSIGN)
        op_assign_over(c, op);
    op_recycle_if_over(c, op);
}

/* A drop is what the job's options ask for, no error. */
bool
op_is_drop(enum ps_err code)
{
    return code == PS_ERR_STALE || code == PS_ERR_LATE;
}

static void
start_part(struct core *c, struct lane *lane, struct request *p)
{
    p->op = lane->op;
    p->lane = lane;
    shard_link_queue_control(&c->links[lane->shard], p);
    lane->parts++;
    lane->op->left++;
}

/* A declare or attach whose shards have all answered: one that has lost its data since is asked once more, so that all
 * know the variable when it may be used. */
static void
query_forgetful(struct core *c, struct core_op *op)
{
    struct request *p;

    if ((op->kind != OP_DECLARE && op->kind != OP_ATTACH) || op->result.code != PS_OK)
        return;
    for (uint32_t i = 0; i < op->lanes_n; i++) {
        if (op->vars[0]->shard[op->lanes[i].shard].known)
            continue;
        if ((p = request_pool_get(&c->pools)) == NULL) {
            ps_fail(&op->result, PS_ERR_NOMEM, "no memory to ask for '%s' again", op->vars[0]->name);
            break;
        }
        p->kind = op->kind == OP_DECLARE ? REQUEST_DECLARE : REQUEST_ATTACH;
        p->var = op->vars[0];
        start_part(c, &op->lanes[i], p);
    }
    op_pump(c, op);
}

void
op_note(struct core_op *op, const struct ps_error *error)
{
    if (error->code != PS_OK && (op->result.code == PS_OK || (op_is_drop(op->result.code) && !op_is_drop(error->code))))
        op->result = *error;
}

/* Some values are from before an assign of which others have the values: the shards of the former are asked once more,
 * for values with it. A push was applied all the same. */
static bool
op_reread(struct core *c, struct core_op *op)
{
    bool more = false;

    if (MUTATION(ASSIGNS_MIXED) || (op->kind != OP_PULL && !(op->kind == OP_PUSH && op->want)) ||
        (op->result.code != PS_OK && !op_is_drop(op->result.code)))
        return false;
    for (uint32_t i = 0; i < op->lanes_n; i++) {
        struct lane *lane = &op->lanes[i];

        if (lane->assigned >= op->newest_assign || !c->links[lane->shard].assigns)
            continue;
        lane->at = (struct block_cursor){0};
        lane->assigned = UINT64_MAX;
        op->with_assign = op->newest_assign;
        op->rereads = true;
        shard_link_queue_lane(&c->links[lane->shard], lane);
        more = true;
    }
    if (more)
        op_pump(c, op);
    return more;
}

static void
op_assign_request_answered(struct core *c, struct core_op *op, const struct ps_error *error)
{
    op_assign_note_answer(op, error);
    if (error != NULL && op_assign_ends(op, error)) {
        op_give_up(c, op, error);
        return;
    }
    if (error != NULL && op_assign_counts(op, error))
        op_note(op, error);
    if (op->left == 0)
        op_assign_next(c, op);
}

void
op_answered(struct core *c, struct core_op *op, struct lane *lane, const struct ps_error *error)
{
    ps_assert(lane->parts > 0 && op->left > 0);
    lane->parts--;
    op->left--;
    op->answered = true;
    if (op->done) {
        op_recycle_if_over(c, op);
        return;
    }
    if (op->kind == OP_ASSIGN) {
        op_assign_request_answered(c, op, error);
        return;
    }
    if (error != NULL)
        op_note(op, error);
    if (op->left == 0 && op->kind == OP_SET)
        setting_result(op);
    if (op->left == 0)
        query_forgetful(c, op);
    if (op->left == 0 && op_reread(c, op))
        return;
    if (op->left == 0)
        op_end(c, op, &op->result);
    else if (error != NULL && op->kind == OP_PULL)
        op_give_up(c, op, error); /* what is left of it would be of no use */
}

/* True when a push, a barrier or a step of an assign may be known to this lane's shard. */
static bool
lane_give_up(struct core *c, struct lane *lane)
{
    struct shard_link *l = &c->links[lane->shard];
    struct request *p, *next;
    bool known = false;

    if (lane->queued)
        shard_link_unqueue_lane(l, lane);
    for (p = l->parts.first; p != NULL && lane->parts > 0; p = next) {
        next = p->next;
        if (p->lane == lane) {
            lane->parts--;
            known |= request_give_up(c, l, p);
        }
    }
    for (p = l->control.first; p != NULL && lane->parts > 0; p = next) {
        next = p->next;
        if (p->lane == lane) {
            lane->parts--;
            known |= request_give_up(c, l, p);
        }
    }
    ps_assert(lane->parts == 0);
    if (l->reset_wanted)
        shard_link_lost(c, l, NULL);
    return known;
}

bool
op_take_back(struct core *c, struct core_op *op)
{
    bool known = false;

    for (uint32_t i = 0; i < op->lanes_n; i++)
        known |= lane_give_up(c, &op->lanes[i]);
    op->left = 0;
    return known;
}

static bool
op_unknown(const struct core_op *op, bool known)
{
    if (op->kind == OP_ASSIGN)
        return op_assign_unknown(op, known);
    return op->kind == OP_PUSH && (known || op->answered);
}

void
op_give_up(struct core *c, struct core_op *op, const struct ps_error *result)
{
    uint32_t shards[op->lanes_n > 0 ? op->lanes_n : 1], lanes = op->lanes_n, i;
    struct ps_error e = *result;
    bool known;

    for (i = 0; i < lanes; i++)
        shards[i] = op->lanes[i].shard;
    known = op_take_back(c, op);
    if (op->kind == OP_ASSIGN)
        op_assign_abandon(c, op, known);
    if (e.code == PS_ERR_CANCELLED && op_unknown(op, known))
        ps_fail(&e, PS_ERR_UNKNOWN_OUTCOME, "%s", ps_strerror(PS_ERR_UNKNOWN_OUTCOME));
    op_end(c, op, &e);
    for (i = 0; i < lanes; i++)
        shard_link_pump(c, &c->links[shards[i]]);
}

/* ---- Starting ---- */

enum ps_err
op_may_start(const struct core *c, struct ps_error *e)
{
    if (c->fatal.code != PS_OK) {
        if (e != NULL)
            *e = c->fatal;
        return c->fatal.code;
    }
    if (c->closing)
        return ps_fail(e, PS_ERR_CLOSED, "the client is being closed");
    return PS_OK;
}

enum ps_err
op_may_read(const struct core *c, struct ps_error *e)
{
    enum ps_err err = op_may_start(c, e);

    if (err != PS_OK)
        return err;
    if (!c->config.observer && !c->joined)
        return ps_fail(e, PS_ERR_CLOSED, "not every shard has welcomed this worker yet");
    return PS_OK;
}

enum ps_err
op_may_train(const struct core *c, struct ps_error *e)
{
    enum ps_err err = op_may_read(c, e);

    if (err == PS_OK && c->config.observer)
        return ps_fail(e, PS_ERR_INVALID, "an observer reads only: it declares and pushes nothing and has no clock");
    return err;
}

enum ps_err
op_ask_on_lane(struct core *c, struct core_op *op, struct lane *lane, enum request_kind kind, struct core_var *var)
{
    struct request *p = request_pool_get(&c->pools);

    ps_assert(lane->op == op);
    if (p == NULL)
        return PS_ERR_NOMEM;
    p->kind = kind;
    p->var = var;
    start_part(c, lane, p);
    return PS_OK;
}

enum ps_err
op_start_control(struct core *c, struct core_op *op, uint32_t shard, enum request_kind kind, struct core_var *var)
{
    return op_ask_on_lane(c, op, op_add_lane(op, shard), kind, var);
}

struct block_walk
op_walk(const struct core_op *op, uint32_t shard)
{
    return (struct block_walk){
        .vars = op->vars, .n = op->n, .shard = shard, .awaiting = op->kind == OP_ASSIGN && op->assign.first};
}

void
op_pump(struct core *c, struct core_op *op)
{
    uint32_t i;

    for (i = 0; i < op->lanes_n && !op->done; i++)
        shard_link_pump(c, &c->links[op->lanes[i].shard]);
}

/* ---- What the caller may ask ---- */

bool
core_op_done(const struct core_op *op)
{
    return op->done;
}

enum ps_err
core_op_result(const struct core_op *op, struct ps_error *e)
{
    if (!op->done)
        return ps_fail(e, PS_ERR_INVALID, "the operation is not done");
    if (e != NULL && op->result.code == PS_OK)
        error_none(e);
    else if (e != NULL)
        *e = op->result;
    return op->result.code;
}

uint64_t
core_op_blocks(const struct core_op *op)
{
    return op->kind == OP_PULL ? op->blocks_transferred : 0;
}

enum timeline_kind
core_op_time(const struct core_op *op)
{
    switch (op->kind) {
    case OP_PULL:
        return TIMELINE_PULL;
    case OP_PUSH:
    case OP_TICK:
        return TIMELINE_PUSH;
    case OP_BARRIER:
        return TIMELINE_BARRIER;
    default:
        return TIMELINE_OTHER;
    }
}

/* At a barrier nobody waits for anything else. */
uint64_t
core_op_held_us(const struct core_op *op)
{
    return op->kind == OP_BARRIER ? 0 : op->held_us;
}

struct core_var *
core_op_variable(const struct core_op *op)
{
    return op->kind == OP_ATTACH && op->n > 0 ? op->vars[0] : NULL;
}

struct span
core_op_answer(const struct core_op *op)
{
    return (struct span){op->answer, op->answer_len};
}

void
core_op_cancel(struct core *c, struct core_op *op)
{
    struct ps_error e;

    if (op->done)
        return;
    if (op->kind == OP_TICK) {
        /* The clock has risen and no buffer is borrowed: it goes on, so that all shards keep the same clock. */
        ps_fail(&e, PS_ERR_UNKNOWN_OUTCOME, "given up while unanswered: the tick goes on");
        op_end(c, op, &e);
        return;
    }
    ps_fail(&e, PS_ERR_CANCELLED, "%s", ps_strerror(PS_ERR_CANCELLED));
    op_give_up(c, op, &e);
}

void
core_op_free(struct core *c, struct core_op *op)
{
    if (op == NULL)
        return;
    core_op_cancel(c, op);
    op->owned = false;
    op_recycle_if_over(c, op);
}
