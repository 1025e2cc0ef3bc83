/* A session by the numbers of its job and its task: for modules that session.c calls, too. */
#include "server/core/sessions/session.h"
#include "server/core/shard_state.h"

struct session *
session_find(const struct shard *s, uint32_t job_id, uint32_t task)
{
    const struct job *job = job_id <= s->jobs_len ? s->jobs_by_id[job_id] : NULL;

    return job != NULL && task < job->room ? job->sessions[task] : NULL;
}
