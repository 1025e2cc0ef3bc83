/* Variables are known again by their number, sessions by those of their job and task. */
#include "server/core/sessions/traffic_kept.h"

#include <stdlib.h>
#include <string.h>

#include "server/core/shard_state.h"

struct traffic_kept_variable {
    uint32_t id;
    struct traffic stats;
    uint64_t waited_ms[TRAFFIC_WAITS];
};

struct traffic_kept_session {
    uint32_t job_id, task;
    struct traffic stats;
    uint64_t waited_ms[WAITS];
    uint64_t lapses;
};

static void
traffic_kept_take_sessions(const struct shard *s, struct traffic_kept *kept)
{
    for (uint32_t id = 1; id <= s->jobs_len; id++) {
        const struct session *x;

        if (s->jobs_by_id[id] == NULL)
            continue;
        SESSION_EACH (s->jobs_by_id[id], x) {
            ps_assert(kept->sessions_len < s->sessions_len);
            kept->sessions[kept->sessions_len] =
                (struct traffic_kept_session){.job_id = id, .task = x->task, .stats = x->stats, .lapses = x->lapses};
            memcpy(kept->sessions[kept->sessions_len++].waited_ms, x->waited_ms, sizeof x->waited_ms);
        }
    }
}

static void
traffic_kept_take_variables(const struct shard *s, struct traffic_kept *kept)
{
    const struct variable *v;

    for (v = variable_table_from(&s->variables, 1); v != NULL; v = variable_table_from(&s->variables, v->id + 1)) {
        if (v->dropped)
            continue;
        ps_assert(kept->variables_len < s->variables_len);
        kept->variables[kept->variables_len++] = (struct traffic_kept_variable){.id = v->id, .stats = v->stats};
        memcpy(kept->variables[kept->variables_len - 1].waited_ms, v->waited_ms, sizeof v->waited_ms);
    }
}

void
traffic_kept_take(const struct shard *s, struct traffic_kept *kept)
{
    *kept = (struct traffic_kept){.variables = calloc((size_t)s->variables_len + 1, sizeof *kept->variables),
                                  .sessions = calloc(s->sessions_len + 1, sizeof *kept->sessions)};
    if (kept->variables != NULL)
        traffic_kept_take_variables(s, kept);
    if (kept->sessions != NULL)
        traffic_kept_take_sessions(s, kept);
}

void
traffic_kept_give_back(struct shard *s, struct traffic_kept *kept)
{
    for (uint32_t i = 0; i < kept->variables_len; i++) {
        struct variable *v = variable_table_get(&s->variables, kept->variables[i].id);

        if (v == NULL)
            continue;
        v->stats = kept->variables[i].stats;
        memcpy(v->waited_ms, kept->variables[i].waited_ms, sizeof v->waited_ms);
    }
    for (uint64_t i = 0; i < kept->sessions_len; i++) {
        const struct traffic_kept_session *was = &kept->sessions[i];
        struct session *x = session_find(s, was->job_id, was->task);

        if (x == NULL)
            continue;
        x->stats = was->stats;
        memcpy(x->waited_ms, was->waited_ms, sizeof x->waited_ms);
        x->lapses = was->lapses;
    }
    free(kept->variables);
    free(kept->sessions);
}
