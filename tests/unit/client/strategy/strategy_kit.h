/* Shared by tests of strategies on devices: a network, examples for it, and its parameters as variables, on the devices
 * or in host memory. A failure fails the running Check test. */
#ifndef TESTS_UNIT_CLIENT_STRATEGY_STRATEGY_KIT_H
#define TESTS_UNIT_CLIENT_STRATEGY_STRATEGY_KIT_H

#include "client/include/psclient/ps_strategy.h"
#include "tests/unit/client/network/network_kit.h"

enum { KIT_ROWS = 20, KIT_BATCH = 8, KIT_INPUTS = 12, KIT_CLASSES = 5, KIT_FLOATS_MAX = 4096 };

extern const struct kit_spec strategy_spec;
extern float strategy_x[KIT_ROWS * KIT_INPUTS];
extern uint32_t strategy_labels[KIT_ROWS];

/* Makes the examples. */
void strategy_examples(struct test_rng *rng);

/* A network for each replica, and its parameters as variables. on_host: they lie in host memory, and networks send and
 * fetch. */
void strategy_networks_make(ps_strategy *s, ps_network *networks[], const struct ps_optimizer *optimizer, bool on_host);

/* The first replica's parameters, one after the other. Returns how many values there are. */
size_t strategy_values(const ps_strategy *s, const ps_network *network, float out[KIT_FLOATS_MAX]);

/* Of the first KIT_BATCH examples. */
double strategy_loss(ps_network *network);

/* Closes it, and frees the networks of its replicas. */
void strategy_end(ps_strategy *s, ps_network *const networks[]);

#endif
