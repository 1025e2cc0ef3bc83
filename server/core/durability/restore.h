/* Restores: a checkpoint's values put into the store.
 *
 *                   SHARD_RESTORE, checked    no save runs, nothing is left     the last block: another boot,
 *                                             behind: all connections end       in the same transaction
 *     RESTORE_NONE ─────────────► RESTORE_WAITING ──► RESTORE_CLOSED ──► RESTORE_FILLING ──► RESTORE_SAVING ──► (none)
 *                                                       rows, reloaded      │      a save that holds all of it is on
 *           a start that finds it half done             from the store      │      disk; at once without a durable
 *                          └──► RESTORE_UNFINISHED ◄────────────────────────┘      environment
 *                                     │             it cannot be read, no room
 *                                     └── SHARD_RESTORE ──► RESTORE_WAITING
 *
 * Outside RESTORE_NONE no worker is admitted: it would train on half of a model. Nothing is changed before all is known
 * to fit: job and variables that are there are the same, those that are not have room.
 *
 * A fact (metadata_rows.h) says that it is under way, from before the first change until the save is there: a process
 * that finds it does it again, from the first block. Job and variables are written as rows and loaded, as on a start;
 * workers of the job are forgotten, its clock is the checkpoint's. Then blocks are filled in bounded turns as
 * background work.
 *
 * restore_state.c answers other modules; restore_check.c checks whether it can be done; restore_rows.c writes rows;
 * restore_fill.c fills blocks; restore.c is the state machine. */
#ifndef SERVER_CORE_DURABILITY_RESTORE_H
#define SERVER_CORE_DURABILITY_RESTORE_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"
#include "server/core/turn/shard_types.h"

struct connection;
struct checkpoint;

enum restore_state {
    RESTORE_NONE,
    RESTORE_WAITING,
    RESTORE_CLOSED,
    RESTORE_FILLING,
    RESTORE_SAVING,
    RESTORE_UNFINISHED
};

struct restore {
    enum restore_state state;
    char *dir, *job;              /* as it was asked for */
    struct shard_restore *source; /* ours, but in SAVING and UNFINISHED */
    uint64_t conn, request;       /* the client that asked: may be gone; 0: none */
    uint64_t by;                  /* shard_restore_by() of the option that asked; 0: none */
    uint32_t *ids;                /* FILLING: [variables of the manifest] ids here; 0: no block of it is here */
    size_t variable;              /* FILLING: the next block */
    uint64_t index;
    uint8_t *value;                    /* FILLING: a block's, as it is read */
    uint64_t blocks, bytes, variables; /* that were filled */
    bool half;                         /* the store holds part of one, which is not read or saved */
    bool filled;                       /* this turn ends the filling, */
    bool saved;                        /* or all of it */
    uint64_t save;                     /* SAVING: number of a save that holds it */
    struct ps_error failure;
};

void restore_finish(struct shard *s);

/* What an earlier process left. */
enum ps_err restore_load(struct shard *s, struct ps_error *e) PS_MUST_USE;

/* MSG_RESTORE, and the glue's answer to it. SHARD_TURN_FULL: not in this turn. */
void restore_ask(struct shard *s, struct connection *c, uint64_t request, const Psd__Restore *m);
void restore_take(struct shard *s, const struct shard_event *event);

/* There is background work; false of the second: no room for it in this turn. */
bool restore_busy(const struct shard *s);
bool restore_work(struct shard *s);

/* The turn is over; and all was loaded again. */
void restore_turn_over(struct shard *s, bool committed);
void restore_reloaded(struct shard *s);

/* ---- restore_state.c ---- */

/* Why no worker may train now, as a sentence. False: all may. */
bool restore_says_no(const struct shard *s, struct ps_error *e);

/* No save may begin. A shard that stops begins no restore. */
static inline bool
restore_holds_saves(const struct restore *r, bool draining)
{
    return r->half || (!draining && (r->state == RESTORE_WAITING || r->state == RESTORE_CLOSED));
}

/* ---- restore_fill.c ---- */

/* Where the manifest's variables are here; and back to the first block. False: no memory. */
bool restore_find(struct shard *s) PS_MUST_USE;

/* Fill some blocks; the last ones end the filling. False: no room for one in this turn. *e: why it cannot go on; then
 * it is to be stopped. */
bool restore_fill(struct shard *s, struct ps_error *e);

/* ---- restore_check.c ---- */

/* The job's name here. */
const char *restore_job_name(const struct shard_restore *r);

/* All errors that can be found without a change: MISMATCH, FULL, LIMIT, NOMEM. Counts what would be done. */
struct restore_plan {
    uint64_t variables, blocks, bytes; /* of this shard */
};
enum ps_err restore_check(struct shard *s, const struct shard_restore *r, struct restore_plan *plan,
                          struct ps_error *e) PS_MUST_USE;

/* ---- restore_rows.c: in transactions of its own; no turn is open ---- */

/* Record that it is under way, forget the job's workers, write job and variables. Before a reload. */
enum ps_err restore_rows_begin(struct shard *s, const struct shard_restore *r, struct ps_error *e) PS_MUST_USE;

/* Within the turn: all blocks are there, the boot is another; and nothing is under way any more. */
enum ps_err restore_rows_filled(struct shard *s, uint64_t boot) PS_MUST_USE;
enum ps_err restore_rows_end(struct shard *s) PS_MUST_USE;

/* The record of a restore under way. */
struct restore_record {
    char *dir, *job; /* heap; NULL: there is none */
    bool filled;
    uint64_t by;
};

/* PS_ERR_IO, also when it is damaged; PS_ERR_NOMEM; then *out is zeroed. */
enum ps_err restore_rows_load(struct shard *s, struct restore_record *out) PS_MUST_USE;

#endif
