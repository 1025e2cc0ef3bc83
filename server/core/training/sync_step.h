/* Synchronous steps: the gradients of one block and step in sync, until there are enough for one update.
 *
 *     first push at clock c ──► open ──k-th gradient, or all active workers' ──► one update, clock c + 1
 *                                │ all others ticked past c: due ────────────────► the same with what came
 *                                │ a lapse, job says FAIL ──► pushes end with STEP_FAILED, block unchanged
 *                                └ the last active worker lapsed: dropped; the next worker repeats the step
 *
 * The mean is taken in worker order whatever the order of arrival, so that the bits are the same every time. Due sync
 * steps are closed as the turn's room allows (SHARD_WORK). */
#ifndef SERVER_CORE_TRAINING_SYNC_STEP_H
#define SERVER_CORE_TRAINING_SYNC_STEP_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"
#include "server/core/sessions/sequence.h"

struct shard;
struct event_context;
struct job;
struct variable;
struct block;
struct block_ref;

struct sync_step_entry {
    uint32_t task;
    uint32_t index;               /* of the block in its push */
    struct pending *pending;      /* push that is answered, or NULL: none any more */
    float *gradient;              /* NULL: dropped, or still in the receive buffer */
    struct data_cursor_span span; /* of its push's data */
    uint64_t round;               /* known_round of its session then */
    /* It counts as come, but not in the mean: it is too old or, pending, of data that the block has already. */
    bool dropped;
};

struct sync_step {
    struct variable *variable;
    uint32_t number; /* of the block */
    uint64_t clock, since_ms;
    bool due;
    bool durable;                  /* a push in it wants to be: the update goes to the redo log */
    uint32_t room;                 /* entries that it may have: the job's quorum when it began */
    uint32_t len;                  /* entries, in rising order of task */
    struct sync_step *prev, *next; /* in its job, or in the shard's list of due ones */
    struct sync_step_entry entries[];
};

/* Memory of a sync step with room for so many entries. */
static inline size_t
sync_step_size(uint32_t room)
{
    return sizeof(struct sync_step) + room * sizeof(struct sync_step_entry);
}

/* Room that the redo log may want for what a push that was checked can close. */
uint64_t sync_step_redo_room(const struct shard *s, const struct event_context *ctx, const Psd__Push *m);

/* Take a push that was checked and has room. */
void sync_step_push(struct shard *s, struct event_context *ctx, struct session *session, uint64_t request,
                    const Psd__Push *m);

/* A worker moved on, or one fewer is active: find out which sync steps are due. */
void sync_step_review(struct shard *s, struct job *job);

/* A push that waits forgets its session. */
void sync_step_forget(struct shard *s, struct pending *p);

/* Active workers whose gradient has not come: up to max into tasks; returns how many there are. */
uint32_t sync_step_missing(struct sync_step *g, uint32_t *tasks, uint32_t max);

/* Those that wait end without an update; those that are due get theirs. */
void sync_step_end_waiting(struct shard *s, struct job *job, enum ps_err code, const char *text);

void sync_step_free_all(struct shard *s, struct job *job);

/* ---- For sync_step_push.c and sync_step_close.c ---- */

/* NULL when out of memory: the turn has failed. */
struct sync_step *sync_step_new(struct shard *s, const struct block_ref *ref, uint64_t clock);

/* It is out of its block and its list; its pushes are resolved by the caller. */
void sync_step_free(struct shard *s, struct sync_step *g);

/* Enough came. */
bool sync_step_complete(const struct sync_step *g);

/* The entry of a task, or NULL; its index, or that of where it belongs. */
struct sync_step_entry *sync_step_entry_find(struct sync_step *g, uint32_t task);
uint32_t sync_step_entry_index(const struct sync_step *g, uint32_t task);

/* ---- sync_step_close.c ---- */

/* Close due sync steps while there is room. False when there was no room for even one. */
bool sync_step_work(struct shard *s, struct event_context *ctx);

/* All sync steps of a job end; the pushes in them resolve with code (PS_OK: without an answer). */
void sync_step_end_job(struct shard *s, struct job *job, enum ps_err code, const char *text);

/* Update the block, for which there is room, and end the sync step. now: the gradient that is not copied, or NULL. */
void sync_step_close(struct shard *s, struct event_context *ctx, struct sync_step *g, const float *now);

/* Close one that is due, or end it when the store has no room. False: wait for the next turn. */
bool sync_step_close_due(struct shard *s, struct event_context *ctx, struct sync_step *g);

#endif
