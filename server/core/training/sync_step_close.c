/* How a sync step ends: one update from the gradients that came, and the answers to their pushes. */
#include "server/core/shard_state.h"
#include "server/core/training/pending.h"
#include "server/core/training/sync_step.h"

/* How every sync step ends, with its update or without: resolve all pushes in it, and free it. */
static void
sync_step_end(struct shard *s, struct sync_step *g, bool logged, enum ps_err code, const char *text)
{
    turn_wake_pulls(s, g->variable->job); /* the block's clock goes on, with an update or without */
    for (uint32_t i = 0; i < g->len; i++) {
        struct pending *p = g->entries[i].pending;

        g->entries[i].pending = NULL;
        if (p == NULL)
            continue;
        if (g->entries[i].dropped) { /* the block has its data already */
            pending_block_done(s, p, g->entries[i].index, PS_OK, NULL);
            continue;
        }
        p->logged = p->logged || logged;
        p->unlogged = p->unlogged || !logged;
        pending_block_done(s, p, g->entries[i].index, code, text);
    }
    sync_step_free(s, g);
}

/* ---- The update ---- */

/* All gradients that came, in worker order; `now` stands for the one that is not copied. NULL when out of memory: the
 * turn has failed. */
static const float **
sync_step_collect(struct shard *s, struct event_context *ctx, const struct sync_step *g, const float *now, uint32_t *n)
{
    const float **gradients = event_summands_room(ctx, g->len);

    *n = 0;
    if (gradients == NULL) {
        turn_fail(s, PS_ERR_NOMEM);
        return NULL;
    }
    for (uint32_t i = 0; i < g->len; i++) {
        const struct sync_step_entry *entry = &g->entries[i];

        if (!entry->dropped)
            gradients[(*n)++] = entry->gradient != NULL ? entry->gradient : now;
    }
    return gradients;
}

/* One gradient is in the sync step, or still in the receive buffer; take it out of there. */
static bool
sync_step_take_gradient(struct sync_step *g, const float *gradient)
{
    for (uint32_t i = 0; i < g->len; i++)
        if (g->entries[i].gradient == gradient) {
            g->entries[i].gradient = NULL;
            return true;
        }
    return false;
}

/* False: the update is refused. */
static bool
sync_step_update(struct shard *s, struct block_ref *ref, const float *gradient, float scale, uint64_t clock)
{
    enum ps_err err = update_apply(s, ref, &(struct gradient){.values = gradient}, scale, clock);

    if (err == PS_ERR_NOMEM)
        turn_fail(s, err);
    return err != PS_ERR_NONFINITE;
}

static bool
sync_step_apply_one(struct shard *s, struct sync_step *g, struct block_ref *ref, const float *gradient, uint64_t clock)
{
    if (!sync_step_update(s, ref, gradient, 1, clock))
        return false;
    if (g->durable)
        redo_update(s, ref, 1, 0, gradient, sync_step_take_gradient(g, gradient));
    return true;
}

/* The mean of n gradients: the sum is taken here, the division is the update's scale. */
static bool
sync_step_apply_mean(struct shard *s, struct sync_step *g, struct block_ref *ref, const float *const *gradients,
                     uint32_t n, uint64_t clock)
{
    const struct variable_kind *kind = ref->variable->kind;
    size_t bytes = block_gradient_bytes(ref);
    float *sum, scale = 1.0f / (float)n;
    bool finite;

    if (n == 1)
        return sync_step_apply_one(s, g, ref, gradients[0], clock);
    if ((sum = pool_take(&s->pool, bytes)) == NULL) {
        turn_fail(s, PS_ERR_NOMEM);
        return true;
    }
    kind->sum(ref, n, gradients, sum);
    /* All of them were finite, but a sum may overflow. */
    finite = sync_step_update(s, ref, sum, scale, clock);
    if (finite && g->durable)
        redo_update(s, ref, scale, 0, sum, true);
    else
        pool_give(&s->pool, sum, bytes);
    return finite;
}

/* The block counts the data of all workers whose gradients are in the update, except workers of a round that is
 * over. */
static void
sync_step_count_data(struct shard *s, const struct sync_step *g, const struct block_ref *ref)
{
    for (uint32_t i = 0; i < g->len; i++) {
        const struct sync_step_entry *entry = &g->entries[i];
        struct session *session = g->variable->job->sessions[entry->task];

        if (entry->dropped || data_cursor_none(entry->span.end) || session->known_round != entry->round)
            continue;
        data_steps_count(s, session, &entry->span, ref);
        if (g->durable)
            redo_count(s, session, &entry->span);
    }
}

/* Each worker's part of the update. */
static void
sync_step_count_workers(const struct sync_step *g, const struct block_ref *ref)
{
    for (uint32_t i = 0; i < g->len; i++)
        if (!g->entries[i].dropped)
            traffic_pushed(&g->variable->job->sessions[g->entries[i].task]->stats, 1, block_gradient_bytes(ref));
}

/* One update from what is there; without one the block's clock still goes on. There is room for the block. now: the
 * gradient that is not copied, or NULL. */
static enum ps_err
sync_step_step(struct shard *s, struct event_context *ctx, struct sync_step *g, const float *now)
{
    const float **gradients;
    struct block_ref ref;
    uint64_t clock = g->clock + 1;
    enum ps_err err;
    uint32_t n;

    block_refind(s, g->variable->id, g->number, &ref);
    if ((err = assign_settle_block(s, &ref, g->clock)) != PS_OK || (err = turn_touch(s, &ref)) != PS_OK)
        return err;
    gradients = sync_step_collect(s, ctx, g, now, &n);
    if (n > 0 && sync_step_apply_mean(s, g, &ref, gradients, n, clock)) {
        sync_step_count_data(s, g, &ref);
        update_count(s, &ref, n);
        sync_step_count_workers(g, &ref);
    } else {
        update_clock(&ref, clock);
        err = n > 0 ? PS_ERR_NONFINITE : PS_OK;
    }
    if (s->turn.failed == PS_OK && assign_settle_block(s, &ref, MAX(clock, ref.variable->job->slowest)) != PS_OK)
        ps_assert(s->turn.failed != PS_OK); /* the block has its place in this turn */
    return err;
}

/* ---- Closing ---- */

static const char *
sync_step_why(enum ps_err err)
{
    if (err == PS_OK)
        return NULL;
    return err == PS_ERR_NONFINITE
               ? "the sum of the workers' gradients is not finite, or would make weights or slots overflow"
               : ps_strerror(err);
}

void
sync_step_close(struct shard *s, struct event_context *ctx, struct sync_step *g, const float *now)
{
    enum ps_err err = sync_step_step(s, ctx, g, now);

    sync_step_end(s, g, g->durable && err == PS_OK, err, sync_step_why(err));
}

/* Close it, or end it when the store has no room. False: wait for the next turn. */
bool
sync_step_close_due(struct shard *s, struct event_context *ctx, struct sync_step *g)
{
    struct block_ref ref;
    uint64_t room;
    enum ps_err err;

    block_refind(s, g->variable->id, g->number, &ref);
    room = ref.variable->kind->room(s, &ref) + assign_log_room(s, &ref);
    if (g->durable)
        room += redo_room(s, 1, g->len, block_gradient_bytes(&ref));
    switch (turn_room(s, room, &err)) {
    case TURN_WAIT:
        return false;
    case TURN_READY:
        sync_step_close(s, ctx, g, NULL);
        break;
    case TURN_REFUSED:
        sync_step_end(s, g, false, err, ps_strerror(err));
        break;
    }
    return true;
}

bool
sync_step_work(struct shard *s, struct event_context *ctx)
{
    bool some = false;

    while (s->due != NULL && s->turn.failed == PS_OK) {
        if (!sync_step_close_due(s, ctx, s->due))
            return some;
        some = true;
    }
    return true;
}

void
sync_step_end_waiting(struct shard *s, struct job *job, enum ps_err code, const char *text)
{
    struct sync_step *g, *next;

    DL_FOREACH_SAFE (job->sync_steps, g, next)
        sync_step_end(s, g, false, code, text);
}

void
sync_step_end_job(struct shard *s, struct job *job, enum ps_err code, const char *text)
{
    struct sync_step *g, *next;

    sync_step_end_waiting(s, job, code, text);
    DL_FOREACH_SAFE (s->due, g, next)
        if (g->variable->job == job)
            sync_step_end(s, g, false, code, text);
}
