/* Calls of the library that must succeed: FINE(ps_client_tick(client, &error)). Needs a `struct ps_error error` in
 * scope, which the call fills. */
#ifndef TESTS_SYSTEM_FINE_H
#define TESTS_SYSTEM_FINE_H

#include <check.h>

#include "common/include/psclient/ps_err.h"

#define FINE(call)                                                                                                     \
    do {                                                                                                               \
        if ((call) != PS_OK)                                                                                           \
            ck_abort_msg("%s: %s: %s (%s)", #call, ps_err_name(error.code), error.text, error.peer);                   \
    } while (0)

#endif
