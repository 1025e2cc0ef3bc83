/* Values of assigns that wait for their blocks (training/assign.h) at the instant of a save. The save has the jobs'
 * rows, which speak of them; the values themselves are written into the redo log behind the instant, and only when they
 * are on disk the save is closed. So what a start makes of save and log has them as the live store has.
 *
 *     instant ──save_staged_work(), a few at a time──► all are in the log ──SHARD_DURABLE──► the save may close
 *
 * Meanwhile none is erased, and a block that takes its value logs it at once: updates that follow in the log build on
 * it. Where the log cannot be written the save goes on without: it is what mends the log, and the values are as good as
 * not durable. */
#ifndef SERVER_CORE_DURABILITY_SAVE_STAGED_H
#define SERVER_CORE_DURABILITY_SAVE_STAGED_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

struct shard;

struct save_staged {
    bool logs;      /* some are to be logged, or are not on disk yet */
    bool logged;    /* all are in the log, */
    uint64_t until; /* before this piece; 0: that is known when the turn is over */
    uint32_t job;   /* the next one: */
    uint32_t slot, at_var;
    uint64_t at_block;
};

/* A save begins; and is over, well or not. */
void save_staged_begin(struct shard *s);
void save_staged_end(struct shard *s);

/* The turn is over: what it has logged is in the live store, or is to be logged again. */
void save_staged_turn_over(struct shard *s, bool committed);

/* Nothing is in the way of closing the save. */
bool save_staged_done(const struct shard *s);

/* Background work. False of the second: no room for it in this turn. *err: the store has no room for the log, and the
 * save is to give up what it keeps. */
bool save_staged_busy(const struct shard *s);
bool save_staged_work(struct shard *s, enum ps_err *err);

#endif
