/* The update itself: counts and clocks here, the value behind the variable's kind. */
#include "server/core/model/update.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
update_is_safe(const struct block_ref *ref, float scale, uint64_t when_clock)
{
    const struct variable *v = ref->variable;
    struct optimizer_when when = {.version = ref->block->version + 1, .clock = when_clock};

    return !v->def->refuse_nonfinite ||
           (ref->calm && ref->block->calm && fabsf(scale) <= 1 && optimizer_keeps_finite(&v->def->optimizer, &when));
}

/* False: no memory for the value before. */
static bool
update_keep(struct block_ref *ref, bool value)
{
    ref->before.version = ref->block->version;
    ref->before.clock = ref->block->clock;
    ref->before.calm = ref->block->calm;
    if (!value)
        return true;
    if ((ref->before.value = malloc(ref->size)) == NULL)
        return false;
    memcpy(ref->before.value, ref->place, ref->size);
    return true;
}

void
update_forget(struct block_ref *ref)
{
    free(ref->before.value);
    ref->before.value = NULL;
}

enum ps_err
update_apply_at(struct shard *s, struct block_ref *ref, const struct gradient *gradient, float scale, uint64_t clock,
                uint64_t when_clock)
{
    const struct variable *v = ref->variable;
    struct kind_update u = {.scale = scale,
                            .when = {.version = ref->block->version + 1, .clock = when_clock},
                            .clock = clock,
                            .stream = update_uses_streams(s, ref)};
    bool in_place = ref->place == ref->old, taken;

    if (!update_keep(ref, in_place && (ref->undoable || !update_is_safe(ref, scale, when_clock))))
        return PS_ERR_NOMEM;
    taken = v->kind->apply(ref, gradient, &u);
    if (!ref->undoable)
        update_forget(ref);
    if (!taken)
        return PS_ERR_NONFINITE;
    ref->applied = true;
    s->turn.updated += block_gradient_bytes(ref) * (1 + optimizer_slots(&v->def->optimizer));
    ref->block->version = u.when.version;
    ref->block->clock = clock;
    return PS_OK;
}

void
update_undo(struct shard *s, struct block_ref *ref)
{
    if (ref->applied) {
        ps_assert(ref->undoable);
        ref->block->version = ref->before.version;
        ref->block->clock = ref->before.clock;
        ref->block->calm = ref->before.calm;
    }
    if (ref->applied && ref->before.value != NULL)
        memcpy(ref->place, ref->before.value, ref->size);
    else
        turn_untouch(s, ref);
    ref->applied = false;
}

enum ps_err
update_apply(struct shard *s, struct block_ref *ref, const struct gradient *gradient, float scale, uint64_t clock)
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
