/* The glue's own figures for reports: what of its limits is taken. */
#ifndef SERVER_FIGURES_H
#define SERVER_FIGURES_H

#include "daemon.h"

void figures_read(const struct daemon *d, struct shard_figures *out);

#endif
