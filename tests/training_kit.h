/* Shared by unit and system tests of training: the shipped images, and how large parameters are. A failure fails the
 * running Check test. */
#ifndef TESTS_TRAINING_KIT_H
#define TESTS_TRAINING_KIT_H

#include "client/include/psclient/ps_data.h"
#include "client/include/psclient/ps_network.h"

/* The shipped digits for training, and those held out, scaled to 0 to 1; the caller frees both. */
void digits_load(struct ps_dataset *data, struct ps_dataset *held_out);

/* How many values parameter i has. */
size_t param_elements(const ps_network *network, size_t i);

#endif
