/* Saves: one instant of the shard, copied to somewhere else block by block while updates go on.
 *
 *                 SHARD_SAVE, MSG_SAVE                       last block passed
 *     SAVE_IDLE ───────────────────────► SAVE_RUNNING ──────────────────────────► SAVE_CLOSING ──SHARD_SAVE_ENDED──►
 * SAVE_IDLE after a commit: rows        │ no room for an update beside the old value are copied, blocks counted
 * └──SHARD_SAVE_ABANDONED──► SAVE_IDLE (what is left behind is erased)
 *
 * The instant is that of a commit. Until the saver has passed a block, its value of that instant stays where it is: the
 * first update writes under the other generation's key and leaves the old value behind; what is left behind is erased,
 * a few at a time, in turns after the saver passed. So the saver reads committed values, each in a read transaction of
 * its own, and nobody waits.
 *
 *     pages of the live store during a save: at most twice the data, the more the faster it changes
 *
 * Which blocks belong to the save: those that were there at the instant. Order: variable by variable, in order of
 * blocks; a cursor separates those passed from those that wait, so no block carries a mark but which key it lies under
 * and whether an older value is left under the other one.
 *
 * After a crash both keys may be there: the newer value (version, then clock) is the block, the other is erased.
 *
 * A checkpoint is a save of one job into files (checkpoint.h), at a clock when asked for; one save runs at a time,
 * others wait in line. */
#ifndef SERVER_SAVE_H
#define SERVER_SAVE_H

#include "common/base.h"
#include "common/ps_err.h"
#include "shard.h"
#include "store.h"

struct shard;
struct connection;
struct block_ref;

enum save_state { SAVE_IDLE, SAVE_RUNNING, SAVE_CLOSING };

#endif
