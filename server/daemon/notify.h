/* Notifies the process that started psd: systemd (NOTIFY_SOCKET), and launchers through a descriptor or a file. */
#ifndef SERVER_DAEMON_NOTIFY_H
#define SERVER_DAEMON_NOTIFY_H

#include "server/daemon/daemon.h"

/* psd serves now: writes the listeners' addresses, one a line, to --ready-fd and --ready-file; READY=1 to systemd, and
 * from now on a keep-alive from d->watchdog as often as systemd wants one. */
enum ps_err notify_ready(struct daemon *d, struct ps_error *e) PS_MUST_USE;

/* The line that `systemctl status` shows: how much is held, when it was saved. Sent when it has changed. */
void notify_status(struct daemon *d);

#endif
