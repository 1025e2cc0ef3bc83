/* All that can be wrong with a push, before anything of it is touched: when, which data, which blocks and lengths,
 * values that are no numbers. The blocks that it names are found on the way. */
#include <inttypes.h>
#include <string.h>

#include "common/include/psclient/ps_compress.h"
#include "server/core/shard_state.h"
#include "server/core/training/push.h"

static enum ps_err
check_version(const struct block_ref *ref, const Psd__Push *m, size_t i, struct ps_error *e)
{
    if (m->n_from_version == 0 || m->from_version[i] <= ref->block->version)
        return PS_OK;
    return ps_fail(e, PS_ERR_INVALID,
                   "block %u of variable '%.64s' is at version %" PRIu64 ", the push was computed from %" PRIu64,
                   ref->number, ref->variable->name, ref->block->version, m->from_version[i]);
}

static enum ps_err
check_norm(const struct block_ref *ref, const Psd__Push *m, struct ps_error *e)
{
    if (ref->variable->def->optimizer.clip.kind != PS_CLIP_GIVEN_NORM || m->norm != NULL)
        return PS_OK;
    return ps_fail(e, PS_ERR_INVALID, "variable '%.64s' clips by a given norm, and the push gives none",
                   ref->variable->name);
}

/* In sync a gradient belongs to a step that is under way, or was. */
static enum ps_err
check_step(const struct job *job, const struct block_ref *ref, const Psd__Push *m, struct ps_error *e)
{
    uint64_t clock = clock_of_block(job, ref->block, CLOCK_FOR_PUSH);

    if (m->clock <= clock)
        return PS_OK;
    return ps_fail(e, PS_ERR_CLOCK,
                   "block %u of variable '%.64s' is at clock %" PRIu64 ", a push for clock %" PRIu64 " comes too early",
                   ref->number, ref->variable->name, clock, m->clock);
}

/* A worker pushes at the clock that it ticked to. In sync an older push may be sent again after its tick was taken. */
static enum ps_err
check_clock(const struct session *session, const Psd__Push *m, struct ps_error *e)
{
    if (m->clock == session->clock || (job_is_sync(session->job) && m->clock < session->clock))
        return PS_OK;
    return ps_fail(e, PS_ERR_CLOCK, "a push of worker %u is for clock %" PRIu64 ", but the worker is at %" PRIu64,
                   session->task, m->clock, session->clock);
}

static enum ps_err
check_cursor(const struct session *session, const Psd__Push *m, struct ps_error *e)
{
    struct data_cursor_span span;

    if (m->cursor == NULL)
        return PS_OK;
    span = data_cursor_span(m);
    return data_steps_check(session, &span, e);
}

/* Find all blocks. *room: bytes of values that may have to be written. */
static enum ps_err
check_blocks(struct shard *s, struct event_context *ctx, const struct session *session, const Psd__Push *m,
             uint64_t *room, struct ps_error *e)
{
    struct job *job = session->job;
    bool sync = job_is_sync(job);
    enum ps_err err;

    ctx->blocks = ctx->buffers->blocks;
    for (size_t i = 0; i < m->n_var; i++) {
        struct block_ref *ref = &ctx->blocks[i];

        if ((err = block_find(s, job, m->var[i], m->block[i], ref, e)) != PS_OK ||
            (err = check_version(ref, m, i, e)) != PS_OK || (err = check_norm(ref, m, e)) != PS_OK)
            return err;
        if (sync && (err = check_step(job, ref, m, e)) != PS_OK)
            return err;
        ref->asked = m->want_value && !m->durable;
        ref->counted = m->cursor != NULL && data_steps_counted(session, data_cursor_of(m->cursor), ref);
        *room += ref->variable->kind->room(s, ref) + assign_log_room(s, ref);
    }
    return PS_OK;
}

/* Of its gradients as float32. */
static uint64_t
gradient_bytes(const struct event_context *ctx, const Psd__Push *m)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < m->n_var; i++)
        bytes += block_gradient_bytes(&ctx->blocks[i]);
    return bytes;
}

/* One block may be checked in passing, by its update. */
static bool
checked_by_kernel(const struct shard *s, const struct event_context *ctx, const struct job *job, const Psd__Push *m)
{
    const struct block_ref *ref = &ctx->blocks[0];

    return !job_is_sync(job) && m->n_var == 1 && ref->variable->kind->apply_checks(s, ref);
}

/* Nor need such a block be decoded before. */
static bool
decoded_by_kernel(const struct shard *s, const struct event_context *ctx, const struct job *job, const Psd__Push *m)
{
    const struct variable *v = ctx->blocks[0].variable;

    return checked_by_kernel(s, ctx, job, m) && !m->durable && v->kind->takes_halves(v);
}

/* Whether the bytes that were looked at must stay as they are afterwards: checked, or their norm taken, before they are
 * used. A payload is decoded once, but for top-k, whose indices are checked first. */
static bool
must_stay(const struct shard *s, const struct event_context *ctx, const struct job *job, const Psd__Push *m)
{
    if (m->encoding != PS_COMPRESS_NONE)
        return m->encoding == PS_COMPRESS_TOP_K;
    return m->durable || !checked_by_kernel(s, ctx, job, m) ||
           ctx->blocks[0].variable->def->optimizer.clip.kind == PS_CLIP_BLOCK_NORM;
}

/* The peer can write to the payload while we look at it: a copy. */
static enum ps_err
hold_still(struct shard *s, const struct wire_msg *msg, const void **payload, struct ps_error *e)
{
    void *copy;

    if (msg->payload_len == 0)
        return PS_OK;
    if ((copy = arena_alloc(&s->arena, msg->payload_len)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a copy of %" PRIu64 " bytes of gradients", msg->payload_len);
    *payload = memcpy(copy, *payload, msg->payload_len);
    return PS_OK;
}

static enum ps_err
check_finite(const struct shard *s, const struct event_context *ctx, const struct job *job, const Psd__Push *m,
             struct ps_error *e)
{
    struct gradient gradient = ctx->gradients;

    if (checked_by_kernel(s, ctx, job, m))
        return PS_OK;
    for (size_t i = 0; i < m->n_var; i++) {
        struct block_ref *ref = &ctx->blocks[i];
        const struct variable *v = ref->variable;
        enum optimizer_magnitude m =
            v->def->refuse_nonfinite ? v->kind->magnitude(ref, gradient.values) : OPTIMIZER_LARGE;

        if (m == OPTIMIZER_NONFINITE)
            return v->kind->nonfinite(ref, &gradient, e);
        ref->calm = m == OPTIMIZER_CALM;
        gradient.values += ref->values;
    }
    return PS_OK;
}

enum ps_err
push_check(struct shard *s, struct event_context *ctx, const struct session *session, const struct wire_msg *msg,
           uint64_t *room, struct ps_error *e)
{
    const Psd__Push *m = msg->u.push;
    const void *payload = ctx->event->payload;
    enum ps_err err;

    if ((err = check_clock(session, m, e)) != PS_OK || (err = check_cursor(session, m, e)) != PS_OK ||
        (err = check_blocks(s, ctx, session, m, room, e)) != PS_OK ||
        (ctx->event->unstable && must_stay(s, ctx, session->job, m) &&
         (err = hold_still(s, msg, &payload, e)) != PS_OK) ||
        (err = push_decode(s, ctx, msg, payload, gradient_bytes(ctx, m), decoded_by_kernel(s, ctx, session->job, m),
                           e)) != PS_OK)
        return err;
    return check_finite(s, ctx, session->job, m, e);
}

/* Room for the record, of this push or of a step that it may close. */
enum ps_err
push_check_durable(struct shard *s, const struct event_context *ctx, const struct session *session,
                   const struct wire_msg *msg, uint64_t *room, struct ps_error *e)
{
    const Psd__Push *m = msg->u.push;
    uint64_t record;
    enum ps_err err;

    if (!m->durable && !s->redo.on)
        return PS_OK;
    record = job_is_sync(session->job) ? sync_step_redo_room(s, ctx, m)
             : m->durable              ? redo_room(s, m->n_var, 1, gradient_bytes(ctx, m))
                                       : 0;
    if (m->durable && (err = redo_check(s, record, e)) != PS_OK)
        return err;
    *room += record;
    return PS_OK;
}
