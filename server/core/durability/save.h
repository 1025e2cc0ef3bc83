/* Saves: one instant of the shard, copied to somewhere else block by block while updates go on.
 *
 *                 begin: after a commit                 the last block         SHARD_SAVE_ENDED
 *                                                       is passed              (either state: with an error)
 *     SAVE_IDLE ──────────────────────────► SAVE_RUNNING ─────────► SAVE_CLOSING ──────────────────► SAVE_IDLE
 *                                             └──no room for an update beside the old value: abandoned──► SAVE_IDLE
 *
 * The instant takes as long as there are workers, not variables: these are looked at afterwards, some in each event of
 * background work (save_prepare()), for their rows and how many blocks they have. One that changes before that is
 * remembered as it was (save_keeps.h). When all were looked at, the save is handed out, and the saver begins.
 *
 * The instant is that of a commit. Until the saver has passed a block, its value of that instant stays where it is: the
 * first update writes under the other generation's key and leaves the old value behind; what is left behind is erased,
 * a few at a time, in turns after the saver passed. So the saver reads committed values, each in a read transaction of
 * its own, and nothing waits.
 *
 *     blocks in order    passed, erased │ passed, to erase │ handed out, being read │ waiting
 *                                    erase              passed                  handed
 *
 *     pages of the live store during a save: at most twice the data, the more the faster it changes
 *
 * The save's blocks are those that were there at the instant. Order: variable by variable, in order of blocks; a place
 * separates those passed from those that wait, so no block carries a mark but which key it lies under and whether an
 * older value is left under the other one. No save begins before all that is left behind was erased.
 *
 * SHARD_SAVE_CLOSE and SHARD_SAVE_ABANDONED go out after the turn that caused them, whether it was committed or not:
 * they are no part of it, since a turn may fail and be undone. The saver may have read a block after the save was
 * abandoned, so it ends a save only after SHARD_SAVE_CLOSE.
 *
 * After a crash both keys may be there: the newer value (version, then clock) is the block, the other is erased. The
 * same goes for a turn that fails while a save runs, which goes on: what it knows of blocks is in the store.
 *
 * Values of assigns that wait at the instant lie in the redo log behind it (save_staged.h).
 *
 * Draining does not wait for a save, and a save not for draining: both go on until the process ends.
 *
 * A checkpoint is a save of one job into files (checkpoint.h), at a clock when asked for; one save runs at a time,
 * others wait in line (save_request.h). */
#ifndef SERVER_CORE_DURABILITY_SAVE_H
#define SERVER_CORE_DURABILITY_SAVE_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"
#include "server/core/durability/save_staged.h"
#include "server/core/store/store.h"
#include "server/core/turn/durations.h"
#include "server/core/turn/shard_types.h"

#define SAVE_ERASE_MAX 64 /* values left behind that are erased in one go */

struct shard;
struct block_ref;
struct save_request;

enum save_state { SAVE_IDLE, SAVE_RUNNING, SAVE_CLOSING };

/* Between two blocks: before this one. */
struct save_place {
    uint32_t var; /* id; past the last one: all blocks lie before */
    uint64_t index;
};
#define SAVE_PLACE_FIRST ((struct save_place){.var = 1})
#define SAVE_PLACE_END   ((struct save_place){.var = UINT32_MAX})

static inline bool
save_place_before(struct save_place a, struct save_place b)
{
    return a.var != b.var ? a.var < b.var : a.index < b.index;
}

/* A variable's blocks of the instant. */
struct save_part {
    uint32_t var;
    uint64_t count;
};

/* Figures for reports: of saves to the durable environment; of checkpoints, how many there were. */
struct save_stats {
    uint64_t saves, failures;
    uint64_t checkpoints, checkpoint_failures;
    uint64_t instant_ms, last_ms, last_bytes; /* of the newest complete one */
    struct durations took;                    /* complete ones */
    char failure[PS_ERROR_TEXT_MAX];          /* of the last one, or "" */
};

struct save {
    enum save_state state;
    uint64_t number;   /* of the newest that began */
    uint64_t complete; /* of the newest that was completed, over all processes */
    bool changed;      /* since its instant */
    struct save_stats stats;

    /* The one that runs. */
    struct save_request *answering; /* requests that wait for its end; the first one defines it */
    uint32_t job_id;                /* of a checkpoint: its variables alone; 0: all */
    uint32_t vars;                  /* the greatest id of a variable at the instant, or one of before */
    uint32_t looked; /* variables up to this id were looked at, and have their parts and rows; all: it was handed out */
    struct save_changed *variables_changed; /* since the instant: a hash by id */
    struct save_part *parts;                /* [parts_len], in order of id; none is empty */
    size_t parts_len, parts_room;
    uint64_t parts_blocks;  /* of all of them */
    struct save_copy *copy; /* rows of the instant, until it is handed out */
    size_t handed_part, passed_part;
    struct save_place handed, passed;              /* in these parts */
    uint64_t handed_len, passed_len, len, bytes;   /* blocks, and the bytes of all */
    uint64_t begun_ms, begun_ns, redo, redo_bytes; /* pieces of the log before this one are in it; their bytes */
    Psd__CheckpointDone *done;                     /* of a checkpoint: its instant */
    bool say_begun, say_close, say_abandoned;      /* after this turn */
    struct save_staged staged;                     /* values that are to be logged behind its instant */

    /* Values left behind, by any save. */
    struct save_place erase;
    uint64_t left, left_bytes;
    bool no_room; /* to erase: until something else was committed, or a save is asked for */

    struct save_request *waiting; /* in order of arrival */
};

void save_init(struct shard *s);
void save_finish(struct shard *s);

/* The saver's events. */
void save_passed(struct shard *s, uint64_t blocks);
void save_ended(struct shard *s, const struct shard_event *event);

/* End the save that runs, if one does: its values are needed no more. */
void save_abandon(struct shard *s, enum ps_err why);

/* The disk failed, and perhaps a new durable environment is begun. Pieces of the log since the instant of a save may be
 * in the old one alone: the save ends, if it was not handed out (else the saver ends it). */
void save_not_durable(struct shard *s, const struct ps_error *why);

/* The turn is over, committed or not: report the save's begin, close or abandonment, and begin the next save if one
 * may. */
void save_turn_ended(struct shard *s);

/* There are variables of the instant to be looked at, in background work, before the saver begins. */
bool save_prepares(const struct shard *s);
void save_prepare(struct shard *s);

/* A turn was committed, with changes or only with what was erased. */
void save_committed(struct shard *s, bool changed);

/* ---- Values left behind (save_left.c) ---- */

/* There are values that may be erased, in background work. False: no room for it in this turn. */
bool save_busy(const struct shard *s);
bool save_work(struct shard *s);

/* The store is full, and no transaction is open: erase some of what was left behind; yield: and if none of that may be
 * erased, abandon the save, so that it may. False: nothing was erased. */
bool save_make_room(struct shard *s, bool yield);

/* Blocks are forgotten, to be loaded again; and were loaded (ok), or could not be. */
void save_unload(struct shard *s);
void save_loaded(struct shard *s, bool ok);

/* ---- Reports ---- */

void save_report(const struct shard *s, Psd__SaveReport *out);

#endif
