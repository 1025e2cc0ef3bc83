#include "server/core/turn/traffic.h"

#include "server/core/shard_state.h"

const enum wait traffic_waits[TRAFFIC_WAITS] = {WAIT_BOUND, WAIT_STEP, WAIT_GRADIENTS, WAIT_BLOCKS};

void
traffic_pushed(struct traffic *t, uint64_t blocks, uint64_t bytes)
{
    t->pushes += blocks;
    t->pushed_bytes += bytes;
}

void
traffic_pulled(struct traffic *t, uint64_t blocks, uint64_t bytes)
{
    t->pulls += blocks;
    t->pulled_bytes += bytes;
}

static void
traffic_count_age(struct traffic *t, uint64_t age, bool counts)
{
    t->ages += counts ? age : 0;
    t->age_max = MAX(t->age_max, age);
    t->dropped += !counts;
}

void
traffic_aged(struct shard *s, struct session *x, struct variable *v, uint64_t age, bool counts)
{
    age_count(&s->stats.age, age);
    s->stats.dropped_stale += !counts;
    traffic_count_age(&x->stats, age, counts);
    traffic_count_age(&v->stats, age, counts);
}

struct traffic_wait
traffic_waited(struct shard *s, struct session *x, enum wait reason, uint64_t since_ms)
{
    struct traffic_wait w = {.reason = reason, .ms = s->now_ms - since_ms, .number = ++s->waits_over};

    durations_add(&s->stats.waits[reason], w.ms);
    if (x != NULL)
        x->waited_ms[reason] += w.ms;
    return w;
}

void
traffic_waited_for(struct shard *s, const struct traffic_wait *w, uint32_t var)
{
    struct variable *v = variable_table_get(&s->variables, var);

    if (v == NULL || v->waited == w->number)
        return;
    v->waited = w->number;
    for (size_t i = 0; i < TRAFFIC_WAITS; i++)
        v->waited_ms[i] += traffic_waits[i] == w->reason ? w->ms : 0;
}
