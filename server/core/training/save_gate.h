/* The gate between saves and training: whether a save may begin, whether the clock of a checkpoint is there, and
 * whether pushes of the steps after it must wait until its instant has been. Requests, instants and ends: durability/.
 */
#ifndef SERVER_CORE_TRAINING_SAVE_GATE_H
#define SERVER_CORE_TRAINING_SAVE_GATE_H

#include "common/core/base/base.h"

struct shard;
struct job;
struct save_request;

/* A save may begin at the end of this turn. */
bool save_gate_open(const struct shard *s);

/* The requested save may begin now: a checkpoint's clock is there. In sync this may be a later one than was asked for
 * (save_request.h). */
bool save_gate_ready(const struct shard *s, struct save_request *r);

/* Sync: a push of this clock must wait for the next turn, so that the instant of a checkpoint comes before it. */
bool save_gate_holds(struct shard *s, const struct job *job, uint64_t clock);

#endif
