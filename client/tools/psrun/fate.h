/* How a process ended, in words and as an exit status. Pure. */
#ifndef CLIENT_TOOLS_FATE_H
#define CLIENT_TOOLS_FATE_H

#include "common/core/base/base.h"

#define FATE_TEXT_MAX 128

/* status: as waitpid() gives it. "exited with status 3", "was killed by signal 11 (SEGV: bad memory access), core
 * dumped". Returns out. */
const char *fate_text(int status, char out[FATE_TEXT_MAX]);

/* The status that a shell would show: the exit status, or 128 + the signal. */
int fate_code(int status);

/* "KILL"; "?" for a signal that is not known by name. */
const char *fate_signal(int signal);

#endif
