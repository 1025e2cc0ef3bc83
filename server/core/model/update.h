/* One update of one block: old value and gradient to new value, out of place, or in place when the turn has written the
 * block before. */
#ifndef SERVER_CORE_MODEL_UPDATE_H
#define SERVER_CORE_MODEL_UPDATE_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

struct shard;
struct block_ref;
struct variable;

/* A gradient, borrowed, in one of two forms. */
struct gradient {
    const float *values;    /* 4-byte aligned; NULL: it is in the other form */
    const uint16_t *halves; /* float16, which an update out of place decodes in passing */
};

/* Apply after turn_touch(). gradient: [ref->values]; halves not in place, nor where the variable clips by the block's
 * norm. clock: the block's clock after it. The version rises by one.
 *
 * PS_ERR_NONFINITE: the gradient is not finite, or a weight or slot would not be, and the variable refuses that; the
 * block is as it was. In place its value before is kept aside for that, unless the update is safe. PS_ERR_NOMEM: there
 * is no memory to keep it; the block is as it was. */
enum ps_err update_apply(struct shard *s, struct block_ref *ref, const struct gradient *gradient, float scale,
                         uint64_t clock) PS_MUST_USE;

/* The same by the clock that the schedule goes by, when it is not that of now. */
enum ps_err update_apply_at(struct shard *s, struct block_ref *ref, const struct gradient *gradient, float scale,
                            uint64_t clock, uint64_t when_clock) PS_MUST_USE;

/* Whether the update cannot be refused: block and gradient are so small (ref->calm) that nothing overflows. */
bool update_is_safe(const struct block_ref *ref, float scale, uint64_t when_clock);

/* Takes an update back, in the same event, for which ref->undoable was set. Of several of one block the last one first.
 * One that was not applied loses its place: turn_untouch(). */
void update_undo(struct shard *s, struct block_ref *ref);

/* What was kept aside for update_undo() is not needed any more. */
void update_forget(struct block_ref *ref);

/* The clock that the schedule of an update goes by: in sync the step that it closes, elsewhere how far all have come.
 */
uint64_t update_when(const struct variable *v, uint64_t clock);

/* Count the pushes whose gradients an update took: one, or those of a step of sync. */
void update_count(struct shard *s, const struct block_ref *ref, uint32_t pushes);

/* Only the clock changes: a step without gradients. */
void update_clock(const struct block_ref *ref, uint64_t clock);

#endif
