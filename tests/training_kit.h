/* What tests of training share, of units and of whole systems: the shipped images, and how large parameters are. What
 * fails fails the running Check test. */
#ifndef TESTS_TRAINING_KIT_H
#define TESTS_TRAINING_KIT_H

#include "client/include/psclient/ps_data.h"
#include "client/include/psclient/ps_network.h"

/* The shipped digits that are trained on, and those that are not, scaled to 0 to 1; both to be freed. */
void digits_load(struct ps_dataset *data, struct ps_dataset *held_out);

/* How many values parameter i has. */
size_t param_elements(const ps_network *network, size_t i);

#endif
