/* A shard's identity and contents, its counters, and how near it is to its limits. */
#include "server/core/shard/report_builder.h"
#include "server/core/shard_state.h"

void
report_status(struct shard *s, Psd__StatusReport *m, Psd__SaveReport *save, uint64_t in_flight_bytes)
{
    struct store_usage usage;

    s->store->ops->usage(s->store, &usage);
    m->cluster = s->cluster;
    m->shard = s->config.shard;
    m->shards = s->config.shards;
    m->boot = s->boot;
    m->uptime_ms = s->now_ms - s->start_ms;
    m->pid = s->config.pid;
    m->connections = s->connections_len;
    m->data_bytes = s->data_bytes;
    m->store_bytes = usage.used_bytes;
    m->store_bytes_max = usage.max_bytes;
    m->in_flight_bytes = in_flight_bytes;
    m->in_flight_bytes_max = s->config.in_flight_bytes_max;
    m->variables = s->variables_len;
    m->blocks = s->blocks;
    for (uint32_t id = 1; id <= s->jobs_len; id++)
        m->workers += s->jobs_by_id[id] != NULL ? s->jobs_by_id[id]->live : 0;
    m->draining = s->draining;
    m->version = s->version;
    m->live_dir = s->live_dir;
    if (!s->config.durable)
        return;
    save_report(s, save);
    m->save = save;
}

static void
report_status_limits(struct shard *s, Psd__StatsReport *m, const struct shard_event *event)
{
    Psd__LimitReport *rows = report_zeroed(s, LIMITS * sizeof *rows);

    m->limit = report_zeroed(s, LIMITS * sizeof(Psd__LimitReport *));
    if (rows == NULL || m->limit == NULL)
        return;
    for (enum limit i = 0; i < LIMITS; i++) {
        psd__limit_report__init(&rows[i]);
        rows[i].name = (char *)(uintptr_t)limit_texts[i].name;
        if (limit_texts[i].option != NULL)
            rows[i].option = (char *)(uintptr_t)limit_texts[i].option;
        rows[i].bytes = limit_texts[i].bytes;
        rows[i].now = limit_now(s, i, event);
        rows[i].max = limit_max(s, i, event);
        rows[i].refused = limit_refused(s, i, event);
        m->limit[m->n_limit++] = &rows[i];
    }
}

void
report_stats(struct shard *s, Psd__StatsReport *m, Psd__Histogram *age, const struct shard_event *event)
{
    const struct shard_stats *x = &s->stats;

    report_status_limits(s, m, event);
#define X(member, ...) m->member = x->member;
    STATS_REPORTED(X)
#undef X
    for (enum denial i = 0; event->figures != NULL && i < DENIALS; i++)
        m->denied += event->figures->denied[i];
    age->n_count = AGE_BUCKETS;
    age->count = (uint64_t *)x->age.count;
    m->age = age;
}
