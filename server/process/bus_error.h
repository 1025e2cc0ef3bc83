/* A page of a mapped file that cannot be read raises SIGBUS, which no program survives in the middle of a read. psd
 * reports in one sentence which file that was, where, and what to do, and ends with EXIT_LOST, so that service managers
 * and operators can tell it from a crash.
 *
 * Values of the durable environment are fetched before they are read (store.h, fetch()), and their loss is an ordinary
 * error. This is for the rest: LMDB's trees, and the live data, whose memory may be taken away. */
#ifndef SERVER_PROCESS_BUS_ERROR_H
#define SERVER_PROCESS_BUS_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXIT_LOST 74 /* EX_IOERR of sysexits.h; systemd calls it IOERR */

/* Install the handler, for all threads. After log_open(). */
void bus_error_listen(void);

/* The sentence, for the handler and its test: of a file that is mapped at this place of it. Terminated, at most size
 * bytes. Safe in a signal handler. */
void bus_error_say(char *out, size_t size, const char *file, uint64_t at, bool writable);

#endif
