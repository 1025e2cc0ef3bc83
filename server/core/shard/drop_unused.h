/* Jobs that were opened and never used: no worker of theirs is live, and none has declared a variable, pushed, ticked
 * or been at a barrier. They hold nothing that anybody could miss, so where a shard has all the jobs or sessions that
 * it takes, the oldest of them goes, as if it had been dropped, for one that a worker opens. */
#ifndef SERVER_CORE_SHARD_DROP_UNUSED_H
#define SERVER_CORE_SHARD_DROP_UNUSED_H

#include "proto/psd.pb-c.h"
#include "server/core/shard/shard.h"

/* Makes room for this hello of a worker, when it needs some and there is such a job. SHARD_TURN_FULL: the rows that it
 * writes do not fit in this turn any more. */
enum shard_result drop_unused(struct shard *s, const Psd__Hello *m);

#endif
