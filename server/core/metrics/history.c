#include "server/core/metrics/history.h"

#include <string.h>

uint64_t
history_due(const struct history *h)
{
    return h->due_ms;
}

/* Jobs that train are first among those that are shown. */
static void
take_jobs(struct history *h, struct history_sample *s, const struct metrics *m)
{
    for (size_t i = 0; i < m->jobs_shown && s->jobs_len < HISTORY_JOBS; i++) {
        const struct metrics_job *job = &m->jobs[i];
        struct history_job *to = &s->jobs[s->jobs_len];

        if (job->live == 0 || job->sums_len == 0)
            continue;
        to->id = job->id;
        to->sums_len = job->sums_len;
        to->clock = job->slowest;
        memcpy(to->sums, job->sums, sizeof to->sums);
        h->names[s->jobs_len] = job->names;
        s->jobs_len++;
    }
}

void
history_take(struct history *h, uint64_t now_ms, double at, const struct metrics *m)
{
    struct history_sample *s;

    if (now_ms < h->due_ms || !m->measured)
        return;
    h->due_ms = now_ms + (h->len < HISTORY_SOON ? HISTORY_SOON_MS : HISTORY_MS);
    s = &h->samples[(h->first + h->len) % HISTORY_SAMPLES];
    if (h->len < HISTORY_SAMPLES)
        h->len++;
    else
        h->first = (h->first + 1) % HISTORY_SAMPLES;
    *s = (struct history_sample){.at = at,
                                 .applied = m->stats.pushes_applied,
                                 .pulls = m->stats.pulls,
                                 .pushed_bytes = m->stats.pushed_bytes,
                                 .pulled_bytes = m->stats.pulled_bytes};
    take_jobs(h, s, m);
}

const struct history_sample *
history_at(const struct history *h, size_t i)
{
    ps_assert(i < h->len);
    return &h->samples[(h->first + i) % HISTORY_SAMPLES];
}
