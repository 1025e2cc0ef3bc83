#include "server/core/turn/shard_trace.h"

#include "server/core/shard_state.h"

uint64_t
shard_trace_held(struct shard *s, enum timeline_kind kind, uint64_t since_ns, uint32_t task, uint64_t step)
{
    if (since_ns >= s->now_ns) /* in one turn: no wait */
        return 0;
    timeline_add(
        &s->timeline,
        &(struct timeline_span){.start_ns = since_ns, .end_ns = s->now_ns, .step = step, .kind = kind, .task = task});
    return (s->now_ns - since_ns) / 1000;
}

void
shard_trace_saved(struct shard *s, uint64_t since_ns, uint64_t bytes)
{
    timeline_add(&s->timeline, &(struct timeline_span){.start_ns = since_ns,
                                                       .end_ns = MAX(s->now_ns, since_ns),
                                                       .bytes = bytes,
                                                       .kind = TIMELINE_SAVE,
                                                       .task = TIMELINE_NOBODY});
}

static uint32_t
shard_trace_duration(uint64_t start_ns, uint64_t then_ns)
{
    return (uint32_t)MIN(then_ns - MIN(start_ns, then_ns), UINT32_MAX);
}

void
shard_turn_took(struct shard *s, uint64_t start_ns, uint64_t commit_ns, uint64_t answer_ns, uint64_t end_ns)
{
    timeline_add(&s->timeline, &(struct timeline_span){.start_ns = start_ns,
                                                       .end_ns = end_ns,
                                                       .kind = TIMELINE_TURN,
                                                       .task = TIMELINE_NOBODY,
                                                       .commit_ns = shard_trace_duration(start_ns, commit_ns),
                                                       .answer_ns = shard_trace_duration(start_ns, answer_ns)});
}

const struct timeline *
shard_timeline(const struct shard *s)
{
    return &s->timeline;
}
