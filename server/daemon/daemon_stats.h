/* The glue's own figures for reports: how much of its limits is used; and all of psd's for metrics. */
#ifndef SERVER_DAEMON_DAEMON_STATS_H
#define SERVER_DAEMON_DAEMON_STATS_H

#include "server/core/metrics/metrics.h"
#include "server/daemon/daemon.h"

void daemon_stats_read(const struct daemon *d, struct shard_figures *out);

/* Fills in all figures but the process's and the HTTP thread's, and not the count of open files, since counting takes
 * long. arg: the struct daemon. */
void daemon_stats_measure(void *arg, struct metrics *m);

#endif
