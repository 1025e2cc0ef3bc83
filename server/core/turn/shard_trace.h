/* A shard's work and waits, recorded in its timeline, for psctl trace. */
#ifndef SERVER_CORE_TURN_SHARD_TRACE_H
#define SERVER_CORE_TURN_SHARD_TRACE_H

#include "common/core/base/base.h"
#include "common/core/format/timeline.h"

struct shard;

/* A request waited here since then, and goes on now. Returns how long, in microseconds, for the answer. */
uint64_t shard_trace_held(struct shard *s, enum timeline_kind kind, uint64_t since_ns, uint32_t task, uint64_t step);

void shard_trace_saved(struct shard *s, uint64_t since_ns, uint64_t bytes);

#endif
