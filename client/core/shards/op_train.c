/* Starting what a step is made of: pulls, pushes, ticks, barriers. Arguments are checked before anything is queued;
 * then each shard that is concerned gets a lane, and its link makes the requests. */
#include "client/core/shards/op.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/shards/residual.h"
#include "client/core/shards/shard_link.h"
#include "common/core/cluster/placement.h"
#include "common/core/codec/codec.h"
#include "common/core/wire/wire_text.h"

enum ps_err
op_check_vars(const char *what, size_t n, struct core_var *const vars[], const void *const buffers[],
              struct ps_error *e)
{
    size_t i;

    if (n == 0 || vars == NULL || buffers == NULL)
        return ps_fail(e, PS_ERR_INVALID, "a %s needs at least one variable and its buffer", what);
    for (i = 0; i < n; i++) {
        if (vars[i] == NULL || buffers[i] == NULL)
            return ps_fail(e, PS_ERR_INVALID, "%s: variable or buffer %zu is NULL", what, i);
        if ((uintptr_t)buffers[i] % CUT_VALUE_BYTES != 0)
            return ps_fail(e, PS_ERR_INVALID, "%s: the buffer of '%s' is not 4-byte aligned", what, vars[i]->name);
        if (!vars[i]->declared)
            return ps_fail(e, PS_ERR_INVALID, "%s: the declaration of '%s' is not done", what, vars[i]->name);
    }
    return PS_OK;
}

static bool
vars_on_shard(size_t n, struct core_var *const vars[], uint32_t shard)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (vars[i]->shard[shard].blocks > 0)
            return true;
    return false;
}

/* Queue what op is to do on every shard that holds blocks of its variables, and let it go. */
static void
start_on_vars(struct core *c, struct core_op *op)
{
    uint32_t i;

    for (i = 0; i < c->config.shards; i++)
        if (vars_on_shard(op->n, op->vars, i))
            shard_link_queue_lane(&c->links[i], op_add_lane(op, i));
    op_pump(c, op);
}

enum ps_err
core_pull(struct core *c, size_t n, struct core_var *const vars[], float *const out[],
          const struct ps_pull_options *options, struct core_op **op_out, struct ps_error *e)
{
    struct core_op *op;
    enum ps_err err;

    if ((err = op_may_read(c, e)) != PS_OK ||
        (err = op_check_vars("pull", n, vars, (const void *const *)out, e)) != PS_OK)
        return err;
    if ((op = op_new(c, OP_PULL)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to start a pull");
    if (op_reserve(op, n, c->config.shards) != PS_OK)
        return op_undo(c, op, e, "pull");
    op->n = n;
    memcpy(op->vars, vars, n * sizeof(*vars));
    memcpy(op->out, out, n * sizeof(*out));
    if (options != NULL)
        op->pull = *options;
    op->pull.now |= c->config.observer;
    *op_out = op;
    start_on_vars(c, op);
    return PS_OK;
}

/* PS_PUSH_COPY: op->grads point into one copy. */
static enum ps_err
copy_grads(struct core *c, struct core_op *op, struct ps_error *e)
{
    uint64_t bytes = 0;
    float *at;
    size_t i;

    for (i = 0; i < op->n; i++)
        bytes += var_bytes(op->vars[i]);
    if (!copy_pool_has_room(&c->copies, bytes))
        return ps_fail(e, PS_ERR_LIMIT, "copying %llu bytes of gradients would exceed copy_max (%llu, %llu in use)",
                       (unsigned long long)bytes, (unsigned long long)c->config.copy_max,
                       (unsigned long long)c->copies.used);
    if ((at = copy_pool_take(&c->copies, bytes, &op->copy_size)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to copy %llu bytes of gradients", (unsigned long long)bytes);
    op->copy = at;
    op->copy_bytes = bytes;
    for (i = 0; i < op->n; i++) {
        memcpy(at, op->grads[i], var_bytes(op->vars[i]));
        op->grads[i] = at;
        at += op->vars[i]->elements;
    }
    return PS_OK;
}

static enum ps_err
check_push(size_t n, struct core_var *const vars[], const float *const grads[], float *const out[],
           const struct ps_push_options *options, struct ps_error *e)
{
    unsigned flags = options != NULL ? options->flags : 0;
    enum ps_err err;
    size_t i;

    if ((err = op_check_vars("push", n, vars, (const void *const *)grads, e)) != PS_OK ||
        (out != NULL && (err = op_check_vars("push and pull", n, vars, (const void *const *)out, e)) != PS_OK))
        return err;
    if ((flags & ~(unsigned)(PS_PUSH_COPY | PS_PUSH_DURABLE)) != 0)
        return ps_fail(e, PS_ERR_INVALID, "push: flags 0x%x are not known", flags);
    if (options != NULL && !(options->norm >= 0 && isfinite(options->norm)))
        return ps_fail(e, PS_ERR_INVALID, "push: a norm of %g; it must be finite and at least 0", options->norm);
    for (i = 0; out != NULL && (flags & PS_PUSH_COPY) == 0 && i < n; i++)
        if (out[i] == grads[i])
            return ps_fail(e, PS_ERR_INVALID,
                           "push and pull: gradient and value of '%s' share a buffer without PS_PUSH_COPY",
                           vars[i]->name);
    return PS_OK;
}

static bool
clips_by_norm(size_t n, struct core_var *const vars[])
{
    for (size_t i = 0; i < n; i++)
        if (vars[i]->spec.optimizer.clip.kind == PS_CLIP_GIVEN_NORM)
            return true;
    return false;
}

/* The norm that the push gives; negative: none. Variables that were declared to clip by it always get one: what a SET
 * makes of them while they run only the shards know. */
static enum ps_err
push_norm(size_t n, struct core_var *const vars[], const float *const grads[], const struct ps_push_options *options,
          double *norm, struct ps_error *e)
{
    double squares = 0;

    *norm = options != NULL && options->norm > 0 ? options->norm : -1;
    if (*norm > 0 || !clips_by_norm(n, vars))
        return PS_OK;
    for (size_t i = 0; i < n; i++) {
        double one = optimizer_norm(vars[i]->elements, grads[i]);

        if (!isfinite(one))
            return ps_fail(
                e, PS_ERR_NONFINITE,
                "push: the gradient for variable '%.64s' holds NaN or Inf, and so does the norm to clip it by",
                vars[i]->name);
        squares += one * one;
    }
    *norm = sqrt(squares);
    return PS_OK;
}

static const struct ps_compress *
push_compress(const struct core *c, const struct ps_push_options *options)
{
    return options != NULL && options->compress != NULL ? options->compress : &c->config.compress;
}

/* op: checked, with room. */
static void
fill_push(struct core *c, struct core_op *op, size_t n, struct core_var *const vars[],
          const struct ps_push_options *options, double norm)
{
    op->n = n;
    op->compress = *push_compress(c, options);
    op->durable = c->config.durable || (options != NULL && (options->flags & PS_PUSH_DURABLE) != 0);
    memcpy(op->vars, vars, n * sizeof(*vars));
    op->with_norm = norm >= 0;
    op->norm = norm;
    c->assigns.pushed = c->clock + 1;
}

enum ps_err
core_push(struct core *c, size_t n, struct core_var *const vars[], const float *const grads[], float *const out[],
          const struct ps_push_options *options, struct core_op **op_out, struct ps_error *e)
{
    unsigned flags = options != NULL ? options->flags : 0;
    const struct ps_cursor *cursor = options != NULL ? options->cursor : NULL;
    const struct ps_compress *how = push_compress(c, options);
    double norm;
    struct core_op *op;
    enum ps_err err;

    if ((err = op_may_train(c, e)) != PS_OK || (err = check_push(n, vars, grads, out, options, e)) != PS_OK ||
        (err = codec_check(how, e)) != PS_OK || (err = step_cursor_check(c, cursor, e)) != PS_OK)
        return err;
    step_cursor_give(c,
                     cursor); /* a gradient that is refused, here or by a shard, takes its step's place in the data */
    if ((err = push_norm(n, vars, grads, options, &norm, e)) != PS_OK ||
        (err = residual_begin(n, vars, grads, how, e)) != PS_OK)
        return err;
    if ((op = op_new(c, OP_PUSH)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to start a push");
    if (op_reserve(op, n, c->config.shards) != PS_OK)
        return op_undo(c, op, e, "push");
    fill_push(c, op, n, vars, options, norm);
    op->want = out != NULL;
    memcpy(op->grads, grads, n * sizeof(*grads));
    if (out != NULL)
        memcpy(op->out, out, n * sizeof(*out));
    if ((flags & PS_PUSH_COPY) != 0 && (err = copy_grads(c, op, e)) != PS_OK) {
        (void)op_undo(c, op, NULL, "push");
        return err;
    }
    if (cursor != NULL)
        step_cursor_push(c, op);
    *op_out = op;
    start_on_vars(c, op);
    return PS_OK;
}

enum ps_err
core_push_encoded(struct core *c, size_t n, struct core_var *const vars[], const struct core_encoded *encoded,
                  const struct ps_push_options *options, struct core_op **op_out, struct ps_error *e)
{
    const struct ps_cursor *cursor = options != NULL ? options->cursor : NULL;
    const float *const *data = (const float *const *)(const void *)encoded->data;
    struct core_op *op;
    enum ps_err err;

    if ((err = op_may_train(c, e)) != PS_OK || (err = check_push(n, vars, data, NULL, options, e)) != PS_OK ||
        (err = codec_check(push_compress(c, options), e)) != PS_OK || (err = step_cursor_check(c, cursor, e)) != PS_OK)
        return err;
    step_cursor_give(c, cursor);
    if ((op = op_new(c, OP_PUSH)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to start a push");
    if (op_reserve(op, n, c->config.shards) != PS_OK)
        return op_undo(c, op, e, "push");
    fill_push(c, op, n, vars, options, options != NULL && options->norm > 0 ? options->norm : -1);
    op->encoded = *encoded;
    memcpy(op->grads, data, n * sizeof(*data));
    op->encoded.data = (const uint8_t *const *)(const void *)op->grads;
    if (cursor != NULL)
        step_cursor_push(c, op);
    *op_out = op;
    start_on_vars(c, op);
    return PS_OK;
}

enum ps_err
core_tick(struct core *c, struct core_op **op_out, struct ps_error *e)
{
    struct core_op *op;
    enum ps_err err;
    uint32_t i;

    if ((err = op_may_train(c, e)) != PS_OK)
        return err;
    if ((op = op_new(c, OP_TICK)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to start a tick");
    if (op_reserve(op, 0, c->config.shards) != PS_OK)
        return op_undo(c, op, e, "tick");
    op->clock = ++c->clock;
    step_cursor_tick(c, op);
    own_metrics_tick(c, op);
    *op_out = op;
    for (i = 0; i < c->config.shards; i++)
        shard_link_queue_lane(&c->links[i], op_add_lane(op, i));
    op_pump(c, op);
    return PS_OK;
}

/* The shard that keeps a barrier, drawn by its name. */
static uint32_t
barrier_shard(const struct core *c, const char *name)
{
    return placement_shard(placement_start(c->config.job, name, c->config.shards), 0, c->config.shards);
}

/* at: NULL for one that has no place. */
static enum ps_err
start_barrier(struct core *c, const char *name, const struct ps_cursor *at, uint32_t again, struct core_op **op_out,
              struct ps_error *e)
{
    struct core_op *op;
    uint32_t shard;
    enum ps_err err;

    if ((err = op_may_train(c, e)) != PS_OK)
        return err;
    if ((err = wire_name_check("barrier", name, e)) != PS_OK)
        return err;
    if ((op = op_new(c, OP_BARRIER)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to start a barrier");
    if (op_reserve(op, 0, 1) != PS_OK)
        return op_undo(c, op, e, "barrier");
    memcpy(op->name, name, strlen(name) + 1);
    op->at_cursor = at != NULL;
    if (at != NULL)
        op->ends = *at;
    op->again = again;
    *op_out = op;
    shard = at != NULL ? 0 : barrier_shard(c, name);
    shard_link_queue_lane(&c->links[shard], op_add_lane(op, shard));
    op_pump(c, op);
    return PS_OK;
}

enum ps_err
core_barrier(struct core *c, const char *name, struct core_op **op, struct ps_error *e)
{
    return start_barrier(c, name, NULL, 0, op, e);
}

enum ps_err
core_barrier_at(struct core *c, const char *name, const struct ps_cursor *at, uint32_t again, struct core_op **op,
                struct ps_error *e)
{
    return start_barrier(c, name, at, again, op, e);
}
