/* Waiting for other processes, in a Check test. */
#ifndef TESTS_SYSTEM_WAIT_FOR_H
#define TESTS_SYSTEM_WAIT_FOR_H

#include <unistd.h>

#include "tests/unit/kits/check_main.h"

#define WAIT_MS 60000
#define STEP_MS 5

/* Until the condition holds, or fail and show the log, a text that is made only then. */
#define WAIT_FOR_LOGGED(condition, log)                                                                                \
    do {                                                                                                               \
        for (int waited = 0; !(condition); waited += STEP_MS) {                                                        \
            ck_assert_msg(waited < WAIT_MS, "waited in vain for " #condition "; log: %s", log);                        \
            usleep(STEP_MS * 1000);                                                                                    \
        }                                                                                                              \
    } while (0)

#endif
