/* A save's demands on modules that change what it is of: leave a value of its instant where it is, count values left
 * behind, and remember what a variable was at the instant. How saves begin, erase values left behind, and end:
 * durability/save.h.
 *
 *     turn_touch(): save_keeps()? ──no──► the new value goes under the same key
 *                                 └─yes─► under the other one, and the old value is left: save_left(1)
 *     save_left.c, turn_unmove(), block_load(): a value that was left is gone, or found: save_left(-1), save_left(1)
 *
 *     block_made(): save_keeps_count()                    before it has one more block
 *     a variable's row changes: save_keeps_row()? ─yes──► it is written to save_keeps_put() before that */
#ifndef SERVER_CORE_TURN_SAVE_KEEPS_H
#define SERVER_CORE_TURN_SAVE_KEEPS_H

#include "common/core/base/base.h"
#include "common/core/base/hash.h"
#include "common/include/psclient/ps_err.h"
#include "server/core/store/store.h"

struct shard;
struct variable;
struct block_ref;

/* A variable of the instant that has changed since. */
struct save_changed {
    uint32_t var;
    bool counted;
    uint64_t count;  /* of its blocks at the instant; counted */
    struct span row; /* heap: its row at the instant; NULL: it has not changed, or was read before */
    UT_hash_handle hh;
};

/* Whether the save that runs still needs the block's committed value where it is. Only in SAVE_RUNNING. */
bool save_keeps(const struct shard *s, const struct block_ref *ref);

/* The block's older value is left under its other key (by 1), or that is gone (by -1). */
void save_left(struct shard *s, const struct block_ref *ref, int by);

/* Whether the variable is of the save that runs, and how many of its blocks are. */
bool save_has(const struct shard *s, const struct variable *v);
uint64_t save_count(const struct shard *s, const struct variable *v);

/* The variable gets another block. Without memory the turn fails. */
void save_keeps_count(struct shard *s, const struct variable *v);

/* Whether the variable's row of the instant is still to be read. If so, it is written to the second, a row_sink, before
 * it changes. */
bool save_keeps_row(const struct shard *s, const struct variable *v);
enum ps_err save_keeps_put(struct shard *s, enum store_table table, struct span key, struct span value) PS_MUST_USE;

struct save_changed *save_changed_find(const struct shard *s, uint32_t var); /* NULL: it has not changed */
void save_changed_forget(struct shard *s);                                   /* all of them */

#endif
