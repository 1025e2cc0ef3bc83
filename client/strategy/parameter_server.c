/* parameter_server: the variables are on shards, and this worker's replicas read one copy of them.
 *
 *     pull the values
 *     until the last step:
 *         compute; the sum of this worker's gradients is one push
 *         push, tick and pull the next values: three operations in flight at once, one round trip
 *
 * When an update happens, and what a pull waits for, is decided by the mode (async, ssp, sync), which the shards
 * enforce. In sync they sum the pushes in the order of the workers and divide by their number: the loss is scaled
 * accordingly.
 *
 * The tick is sent before the result of the push is known. So where the push is refused (NONFINITE), or not answered in
 * time, the run ends with the error, but the step is over: no other worker waits for this one, and the next run goes on
 * after it. */
#include <stdio.h>

#include "client/include/psclient/ps_tensors.h"
#include "client/strategy/strategy.h"

static enum ps_err
parameter_server_open(ps_strategy *s, const ps_cluster *cluster, struct ps_error *e)
{
    s->divisor = (float)s->workers;
    return shard_exchange_open(s, cluster, e);
}

static enum ps_err
parameter_server_start(ps_strategy *s, struct ps_error *e)
{
    return shard_exchange_start(s, NULL, e);
}

static enum ps_err
parameter_server_step(ps_strategy *s, bool *done, struct ps_error *e)
{
    bool over = false;
    enum ps_err err;

    if (s->tensors != NULL)
        ps_tensors_forget(s->tensors); /* of a step before that failed */
    if ((err = strategy_compute(s, e)) != PS_OK)
        return err;
    strategy_count_none(s); /* of a step before that could not be pushed */
    strategy_count_step(s);
    err = shard_exchange_step(s, s->next + 1, &over, e);
    s->next += over;
    if (err != PS_OK)
        return shard_exchange_rejoin(s, err, e);
    *done = true;
    return PS_OK;
}

static void
parameter_server_describe(const ps_strategy *s, char *text, size_t size)
{
    const struct ps_client_options *o = &s->options.client;
    uint32_t quorum = o->quorum == 0 ? s->workers : o->quorum;

    if (o->mode == PS_SSP)
        snprintf(text, size, " ssp(%u)", o->bound);
    else if (o->mode == PS_SYNC)
        snprintf(text, size, " sync(%u of %u)", quorum, s->workers);
    else
        snprintf(text, size, " async");
}

const struct strategy_ops strategy_parameter_server = {
    .traits = STRATEGY_THREADS | STRATEGY_WORKERS | STRATEGY_SHARDS,
    .open = parameter_server_open,
    .start = parameter_server_start,
    .define = shard_exchange_define,
    .ready = shard_exchange_ready,
    .step = parameter_server_step,
    .resume = shard_exchange_resume,
    .refresh = shard_exchange_refresh,
    .meet = shard_exchange_meet,
    .save = shard_exchange_save,
    .describe = parameter_server_describe,
    .close = shard_exchange_close,
};
