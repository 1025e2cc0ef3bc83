/* The scale of a gradient: by its age and its norm. */
#include "server/core/shard_state.h"
#include "server/core/training/push.h"

uint64_t
push_age(const struct block_ref *ref, const Psd__Push *m, size_t i)
{
    return m->n_from_version > 0 ? ref->block->version - m->from_version[i] : 0;
}

/* Clipping by the norm of the worker's whole gradient (Pascanu, Mikolov and Bengio, ICML 2013). */
static double
push_clip_factor(const struct ps_clip *clip, const Psd__Push *m)
{
    if (clip->kind != PS_CLIP_GIVEN_NORM || m->norm->l2 <= clip->limit)
        return 1;
    return clip->limit / m->norm->l2;
}

float
push_scale(const struct block_ref *ref, const Psd__Push *m, size_t i)
{
    float age = MUTATION(AGE_IGNORED) ? 1 : age_scale(&ref->variable->job->age, push_age(ref, m, i));

    return age < 0 ? age : (float)(age * push_clip_factor(&ref->variable->def->optimizer.clip, m));
}
