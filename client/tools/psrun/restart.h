/* When a process that ended is started again: a limited number of times in a row, after a pause that doubles. Pure.
 *
 *     ended ──pause 1 s──► ended ──2 s──► ended ──4 s──► ...     each start counts; a long run resets the count
 *
 * A process that reports wrong arguments (status 2) would fail in the same way again: it is not started again. */
#ifndef CLIENT_TOOLS_PSRUN_RESTART_H
#define CLIENT_TOOLS_PSRUN_RESTART_H

#include "common/core/base/base.h"

#define RESTART_STATUS_USAGE 2 /* of programs whose arguments are wrong */

struct restart_policy {
    uint64_t starts_max;             /* again, in a row */
    uint64_t delay_ms, delay_ms_max; /* before the first; before any */
    uint64_t reset_ms;               /* after a run of this length counting begins again */
};

struct restart {
    uint64_t starts; /* again, since counting began */
};

/* It ran for ran_ms and ended with this status (exit_status_code()). True: start it again after *delay_ms. */
bool restart_next(struct restart *r, const struct restart_policy *policy, uint64_t ran_ms, int status,
                  uint64_t *delay_ms);

#endif
