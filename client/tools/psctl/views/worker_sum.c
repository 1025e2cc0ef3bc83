#include "client/tools/psctl/views/worker_sum.h"

#include <stdlib.h>
#include <string.h>

void
worker_sum_add(struct worker_sum *w, const json_t *report)
{
    bool first = w->first == NULL;

    if (first)
        w->first = report;
    w->connected = (first || w->connected) && field_flag(report, "connected");
    w->lapsed = w->lapsed || field_flag(report, "lapsed");
    w->evicted = w->evicted || field_flag(report, "evicted");
    w->finished = w->finished || field_flag(report, "finished");
    w->clock = first ? field_number(report, "clock") : MIN(w->clock, field_number(report, "clock"));
    w->unresolved += field_number(report, "unresolved");
}

const char *
worker_sum_state(const struct worker_sum *w)
{
    if (w->finished)
        return "finished";
    if (w->lapsed)
        return w->evicted ? "evicted" : "lapsed";
    return w->connected ? "live" : "away";
}

struct worker_sum *
worker_sums(const struct shard_answer *answers, uint32_t n, size_t *len)
{
    size_t places_len;
    struct report_entry *places = report_entries_gather(answers, n, "worker", &places_len);
    struct worker_sum *workers = calloc(places_len + 1, sizeof *workers);

    *len = 0;
    for (size_t i = 0; workers != NULL && i < places_len; i++) {
        *len += i == 0 || !report_entry_same(&places[i - 1], &places[i]);
        worker_sum_add(&workers[*len - 1], places[i].report);
    }
    free(places);
    return workers;
}

struct worker_counts
worker_sums_count(const struct worker_sum *workers, size_t len, const char *job)
{
    struct worker_counts counts = {0};

    for (size_t i = 0; i < len; i++) {
        const struct worker_sum *w = &workers[i];

        if (strcmp(field_text(w->first, "job"), job) != 0)
            continue;
        counts.finished += w->finished;
        counts.lapsed += w->lapsed && !w->finished;
        counts.live += !w->lapsed && !w->finished;
    }
    return counts;
}

bool
worker_counts_over(const struct worker_counts *counts)
{
    return counts->finished > 0 && counts->live == 0 && counts->lapsed == 0;
}
