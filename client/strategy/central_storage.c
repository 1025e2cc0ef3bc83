/* central_storage: replicas on devices and threads of their own, which all read one copy of the variables in host
 * memory. Gradients are summed as in mirrored; one update is made of the sum, while no replica reads. */
#include "client/strategy/strategy.h"

const struct strategy_ops strategy_central_storage = {.traits = STRATEGY_THREADS | STRATEGY_SLOTS,
                                                      .step = strategy_step_here};
