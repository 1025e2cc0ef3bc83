/* The turn: one write transaction over the events between two commits.
 *
 * It begins lazily, when the first block is written, and asks the store for STORE_ROOM_TURN of room; an event that
 * would pass that waits for the next turn. Rows (jobs, variables, sessions) are marked as they change and written once,
 * at the end. A failure in the middle of a turn fails the turn: nothing of it will have happened.
 *
 *              first block          TURN_WAIT: no room left, end the turn
 *     (idle) ──────────────► begun ───────────────────────────────────────► committed ──► (idle, next number)
 *        │ rows only            │ store error, out of memory                  ▲
 *        └──────────────────────┼─────────────────────────────────────────────┘
 *                               └──► failed ──► aborted, all reloaded ──► (idle, next number)
 */
#ifndef SERVER_CORE_TURN_TURN_H
#define SERVER_CORE_TURN_TURN_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

struct shard;
struct session;
struct variable;
struct job;
struct block_ref;

/* Room of a turn that is left for rows, at least and at most. */
#define TURN_ROWS_MIN (1 * MIB)
#define TURN_ROWS_MAX (8 * MIB)

struct turn {
    uint64_t number; /* counts from 1 */
    bool begun;
    bool full;          /* the store had no room: do not ask again in this turn */
    bool wrote;         /* a block */
    enum ps_err failed; /* why nothing of this turn will have happened, or PS_OK */
    uint64_t granted;   /* bytes of blocks that may be written */
    uint64_t used;
    uint64_t updated; /* bytes of weights and slots, each time that they were */
    uint64_t rows;    /* marked */
    struct session *sessions;
    struct variable *variables;
    struct job *jobs;
};

enum turn_room { TURN_READY, TURN_WAIT, TURN_REFUSED };

/* Make sure that `bytes` of block values can be written now, and begin if need be. TURN_WAIT: end the turn and try
 * again. TURN_REFUSED: *err says why (PS_ERR_FULL, PS_ERR_IO); nothing was begun. */
enum turn_room turn_room(struct shard *s, uint64_t bytes, enum ps_err *err);

/* After TURN_READY: find where the block's old value is read and where the new one is written: ref->old, ref->place;
 * the same place when the turn has written it before. PS_ERR_FULL leaves the turn as it was; any other error has failed
 * it. */
enum ps_err turn_touch(struct shard *s, struct block_ref *ref) PS_MUST_USE;

/* Take a turn_touch() back: the block's new place holds its old value. */
void turn_untouch(struct shard *s, struct block_ref *ref);

/* If turn_touch() moved it to its other key for a save: move it back. A block that moves has changed, so that its two
 * values can be told apart by version and clock. */
void turn_unmove(struct shard *s, struct block_ref *ref);

/* The same for a block that does not exist yet. */
enum ps_err turn_create(struct shard *s, struct block_ref *ref) PS_MUST_USE;

/* After TURN_READY for n times STORE_ROW_ROOM: so many rows more than the few that events mark as they go. */
void turn_take_rows(struct shard *s, uint64_t n);

/* Write this row at the end of the turn. */
void turn_mark_session(struct shard *s, struct session *session);
void turn_unmark_session(struct shard *s, struct session *session); /* it is freed before that */
void turn_mark_variable(struct shard *s, struct variable *v);
void turn_mark_job(struct shard *s, struct job *job);

/* Pulls of this job may be ready: they are looked at when the turn ends (pull_sweep()). */
void turn_wake_pulls(struct shard *s, struct job *job);

void turn_fail(struct shard *s, enum ps_err why);

/* It has something to commit, besides what waits for the redo log (redo_waits()). */
bool turn_dirty(const struct shard *s);

/* Begin the store's transaction with so much room; needed: a save may be given up for it. */
enum ps_err turn_begin(struct shard *s, uint64_t room, bool needed) PS_MUST_USE;

/* Leave the marks; the next turn starts. */
void turn_next(struct shard *s);

#endif
