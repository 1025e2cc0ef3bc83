/* STAGE: values come into the store. What can be wrong with them is found before the first is written. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/core/base/units.h"
#include "server/core/shard_state.h"
#include "server/core/training/assign.h"

/* The blocks that a STAGE names, and its values, held still. */
struct assign_staging {
    struct block_ref *blocks; /* [n] */
    size_t n;
    const float *values; /* of all blocks, one after the other */
    uint64_t bytes;      /* of them */
    uint64_t room;       /* of their values in the store */
};

static enum ps_err
assign_find_blocks(struct shard *s, struct job *job, const struct assign_slot *slot, const Psd__Assign *m,
                   struct assign_staging *x, struct ps_error *e)
{
    enum ps_err err;

    x->n = m->n_var;
    for (size_t i = 0; i < x->n; i++) {
        struct block_ref *ref = &x->blocks[i];

        if ((err = block_find_made(s, job, m->var[i], m->block[i], ref, e)) != PS_OK)
            return err;
        if (slot->first && !ref->variable->awaits)
            return ps_fail(e, PS_ERR_LATE, "the first values of variable '%.64s' were given before",
                           ref->variable->name);
        x->bytes += block_gradient_bytes(ref);
        x->room += staged_size(ref);
    }
    return PS_OK;
}

/* A payload that its peer can still change is copied before it is looked at. */
static enum ps_err
assign_hold_values(struct shard *s, const struct wire_msg *msg, const struct event_context *ctx,
                   struct assign_staging *x, struct ps_error *e)
{
    void *copy;

    if (msg->payload_len != x->bytes)
        return ps_fail(e, PS_ERR_SHAPE,
                       "the %zu blocks of this assign, from '%.64s', take %" PRIu64 " bytes, the payload has %" PRIu64,
                       x->n, x->blocks[0].variable->name, x->bytes, msg->payload_len);
    x->values = ctx->event->payload;
    if (!ctx->event->unstable)
        return PS_OK;
    if ((copy = arena_alloc(&s->arena, x->bytes)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a copy of %" PRIu64 " bytes of values", x->bytes);
    x->values = memcpy(copy, x->values, x->bytes);
    return PS_OK;
}

static enum ps_err
assign_check_finite(const struct assign_slot *slot, const struct assign_staging *x, struct ps_error *e)
{
    const float *values = x->values;

    for (size_t i = 0; i < x->n; i++) {
        const struct variable *v = x->blocks[i].variable;

        if (!slot->nonfinite && v->def->refuse_nonfinite &&
            v->kind->magnitude(&x->blocks[i], values) == OPTIMIZER_NONFINITE)
            return ps_fail(e, PS_ERR_NONFINITE,
                           "a value for block %u of variable '%.64s' is NaN or infinite: allow that for the assign if "
                           "it is meant",
                           x->blocks[i].number, v->name);
        values += x->blocks[i].values;
    }
    return PS_OK;
}

/* Values that wait may take no room that updates need. durable: the worker has asked for that. */
static enum ps_err
assign_check_room(struct shard *s, struct assign_slot *slot, bool durable, struct assign_staging *x, struct ps_error *e)
{
    uint64_t free_bytes = declare_free_bytes(s), record;
    struct units a, b;
    enum ps_err err;

    if (x->room > free_bytes)
        return ps_fail(e, PS_ERR_FULL,
                       "shard %u has %s for values that wait until an assign is done, and these need %s more",
                       s->config.shard, units_bytes(free_bytes, &a), units_bytes(x->room, &b));
    if (!slot->durable)
        return PS_OK;
    record = redo_room(s, x->n, 0, x->bytes);
    if (redo_failed(s) && !durable) {
        slot->durable = redo_has_room(s, record); /* else the log does not get all of its values, and no more of it */
    } else if ((err = redo_check(s, record, e)) != PS_OK) {
        return err;
    }
    x->room += slot->durable ? record : 0;
    return PS_OK;
}

static enum ps_err
assign_check_stage(struct shard *s, struct assign_slot *slot, struct job *job, const struct wire_msg *msg,
                   struct event_context *ctx, struct assign_staging *x, struct ps_error *e)
{
    const Psd__Assign *m = msg->u.assign;
    enum ps_err err;

    if (slot->state != ASSIGN_STAGING)
        return ps_fail(e, PS_ERR_INVALID, "assign %" PRIu64 " is prepared, and takes no more values", slot->number);
    x->blocks = ctx->buffers->blocks;
    if ((err = assign_find_blocks(s, job, slot, m, x, e)) != PS_OK ||
        (err = assign_hold_values(s, msg, ctx, x, e)) != PS_OK || (err = assign_check_finite(slot, x, e)) != PS_OK)
        return err;
    return assign_check_room(s, slot, m->durable, x, e);
}

static void
assign_put_all(struct shard *s, struct assign_slot *slot, const struct assign_staging *x)
{
    const float *values = x->values;

    for (size_t i = 0; i < x->n && s->turn.failed == PS_OK; i++) {
        float rate = (float)x->blocks[i].variable->def->optimizer.learning_rate;

        if (staged_put(s, &x->blocks[i], slot, rate, values) == PS_OK && slot->durable && !MUTATION(STAGED_NOT_LOGGED))
            redo_staged(s, &x->blocks[i], slot->number, rate, values);
        values += x->blocks[i].values;
    }
}

/* Its values are in the record that is being made. durable: the worker has asked for that. */
static void
assign_answer_stage(struct shard *s, struct connection *c, uint64_t request, const struct assign_slot *slot,
                    bool durable)
{
    bool held = slot->durable && redo_waits(s) && (durable || !redo_failed(s));
    Psd__Assigned m = PSD__ASSIGNED__INIT;

    m.number = slot->number;
    durable_acks_send_message(s, c, held ? DURABLE_ACKS_RECORD : DURABLE_ACKS_NONE, MSG_ASSIGNED, request, &m.base);
}

enum shard_result
assign_stage(struct shard *s, struct assign_slot *slot, struct connection *c, const struct wire_msg *msg,
             struct event_context *ctx)
{
    struct assign_staging x = {0};
    struct ps_error e;
    enum ps_err err;

    if ((err = assign_check_stage(s, slot, c->session->job, msg, ctx, &x, &e)) != PS_OK) {
        actions_error(s, c, msg->request, err, e.text);
        return SHARD_TAKEN;
    }
    switch (turn_room(s, x.room, &err)) {
    case TURN_WAIT:
        return SHARD_TURN_FULL;
    case TURN_REFUSED:
        (void)ps_fail(&e, err, "shard %u has no room for these values: %s", s->config.shard, ps_strerror(err));
        actions_error(s, c, msg->request, err, e.text);
        return SHARD_TAKEN;
    case TURN_READY:
        break;
    }
    assign_put_all(s, slot, &x);
    turn_mark_job(s, c->session->job); /* how many they are */
    assign_answer_stage(s, c, msg->request, slot, msg->u.assign->durable);
    return SHARD_TAKEN;
}
