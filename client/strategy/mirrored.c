/* mirrored: a copy of the variables for each replica, each on a device and a thread of its own. Gradients are summed in
 * the order of the replicas, each thread adding up a slice of all; then every thread updates its copy with the same
 * sum, and so the copies stay the same, bit for bit, without ever being compared. */
#include "client/strategy/strategy.h"

const struct strategy_ops strategy_mirrored = {.traits = STRATEGY_THREADS | STRATEGY_COPIES | STRATEGY_SLOTS,
                                               .step = strategy_step_here};
