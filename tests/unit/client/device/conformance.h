/* The rules for every device: a table of operations at awkward sizes, each compared with a plain reference in double
 * precision, or bit by bit where the bits are promised. It needs no test framework, so that a machine with a GPU and a
 * C compiler alone can run it (client/device/cuda/build.sh).
 *
 *     struct conformance c = {.device = d, .seed = 1};
 *     for (size_t i = 0; i < conformance_rows(); i++)
 *         if (!conformance_run(&c, i))
 *             printf("%s: %s\n", conformance_name(i), c.text);
 */
#ifndef TESTS_UNIT_CLIENT_DEVICE_CONFORMANCE_H
#define TESTS_UNIT_CLIENT_DEVICE_CONFORMANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/include/psclient/ps_device.h"

struct conformance {
    ps_device *device;
    uint64_t seed;

    bool failed;    /* the row that ran last */
    char text[256]; /* where, and how far it was off */
    uint64_t state; /* of the random numbers */
    void *taken[128];
    size_t count;
};

size_t conformance_rows(void);
const char *conformance_name(size_t row);

/* False: what the device computed is not near enough; says where. All memory is given back. */
bool conformance_run(struct conformance *c, size_t row);

#endif
