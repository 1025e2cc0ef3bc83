/* Pushes. The order matters: sequence first (a repeat is answered, whatever it holds), then everything that can be
 * wrong with the frame, then room in the turn; only then is the sequence taken and the blocks are touched. */
#include "server/core/training/push.h"

#include <inttypes.h>
#include <string.h>

#include "server/core/shard_state.h"

/* ---- Refusing ---- */

static void
count_refused(struct shard *s, struct session *session, const Psd__Push *m, enum ps_err code)
{
    uint64_t *count = code == PS_ERR_NONFINITE ? &s->stats.refused_nonfinite
                      : code == PS_ERR_SHAPE   ? &s->stats.refused_shape
                                               : &s->stats.refused_other;

    *count += m->n_var;
    session->stats.refused += m->n_var;
    for (size_t i = 0; i < m->n_var; i++) {
        struct block_ref ref;
        struct ps_error e;

        if (block_find(s, session->job, m->var[i], m->block[i], &ref, &e) == PS_OK)
            ref.variable->stats.refused++;
    }
}

/* The push as a whole changes nothing; its sequence is used up. */
static void
push_refuse(struct shard *s, struct session *session, const Psd__Push *m, const struct ps_error *e)
{
    pending_resolve_next_push(s, session, e->code);
    count_refused(s, session, m, e->code);
    actions_ack(s, session->connection, m->seq, e->code, NULL, 0, e->text);
}

/* There is no room: that is its answer; the peer learns of other errors by asking again. */
static void
push_refuse_room(struct shard *s, struct connection *c, const Psd__Push *m, const struct ps_error *e)
{
    if (e->code == PS_ERR_FULL)
        push_refuse(s, c->session, m, e);
    else
        connection_refuse(s, c, e->code, "%s", e->text);
}

/* ---- Applying: async and ssp ---- */

/* Codes of the blocks; NULL until the first that is not OK. */
static bool
drop_block(struct shard *s, const Psd__Push *m, size_t i, uint32_t **codes)
{
    if (*codes == NULL) {
        if ((*codes = arena_alloc(&s->arena, m->n_var * sizeof **codes)) == NULL) {
            turn_fail(s, PS_ERR_NOMEM);
            return false;
        }
        memset(*codes, 0, m->n_var * sizeof **codes);
    }
    (*codes)[i] = PS_ERR_STALE;
    return true;
}

/* Find places for all blocks before the first is written: when one cannot be had, none was touched. A gradient that is
 * too old needs none. */
static enum ps_err
touch_all(struct shard *s, const struct event_context *ctx, const Psd__Push *m)
{
    enum ps_err err;

    for (size_t i = 0; i < m->n_var; i++) {
        if (ctx->blocks[i].counted || push_scale(&ctx->blocks[i], m, i) < 0 ||
            (err = turn_touch(s, &ctx->blocks[i])) == PS_OK)
            continue;
        while (i-- > 0)
            turn_untouch(s, &ctx->blocks[i]);
        return err;
    }
    return PS_OK;
}

static void
count_data(struct shard *s, struct session *session, const Psd__Push *m, const struct block_ref *ref)
{
    struct data_cursor_span span = data_cursor_span(m);

    if (m->durable)
        redo_count(s, session, &span);
    data_steps_count(s, session, &span, ref);
}

/* Whether an update of some block may be refused, when others of the same push are applied already. A block that is
 * named twice is not as safe as it was before: where blocks are named in rising order, none is. */
static bool
may_need_undo(const struct event_context *ctx, const Psd__Push *m)
{
    for (size_t i = 0; i < m->n_var && m->n_var > 1; i++) {
        const struct block_ref *ref = &ctx->blocks[i];
        bool rises =
            i == 0 || m->var[i] > m->var[i - 1] || (m->var[i] == m->var[i - 1] && m->block[i] > m->block[i - 1]);

        if (!rises || (!ref->counted && !update_is_safe(ref, push_scale(ref, m, i), update_when(ref->variable, 0))))
            return true;
    }
    return false;
}

/* PS_ERR_NONFINITE, PS_ERR_NOMEM: refused. */
static enum ps_err
apply_block(struct shard *s, const Psd__Push *m, size_t i, struct block_ref *ref, const struct gradient *gradient)
{
    if (ref->counted)
        return PS_OK;
    ref->age = push_age(ref, m, i);
    ref->scale = push_scale(ref, m, i);
    if (ref->scale < 0) {
        turn_untouch(s, ref); /* a block named twice may have grown too old in between */
        return PS_OK;
    }
    return update_apply(s, ref, gradient, ref->scale, 0);
}

/* All blocks of the push are applied, or dropped as too old: log and count this one. */
static bool
count_block(struct shard *s, struct session *session, const Psd__Push *m, size_t i, const struct block_ref *ref,
            const struct gradient *gradient, uint32_t **codes)
{
    if (ref->counted)
        return true;
    traffic_aged(s, session, ref->variable, ref->age, ref->scale >= 0);
    if (ref->scale < 0)
        return drop_block(s, m, i, codes);
    if (m->durable)
        redo_update(s, ref, ref->scale, update_when(ref->variable, 0), gradient->values, false);
    if (m->cursor != NULL)
        count_data(s, session, m, ref);
    update_count(s, ref, 1);
    traffic_pushed(&session->stats, 1, block_gradient_bytes(ref));
    return true;
}

/* Halves are of a single block. */
static void
next_gradient(struct gradient *gradient, const struct block_ref *ref)
{
    if (gradient->values != NULL)
        gradient->values += ref->values;
}

/* This block is refused, and is as it was: none of the push's blocks is changed. */
static void
undo_others(struct shard *s, const struct event_context *ctx, const Psd__Push *m, size_t refused)
{
    for (size_t i = m->n_var; i-- > 0;) {
        struct block_ref *ref = &ctx->blocks[i];

        if (i == refused)
            turn_unmove(s, ref);
        else if (!ref->counted)
            update_undo(s, ref);
    }
}

static enum ps_err
apply_all(struct shard *s, const struct event_context *ctx, const Psd__Push *m, struct ps_error *e)
{
    bool undoable = may_need_undo(ctx, m);
    struct gradient gradient = ctx->gradients;
    enum ps_err err = PS_OK;

    for (size_t i = 0; i < m->n_var && s->turn.failed == PS_OK && err == PS_OK; i++) {
        struct block_ref *ref = &ctx->blocks[i];

        ref->undoable = undoable;
        if ((err = apply_block(s, m, i, ref, &gradient)) == PS_OK) {
            next_gradient(&gradient, ref);
            continue;
        }
        undo_others(s, ctx, m, i);
        err = err == PS_ERR_NONFINITE ? ref->variable->kind->nonfinite(ref, &gradient, e)
                                      : ps_fail(e, err, "shard %u: no memory for an update", s->config.shard);
    }
    for (size_t i = 0; i < m->n_var && undoable; i++)
        update_forget(&ctx->blocks[i]);
    return err;
}

static enum ps_err
push_apply(struct shard *s, const struct event_context *ctx, struct session *session, const Psd__Push *m,
           uint32_t **codes, struct ps_error *e)
{
    struct gradient gradient = ctx->gradients;
    enum ps_err err;

    if ((err = touch_all(s, ctx, m)) != PS_OK)
        return ps_fail(e, err, "shard %u: %s", s->config.shard, ps_strerror(err));
    if ((err = apply_all(s, ctx, m, e)) != PS_OK)
        return err;
    for (size_t i = 0; i < m->n_var && s->turn.failed == PS_OK; i++) {
        if (!count_block(s, session, m, i, &ctx->blocks[i], &gradient, codes))
            break; /* the turn has failed */
        next_gradient(&gradient, &ctx->blocks[i]);
    }
    return PS_OK;
}

static bool
all_equal(const uint32_t *codes, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (codes[i] != codes[0])
            return false;
    return true;
}

/* The piece that its answer waits for, now that it is resolved with this code. */
static uint64_t
push_write_record(struct shard *s, const struct session *session, const Psd__Push *m, enum ps_err code)
{
    if (!m->durable)
        return DURABLE_ACKS_NONE;
    redo_push(s, session, &(struct redo_pushed){.seq = m->seq, .clock = m->clock, .code = code});
    s->stats.pushes_durable++;
    return DURABLE_ACKS_RECORD;
}

static void
apply_push(struct shard *s, const struct event_context *ctx, struct session *session, uint64_t request,
           const Psd__Push *m)
{
    struct connection *c = session->connection;
    uint32_t *codes = NULL;
    uint64_t until;
    enum ps_err code;
    struct ps_error e;

    if ((code = push_apply(s, ctx, session, m, &codes, &e)) != PS_OK) {
        push_refuse(s, session, m, &e);
        return;
    }
    if (codes != NULL)
        code = PS_ERR_STALE;
    pending_resolve_next_push(s, session, code);
    /* Nothing is logged of a push that was dropped as a whole: after a power loss it comes again, and gets that answer
     * again. */
    until = codes != NULL && all_equal(codes, m->n_var) ? DURABLE_ACKS_NONE : push_write_record(s, session, m, code);
    if (m->want_value)
        pull_answer_now(s, c, until, request, m, codes);
    else
        durable_acks_send(s, c, until, m->seq, code, codes != NULL && !all_equal(codes, m->n_var) ? codes : NULL,
                          (uint32_t)m->n_var, NULL);
}

/* ---- Coming again ---- */

static void
push_attach(struct pending *p, const struct connection *c, uint64_t request, const Psd__Push *m)
{
    p->connection = c->id;
    p->request = request;
    p->want_value = m->want_value && p->barrier == NULL; /* a barrier has none */
}

/* The values as they are now: those of the first answer are gone. */
static void
repeat_values(struct shard *s, struct connection *c, uint64_t until, uint64_t request, const Psd__Push *m,
              enum ps_err code)
{
    uint32_t *codes = NULL;

    if (code != PS_OK) {
        if ((codes = arena_alloc(&s->arena, m->n_var * sizeof *codes)) == NULL) {
            turn_fail(s, PS_ERR_NOMEM);
            return;
        }
        for (size_t i = 0; i < m->n_var; i++)
            codes[i] = (uint32_t)code;
    }
    pull_answer_now(s, c, until, request, m, codes);
}

/* The piece that the answer to a repeat waits for: that of the session's newest logged push, which is not older. */
static uint64_t
repeat_until(const struct shard *s, const struct session *session, const Psd__Push *m)
{
    return m->durable && session->redo > s->redo.durable && !MUTATION(REPEAT_NOT_HELD) ? session->redo
                                                                                       : DURABLE_ACKS_NONE;
}

static void
push_repeat(struct shard *s, struct connection *c, uint64_t request, const Psd__Push *m)
{
    enum ps_err code = sequence_outcome(c->session, m->seq);
    bool taken = code == PS_OK || code == PS_ERR_STALE || code == PS_ERR_LATE;
    uint64_t until = taken ? repeat_until(s, c->session, m) : DURABLE_ACKS_NONE;
    struct block_ref ref;
    struct ps_error e;

    s->stats.pushes_repeated += m->n_var;
    for (size_t i = 0; i < m->n_var && taken; i++)
        taken = block_find(s, c->session->job, m->var[i], m->block[i], &ref, &e) == PS_OK;
    if (m->want_value && taken)
        repeat_values(s, c, until, request, m, code);
    else
        durable_acks_send(s, c, until, m->seq, code, NULL, 0, code != PS_OK ? ps_strerror(code) : NULL);
}

/* ---- Taking ---- */

static enum shard_result
take_new(struct shard *s, struct connection *c, const struct wire_msg *msg, struct event_context *ctx)
{
    const Psd__Push *m = msg->u.push;
    struct session *session = c->session;
    uint64_t room = 0;
    struct ps_error e = {0};
    enum ps_err err;

    /* Before a crash, ahead of what waits: it is counted already. */
    if (!MUTATION(APPLIED_FORGOTTEN) && sequence_resolved_early(s, session, m->seq, &err)) {
        pending_resolve_next(s, session, err);
        push_repeat(s, c, msg->request, m);
        return SHARD_TAKEN;
    }
    if (s->save.waiting != NULL && job_is_sync(session->job) && save_gate_holds(s, session->job, m->clock))
        return SHARD_TURN_FULL;
    if (!assign_settle_pushed(s, session->job, m, &err))
        return SHARD_TURN_FULL;
    if (err != PS_OK) {
        (void)ps_fail(&e, err, "shard %u has no room for values that were assigned: %s", s->config.shard,
                      ps_strerror(err));
        push_refuse_room(s, c, m, &e);
        return SHARD_TAKEN;
    }
    if (push_check(s, ctx, session, msg, &room, &e) != PS_OK ||
        push_check_durable(s, ctx, session, msg, &room, &e) != PS_OK) {
        push_refuse(s, session, m, &e);
        return SHARD_TAKEN;
    }
    switch (turn_room(s, room, &err)) {
    case TURN_WAIT:
        return SHARD_TURN_FULL;
    case TURN_REFUSED:
        ps_fail(&e, err, "shard %u has no room for this push: %s", s->config.shard, ps_strerror(err));
        push_refuse_room(s, c, m, &e);
        return SHARD_TAKEN;
    case TURN_READY:
        break;
    }
    if (job_is_sync(session->job))
        sync_step_push(s, ctx, session, msg->request, m);
    else
        apply_push(s, ctx, session, msg->request, m);
    return SHARD_TAKEN;
}

/* A worker that does not wait for its answers, or does not say that it has them, would have us remember any number. */
static bool
may_hold(struct shard *s, struct connection *c, const Psd__Push *m)
{
    if (!m->durable ||
        (!durable_acks_full(c) && m->seq - MIN(m->seq, c->session->acked_through) <= SHARD_UNRESOLVED_MAX))
        return true;
    sequence_break(s, c);
    return false;
}

enum shard_result
push_take(struct shard *s, struct connection *c, const struct wire_msg *msg, struct event_context *ctx)
{
    const Psd__Push *m = msg->u.push;

    switch (sequence_classify(c->session, m->seq)) {
    case SEQ_WAITING:
        push_attach(sequence_pending(c->session, m->seq), c, msg->request, m);
        return SHARD_TAKEN;
    case SEQ_REPEATED:
        if (may_hold(s, c, m))
            push_repeat(s, c, msg->request, m);
        return SHARD_TAKEN;
    case SEQ_NEW:
        if (sequence_window_full(c->session))
            sequence_break(s, c);
        else if (may_hold(s, c, m))
            return take_new(s, c, msg, ctx);
        return SHARD_TAKEN;
    default:
        connection_break(s, c, PS_ERR_SEQUENCE, "push %" PRIu64 " came where %" PRIu64 " was expected", m->seq,
                         c->session->next_seq);
        return SHARD_TAKEN;
    }
}
