/* Blocks never go back, so a block that has come to a clock need not be looked at again. */
#include "server/core/training/save_gate.h"

#include "server/core/shard_state.h"

bool
save_gate_open(const struct shard *s)
{
    const struct save *save = &s->save;

    return save->state == SAVE_IDLE && !save->say_abandoned && save->left == 0 && !drop_list_left(&s->drops) &&
           !s->broken && !restore_holds_saves(&s->restore, s->draining);
}

/* Blocks never go back, so the first one that was not there is where to look again. */
static bool
save_gate_all_come(const struct shard *s, const struct job *job, struct save_request *r)
{
    const struct variable *v;

    for (; (v = variable_from(s, r->at.var)) != NULL; r->at = (struct save_place){.var = r->at.var + 1}) {
        if (v->id != r->at.var)
            r->at = (struct save_place){.var = v->id};
        for (; v->job == job && r->at.index < v->ready; r->at.index++)
            if (clock_of_block(job, &v->blocks[r->at.index], CLOCK_FOR_PULL) < r->clock)
                return false;
    }
    return true;
}

/* Least and greatest clock of all blocks; *greatest at least what it was. */
static void
save_gate_range(const struct job *job, uint64_t *least, uint64_t *greatest)
{
    const struct variable *v;

    *least = UINT64_MAX;
    for (v = job->variables; v != NULL; v = v->hh.next)
        for (uint64_t i = 0; i < v->ready; i++) {
            uint64_t clock = clock_of_block(job, &v->blocks[i], CLOCK_FOR_PULL);

            *least = MIN(*least, clock);
            *greatest = MAX(*greatest, clock);
        }
}

static bool
save_gate_sync_ready(const struct shard *s, const struct job *job, struct save_request *r)
{
    uint64_t least, greatest = r->clock;

    if (!save_gate_all_come(s, job, r))
        return false;
    save_gate_range(job, &least, &greatest);
    if (least >= r->clock && (greatest == r->clock || !job_is_full_sync(job)))
        return true;
    r->clock = job_is_full_sync(job) ? greatest : r->clock; /* too late for the one that was asked for */
    r->at = SAVE_PLACE_FIRST;                               /* or blocks were made meanwhile */
    return save_gate_all_come(s, job, r);
}

bool
save_gate_ready(const struct shard *s, struct save_request *r)
{
    const struct job *job = r->job_id != 0 ? s->jobs_by_id[r->job_id] : NULL;

    if (job != NULL && assign_settling(s, job)) /* some blocks would have the values, others not */
        return false;
    if (job == NULL || !r->at_clock)
        return true;
    switch (job->options->mode) {
    case PSD__MODE__SSP:
        return job->slowest >= r->clock;
    case PSD__MODE__SYNC:
        return save_gate_sync_ready(s, job, r);
    default:
        return true;
    }
}

bool
save_gate_holds(struct shard *s, const struct job *job, uint64_t clock)
{
    struct save_request *r;

    if (!save_gate_open(s))
        return false;
    DL_FOREACH (s->save.waiting, r)
        if (r->job_id == job->id && r->at_clock && clock >= r->clock && save_gate_ready(s, r))
            return true;
    return false;
}
