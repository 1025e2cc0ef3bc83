/* Who is slowest. A job's slowest clock is the least of its live workers' and never goes back: a worker that lapsed
 * rejoins there, and when nobody is left the next one begins where the last one stood.
 *
 * In sync a tick does not wait for the pushes before it. A worker holds its place at the oldest push that waits for its
 * step, also over a restart, until that push has come again: else the step would be over for all before its gradients
 * are back.
 *
 * In sync(n of n) no step is done without all, so a worker that has not joined yet stands at 0 and holds back. */
#ifndef SERVER_CLOCK_H
#define SERVER_CLOCK_H

#include "common/base.h"

struct shard;
struct job;
struct session;
struct block;

/* A session becomes live; its clock is set. Counts it. */
void clock_join(struct shard *s, struct session *session);

/* A live session lapses or finishes; its state is already the new one. */
void clock_leave(struct shard *s, struct session *session);

void clock_tick(struct shard *s, struct session *session, uint64_t clock);

/* Its pushes came or were resolved: find out anew where it holds its place. */
void clock_moved(struct shard *s, struct session *session);

/* After loading all sessions of a job. */
void clock_load(struct shard *s, struct job *job);

/* Sync: the clock that the next update of a block belongs to. A block that nobody pushed to moves on with the slowest
 * worker, without being written. */
uint64_t clock_of_block(const struct job *job, const struct block *b);

/* Sync: the highest step that some block is at; all before it are done there. */
uint64_t clock_newest(const struct job *job);

#endif
