/* Settings: changes of a running job. A SET is checked whole, then done whole, in the turn's transaction; the rows of
 * the job and of the variables keep it, so that it outlives the process.
 *
 *     SET ──► job known? ──► every variable that the pattern names: parameters its own, in range? ──► SET_DONE
 *               │ NOT_FOUND      │ INVALID, which variable and what; FULL, no room for its rows: nothing has changed
 *
 * A schedule that begins now begins at each variable's version or clock; what is kept is that number, so that a restart
 * and a replay find the same.
 *
 * Declarations stay as they were (job->options, variable->def->declare): later hellos and declares may be as these or
 * as what is in force, which are job->age, job->bound, job->workers (resize.h) and variable->def->optimizer. A change
 * holds from the next update on; parked pulls that a larger bound lets go leave with this turn. */
#ifndef SERVER_CORE_SHARD_SETTING_H
#define SERVER_CORE_SHARD_SETTING_H

#include "proto/psd.pb-c.h"
#include "server/core/shard/shard.h"

struct connection;

/* SHARD_TURN_FULL: its rows do not fit in this turn any more. */
enum shard_result setting_take(struct shard *s, struct connection *c, uint64_t request, const Psd__Set *m);

#endif
