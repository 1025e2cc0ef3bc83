/* The glue's own figures for reports: what of its limits is taken; and all of psd's for metrics. */
#ifndef SERVER_FIGURES_H
#define SERVER_FIGURES_H

#include "server/core/metrics/metrics.h"
#include "server/daemon/daemon.h"

void figures_read(const struct daemon *d, struct shard_figures *out);

/* All but the process's and the HTTP thread's; of open files nothing, since to count them takes long. arg: the struct
 * daemon. */
void figures_measure(void *arg, struct metrics *m);

#endif
