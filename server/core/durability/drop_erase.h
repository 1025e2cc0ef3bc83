/* What was dropped (turn/drop_list.h) is erased from the store in bounded turns, as background work:
 *
 *     variables, one after the other:  their blocks, from the last to the first ──► the row ──► out of memory
 *     then jobs:                       cursors and sessions, worker by worker   ──► the row ──► out of memory
 *
 * A row goes after what it stands for, so that a process that starts in the middle finds what is left and goes on.
 * While a save runs, whose blocks some of them may be, nothing is erased; and none begins before all is erased, so that
 * what is dropped in a save was there at its instant. The requests that wait for the end are
 * answered when nothing is left, or a save runs: then the memory comes back later. */
#ifndef SERVER_CORE_DURABILITY_DROP_ERASE_H
#define SERVER_CORE_DURABILITY_DROP_ERASE_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"

#define DROP_ERASE_MAX 64 /* rows and blocks that are erased in one go */

struct shard;
struct connection;

/* There is something to erase, and it may be. False of the second: no room for it in this turn. */
bool drop_erase_busy(const struct shard *s);
bool drop_erase_work(struct shard *s);

/* Answer with this, when the time has come. Out of memory fails the turn. */
void drop_erase_wait(struct shard *s, struct connection *c, uint64_t request, const Psd__Dropped *answer);

/* Before a turn is committed: answer those whose time has come. */
void drop_erase_answer(struct shard *s);

/* Give up those of a connection (request 0: all), with an answer, or without (PS_OK). True when there was one. */
bool drop_erase_end(struct shard *s, struct connection *c, uint64_t request, enum ps_err code);

/* Those that wait, in order of arrival; false from visit ends it. False: it was ended. */
typedef bool (*drop_erase_visit)(void *arg, const struct connection *c, uint64_t since_ms);
bool drop_erase_each(const struct shard *s, drop_erase_visit visit, void *arg);

/* When the shard itself goes. */
void drop_erase_finish(struct shard *s);

#endif
