/* Values of assigns (training/assign.h) that wait in the store for their blocks: each under a key of its own, beside
 * the block's value, until the assign is done and the block takes it, or it is erased.
 *
 *     staged_put()                 staged_settle(), in an update's room            staged_erase(), in the background
 *     ───────────► block->staged ─────────────────────────────────► block->assign ──────────────────────► (not staged)
 *
 * A value is a block's head and its weights, in the smallest size of the store that holds them. The head's version is
 * the assign's number; its rate is the learning rate by which slots are computed for the weights, so that it does not
 * matter when the block takes them: a replay of the log may let it do so later. A block that has taken it has that
 * number in its own head, so that a start finds what is still to be done. */
#ifndef SERVER_CORE_MODEL_STAGED_H
#define SERVER_CORE_MODEL_STAGED_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "server/core/store/store.h"

struct shard;
struct job;
struct variable;
struct block;
struct block_ref;
struct assigns;
struct assign_slot;
struct block_head;

/* Slots whose assign is done, and which the block has not taken. */
uint8_t staged_unsettled(const struct job *job, const struct block *b);

/* Bytes of the value for this block in the store. */
size_t staged_size(const struct block_ref *ref);

/* Put a value there, for which there is room; values: [ref->values] f32; rate: the variable's learning rate as it came.
 * A second one for the same block takes the first one's place. Counts it; where the assign is done already (a log is
 * replayed), as one that is to be taken. An error has failed the turn. */
enum ps_err staged_put(struct shard *s, const struct block_ref *ref, struct assign_slot *slot, float rate,
                       const float *values) PS_MUST_USE;

/* The value that waits, in the open transaction or as it was committed: its weights lie behind this head. An error has
 * failed the turn. */
enum ps_err staged_get(struct shard *s, const struct block_ref *ref, const struct assign_slot *slot,
                       const struct block_head **value) PS_MUST_USE;

/* The block takes the value: one version more, its clock stays. There is room for its new value. PS_ERR_FULL leaves the
 * turn as it was; any other error has failed it. */
enum ps_err staged_settle(struct shard *s, struct block_ref *ref, struct assign_slot *slot) PS_MUST_USE;

/* Erase it. PS_ERR_FULL: not now; any other error has failed the turn. */
enum ps_err staged_erase(struct shard *s, const struct block_ref *ref, struct assign_slot *slot) PS_MUST_USE;

/* The variable at i of the slot's list; NULL: it was dropped. */
struct variable *staged_variable(const struct shard *s, const struct assigns *a, const struct assign_slot *slot,
                                 uint32_t i);

/* The variable is dropped: what waits for its blocks is of no assign any more. It is erased one by one, before the
 * blocks. */
void staged_drop(struct shard *s, struct variable *v);
enum ps_err staged_erase_dropped(struct shard *s, const struct block_ref *ref) PS_MUST_USE;

/* After blocks are loaded: what waits for them. */
enum ps_err staged_load(struct shard *s, struct ps_error *e) PS_MUST_USE;

#endif
