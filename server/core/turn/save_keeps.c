/* A block's two keys differ by their generation: one holds its newest value, the other may hold that of an instant. */
#include "server/core/turn/save_keeps.h"

#include "server/core/shard_state.h"

bool
save_keeps(const struct shard *s, const struct block_ref *ref)
{
    const struct save *save = &s->save;
    const struct variable *v = ref->variable;
    struct save_place place = {.var = v->id, .index = v->kind->index(ref)};

    return save->state == SAVE_RUNNING && !ref->block->left && v->id <= save->vars &&
           place.index < save->counts[v->id] && !MUTATION(INSTANT_OVERWRITTEN) &&
           !save_place_before(place, MUTATION(PASSED_WHEN_HANDED) ? save->handed : save->passed);
}

void
save_left(struct shard *s, const struct block_ref *ref, int by)
{
    struct save *save = &s->save;
    uint64_t size = ref->size;

    ps_assert(ref->block->left == (by < 0) && save->left >= ref->block->left);
    ref->block->left = by > 0;
    save->left += by > 0 ? 1 : (uint64_t)-1;
    save->left_bytes += by > 0 ? size : -size;
}
