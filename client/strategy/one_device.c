/* one_device: everything in this process, one replica after the other on one device. The gradient of a step is the sum
 * of its replicas', in their order: what the strategies that distribute it are compared with. */
#include "client/strategy/strategy.h"

/* Sum, divide, update: here and where replicas have threads. */
enum ps_err
strategy_step_here(ps_strategy *s, bool *done, struct ps_error *e)
{
    enum ps_err err;

    if ((err = strategy_compute(s, e)) != PS_OK || (err = strategy_update(s, 1 / s->divisor, e)) != PS_OK)
        return err;
    strategy_count_step(s);
    s->next++;
    *done = true;
    return PS_OK;
}

const struct strategy_ops strategy_one_device = {.traits = STRATEGY_SLOTS, .step = strategy_step_here};
