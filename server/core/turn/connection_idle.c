/* Observers that wait for no answer are in a list, the one that has been silent for longest first. */
#include "server/core/turn/connection_idle.h"

#include "server/core/shard_state.h"

static void
connection_idle_enter(struct shard *s, struct connection *c)
{
    c->idle = true;
    c->silent_ms = s->now_ms;
    DL_APPEND2(s->idle, c, idle_prev, idle_next);
}

void
connection_idle_leave(struct shard *s, struct connection *c)
{
    if (!c->idle)
        return;
    c->idle = false;
    DL_DELETE2(s->idle, c, idle_prev, idle_next);
}

void
connection_idle_spoke(struct shard *s, struct connection *c, bool asks)
{
    connection_idle_leave(s, c);
    c->awaited += asks;
    if (c->awaited == 0)
        connection_idle_enter(s, c);
}

void
connection_idle_answered(struct shard *s, struct connection *c)
{
    if (c->state != CONN_OBSERVER || c->awaited == 0 || --c->awaited > 0)
        return;
    connection_idle_enter(s, c);
}

uint64_t
connection_idle_next_time(const struct shard *s)
{
    return s->idle != NULL && s->config.observer_ms > 0 ? s->idle->silent_ms + s->config.observer_ms : UINT64_MAX;
}

struct connection *
connection_idle_spare(const struct shard *s, uint32_t silent_ms)
{
    if (s->greeting != NULL && s->greeting->opened_ms + silent_ms <= s->now_ms)
        return s->greeting;
    return s->idle != NULL && s->idle->silent_ms + silent_ms <= s->now_ms ? s->idle : NULL;
}
