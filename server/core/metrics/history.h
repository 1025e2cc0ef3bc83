/* The last half hour of a shard in a few figures, so that its page shows curves as soon as it is opened. Pure; the HTTP
 * thread's.
 *
 *     if (now_ms >= history_due(h)) ...ask for figures
 *     history_take(h, now_ms, unix_seconds, metrics);          // nothing before it is due
 *     for (size_t i = 0; i < h->len; i++) ... history_at(h, i) // oldest first */
#ifndef SERVER_CORE_METRICS_HISTORY_H
#define SERVER_CORE_METRICS_HISTORY_H

#include "server/core/metrics/metrics.h"

#define HISTORY_SAMPLES 360
#define HISTORY_MS      5000 /* between two of them */
#define HISTORY_SOON    10   /* the first so many come every HISTORY_SOON_MS: there is a curve at once */
#define HISTORY_SOON_MS 1000
#define HISTORY_JOBS    8 /* of those that train, for their workers' metrics */

struct history_job {
    uint32_t id, sums_len;
    uint64_t clock; /* of its slowest worker: steps that all have done */
    double sums[METRICS_SUMS_MAX];
};

struct history_sample {
    double at; /* unix time */
    uint64_t applied, pulls, pushed_bytes, pulled_bytes;
    struct history_job jobs[HISTORY_JOBS];
    uint32_t jobs_len;
};

struct history {
    struct metrics_names names[HISTORY_JOBS];       /* of the newest sample's jobs */
    struct history_sample samples[HISTORY_SAMPLES]; /* a ring */
    size_t first, len;
    uint64_t due_ms;
};

uint64_t history_due(const struct history *h);
void history_take(struct history *h, uint64_t now_ms, double at, const struct metrics *m);
const struct history_sample *history_at(const struct history *h, size_t i);

#endif
