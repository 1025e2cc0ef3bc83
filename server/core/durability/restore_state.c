/* What other modules ask of a restore; nothing here changes it. */
#include "server/core/durability/restore.h"

#include <string.h>

#include "common/core/cluster/placement.h"
#include "server/core/shard_state.h"

bool
restore_says_no(const struct shard *s, struct ps_error *e)
{
    const struct restore *r = &s->restore;

    switch (r->state) {
    case RESTORE_NONE:
        return false;
    case RESTORE_UNFINISHED:
        (void)ps_fail(e, PS_ERR_BUSY, "shard %u holds half of checkpoint %.128s, restore it again: %.200s",
                      s->config.shard, r->dir, r->failure.text);
        return true;
    case RESTORE_SAVING:
        (void)ps_fail(e, PS_ERR_BUSY, "shard %u has restored checkpoint %.128s and waits until it is on disk%s%.200s",
                      s->config.shard, r->dir, s->save.stats.failure[0] != '\0' ? ": " : "", s->save.stats.failure);
        return true;
    default:
        (void)ps_fail(e, PS_ERR_BUSY, "shard %u restores checkpoint %.128s", s->config.shard, r->dir);
        return true;
    }
}

bool
shard_restore_unfinished(const struct shard *s, const char **dir, const char **job)
{
    *dir = s->restore.dir;
    *job = s->restore.job;
    return s->restore.state == RESTORE_UNFINISHED;
}

uint64_t
shard_restore_by(const char *option)
{
    return placement_hash(option, strlen(option), 0) | 1;
}

static bool
restore_made(const struct job *job, uint64_t by, const char *name)
{
    if (job->restored_boot == 0)
        return false;
    return job->restored_by != 0 ? job->restored_by == by : strcmp(job->restored, name) == 0;
}

bool
shard_was_restored_by(const struct shard *s, uint64_t by, const char *name)
{
    if (s->restore.state == RESTORE_UNFINISHED && s->restore.by == by)
        return false;
    for (const struct job *job = s->jobs; job != NULL; job = job->hh.next)
        if (restore_made(job, by, name))
            return true;
    return false;
}

bool
shard_is_restoring(const struct shard *s, struct ps_error *why)
{
    if (why != NULL)
        *why = s->restore.failure;
    return s->restore.state != RESTORE_NONE;
}

bool
shard_is_half_restored(const struct shard *s)
{
    return s->restore.half;
}

bool
shard_is_empty(const struct shard *s)
{
    return HASH_COUNT(s->jobs) == 0 && s->drops.jobs == NULL && s->variables.next == 0 &&
           s->restore.state == RESTORE_NONE;
}
