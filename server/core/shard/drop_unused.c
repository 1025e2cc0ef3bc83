#include "server/core/shard/drop_unused.h"

#include <string.h>

#include "server/core/shard/drop.h"
#include "server/core/shard_state.h"

/* Whether the hello needs a job, or a session, and the shard takes no more of them. */
static bool
drop_unused_is_full(const struct shard *s, const Psd__Hello *m)
{
    const struct job *job;

    HASH_FIND(hh, s->jobs, m->job->name, strlen(m->job->name), job);
    if (job == NULL && limit_reached(s, LIMIT_JOBS))
        return true;
    return (job == NULL || session_find(s, job->id, m->task) == NULL) && limit_reached(s, LIMIT_SESSIONS);
}

static bool
drop_unused_is(const struct job *job)
{
    return !job->dropped && !job->used && job->live == 0 && job->variables == NULL && job->restored == NULL &&
           job->pulls == NULL && job->barriers == NULL && job->sync_steps == NULL;
}

/* NULL: there is none. */
static struct job *
drop_unused_first(const struct shard *s, const Psd__Hello *m)
{
    for (uint32_t id = 1; id <= s->jobs_len; id++) {
        struct job *job = s->jobs_by_id[id];

        if (job != NULL && drop_unused_is(job) && strcmp(job->name, m->job->name) != 0)
            return job;
    }
    return NULL;
}

enum shard_result
drop_unused(struct shard *s, const Psd__Hello *m)
{
    struct job *job;

    if (m->resume || !drop_unused_is_full(s, m) || (job = drop_unused_first(s, m)) == NULL)
        return SHARD_TAKEN;
    return drop_job_unused(s, job);
}
