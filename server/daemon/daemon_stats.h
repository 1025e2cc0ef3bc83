/* The glue's own figures for reports: what of its limits is taken; and all of psd's for metrics. */
#ifndef SERVER_DAEMON_STATS_H
#define SERVER_DAEMON_STATS_H

#include "server/core/metrics/metrics.h"
#include "server/daemon/daemon.h"

void daemon_stats_read(const struct daemon *d, struct shard_figures *out);

/* All but the process's and the HTTP thread's; of open files nothing, since to count them takes long. arg: the struct
 * daemon. */
void daemon_stats_measure(void *arg, struct metrics *m);

#endif
