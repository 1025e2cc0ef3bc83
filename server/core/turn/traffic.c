#include "server/core/turn/traffic.h"

#include <stdlib.h>

#include "server/core/shard/shard_state.h"

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
aged(struct traffic *t, uint64_t age, bool counts)
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
    aged(&x->stats, age, counts);
    aged(&v->stats, age, counts);
}

struct traffic_wait
traffic_waited(struct shard *s, struct session *x, enum wait reason, uint64_t since_ms)
{
    struct traffic_wait w = {.reason = reason, .ms = s->now_ms - since_ms, .number = ++s->waits_over};

    durations_add(&s->stats.waits[reason], w.ms);
    if (x != NULL)
        x->stats.waited_ms[reason] += w.ms;
    return w;
}

void
traffic_waited_for(struct shard *s, const struct traffic_wait *w, uint32_t var)
{
    struct variable *v = var <= s->variables_len ? s->variables[var] : NULL;

    if (v == NULL || v->waited == w->number)
        return;
    v->waited = w->number;
    v->stats.waited_ms[w->reason] += w->ms;
}

/* ---- Reloads ---- */

struct traffic_of {
    uint32_t job_id, task;
    struct traffic stats;
    uint64_t lapses;
};

static void
keep_sessions(const struct shard *s, struct traffic_kept *kept)
{
    for (uint32_t id = 1; id <= s->jobs_len; id++) {
        const struct session *x;

        if (s->jobs_by_id[id] == NULL)
            continue;
        SESSION_EACH (s->jobs_by_id[id], x) {
            ps_assert(kept->sessions_len < s->sessions_len);
            kept->sessions[kept->sessions_len++] = (struct traffic_of){id, x->task, x->stats, x->lapses};
        }
    }
}

void
traffic_keep(const struct shard *s, struct traffic_kept *kept)
{
    *kept = (struct traffic_kept){.variables = calloc((size_t)s->variables_len + 1, sizeof *kept->variables),
                                  .sessions = calloc(s->sessions_len + 1, sizeof *kept->sessions)};
    if (kept->variables != NULL)
        kept->variables_len = s->variables_len;
    for (uint32_t id = 1; id <= kept->variables_len; id++)
        kept->variables[id] = s->variables[id]->stats;
    if (kept->sessions != NULL)
        keep_sessions(s, kept);
}

void
traffic_give_back(struct shard *s, struct traffic_kept *kept)
{
    for (uint32_t id = 1; id <= MIN(kept->variables_len, s->variables_len); id++)
        s->variables[id]->stats = kept->variables[id];
    for (uint64_t i = 0; i < kept->sessions_len; i++) {
        const struct traffic_of *was = &kept->sessions[i];
        struct session *x = session_find(s, was->job_id, was->task);

        if (x == NULL)
            continue;
        x->stats = was->stats;
        x->lapses = was->lapses;
    }
    free(kept->variables);
    free(kept->sessions);
}
