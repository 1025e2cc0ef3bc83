/* A save's demands on modules that write blocks: leave a value of its instant where it is, and count values left
 * behind. How saves begin, erase these, and end: durability/save.h.
 *
 *     turn_touch(): save_keeps()? ──no──► the new value goes under the same key
 *                                 └─yes─► under the other one, and the old value is left: save_left(1)
 *     save_left.c, turn_unmove(), block_load(): a value that was left is gone, or found: save_left(-1), save_left(1) */
#ifndef SERVER_CORE_TURN_SAVE_KEEPS_H
#define SERVER_CORE_TURN_SAVE_KEEPS_H

#include "common/core/base/base.h"

struct shard;
struct block_ref;

/* Whether the save that runs still needs the block's committed value where it is. Only in SAVE_RUNNING. */
bool save_keeps(const struct shard *s, const struct block_ref *ref);

/* The block's older value is left under its other key (by 1), or that is gone (by -1). */
void save_left(struct shard *s, const struct block_ref *ref, int by);

#endif
