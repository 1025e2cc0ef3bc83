/* Notifies systemd of this process's state: the protocol of sd_notify(3). Nothing happens without NOTIFY_SOCKET.
 * Glue. */
#ifndef SERVER_PROCESS_SD_NOTIFY_H
#define SERVER_PROCESS_SD_NOTIFY_H

/* NAME=value lines. */
void sd_notify_send(const char *state);

/* Report long work before it serves, or as it stops: "Rebuilding, 42 %". systemd waits for another minute then. */
void sd_notify_busy(const char *status);

/* Before and after SIGHUP's work. */
void sd_notify_reloading(void);
void sd_notify_reloaded(void);
void sd_notify_stopping(void);

#endif
