/* Totals: rows and metrics, summed up over steps and workers.
 *
 *     a step is done ──► counted ──► where all reduce, these are of all workers already
 *                           │
 *                           └──► with shards: the next tick carries them, and shard 0 has each worker's sums
 *                                (psclient.h, ps_client_set_metrics())
 *     all have met ──► totals: what ps_strategy_totals() returns, until they meet again
 *
 * Where sums of metrics are of all workers, a worker that joins later is given the earlier counts with the
 * variables. */
#include <string.h>

#include "client/strategy/strategy.h"

static_assert(STRATEGY_TOTALS_MAX <= PS_METRICS_MAX, "they fit a tick");

size_t
strategy_totals_len(const ps_strategy *s)
{
    return 1 + s->options.metrics;
}

void
strategy_count_step(ps_strategy *s)
{
    s->counted[0] += (double)s->done.rows;
    for (uint32_t m = 0; m < s->options.metrics; m++)
        s->counted[1 + m] += s->metrics[m];
}

void
strategy_count_none(ps_strategy *s)
{
    memset(s->counted, 0, sizeof s->counted);
}

void
strategy_totals_are(ps_strategy *s, const double *totals)
{
    memcpy(s->totals, totals, strategy_totals_len(s) * sizeof *totals);
}

void
ps_strategy_totals(const ps_strategy *strategy, uint64_t *rows, double *metrics)
{
    *rows = (uint64_t)strategy->totals[0];
    for (uint32_t m = 0; m < strategy->options.metrics; m++)
        metrics[m] = strategy->totals[1 + m];
}
