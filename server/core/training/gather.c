/* Gathers. Entries are kept in order of task, so that the sum is taken in worker order. How pushes join is
 * gather_push.c's. */
#include "server/core/training/gather.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/core/shard/shard_state.h"

/* ---- Budget ---- */

static size_t
gather_size(const struct job *job)
{
    return sizeof(struct gather) + job->options->quorum * sizeof(struct gather_entry);
}

uint64_t
gather_budget(const struct variable *v, uint32_t shard, uint32_t shards)
{
    return v->kind->pooled_bytes(v, shard, shards) * v->job->options->quorum +
           v->count * pool_size(gather_size(v->job));
}

/* ---- Life ---- */

struct gather *
gather_new(struct shard *s, const struct block_ref *ref, uint64_t clock)
{
    struct job *job = ref->variable->job;
    struct gather *g = pool_take(&s->pool, gather_size(job));

    if (g == NULL) {
        turn_fail(s, PS_ERR_NOMEM);
        return NULL;
    }
    *g = (struct gather){.variable = ref->variable, .number = ref->number, .clock = clock, .since_ms = s->now_ms};
    ref->block->gather = g;
    DL_APPEND(job->gathers, g);
    return g;
}

static void
gather_free(struct shard *s, struct gather *g)
{
    struct job *job = g->variable->job;
    struct block_ref ref;

    block_refind(s, g->variable->id, g->number, &ref);
    ref.block->gather = NULL;
    if (g->due)
        DL_DELETE(s->due, g);
    else
        DL_DELETE(job->gathers, g);
    for (uint32_t i = 0; i < g->len; i++)
        pool_give(&s->pool, g->entries[i].gradient, block_gradient_bytes(&ref));
    pool_give(&s->pool, g, gather_size(job));
}

/* How every gather ends, whatever became of its step: tell all whose gradient it holds, and free it. */
static void
gather_end(struct shard *s, struct gather *g, bool logged, enum ps_err code, const char *text)
{
    turn_wake_pulls(s, g->variable->job); /* the block's clock goes on, with an update or without */
    for (uint32_t i = 0; i < g->len; i++) {
        struct pending *p = g->entries[i].pending;

        g->entries[i].pending = NULL;
        if (p == NULL)
            continue;
        p->logged = p->logged || logged;
        p->unlogged = p->unlogged || !logged;
        pending_block_done(s, p, g->entries[i].index, code, text);
    }
    gather_free(s, g);
}

/* ---- Closing ---- */

/* All gradients that came, in worker order; `now` stands for the one that is not copied. NULL when out of memory: the
 * turn has failed. */
static const float **
collect(struct shard *s, struct event_context *ctx, const struct gather *g, const float *now, uint32_t *n)
{
    const float **gradients = event_summands_room(ctx, g->len);

    *n = 0;
    if (gradients == NULL) {
        turn_fail(s, PS_ERR_NOMEM);
        return NULL;
    }
    for (uint32_t i = 0; i < g->len; i++) {
        const struct gather_entry *entry = &g->entries[i];

        if (!entry->dropped)
            gradients[(*n)++] = entry->gradient != NULL ? entry->gradient : now;
    }
    return gradients;
}

/* One gradient is in the gather, or still in the receive buffer; take it out of there. */
static bool
take_gradient(struct gather *g, const float *gradient)
{
    for (uint32_t i = 0; i < g->len; i++)
        if (g->entries[i].gradient == gradient) {
            g->entries[i].gradient = NULL;
            return true;
        }
    return false;
}

static bool
apply_one(struct shard *s, struct gather *g, const struct block_ref *ref, const float *gradient, uint64_t clock)
{
    if (!update_apply(s, ref, &(struct gradient){.values = gradient}, 1, clock))
        return false;
    if (g->durable)
        redo_update(s, ref, 1, 0, gradient, take_gradient(g, gradient));
    return true;
}

/* The mean of n gradients: the sum is taken here, the division is the update's scale. */
static bool
apply_mean(struct shard *s, struct gather *g, const struct block_ref *ref, const float *const *gradients, uint32_t n,
           uint64_t clock)
{
    const struct variable_kind *kind = ref->variable->kind;
    size_t bytes = block_gradient_bytes(ref);
    float *sum, scale = 1.0f / (float)n;
    bool finite;

    if (n == 1)
        return apply_one(s, g, ref, gradients[0], clock);
    if ((sum = pool_take(&s->pool, bytes)) == NULL) {
        turn_fail(s, PS_ERR_NOMEM);
        return true;
    }
    kind->sum(ref, n, gradients, sum);
    /* All of them were finite, but a sum may overflow. */
    finite = ref->place != ref->old || !ref->variable->refuse_nonfinite || kind->finite(ref, sum);
    finite = finite && update_apply(s, ref, &(struct gradient){.values = sum}, scale, clock);
    if (finite && g->durable)
        redo_update(s, ref, scale, 0, sum, true);
    else
        pool_give(&s->pool, sum, bytes);
    return finite;
}

/* The data of all whose gradients are in the update counts in the block; of those of a round that is over there is
 * nothing to know. */
static void
count_data(struct shard *s, const struct gather *g, const struct block_ref *ref)
{
    for (uint32_t i = 0; i < g->len; i++) {
        const struct gather_entry *entry = &g->entries[i];
        struct session *session = g->variable->job->sessions[entry->task];

        if (entry->dropped || cursor_none(entry->span.end) || session->round != entry->round)
            continue;
        cursor_count(s, session, &entry->span, ref);
        if (g->durable)
            redo_count(s, session, &entry->span);
    }
}

/* Each worker's part of the update. */
static void
count_workers(const struct gather *g, const struct block_ref *ref)
{
    for (uint32_t i = 0; i < g->len; i++)
        if (!g->entries[i].dropped)
            traffic_pushed(&g->variable->job->sessions[g->entries[i].task]->stats, 1, block_gradient_bytes(ref));
}

/* One update from what is there; without one the block's clock goes on all the same. There is room for the block. now:
 * the gradient that is not copied, or NULL. */
static enum ps_err
step(struct shard *s, struct event_context *ctx, struct gather *g, const float *now)
{
    const float **gradients;
    struct block_ref ref;
    uint64_t clock = g->clock + 1;
    enum ps_err err;
    uint32_t n;

    block_refind(s, g->variable->id, g->number, &ref);
    if ((err = turn_touch(s, &ref)) != PS_OK)
        return err;
    gradients = collect(s, ctx, g, now, &n);
    if (n > 0 && apply_mean(s, g, &ref, gradients, n, clock)) {
        count_data(s, g, &ref);
        update_count(s, &ref, n);
        count_workers(g, &ref);
        return PS_OK;
    }
    update_clock(&ref, clock);
    return n > 0 ? PS_ERR_NONFINITE : PS_OK;
}

static const char *
why(enum ps_err err)
{
    if (err == PS_OK)
        return NULL;
    return err == PS_ERR_NONFINITE ? "the sum of the workers' gradients is not finite" : ps_strerror(err);
}

void
gather_close(struct shard *s, struct event_context *ctx, struct gather *g, const float *now)
{
    enum ps_err err = step(s, ctx, g, now);

    gather_end(s, g, g->durable && err == PS_OK, err, why(err));
}

/* It ticked past the step and awaits no push of before a restart (clock.h): none will come any more. */
static bool
is_past(const struct session *session, uint64_t clock)
{
    return session->clock > clock && !sequence_awaits(session);
}

/* Enough came: k gradients, or one of every worker that can still send one. One that never joined is waited for, in k
 * of n until all others have ticked past the step. */
bool
gather_complete(const struct gather *g)
{
    const struct job *job = g->variable->job;
    bool all_past = true, all_joined = true;
    uint32_t i = 0;

    if (g->len + PLANTED(ONE_TOO_FEW) >= job->options->quorum)
        return true;
    if (job->live == 0 || (job_is_full_sync(job) && !job_all_joined(job)))
        return false;
    for (uint32_t task = 0; task < job->options->workers; task++) {
        const struct session *x = job_joined(job, task);
        bool in = i < g->len && g->entries[i].task == task;

        i += in;
        all_joined = all_joined && x != NULL;
        if (x == NULL || x->state != SESSION_LIVE || is_past(x, g->clock))
            continue;
        if (!in)
            return false;
        all_past = false;
    }
    return all_joined || all_past;
}

/* Close it, or end it when the store has no room. False: wait for the next turn. */
bool
gather_close_due(struct shard *s, struct event_context *ctx, struct gather *g)
{
    struct block_ref ref;
    uint64_t room;
    enum ps_err err;

    block_refind(s, g->variable->id, g->number, &ref);
    room = ref.variable->kind->room(s, &ref);
    if (g->durable)
        room += redo_room(s, 1, g->len, block_gradient_bytes(&ref));
    switch (turn_room(s, room, &err)) {
    case TURN_WAIT:
        return false;
    case TURN_READY:
        gather_close(s, ctx, g, NULL);
        break;
    case TURN_REFUSED:
        gather_end(s, g, false, err, ps_strerror(err));
        break;
    }
    return true;
}

static void
make_due(struct shard *s, struct gather *g)
{
    DL_DELETE(g->variable->job->gathers, g);
    g->due = true;
    DL_APPEND(s->due, g);
}

void
gather_review(struct shard *s, struct job *job)
{
    struct gather *g, *next;

    DL_FOREACH_SAFE (job->gathers, g, next)
        if (job_active(job) == 0 || gather_complete(g))
            make_due(s, g);
}

bool
gather_work(struct shard *s, struct event_context *ctx)
{
    bool some = false;

    while (s->due != NULL && s->turn.failed == PS_OK) {
        if (!gather_close_due(s, ctx, s->due))
            return some;
        some = true;
    }
    return true;
}

void
gather_end_job(struct shard *s, struct job *job, enum ps_err code, const char *text)
{
    struct gather *g, *next;

    DL_FOREACH_SAFE (job->gathers, g, next)
        gather_end(s, g, false, code, text);
    DL_FOREACH_SAFE (s->due, g, next)
        if (g->variable->job == job)
            gather_end(s, g, false, code, text);
}

void
gather_free_all(struct shard *s, struct job *job)
{
    struct gather *g, *next;

    DL_FOREACH_SAFE (job->gathers, g, next)
        gather_free(s, g);
    DL_FOREACH_SAFE (s->due, g, next)
        if (g->variable->job == job)
            gather_free(s, g);
}

/* ---- Entries ---- */

/* Index of the entry of this task, or of where it belongs. */
uint32_t
gather_entry_index(const struct gather *g, uint32_t task)
{
    uint32_t low = 0, high = g->len;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (g->entries[middle].task < task)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct gather_entry *
gather_entry_find(struct gather *g, uint32_t task)
{
    uint32_t i = gather_entry_index(g, task);

    return i < g->len && g->entries[i].task == task ? &g->entries[i] : NULL;
}

void
gather_forget(struct shard *s, struct pending *p)
{
    for (uint32_t i = 0; i < p->blocks_len; i++) {
        struct gather_entry *entry;
        struct block_ref ref;

        if (p->blocks[i].done)
            continue;
        block_refind(s, p->blocks[i].var, p->blocks[i].block, &ref);
        entry = ref.block->gather != NULL ? gather_entry_find(ref.block->gather, p->session->task) : NULL;
        if (entry != NULL && entry->pending == p)
            entry->pending = NULL;
    }
}

uint32_t
gather_missing(struct gather *g, uint32_t *tasks, uint32_t max)
{
    const struct job *job = g->variable->job;
    uint32_t n = 0;

    for (uint32_t task = 0; task < job->options->workers; task++) {
        const struct session *x = job_joined(job, task);

        if ((x != NULL && (x->state != SESSION_LIVE || is_past(x, g->clock))) || gather_entry_find(g, task) != NULL)
            continue;
        if (n < max)
            tasks[n] = task;
        n++;
    }
    return n;
}
