/* How an assign ends: done, or given up. */
#include <inttypes.h>

#include "server/core/shard_state.h"
#include "server/core/training/assign.h"

void
assign_changed(struct shard *s, struct job *job, const struct assign_slot *slot)
{
    turn_mark_job(s, job);
    if (slot->durable)
        job_to_redo(s, job);
    s->assigns_look = true;
}

/* Variables that waited for their first values are as good as any other now: who asks for a block gets it when it has
 * taken them. */
static void
assign_give_first(struct shard *s, const struct job *job, const struct assign_slot *slot)
{
    for (uint32_t i = 0; i < slot->vars_len; i++) {
        struct variable *v = staged_variable(s, &job->assigns, slot, i);

        if (v == NULL || !v->awaits)
            continue;
        v->awaits = false;
        declare_answer(s, v);
    }
}

void
assign_commit(struct shard *s, struct job *job, struct assign_slot *slot, uint64_t clock)
{
    slot->clock = job_is_full_sync(job) ? clock : 0; /* where steps do not need all, blocks are of different ones */
    slot->left = slot->blocks;
    assigns_move(&job->assigns, slot, ASSIGN_COMMITTED);
    assigns_raise(&job->assigns, slot->number, s->turn.number);
    assign_changed(s, job, slot);
    assign_give_first(s, job, slot);
    turn_wake_pulls(s, job);
    s->stats.assigns++;
    actions_log(s, SHARD_LOG_INFO,
                "assign done job=%s number=%" PRIu64 " task=%u blocks=%" PRIu64 " clock=%" PRIu64 "%s", job->name,
                slot->number, slot->task, slot->blocks, slot->clock, slot->first ? " first values" : "");
}

/* Others act on what they learn to be done: first it is on disk, where there is one. */
void
assign_decide(struct shard *s, struct job *job, struct assign_slot *slot, uint64_t clock)
{
    if (!slot->durable || !s->redo.on || redo_failed(s)) {
        assign_commit(s, job, slot, clock);
        return;
    }
    slot->clock = clock;
    assigns_move(&job->assigns, slot, ASSIGN_PREPARED);
    slot->deciding = true;
    slot->until = 0;
    assign_changed(s, job, slot);
    s->assigns_deciding = true;
}

/* The slot of a job that is deciding; NULL. */
static struct assign_slot *
assign_deciding(struct job *job)
{
    struct assign_slot *slot = assigns_undecided(&job->assigns);

    return slot != NULL && slot->deciding ? slot : NULL;
}

/* True: the job still waits for the disk. */
static bool
assign_job_on_disk(struct shard *s, struct job *job, uint64_t until)
{
    struct assign_slot *slot = assign_deciding(job);
    struct assigns *a = &job->assigns;

    if (slot != NULL && slot->until != 0 && slot->until <= until) {
        assign_commit(s, job, slot, slot->clock);
        assign_wake(s, job);
        slot = NULL;
    }
    if (a->giving_up != 0 && a->giving_up_until != 0 && a->giving_up_until <= until) {
        a->given_up = a->giving_up;
        a->giving_up = 0;
    }
    return slot != NULL || a->giving_up != 0;
}

void
assign_on_disk(struct shard *s, uint64_t until)
{
    bool more = false;

    for (uint32_t id = 1; s->assigns_deciding && id <= s->jobs_len; id++)
        more |= s->jobs_by_id[id] != NULL && assign_job_on_disk(s, s->jobs_by_id[id], until);
    s->assigns_deciding = more;
}

void
assign_recorded(struct shard *s, uint64_t until)
{
    for (uint32_t id = 1; s->assigns_deciding && id <= s->jobs_len; id++) {
        struct job *job = s->jobs_by_id[id];
        struct assign_slot *slot = job != NULL ? assign_deciding(job) : NULL;

        if (slot != NULL && slot->until == 0)
            slot->until = until;
        if (job != NULL && job->assigns.giving_up != 0 && job->assigns.giving_up_until == 0)
            job->assigns.giving_up_until = until;
    }
}

/* A store was loaded, and how far its log has come to the disk by then: all of it is waited for. */
static void
assign_job_loaded(struct shard *s, struct job *job)
{
    struct assign_slot *slot = assign_deciding(job);

    if (slot != NULL && slot->until == 0)
        slot->until = s->redo.next;
    if (job->assigns.giving_up != 0 && job->assigns.giving_up_until == 0)
        job->assigns.giving_up_until = s->redo.next;
}

void
assign_loaded(struct shard *s)
{
    for (uint32_t id = 1; id <= s->jobs_len; id++)
        if (s->jobs_by_id[id] != NULL)
            assign_job_loaded(s, s->jobs_by_id[id]);
    s->assigns_unsure = false;
    assign_on_disk(s, s->redo.durable);
}

/* Other shards give up what they have prepared when they learn it: that it is so must outlive this process. */
static void
assign_publish_give_up(struct shard *s, struct job *job, const struct assign_slot *slot)
{
    if (slot->durable && s->redo.on && !redo_failed(s)) {
        job->assigns.giving_up = slot->number;
        job->assigns.giving_up_until = 0;
        s->assigns_deciding = true;
    } else {
        job->assigns.given_up = slot->number;
    }
}

void
assign_give_up(struct shard *s, struct job *job, struct assign_slot *slot)
{
    actions_log(s, SHARD_LOG_INFO, "assign given up job=%s number=%" PRIu64 " task=%u blocks=%" PRIu64, job->name,
                slot->number, slot->task, slot->blocks);
    if (s->config.shard == 0)
        assign_publish_give_up(s, job, slot);
    assigns_move(&job->assigns, slot, ASSIGN_OVER);
    assign_changed(s, job, slot);
}

void
assign_resolve(struct shard *s, struct job *job, uint64_t assigned, uint64_t given_up)
{
    struct assign_slot *slot = assigns_undecided(&job->assigns);

    if (assigned > WIRE_ASSIGN_MAX || (slot == NULL && assigned <= job->assigns.assigned))
        return;
    if (slot != NULL && slot->number == assigned && slot->state == ASSIGN_PREPARED) {
        assign_commit(s, job, slot, slot->clock);
        assign_wake(s, job);
    } else if (slot != NULL && slot->number == given_up && s->config.shard != 0) {
        assign_give_up(s, job, slot);
        assign_wake(s, job);
    }
    if (assigned <= job->assigns.assigned)
        return;
    assigns_raise(&job->assigns, assigned, s->turn.number);
    turn_mark_job(s, job);
}

static void
assign_leave_undecided(struct shard *s, const struct session *session, bool prepared)
{
    struct assign_slot *slot = assigns_undecided(&session->job->assigns);

    if (slot == NULL || slot->task != session->task || slot->incarnation != session->incarnation ||
        (slot->state == ASSIGN_PREPARED && !prepared))
        return;
    assign_give_up(s, session->job, slot);
    assign_wake(s, session->job);
}

void
assign_rolled_back(struct shard *s, const struct session *session)
{
    assign_leave_undecided(s, session, false);
}

void
assign_worker_left(struct shard *s, const struct session *session)
{
    assign_leave_undecided(s, session, MUTATION(PREPARED_GIVEN_UP));
}
