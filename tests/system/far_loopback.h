/* A network of the test's own in which 127.0.0.1 answers, but connections to it come from an address that is not
 * loopback's: to a process that listens there its peers are on another machine. Processes that the test starts from
 * then on are in it as well. */
#ifndef TESTS_SYSTEM_FAR_LOOPBACK_H
#define TESTS_SYSTEM_FAR_LOOPBACK_H

#include <stdlib.h>

#include "tests/user_namespace.h"

/* False: this user may not create one. */
static inline bool
far_loopback_enter(void)
{
    return user_namespace_enter(CLONE_NEWNET) &&
           system("ip link set lo up && ip addr add 10.9.8.7/32 dev lo && "
                  "ip route replace local 127.0.0.1 dev lo table local proto kernel scope host src 10.9.8.7") == 0;
}

#endif
