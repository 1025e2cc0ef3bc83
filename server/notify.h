/* Telling whoever started us: systemd (NOTIFY_SOCKET), and launchers through a descriptor or a file. */
#ifndef SERVER_NOTIFY_H
#define SERVER_NOTIFY_H

#include "daemon.h"

/* Now serving: the listeners' addresses, one a line, to --ready-fd and --ready-file; READY=1 to systemd. */
enum ps_err notify_ready(struct daemon *d, struct ps_error *e) PS_MUST_USE;

/* "STOPPING=1", "STATUS=...": sd_notify(3)'s protocol. Nothing happens without NOTIFY_SOCKET. */
void notify_systemd(const char *state);

#endif
