/* What other modules ask of a restore; nothing here changes it. */
#include "server/core/durability/restore.h"
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
    return s->jobs_len == 0 && s->restore.state == RESTORE_NONE;
}
