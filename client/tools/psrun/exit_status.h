/* How a process ended, in words and as an exit status. Pure. */
#ifndef CLIENT_TOOLS_PSRUN_EXIT_STATUS_H
#define CLIENT_TOOLS_PSRUN_EXIT_STATUS_H

#include "common/core/base/base.h"

#define EXIT_STATUS_TEXT_MAX 128

/* status: as waitpid() gives it. "exited with status 3", "was killed by signal 11 (SEGV: bad memory access), core
 * dumped". Returns out. */
const char *exit_status_text(int status, char out[EXIT_STATUS_TEXT_MAX]);

/* The status that a shell would show: the exit status, or 128 + the signal. */
int exit_status_code(int status);

/* "KILL"; "?" for a signal that is not known by name. */
const char *exit_status_signal(int signal);

#endif
