/* The choice of the report that a QUERY asks for. */
#include "server/core/shard/report.h"

#include "server/core/shard/report_builder.h"
#include "server/core/shard_state.h"

void
report_answer(struct shard *s, struct connection *c, uint64_t request, const Psd__Query *query,
              const struct shard_event *event)
{
    Psd__Report m = PSD__REPORT__INIT;
    Psd__StatusReport status_report = PSD__STATUS_REPORT__INIT;
    Psd__SaveReport save_status = PSD__SAVE_REPORT__INIT;
    Psd__StatsReport stats_report = PSD__STATS_REPORT__INIT;
    Psd__Histogram age = PSD__HISTOGRAM__INIT;
    Psd__TimelineReport timeline = PSD__TIMELINE_REPORT__INIT;
    struct report_builder b = {
        .s = s, .report = &m, .job = query->job, .after = query->after, .from = query->from, .looks = s->looks};

    m.kind = query->kind;
    switch (query->kind) {
    case PSD__QUERY_KIND__STATUS:
        report_status(s, &status_report, &save_status, event->in_flight_bytes);
        m.status = &status_report;
        break;
    case PSD__QUERY_KIND__STATS:
        report_stats(s, &stats_report, &age, event);
        m.stats = &stats_report;
        break;
    case PSD__QUERY_KIND__VARIABLES:
        report_variables(&b);
        break;
    case PSD__QUERY_KIND__WORKERS:
        report_workers(&b);
        break;
    case PSD__QUERY_KIND__BLOCKED:
        report_blocked(&b);
        break;
    case PSD__QUERY_KIND__JOBS:
        report_jobs(&b);
        break;
    case PSD__QUERY_KIND__DEFINITIONS:
        report_definitions(&b);
        break;
    case PSD__QUERY_KIND__TIMELINE:
        report_timeline(&b, &timeline);
        break;
    default:
        ps_assert(false);
    }
    if (b.err != PS_OK)
        actions_error(s, c, request, b.err, b.error.text);
    else
        actions_send(s, c, MSG_REPORT, request, &m.base);
}
