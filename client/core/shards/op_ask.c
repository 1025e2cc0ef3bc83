/* Starting what is one request on one shard, or one on each: declarations, attaches, queries, pings, drains, and all
 * else that is one message and its answer. */
#include "client/core/shards/op.h"

#include <string.h>

#include "client/core/shards/shard_link.h"
#include "common/core/base/utf8.h"
#include "common/core/wire/wire_text.h"

/* One request to every shard that holds blocks of v, but one. */
static enum ps_err
ask_shards(struct core *c, struct core_op *op, enum request_kind kind, struct core_var *v, uint32_t but)
{
    for (uint32_t i = 0; i < c->config.shards; i++)
        if (i != but && v->shard[i].blocks > 0 && op_start_control(c, op, i, kind, v) != PS_OK)
            return PS_ERR_NOMEM;
    return PS_OK;
}

enum ps_err
core_declare(struct core *c, const struct ps_var_spec *spec, struct core_var **var, struct core_op **op_out,
             struct ps_error *e)
{
    struct core_op *op;
    struct core_var *v;
    enum ps_err err;

    if ((err = op_may_train(c, e)) != PS_OK)
        return err;
    if (spec == NULL)
        return ps_fail(e, PS_ERR_INVALID, "a declaration needs a specification");
    if ((err = variables_declare(&c->vars, spec, &v, e)) != PS_OK)
        return err;
    if ((op = op_new(c, OP_DECLARE)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to start a declaration");
    if (op_reserve(op, 1, c->config.shards) != PS_OK)
        return op_undo(c, op, e, "declaration");
    op->n = 1;
    op->vars[0] = v;
    v->declaring++;
    *var = v;
    *op_out = op;
    if (ask_shards(c, op, REQUEST_DECLARE, v, c->config.shards) != PS_OK) {
        struct ps_error starved;

        ps_fail(&starved, PS_ERR_NOMEM, "no memory to declare '%s'", v->name);
        op_give_up(c, op, &starved);
        return PS_OK;
    }
    op_pump(c, op);
    return PS_OK;
}

static enum ps_err
check_attach(const struct core *c, const char *name, struct ps_error *e)
{
    enum ps_err err = op_may_read(c, e);

    if (err != PS_OK)
        return err;
    if (c->config.any_cluster)
        return ps_fail(e, PS_ERR_INVALID, "an observer of any cluster cannot know where the blocks of a variable lie");
    return wire_name_check("variable", name, e);
}

enum ps_err
core_attach(struct core *c, const char *name, struct core_op **op_out, struct ps_error *e)
{
    struct core_op *op;
    enum ps_err err;

    if ((err = check_attach(c, name, e)) != PS_OK)
        return err;
    if ((op = op_new(c, OP_ATTACH)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to attach");
    memcpy(op->name, name, strlen(name) + 1);
    if (op_reserve(op, 1, c->config.shards) != PS_OK ||
        op_start_control(c, op, variables_first_shard(&c->vars, name), REQUEST_ATTACH, NULL) != PS_OK)
        return op_undo(c, op, e, "search for a variable");
    *op_out = op;
    op_pump(c, op);
    return PS_OK;
}

enum ps_err
op_attach_others(struct core *c, struct core_op *op, struct core_var *v, uint32_t answered)
{
    op->n = 1;
    op->vars[0] = v;
    v->declaring++;
    return ask_shards(c, op, REQUEST_ATTACH, v, answered);
}

/* A query, a ping or a drain: one request to one shard. */
static enum ps_err
start_question(struct core *c, enum op_kind kind, enum request_kind part, uint32_t shard, const struct core_op *like,
               struct core_op **op_out, struct ps_error *e)
{
    struct core_op *op;
    enum ps_err err;

    if ((err = op_may_start(c, e)) != PS_OK)
        return err;
    if (shard >= c->config.shards)
        return ps_fail(e, PS_ERR_INVALID, "there is no shard %u: the cluster has %u", shard, c->config.shards);
    if ((op = op_new(c, kind)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to ask a shard");
    op->query = like->query;
    memcpy(op->name, like->name, sizeof(op->name));
    op->place = like->place;
    if (op_reserve(op, 0, 1) != PS_OK || op_start_control(c, op, shard, part, NULL) != PS_OK)
        return op_undo(c, op, e, "question");
    *op_out = op;
    op_pump(c, op);
    return PS_OK;
}

enum ps_err
core_query(struct core *c, uint32_t shard, enum ps_query query, const char *job, const struct core_report_place *place,
           struct core_op **op, struct ps_error *e)
{
    struct core_op like = {.query = query};

    if ((int)query < PS_QUERY_STATUS || (query > PS_QUERY_JOBS && query != PS_QUERY_TIMELINE))
        return ps_fail(e, PS_ERR_INVALID, "query %d is not known", (int)query);
    if (job != NULL && (strlen(job) > PS_NAME_MAX || !utf8_is_printable(job, strlen(job))))
        return ps_fail(e, PS_ERR_INVALID, "a job's name is up to %d bytes of UTF-8", PS_NAME_MAX);
    if (job != NULL)
        memcpy(like.name, job, strlen(job));
    if (place != NULL)
        like.place = *place;
    return start_question(c, OP_QUERY, REQUEST_QUERY, shard, &like, op, e);
}

enum ps_err
core_ping(struct core *c, uint32_t shard, struct core_op **op, struct ps_error *e)
{
    struct core_op like = {.query = PS_QUERY_STATUS};

    return start_question(c, OP_PING, REQUEST_PING, shard, &like, op, e);
}

enum ps_err
core_drain(struct core *c, uint32_t shard, struct core_op **op, struct ps_error *e)
{
    struct core_op like = {.query = PS_QUERY_STATUS};

    return start_question(c, OP_DRAIN, REQUEST_DRAIN, shard, &like, op, e);
}

/* The answer is handed on as it came, so a message needs no more than its own bytes: their meaning is the caller's. */
enum ps_err
core_ask(struct core *c, uint32_t shard, enum msg_type type, const ProtobufCMessage *message, struct core_op **op_out,
         struct ps_error *e)
{
    struct core_op *op;
    enum ps_err err;

    ps_assert(type == MSG_QUERY || type == MSG_SAVE || type == MSG_CHECKPOINT || type == MSG_RESTORE ||
              type == MSG_EVICT || type == MSG_DROP);
    if ((err = op_may_start(c, e)) != PS_OK)
        return err;
    if (shard >= c->config.shards)
        return ps_fail(e, PS_ERR_INVALID, "there is no shard %u: the cluster has %u", shard, c->config.shards);
    if (type == MSG_RESTORE && !c->config.observer)
        return ps_fail(e, PS_ERR_INVALID,
                       "a worker's connection ends when its shard restores: only an observer may ask");
    if (type == MSG_EVICT && !c->config.observer)
        return ps_fail(e, PS_ERR_INVALID, "only an observer may end a worker's session");
    if (type == MSG_DROP && !c->config.observer)
        return ps_fail(e, PS_ERR_INVALID, "only an observer may drop a job or its variables");
    if ((op = op_new(c, OP_OTHER)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to ask a shard");
    op->ask_type = type;
    if ((op->ask = wire_copy(message)) == NULL || op_reserve(op, 0, 1) != PS_OK ||
        op_start_control(c, op, shard, REQUEST_OTHER, NULL) != PS_OK)
        return op_undo(c, op, e, wire_type_name(type));
    *op_out = op;
    op_pump(c, op);
    return PS_OK;
}
