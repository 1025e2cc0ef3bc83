/* The update itself: heads here, arrays in the optimizer's kernels. */
#include "server/core/model/update.h"

#include <string.h>

#include "server/core/shard/shard_state.h"

static void
set_arrays(struct optimizer_arrays *a, const uint8_t *value, const struct block_ref *ref)
{
    a->weights = (float *)(uintptr_t)(value + layout_array(ref->cut.stride, 0));
    for (uint32_t i = 0; i < ref->variable->layout.slots; i++)
        a->slot[i] = (float *)(uintptr_t)(value + layout_array(ref->cut.stride, i + 1));
}

static void
set_head(const struct block_ref *ref)
{
    struct block_head *head = (struct block_head *)ref->place;

    if (ref->place != ref->old)
        memcpy(head, ref->old, sizeof *head);
    head->version = ref->block->version;
    head->clock = ref->block->clock;
}

uint64_t
update_when(const struct variable *v, uint64_t clock)
{
    return job_is_sync(v->job) ? clock - 1 : v->job->slowest;
}

/* Out of place: past the caches, where the model does not stay in them. Not a single page, for which the fence behind
 * it costs more than it saves, nor a value that is asked for: it leaves from the caches, where ordinary stores put it.
 */
static bool
streams(const struct shard *s, const struct block_ref *ref)
{
    return ref->cut.size_class > 0 && !ref->asked && s->data_bytes > s->config.stream_min_bytes;
}

bool
update_apply_at(struct shard *s, const struct block_ref *ref, const struct gradient *gradient, float scale,
                uint64_t clock, uint64_t when_clock)
{
    struct optimizer_arrays from, to;
    struct variable *v = ref->variable;
    bool out_of_place = ref->place != ref->old;
    bool stream = out_of_place && streams(s, ref);
    struct optimizer_when when = {.version = ref->block->version + 1, .clock = when_clock};
    bool finite;

    set_arrays(&from, ref->old, ref);
    set_arrays(&to, ref->place, ref);
    if (gradient->halves != NULL)
        finite = optimizer_apply_half(&v->optimizer, &when, scale, ref->cut.len, gradient->halves, &from, &to, stream);
    else
        finite = optimizer_apply(&v->optimizer, &when, scale, ref->cut.len, gradient->values, &from, &to, stream);
    if (!finite && v->refuse_nonfinite) {
        ps_assert(out_of_place);
        memcpy(ref->place, ref->old, PLANTED(REFUSED_LEAVES_TRACE) ? sizeof(struct block_head) : block_size(ref));
        return false;
    }
    s->turn.updated += (uint64_t)ref->cut.len * (1 + v->layout.slots) * sizeof(float);
    ref->block->version++;
    ref->block->clock = clock;
    set_head(ref);
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
    uint64_t bytes = (uint64_t)pushes * ref->cut.len * sizeof(float);

    traffic_pushed(&v->stats, pushes, bytes);
    s->stats.pushes_applied += pushes;
    s->stats.pushed_bytes += bytes;
}

void
update_clock(const struct block_ref *ref, uint64_t clock)
{
    if (ref->place != ref->old)
        memcpy(ref->place, ref->old, block_size(ref));
    ref->block->clock = clock;
    set_head(ref);
}
