/* Signals. Ctrl-C, TERM and HUP during a long operation of a client: the first one has the client cancel what it began,
 * and then, or at the second, ends the process as usual. Those that are ignored, as under nohup, stay so. */
#ifndef CLIENT_TOOLS_SHARED_INTERRUPT_H
#define CLIENT_TOOLS_SHARED_INTERRUPT_H

#include "client/include/psclient/psclient.h"

/* They get this handler (SIG_DFL: none), but for those that are ignored. flags: of sigaction(). */
void heed_with(void (*on_signal)(int sig), int flags);

/* From now on they interrupt this client (ps_client_interrupt()); NULL: as before. */
void interrupt_signals(ps_client *client);

/* The client's call ended with CANCELLED: print so, and the state it left; the signal ends the process. */
void interrupt_end(const char *what, const char *where);

/* Standard output could not be written to, and errno says why. If it was a pipe whose reader has gone (| head), PIPE
 * ends the process silently, as it ends others: psctl ignores it only so that this function is called first. */
void interrupt_reader_gone(void);

#endif
