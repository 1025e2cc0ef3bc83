/* How a push joins the sync steps of its blocks. The gradient that completes a sync step is not copied: it is summed
 * from the receive buffer. */
#include "server/core/training/sync_step.h"

#include <string.h>

#include "server/core/shard_state.h"

static struct sync_step_entry *
entry_insert(struct sync_step *g, uint32_t task)
{
    uint32_t i = MUTATION(ORDER_OF_ARRIVAL) ? g->len : sync_step_entry_index(g, task);

    memmove(&g->entries[i + 1], &g->entries[i], (g->len - i) * sizeof g->entries[0]);
    g->len++;
    g->entries[i] = (struct sync_step_entry){.task = task};
    return &g->entries[i];
}

/* A copy of the gradient, scaled (push_scale()). */
static float *
copy_gradient(struct shard *s, const float *gradient, uint32_t len, float scale)
{
    float *copy = pool_take(&s->pool, len * sizeof *copy);

    if (copy == NULL) {
        turn_fail(s, PS_ERR_NOMEM);
        return NULL;
    }
    if (scale == 1)
        memcpy(copy, gradient, len * sizeof *copy);
    else
        for (uint32_t i = 0; i < len; i++)
            copy[i] = scale * gradient[i];
    return copy;
}

/* Its step is done. Whether with this gradient is known only for a worker from before a restart: clock.h,
 * joined_past. */
static enum ps_err
late_code(const struct session *session, uint64_t clock)
{
    if (!session->from_store || !job_is_full_sync(session->job))
        return PS_ERR_LATE;
    return clock >= session->joined_past || MUTATION(LATE_IS_COUNTED) ? PS_OK : PS_ERR_UNKNOWN_OUTCOME;
}

static void
too_late(struct shard *s, struct pending *p, uint32_t index, const struct block_ref *ref, enum ps_err code)
{
    if (code == PS_ERR_LATE) {
        s->stats.dropped_late++;
        p->session->stats.dropped++;
        ref->variable->stats.dropped++;
    }
    pending_block_done(s, p, index, code, NULL);
}

/* The worker's place in the sync step; NULL when it has one already, or all are taken, and the push is resolved so. */
static struct sync_step_entry *
take_entry(struct shard *s, struct sync_step *g, struct pending *p, uint32_t index, const struct block_ref *ref)
{
    struct sync_step_entry *entry = sync_step_entry_find(g, p->session->task);

    if ((entry == NULL || MUTATION(WORKER_TWICE)) && g->len < g->room)
        return entry_insert(g, p->session->task);
    if (entry == NULL) { /* complete, and due */
        too_late(s, p, index, ref, PS_ERR_LATE);
    } else if (entry->pending != NULL) {
        pending_block_done(s, p, index, PS_ERR_INVALID, "the block was pushed before at this clock");
    } else if (entry->dropped) {
        return entry; /* there is no gradient in it */
    } else if (!data_cursor_span_equal(&entry->span,
                                       &p->span)) { /* cut otherwise, and no worker waits for it: this one counts */
        pool_give(&s->pool, entry->gradient, block_gradient_bytes(ref));
        entry->gradient = NULL;
        return entry;
    } else { /* an earlier incarnation's gradient stays; this one waits with it */
        entry->pending = p;
        entry->index = index;
    }
    return NULL;
}

static void
sync_step_push_join(struct shard *s, struct event_context *ctx, struct pending *p, uint32_t index,
                    struct block_ref *ref, const float *gradient, float scale)
{
    struct sync_step *g = ref->block->sync_step;
    struct sync_step_entry *entry;
    bool closes;

    if (g == NULL && (g = sync_step_new(s, ref, p->clock)) == NULL)
        return;
    g->durable = g->durable || p->durable;
    if ((entry = take_entry(s, g, p, index, ref)) == NULL)
        return;
    entry->dropped = scale < 0;
    if (entry->dropped) {
        pending_block_done(s, p, index, PS_ERR_STALE, NULL);
    } else {
        entry->pending = p;
        entry->index = index;
        entry->span = p->span;
        entry->round = p->session->known_round;
    }
    closes = !g->due && sync_step_complete(g);
    if (!entry->dropped && !(closes && scale == 1) &&
        (entry->gradient = copy_gradient(s, gradient, ref->values, scale)) == NULL)
        return;
    if (closes)
        sync_step_close(s, ctx, g, gradient);
}

/* The block has the worker's data of this push already, from a step before: nothing joins, and nobody waits for it. It
 * is answered with the step all the same, so that it comes again should the shard be killed before. */
static void
sync_step_push_counted(struct shard *s, struct event_context *ctx, struct pending *p, uint32_t index,
                       struct block_ref *ref)
{
    struct sync_step *g = ref->block->sync_step;
    struct sync_step_entry *entry;

    if (g == NULL && (g = sync_step_new(s, ref, p->clock)) == NULL)
        return;
    entry = sync_step_entry_find(g, p->session->task);
    if (entry != NULL ? entry->pending != NULL : g->len == g->room) {
        pending_block_done(s, p, index, PS_OK, NULL);
        return;
    }
    if (entry == NULL)
        entry = entry_insert(g, p->session->task);
    if (entry->gradient != NULL) /* an earlier incarnation's, which this one gives later */
        pool_give(&s->pool, entry->gradient, block_gradient_bytes(ref));
    *entry = (struct sync_step_entry){.task = entry->task, .dropped = true, .pending = p, .index = index};
    if (!g->due && sync_step_complete(g))
        sync_step_close(s, ctx, g, NULL);
}

/* The scale of a gradient that joins, counted. */
static float
scale_of(struct shard *s, struct session *session, const struct block_ref *ref, const Psd__Push *m, size_t i)
{
    float scale = push_scale(ref, m, i);

    traffic_aged(s, session, ref->variable, push_age(ref, m, i), scale >= 0);
    return scale;
}

uint64_t
sync_step_redo_room(const struct shard *s, const struct event_context *ctx, const Psd__Push *m)
{
    uint64_t blocks = 0, pushes = 1, bytes = 0;

    for (size_t i = 0; i < m->n_var; i++) {
        const struct sync_step *g = ctx->blocks[i].block->sync_step;
        bool durable = g != NULL && g->durable;

        if (!durable && !m->durable)
            continue;
        blocks += 2; /* one that is due may close before the push's own */
        pushes += g != NULL ? g->len : 0;
        bytes += block_gradient_bytes(&ctx->blocks[i]) * (durable && g->due ? 2 : 1);
    }
    return blocks > 0 ? redo_room(s, blocks, pushes, bytes) : 0;
}

void
sync_step_push(struct shard *s, struct event_context *ctx, struct session *session, uint64_t request,
               const Psd__Push *m)
{
    const float *gradient = ctx->gradients.values;
    struct job *job = session->job;
    uint32_t n = (uint32_t)m->n_var;
    bool awaited = sequence_awaits(session);
    struct pending *p = sequence_take_pending(s, session, n);

    if (p == NULL)
        return;
    p->request = request;
    p->clock = m->clock;
    p->want_value = m->want_value;
    p->durable = m->durable;
    p->span = data_cursor_span(m);
    for (uint32_t i = 0; i < n; i++)
        p->blocks[i] = (struct pending_block){.var = m->var[i], .block = m->block[i]};
    for (uint32_t i = 0; i < n && s->turn.failed == PS_OK; i++) {
        struct block_ref *ref = &ctx->blocks[i];
        const struct sync_step *g = ref->block->sync_step;

        if (g != NULL && g->due && m->clock > g->clock && !sync_step_close_due(s, ctx, ref->block->sync_step))
            ps_assert(false); /* there is room for every block of this push */
        if (m->clock < clock_of_block(job, ref->block, CLOCK_FOR_PULL))
            too_late(s, p, i, ref, ref->counted ? PS_OK : late_code(session, m->clock));
        else if (ref->counted)
            sync_step_push_counted(s, ctx, p, i, ref);
        else /* into a due sync step as well */
            sync_step_push_join(s, ctx, p, i, ref, gradient, scale_of(s, session, ref, m, i));
        gradient += ref->values;
    }
    pending_release(s, p, NULL);
    pending_caught_up(s, session, awaited);
}
