/* Gathers: the gradients of one block and step in sync, until there are enough for one update.
 *
 *     first push at clock c ──► open ──k-th gradient, or all active workers' ──► one update, clock c + 1
 *                                │ all others ticked past c: due ────────────────► the same with what came
 *                                │ a lapse, job says FAIL ──► pushes end with STEP_FAILED, block unchanged
 *                                └ the last active worker lapsed: dropped; who comes next repeats the step
 *
 * The mean is taken in worker order whatever the order of arrival, so that the bits are the same every time. Due
 * gathers are closed as the turn's room allows (SHARD_WORK). */
#ifndef SERVER_GATHER_H
#define SERVER_GATHER_H

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

struct gather_entry {
    uint32_t task;
    uint32_t index;          /* of the block in its push */
    struct pending *pending; /* who is told, or NULL: nobody any more */
    float *gradient;         /* NULL: dropped, or still in the receive buffer */
    struct cursor_span span; /* of its push's data */
    uint64_t round;          /* of its session then */
    bool dropped;            /* for its age: it counts as come, but not in the mean */
};

struct gather {
    struct variable *variable;
    uint32_t number; /* of the block */
    uint64_t clock, since_ms;
    bool due;
    bool durable;               /* a push in it wants to be: the update goes to the redo log */
    uint32_t len;               /* entries, in rising order of task */
    struct gather *prev, *next; /* in its job, or in the shard's list of due ones */
    struct gather_entry entries[];
};

/* Of one in this job, in memory. */
static inline size_t
gather_size(const struct job *job)
{
    return sizeof(struct gather) + job->options->quorum * sizeof(struct gather_entry);
}

/* Room that the redo log may want for what a push that was checked can close. */
uint64_t gather_redo_room(const struct shard *s, const struct event_context *ctx, const Psd__Push *m);

/* Take a push that was checked and has room. */
void gather_push(struct shard *s, struct event_context *ctx, struct session *session, uint64_t request,
                 const Psd__Push *m);

/* A worker moved on, or one fewer is active: find out which gathers are due. */
void gather_review(struct shard *s, struct job *job);

/* A push that waits forgets its session. */
void gather_forget(struct shard *s, struct pending *p);

/* Active workers whose gradient has not come: up to max into tasks; returns how many there are. */
uint32_t gather_missing(struct gather *g, uint32_t *tasks, uint32_t max);

void gather_free_all(struct shard *s, struct job *job);

/* ---- For gather_push.c and gather_close.c ---- */

/* NULL when out of memory: the turn has failed. */
struct gather *gather_new(struct shard *s, const struct block_ref *ref, uint64_t clock);

/* It is out of its block and its list; what its pushes wait for is the caller's business. */
void gather_free(struct shard *s, struct gather *g);

/* Enough came. */
bool gather_complete(const struct gather *g);

/* The entry of a task, or NULL; its index, or that of where it belongs. */
struct gather_entry *gather_entry_find(struct gather *g, uint32_t task);
uint32_t gather_entry_index(const struct gather *g, uint32_t task);

/* ---- gather_close.c ---- */

/* Close due gathers while there is room. False when there was no room for even one. */
bool gather_work(struct shard *s, struct event_context *ctx);

/* All gathers of a job end; the pushes in them resolve with code (PS_OK: nobody is told). */
void gather_end_job(struct shard *s, struct job *job, enum ps_err code, const char *text);

/* Update the block, for which there is room, and end the gather. now: the gradient that is not copied, or NULL. */
void gather_close(struct shard *s, struct event_context *ctx, struct gather *g, const float *now);

/* Close one that is due, or end it when the store has no room. False: wait for the next turn. */
bool gather_close_due(struct shard *s, struct event_context *ctx, struct gather *g);

#endif
