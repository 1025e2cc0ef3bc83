/* A worker leaves: it says goodbye, its lease ends, or it is evicted. Its pending requests are forgotten, its clock
 * holds no worker back any more, and steps and barriers that waited for it are reviewed:
 *
 *     goodbye ──► its session: SESSION_FINISHED ─┐
 *     lapse ────► its session: SESSION_LAPSED ───┼─► clock ──► barriers ──► steps: one worker fewer to wait for, or,
 *     eviction ─► the same, and fenced ──────────┘                          where the job says so, they fail
 *
 * It calls sessions and training, which know nothing of each other here; so it lies above both. */
#ifndef SERVER_CORE_SHARD_WORKER_EXIT_H
#define SERVER_CORE_SHARD_WORKER_EXIT_H

#include <stdint.h>

struct shard;
struct session;
struct job;

/* The worker said goodbye: its clock holds no other back. */
void worker_exit_finish(struct shard *s, struct session *session);

/* Evict a live worker before its lease ends: it lapses now, and its connection ends with FENCED. by: the evictor. */
void worker_exit_evict(struct shard *s, struct session *session, const char *by);

/* The worker's job lost variables: it lapses now, and its connection ends with DROPPED. The others are not notified,
 * since they end likewise. */
void worker_exit_drop(struct shard *s, struct session *session, const char *text);

/* Workers from this number on are no more: those that are live lapse, and their connections end with MISMATCH. */
void worker_exit_beyond(struct shard *s, struct job *job, uint32_t workers, const char *text);

/* Lapse the sessions that are due, and find out when the next one will be. */
void worker_exit_time(struct shard *s);

/* Its messages that wait are forgotten: sync steps keep the gradients, barriers do not count the arrival. */
void worker_exit_forget(struct shard *s, struct session *session);

#endif
