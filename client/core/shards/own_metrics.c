#include "client/core/shards/own_metrics.h"

#include <string.h>

#include "client/core/shards/shard_link.h"

static_assert(PS_METRICS_MAX == WIRE_METRICS_MAX, "what a worker may set is what a tick carries");

/* The shard that metrics are sent to, and that is asked for the sum over all workers. */
static bool
is_metrics_shard(const struct shard_link *l)
{
    return l->shard == 0;
}

void
own_metrics_welcomed(struct core *c, const struct shard_link *l, const Psd__Welcome *w, bool older)
{
    struct metric_sums *to = &c->metrics.welcomed;

    if (!is_metrics_shard(l))
        return;
    *to = (struct metric_sums){0};
    c->metrics.older |= older;
    if (w->metrics == NULL)
        return;
    to->len = (uint32_t)w->metrics->n_value;
    if (to->len > 0)
        memcpy(to->value, w->metrics->value, to->len * sizeof to->value[0]);
    to->at = step_cursor_welcomed(w->metrics->at);
}

/* Where a shard does not know yet that the round has begun, this worker's data begins from nowhere (step_cursor.c), and
 * so do the sums. */
static bool
all_in_round(const struct core *c, uint64_t round)
{
    for (uint32_t i = 0; i < c->config.shards; i++)
        if (c->links[i].round != round)
            return false;
    return true;
}

/* A worker that joins again has the sums as the shard has settled them: a tick that did not reach it is lost. But what
 * it had settled and lost this worker still knows, unless another process has gone further under its index since, or it
 * was the round before. */
static bool
own_metrics_are_newer(const struct core *c, uint64_t round)
{
    const struct own_metrics *m = &c->metrics;

    return m->older && m->sums.len > 0 && c->round == round && step_cursor_compare(&m->sums.at, &m->welcomed.at) >= 0;
}

void
own_metrics_join(struct core *c, uint64_t round)
{
    struct own_metrics *m = &c->metrics;

    if (!all_in_round(c, round))
        m->welcomed = (struct metric_sums){0};
    if (!own_metrics_are_newer(c, round))
        m->sums = m->welcomed;
    m->step_len = 0;
}

void
own_metrics_rejoin(struct core *c)
{
    c->metrics.older = false;
}

bool
own_metrics_behind(const struct core *c, const struct shard_link *l)
{
    const struct metric_sums *here = &c->metrics.sums, *there = &c->metrics.welcomed;

    if (!is_metrics_shard(l) || here->len == 0)
        return false;
    return here->len != there->len || memcmp(here->value, there->value, here->len * sizeof here->value[0]) != 0;
}

void
own_metrics_tick(struct core *c, const struct core_op *op)
{
    struct own_metrics *m = &c->metrics;
    bool counted = op->with_cursor && step_cursor_compare(&op->ends, &m->sums.at) <= 0 && !MUTATION(SUMMED_AGAIN);

    for (uint32_t i = 0; !counted && i < m->step_len; i++)
        m->sums.value[i] += m->step[i];
    if (!counted && m->step_len > 0) {
        m->sums.len = MAX(m->sums.len, m->step_len);
        if (op->with_cursor)
            m->sums.at = op->ends;
    }
    m->step_len = 0;
}

void
own_metrics_name(const struct core *c, const struct shard_link *l, Psd__Hello *hello)
{
    if (!is_metrics_shard(l))
        return;
    hello->n_metric_names = c->config.metrics_named;
    hello->metric_names = (char **)c->config.metric_names;
}

Psd__Metrics *
own_metrics_message(struct core *c, const struct shard_link *l, struct metrics_message *room)
{
    struct metric_sums *m = &c->metrics.sums;

    if (!is_metrics_shard(l) || m->len == 0)
        return NULL;
    psd__metrics__init(&room->message);
    psd__cursor__init(&room->at);
    room->message.n_value = m->len;
    room->message.value = m->value;
    room->at.epoch = m->at.epoch;
    room->at.position = m->at.position;
    if (m->at.epoch != 0 || m->at.position != 0)
        room->message.at = &room->at;
    return &room->message;
}

enum ps_err
core_set_metrics(struct core *c, size_t n, const double *values, struct ps_error *e)
{
    struct own_metrics *m = &c->metrics;
    enum ps_err err;

    if ((err = op_may_train(c, e)) != PS_OK)
        return err;
    if (n > PS_METRICS_MAX)
        return ps_fail(e, PS_ERR_INVALID, "%zu metrics; at most %d can be set", n, PS_METRICS_MAX);
    if (n > 0)
        memcpy(m->step, values, n * sizeof *values);
    m->step_len = (uint32_t)n;
    return PS_OK;
}
