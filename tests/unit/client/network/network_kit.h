/* Shared by the tests of networks: the CPU device, and one whose memory is not the host's: the CPU's operations, with
 * all memory counted and all arguments checked to be in its own. */
#ifndef TESTS_UNIT_CLIENT_NETWORK_NETWORK_KIT_H
#define TESTS_UNIT_CLIENT_NETWORK_NETWORK_KIT_H

#include <string.h>

#include "client/device/device.h"
#include "client/include/psclient/ps_network.h"
#include "common/core/base/base.h"
#include "tests/training_kit.h"
#include "tests/unit/kits/check_main.h"

extern ps_device *cpu;
extern ps_device apart;               /* as a CUDA device would be */
extern size_t uploads, downloads;     /* of apart */
extern size_t device_allocs, fail_at; /* of apart, so far; the one that fails, counted from 1 */

void network_setup(void);
void network_teardown(void); /* nothing of apart's memory is left */

/* A network of layers in ps_network_parse()'s form for examples of a shape such as {8, 8, 1}; 0 ends it. */
struct kit_spec {
    const char *layers;
    size_t dims[3];
    enum ps_loss loss;
    size_t rows_max; /* 0: 40 */
    uint64_t seed;
};
enum ps_err network_try(ps_device *device, const struct kit_spec *spec, ps_network **out, struct ps_error *error);
ps_network *network_make(ps_device *device, const struct kit_spec *spec); /* it must succeed */

/* values -= rate * gradients */
void network_descend(ps_network *network, float rate);

#endif
