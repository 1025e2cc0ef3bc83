/* The update itself: counts and clocks here, the value behind the variable's kind. */
#include "server/core/model/update.h"

#include "server/core/shard_state.h"

uint64_t
update_when(const struct variable *v, uint64_t clock)
{
    return job_is_sync(v->job) ? clock - 1 : v->job->slowest;
}

/* Past the caches, where the model does not stay in them; but not a value that is asked for: it leaves from the caches,
 * where ordinary stores put it. */
static bool
update_uses_streams(const struct shard *s, const struct block_ref *ref)
{
    return !ref->asked && s->data_bytes > s->config.stream_min_bytes;
}

bool
update_apply_at(struct shard *s, const struct block_ref *ref, const struct gradient *gradient, float scale,
                uint64_t clock, uint64_t when_clock)
{
    const struct variable *v = ref->variable;
    struct kind_update u = {.scale = scale,
                            .when = {.version = ref->block->version + 1, .clock = when_clock},
                            .clock = clock,
                            .stream = update_uses_streams(s, ref)};

    if (!v->kind->apply(ref, gradient, &u))
        return false;
    s->turn.updated += block_gradient_bytes(ref) * (1 + optimizer_slots(&v->optimizer));
    ref->block->version = u.when.version;
    ref->block->clock = clock;
    return true;
}

bool
update_apply(struct shard *s, const struct block_ref *ref, const struct gradient *gradient, float scale, uint64_t clock)
{
    return update_apply_at(s, ref, gradient, scale, clock, update_when(ref->variable, clock));
}

void
update_count(struct shard *s, const struct block_ref *ref, uint32_t pushes)
{
    struct variable *v = ref->variable;
    uint64_t bytes = pushes * block_gradient_bytes(ref);

    traffic_pushed(&v->stats, pushes, bytes);
    s->stats.pushes_applied += pushes;
    s->stats.pushed_bytes += bytes;
}

void
update_clock(const struct block_ref *ref, uint64_t clock)
{
    ref->block->clock = clock;
    ref->variable->kind->carry(ref);
}
