/* Operations: starting, ending, giving up, and the sentences about them. See op.h. */
#include "client/op.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/link.h"
#include "client/setting.h"
#include "common/optimizer.h"
#include "common/placement.h"

#define OP_ROOM_KEPT 64 /* an operation on the free list keeps lists of at most so many variables and lanes */

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
    free(op->copy);
    c->copied_bytes -= op->copy_bytes;
    op->copy = NULL;
    op->copy_bytes = 0;
}

static void
op_free_set(struct core_op *op)
{
    if (op->set != NULL)
        psd__set__free_unpacked(op->set, NULL);
    op->set = NULL;
}

static void
op_recycle(struct core *c, struct core_op *op)
{
    ps_assert(op->done && !op->held && op->left == 0 && op->whys == 0);
    if (op->prev != NULL)
        op->prev->next = op->next;
    else
        c->ops = op->next;
    if (op->next != NULL)
        op->next->prev = op->prev;
    op_free_copy(c, op);
    free(op->answer);
    op->answer = NULL;
    op_free_set(op);
    if (op->room > OP_ROOM_KEPT || op->lanes_room > OP_ROOM_KEPT)
        op_free_lists(op);
    op->next = c->free_ops;
    c->free_ops = op;
}

void
op_recycle_if_over(struct core *c, struct core_op *op)
{
    if (op->done && !op->held && op->left == 0)
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
    op->held = true;
    op->left = 0;
    op->whys = 0;
    op->result.code = PS_OK;
    op->result.text[0] = op->result.peer[0] = '\0';
    op->n = 0;
    op->answered = false;
    op->want = false;
    op->with_norm = false;
    op->norm = 0;
    op->variables = 0;
    op->pull = (struct ps_pull_options){0};
    op->clock = c->clock;
    op->blocks_transferred = 0;
    op->lanes_n = 0;
    op->name[0] = op->after[0] = op->why[0] = '\0';
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
    op->held = false;
    op_recycle(c, op);
    return ps_fail(e, PS_ERR_NOMEM, "no memory to start a %s", what);
}

enum ps_err
op_room(struct core_op *op, size_t n, uint32_t lanes)
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

static struct lane *
op_add_lane(struct core_op *op, uint32_t shard)
{
    struct lane *lane = &op->lanes[op->lanes_n++];

    *lane = (struct lane){.op = op, .shard = shard};
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
        op_free_set(op);
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

/* Questions about it that are under way have nobody to tell. */
static void
drop_whys(struct core *c, struct core_op *op)
{
    struct part *p;
    uint32_t i;

    for (i = 0; i < c->config.shards && op->whys > 0; i++)
        for (p = c->links[i].control.first; p != NULL; p = p->next)
            if (p->kind == PART_WHY && p->op == op) {
                p->op = NULL;
                p->given_up = true;
                op->whys--;
            }
}

static void
end_declare(struct core_op *op)
{
    struct core_var *v = op->vars[0];

    v->declaring--;
    if (op->result.code == PS_OK)
        v->declared = true;
}

void
op_end(struct core *c, struct core_op *op, const struct ps_error *result)
{
    ps_assert(!op->done);
    if (result != &op->result)
        op->result = *result;
    op->done = true;
    c->changes++;
    if (op->kind == OP_DECLARE)
        end_declare(op);
    else if (op->kind == OP_PUSH)
        c->stats.pushes++;
    else if (op->kind == OP_PULL)
        c->stats.pulls++;
    drop_whys(c, op);
    op_free_copy(c, op);
    op_recycle_if_over(c, op);
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
    lane->failed = error != NULL;
    if (error != NULL && op->result.code == PS_OK)
        op->result = *error;
    if (op->left == 0 && op->kind == OP_SET)
        setting_result(op);
    if (op->left == 0)
        op_end(c, op, &op->result);
    else if (error != NULL && op->kind == OP_PULL)
        op_give_up(c, op, error); /* what is left of it would be of no use */
}

/* True when a push or barrier of the operation may be known to this lane's shard. */
static bool
lane_give_up(struct core *c, struct lane *lane)
{
    struct link *l = &c->links[lane->shard];
    struct part *p, *next;
    bool known = false;

    if (lane->queued)
        link_unqueue_lane(l, lane);
    for (p = l->parts.first; p != NULL && lane->parts > 0; p = next) {
        next = p->next;
        if (p->lane == lane) {
            lane->parts--;
            known |= part_give_up(c, l, p);
        }
    }
    for (p = l->control.first; p != NULL && lane->parts > 0; p = next) {
        next = p->next;
        if (p->lane == lane) {
            lane->parts--;
            part_give_up(c, l, p);
        }
    }
    ps_assert(lane->parts == 0);
    if (l->reset_wanted)
        link_lost(c, l, NULL);
    return known;
}

void
op_give_up(struct core *c, struct core_op *op, const struct ps_error *result)
{
    uint32_t shards[op->lanes_n > 0 ? op->lanes_n : 1], lanes = op->lanes_n, i;
    struct ps_error e = *result;
    bool known = op->answered;

    for (i = 0; i < lanes; i++) {
        shards[i] = op->lanes[i].shard;
        known |= lane_give_up(c, &op->lanes[i]);
    }
    op->left = 0;
    if (e.code == PS_ERR_CANCELLED && known && op->kind == OP_PUSH)
        ps_fail(&e, PS_ERR_UNKNOWN_OUTCOME, "%s", ps_strerror(PS_ERR_UNKNOWN_OUTCOME));
    op_end(c, op, &e);
    for (i = 0; i < lanes; i++)
        link_pump(c, &c->links[shards[i]]);
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

static enum ps_err
may_train(const struct core *c, struct ps_error *e)
{
    enum ps_err err = op_may_start(c, e);

    if (err != PS_OK)
        return err;
    if (c->config.observer)
        return ps_fail(e, PS_ERR_INVALID, "an observer looks only: it has no variables and no clock");
    if (!c->joined)
        return ps_fail(e, PS_ERR_CLOSED, "not every shard has welcomed this worker yet");
    return PS_OK;
}

static enum ps_err
check_vars(const char *what, size_t n, struct core_var *const vars[], const void *const buffers[], struct ps_error *e)
{
    size_t i;

    if (n == 0 || vars == NULL || buffers == NULL)
        return ps_fail(e, PS_ERR_INVALID, "a %s needs at least one variable and its buffer", what);
    for (i = 0; i < n; i++) {
        if (vars[i] == NULL || buffers[i] == NULL)
            return ps_fail(e, PS_ERR_INVALID, "%s: variable or buffer %zu is NULL", what, i);
        if ((uintptr_t)buffers[i] % sizeof(float) != 0)
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
            link_queue_lane(&c->links[i], op_add_lane(op, i));
    for (i = 0; i < op->lanes_n && !op->done; i++)
        link_pump(c, &c->links[op->lanes[i].shard]);
}

enum ps_err
core_pull(struct core *c, size_t n, struct core_var *const vars[], float *const out[],
          const struct ps_pull_options *options, struct core_op **op_out, struct ps_error *e)
{
    struct core_op *op;
    enum ps_err err;

    if ((err = may_train(c, e)) != PS_OK || (err = check_vars("pull", n, vars, (const void *const *)out, e)) != PS_OK)
        return err;
    if ((op = op_new(c, OP_PULL)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to start a pull");
    if (op_room(op, n, c->config.shards) != PS_OK)
        return op_undo(c, op, e, "pull");
    op->n = n;
    memcpy(op->vars, vars, n * sizeof(*vars));
    memcpy(op->out, out, n * sizeof(*out));
    if (options != NULL)
        op->pull = *options;
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
        bytes += op->vars[i]->elements * sizeof(float);
    if (bytes > c->config.copy_max - MIN(c->copied_bytes, c->config.copy_max))
        return ps_fail(e, PS_ERR_LIMIT, "copying %llu bytes of gradients would exceed copy_max (%llu, %llu in use)",
                       (unsigned long long)bytes, (unsigned long long)c->config.copy_max,
                       (unsigned long long)c->copied_bytes);
    if ((at = malloc(bytes)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to copy %llu bytes of gradients", (unsigned long long)bytes);
    op->copy = at;
    op->copy_bytes = bytes;
    c->copied_bytes += bytes;
    for (i = 0; i < op->n; i++) {
        memcpy(at, op->grads[i], op->vars[i]->elements * sizeof(float));
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

    if ((err = check_vars("push", n, vars, (const void *const *)grads, e)) != PS_OK ||
        (out != NULL && (err = check_vars("push and pull", n, vars, (const void *const *)out, e)) != PS_OK))
        return err;
    if ((flags & ~(unsigned)PS_PUSH_COPY) != 0)
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
 * makes of them while they run is for the shards to know. */
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

        squares += one * one;
    }
    *norm = sqrt(squares);
    if (!isfinite(*norm))
        return ps_fail(e, PS_ERR_NONFINITE, "push: a gradient holds NaN or Inf, and so does the norm to clip it by");
    return PS_OK;
}

enum ps_err
core_push(struct core *c, size_t n, struct core_var *const vars[], const float *const grads[], float *const out[],
          const struct ps_push_options *options, struct core_op **op_out, struct ps_error *e)
{
    bool copy = options != NULL && (options->flags & PS_PUSH_COPY) != 0;
    double norm;
    struct core_op *op;
    enum ps_err err;

    if ((err = may_train(c, e)) != PS_OK || (err = check_push(n, vars, grads, out, options, e)) != PS_OK ||
        (err = push_norm(n, vars, grads, options, &norm, e)) != PS_OK)
        return err;
    if ((op = op_new(c, OP_PUSH)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to start a push");
    if (op_room(op, n, c->config.shards) != PS_OK)
        return op_undo(c, op, e, "push");
    op->n = n;
    op->want = out != NULL;
    memcpy(op->vars, vars, n * sizeof(*vars));
    memcpy(op->grads, grads, n * sizeof(*grads));
    if (out != NULL)
        memcpy(op->out, out, n * sizeof(*out));
    op->with_norm = norm >= 0;
    op->norm = norm;
    if (copy && (err = copy_grads(c, op, e)) != PS_OK) {
        (void)op_undo(c, op, NULL, "push");
        return err;
    }
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

    if ((err = may_train(c, e)) != PS_OK)
        return err;
    if ((op = op_new(c, OP_TICK)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to start a tick");
    if (op_room(op, 0, c->config.shards) != PS_OK)
        return op_undo(c, op, e, "tick");
    op->clock = ++c->clock;
    *op_out = op;
    for (i = 0; i < c->config.shards; i++)
        link_queue_lane(&c->links[i], op_add_lane(op, i));
    for (i = 0; i < c->config.shards && !op->done; i++)
        link_pump(c, &c->links[i]);
    return PS_OK;
}

/* The shard that keeps a barrier, drawn by its name. */
static uint32_t
barrier_shard(const struct core *c, const char *name)
{
    return placement_shard(placement_start(c->config.job, name, c->config.shards), 0, c->config.shards);
}

enum ps_err
core_barrier(struct core *c, const char *name, struct core_op **op_out, struct ps_error *e)
{
    struct core_op *op;
    uint32_t shard;
    enum ps_err err;

    if ((err = may_train(c, e)) != PS_OK)
        return err;
    if (name == NULL || name[0] == '\0' || strlen(name) > PS_NAME_MAX || !wire_text_ok(name, strlen(name)))
        return ps_fail(e, PS_ERR_INVALID, "a barrier's name is 1 to %d bytes of UTF-8 without control characters",
                       PS_NAME_MAX);
    if ((op = op_new(c, OP_BARRIER)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to start a barrier");
    if (op_room(op, 0, 1) != PS_OK)
        return op_undo(c, op, e, "barrier");
    memcpy(op->name, name, strlen(name) + 1);
    *op_out = op;
    shard = barrier_shard(c, name);
    link_queue_lane(&c->links[shard], op_add_lane(op, shard));
    link_pump(c, &c->links[shard]);
    return PS_OK;
}

enum ps_err
op_start_control(struct core *c, struct core_op *op, uint32_t shard, enum part_kind kind, struct core_var *var)
{
    struct part *p = pool_part(&c->pools);
    struct lane *lane;

    if (p == NULL)
        return PS_ERR_NOMEM;
    lane = op_add_lane(op, shard);
    p->kind = kind;
    p->op = op;
    p->lane = lane;
    p->var = var;
    parts_append(&c->links[shard].control, p);
    lane->parts++;
    op->left++;
    return PS_OK;
}

void
op_pump(struct core *c, struct core_op *op)
{
    uint32_t i;

    for (i = 0; i < op->lanes_n && !op->done; i++)
        link_pump(c, &c->links[op->lanes[i].shard]);
}

enum ps_err
core_declare(struct core *c, const struct ps_var_spec *spec, struct core_var **var, struct core_op **op_out,
             struct ps_error *e)
{
    struct core_op *op;
    struct core_var *v;
    enum ps_err err;
    uint32_t i;

    if ((err = may_train(c, e)) != PS_OK)
        return err;
    if (spec == NULL)
        return ps_fail(e, PS_ERR_INVALID, "a declaration needs a specification");
    if ((err = variables_declare(&c->vars, spec, &v, e)) != PS_OK)
        return err;
    if ((op = op_new(c, OP_DECLARE)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to start a declaration");
    if (op_room(op, 1, c->config.shards) != PS_OK)
        return op_undo(c, op, e, "declaration");
    op->n = 1;
    op->vars[0] = v;
    v->declaring++;
    *var = v;
    *op_out = op;
    for (i = 0; i < c->config.shards; i++) {
        struct ps_error starved;

        if (v->shard[i].blocks == 0 || op_start_control(c, op, i, PART_DECLARE, v) == PS_OK)
            continue;
        ps_fail(&starved, PS_ERR_NOMEM, "no memory to declare '%s'", v->name);
        op_give_up(c, op, &starved);
        return PS_OK;
    }
    op_pump(c, op);
    return PS_OK;
}

/* A query or ping to one shard. */
static enum ps_err
start_question(struct core *c, enum op_kind kind, enum part_kind part, uint32_t shard, const struct core_op *like,
               struct core_op **op_out, struct ps_error *e)
{
    struct core_op *op;
    enum ps_err err;

    if ((err = op_may_start(c, e)) != PS_OK)
        return err;
    if (shard >= c->config.shards)
        return ps_fail(e, PS_ERR_INVALID, "there is no shard %u: the cluster has %u", shard, c->config.shards);
    if ((op = op_new(c, kind)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory to start a query");
    op->query = like->query;
    memcpy(op->name, like->name, sizeof(op->name));
    memcpy(op->after, like->after, sizeof(op->after));
    if (op_room(op, 0, 1) != PS_OK || op_start_control(c, op, shard, part, NULL) != PS_OK)
        return op_undo(c, op, e, "query");
    *op_out = op;
    op_pump(c, op);
    return PS_OK;
}

enum ps_err
core_query(struct core *c, uint32_t shard, enum ps_query query, const char *job, const char *after, struct core_op **op,
           struct ps_error *e)
{
    struct core_op like = {.query = query};

    if ((int)query < PS_QUERY_STATUS || query > PS_QUERY_JOBS)
        return ps_fail(e, PS_ERR_INVALID, "query %d is not known", (int)query);
    if (job != NULL && (strlen(job) > PS_NAME_MAX || !wire_text_ok(job, strlen(job))))
        return ps_fail(e, PS_ERR_INVALID, "a job's name is up to %d bytes of UTF-8", PS_NAME_MAX);
    if (after != NULL && strlen(after) >= sizeof(like.after))
        return ps_fail(e, PS_ERR_INVALID, "the place to go on from is too long");
    if (job != NULL)
        memcpy(like.name, job, strlen(job));
    if (after != NULL)
        memcpy(like.after, after, strlen(after));
    return start_question(c, OP_QUERY, PART_QUERY, shard, &like, op, e);
}

enum ps_err
core_ping(struct core *c, uint32_t shard, struct core_op **op, struct ps_error *e)
{
    struct core_op like = {.query = PS_QUERY_STATUS};

    return start_question(c, OP_PING, PART_PING, shard, &like, op, e);
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
    if (e != NULL)
        *e = op->result;
    return op->result.code;
}

uint64_t
core_op_blocks(const struct core_op *op)
{
    return op->kind == OP_PULL ? op->blocks_transferred : 0;
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
    op->held = false;
    op_recycle_if_over(c, op);
}

/* ---- Sentences ---- */

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
        snprintf(out, size, "%s%s of '%.80s'%s at clock %llu", word[op->kind], op->want ? " and pull" : "",
                 op->vars[0]->name, more, (unsigned long long)op->clock);
        return;
    case OP_DECLARE:
        snprintf(out, size, "declaration of '%.80s'", op->vars[0]->name);
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
describe_delay(const struct core *c, const struct link *l, const struct core_op *op, char *out, size_t size)
{
    uint64_t slowest = core_slowest_clock(c);

    if (!link_up(l))
        snprintf(out, size, "; not connected: %.200s", l->trouble.text[0] != '\0' ? l->trouble.text : "connecting");
    else if (l->state == LINK_RESTORING)
        snprintf(out, size, "; it lost its data and variables are being declared again");
    else if (op->why[0] != '\0')
        snprintf(out, size, "; %s", op->why);
    else if (op->kind == OP_PULL && c->config.mode != PS_ASYNC && slowest < op->clock)
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
    const struct link *l;

    if (e == NULL)
        e = &room;
    op_describe(op, what, sizeof(what));
    if (lane == NULL)
        return ps_fail(e, PS_ERR_TIMEOUT, "waited %llu ms for: %s", (unsigned long long)waited_ms, what);
    l = &c->links[lane->shard];
    describe_delay(c, l, op, why, sizeof(why));
    core_say(c, l, e, PS_ERR_TIMEOUT, "waited %llu ms for shard %u at %s: %s%.250s", (unsigned long long)waited_ms,
             l->shard, c->addresses[l->shard], what, why);
    return PS_ERR_TIMEOUT;
}

void
core_op_ask_why(struct core *c, struct core_op *op)
{
    uint32_t i;

    if (op->done || (op->kind != OP_PULL && op->kind != OP_PUSH && op->kind != OP_BARRIER))
        return;
    for (i = 0; i < op->lanes_n; i++) {
        struct link *l = &c->links[op->lanes[i].shard];
        struct part *p;

        if (op->lanes[i].parts == 0 || !link_up(l) || (p = pool_part(&c->pools)) == NULL)
            continue;
        p->kind = PART_WHY;
        p->op = op;
        op->whys++;
        parts_append(&l->control, p);
        link_pump(c, l);
        if (op->done)
            return;
    }
}
