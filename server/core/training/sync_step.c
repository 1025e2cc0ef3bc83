/* Synchronous steps. Entries are kept in order of task, so that the sum is taken in worker order. How pushes join is
 * sync_step_push.c's, how sync steps end sync_step_close.c's. */
#include "server/core/training/sync_step.h"

#include "server/core/shard_state.h"

/* ---- Life ---- */

struct sync_step *
sync_step_new(struct shard *s, const struct block_ref *ref, uint64_t clock)
{
    struct job *job = ref->variable->job;
    struct sync_step *g = pool_take(&s->pool, sync_step_size(job->quorum));

    if (g == NULL) {
        turn_fail(s, PS_ERR_NOMEM);
        return NULL;
    }
    *g = (struct sync_step){
        .variable = ref->variable, .number = ref->number, .clock = clock, .since_ms = s->now_ms, .room = job->quorum};
    ref->block->sync_step = g;
    DL_APPEND(job->sync_steps, g);
    return g;
}

void
sync_step_free(struct shard *s, struct sync_step *g)
{
    struct job *job = g->variable->job;
    struct block_ref ref;

    block_refind(s, g->variable->id, g->number, &ref);
    ref.block->sync_step = NULL;
    assign_step_gone(s, job, ref.block);
    if (g->due)
        DL_DELETE(s->due, g);
    else
        DL_DELETE(job->sync_steps, g);
    for (uint32_t i = 0; i < g->len; i++)
        pool_give(&s->pool, g->entries[i].gradient, block_gradient_bytes(&ref));
    pool_give(&s->pool, g, sync_step_size(g->room));
}

/* ---- What is due ---- */

/* It ticked past the step and awaits no push of before a restart (clock.h): none will come any more. */
static bool
sync_step_is_past(const struct session *session, uint64_t clock)
{
    return session->clock > clock && !sequence_awaits(session);
}

/* Each worker that can still send a gradient has one in. any: there is such a worker. */
static bool
sync_step_has_all_live(const struct sync_step *g, bool *any)
{
    const struct job *job = g->variable->job;
    uint32_t i = 0;

    *any = false;
    for (uint32_t task = 0; task < job->workers; task++) {
        const struct session *x = job_joined(job, task);
        bool in = i < g->len && g->entries[i].task == task;

        i += in;
        if (x == NULL || x->state != SESSION_LIVE || sync_step_is_past(x, g->clock))
            continue;
        if (!in)
            return false;
        *any = true;
    }
    return true;
}

/* All workers' gradients are needed: one that never joined is waited for, whatever the others do. */
static bool
sync_step_complete_in_full_sync(const struct sync_step *g)
{
    bool any;

    return job_all_joined(g->variable->job) && sync_step_has_all_live(g, &any);
}

/* k of n are needed, and fewer can come: one that never joined is waited for until all others have ticked past the
 * step. */
static bool
sync_step_complete_in_quorum(const struct sync_step *g)
{
    bool any;

    return sync_step_has_all_live(g, &any) && (!any || job_all_joined(g->variable->job));
}

bool
sync_step_complete(const struct sync_step *g)
{
    const struct job *job = g->variable->job;

    if (g->len + MUTATION(ONE_TOO_FEW) >= job->quorum)
        return true;
    if (job->live == 0)
        return false;
    return job_is_full_sync(job) ? sync_step_complete_in_full_sync(g) : sync_step_complete_in_quorum(g);
}

static void
sync_step_make_due(struct shard *s, struct sync_step *g)
{
    DL_DELETE(g->variable->job->sync_steps, g);
    g->due = true;
    DL_APPEND(s->due, g);
}

void
sync_step_review(struct shard *s, struct job *job)
{
    struct sync_step *g, *next;

    DL_FOREACH_SAFE (job->sync_steps, g, next)
        if (job_active(job) == 0 || sync_step_complete(g))
            sync_step_make_due(s, g);
}

void
sync_step_free_all(struct shard *s, struct job *job)
{
    struct sync_step *g, *next;

    DL_FOREACH_SAFE (job->sync_steps, g, next)
        sync_step_free(s, g);
    DL_FOREACH_SAFE (s->due, g, next)
        if (g->variable->job == job)
            sync_step_free(s, g);
}

/* ---- Entries ---- */

/* Index of the entry of this task, or of where it belongs. */
uint32_t
sync_step_entry_index(const struct sync_step *g, uint32_t task)
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

struct sync_step_entry *
sync_step_entry_find(struct sync_step *g, uint32_t task)
{
    uint32_t i = sync_step_entry_index(g, task);

    return i < g->len && g->entries[i].task == task ? &g->entries[i] : NULL;
}

void
sync_step_forget(struct shard *s, struct pending *p)
{
    for (uint32_t i = 0; i < p->blocks_len; i++) {
        struct sync_step_entry *entry;
        struct block_ref ref;

        if (p->blocks[i].done)
            continue;
        block_refind(s, p->blocks[i].var, p->blocks[i].block, &ref);
        entry = ref.block->sync_step != NULL ? sync_step_entry_find(ref.block->sync_step, p->session->task) : NULL;
        if (entry != NULL && entry->pending == p)
            entry->pending = NULL;
    }
}

uint32_t
sync_step_missing(struct sync_step *g, uint32_t *tasks, uint32_t max)
{
    const struct job *job = g->variable->job;
    uint32_t n = 0;

    for (uint32_t task = 0; task < job->workers; task++) {
        const struct session *x = job_joined(job, task);

        if ((x != NULL && (x->state != SESSION_LIVE || sync_step_is_past(x, g->clock))) ||
            sync_step_entry_find(g, task) != NULL)
            continue;
        if (n < max)
            tasks[n] = task;
        n++;
    }
    return n;
}
