/* One update of one block: old value and gradient to new value, out of place, or in place when the turn has written the
 * block before. */
#ifndef SERVER_CORE_MODEL_UPDATE_H
#define SERVER_CORE_MODEL_UPDATE_H

#include "common/core/base/base.h"

struct shard;
struct block_ref;
struct variable;

/* A gradient, borrowed, in one of two forms. */
struct gradient {
    const float *values;    /* 4-byte aligned; NULL: it is in the other form */
    const uint16_t *halves; /* float16, which an update out of place decodes in passing */
};

/* Apply after turn_touch(). gradient: [ref->values]; halves not in place, nor where the variable clips by the block's
 * norm. clock: the block's clock after it. The version rises by one. False: the gradient is not finite and the variable
 * refuses that; only out of place, and the block is as it was. In place the caller has checked before. */
bool update_apply(struct shard *s, const struct block_ref *ref, const struct gradient *gradient, float scale,
                  uint64_t clock);

/* The same by the clock that the schedule goes by, when it is not that of now. */
bool update_apply_at(struct shard *s, const struct block_ref *ref, const struct gradient *gradient, float scale,
                     uint64_t clock, uint64_t when_clock);

/* The clock that the schedule of an update goes by: in sync the step that it closes, elsewhere how far all have come.
 */
uint64_t update_when(const struct variable *v, uint64_t clock);

/* Count the pushes whose gradients an update took: one, or those of a step of sync. */
void update_count(struct shard *s, const struct block_ref *ref, uint32_t pushes);

/* Only the clock changes: a step without gradients. */
void update_clock(const struct block_ref *ref, uint64_t clock);

#endif
