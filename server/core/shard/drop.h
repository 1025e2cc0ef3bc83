/* Drops: a job, or variables of it, are to be no more. A DROP is checked whole, then done whole, in the turn's
 * transaction:
 *
 *     DROP ──► job known? ──► live workers? ──► their sessions end ──► rows say "dropped", the redo log too ──┐
 *               │ not found     │ BUSY, unless                                                                │
 *               ▼               ▼ it is forced                                                                ▼
 *           DROPPED            ERROR             DROPPED ◄── erased in the background (durability/drop_erase.h)
 *
 * From then on no client sees it: a job of the same name is a new one, and so is a variable, under an id of its own.
 * Whoever still has the old ones is answered DROPPED: on the connection, when it says hello again, or by its requests.
 *
 * It calls sessions, training and durability, which know nothing of each other here; so it lies above them. */
#ifndef SERVER_CORE_SHARD_DROP_H
#define SERVER_CORE_SHARD_DROP_H

#include "proto/psd.pb-c.h"
#include "server/core/shard/shard.h"

struct connection;
struct job;
struct variable;

/* SHARD_TURN_FULL: its rows do not fit in this turn any more. */
enum shard_result drop_take(struct shard *s, struct connection *c, uint64_t request, const Psd__Drop *m);

/* One that was opened and never used (drop_unused.h), where there is room to write that down. */
enum shard_result drop_job_unused(struct shard *s, struct job *job);

/* Without a message, for the replay of the redo log: the job, or one of its variables. Marks their rows. */
void drop_job(struct shard *s, struct job *job, const char *text);
void drop_variable(struct shard *s, struct variable *v, const char *text);

#endif
