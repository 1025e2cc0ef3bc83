/* Whether a shard is fit to go on: for psctl status --check, and for what status colours. Pure. */
#ifndef CLIENT_TOOLS_PSCTL_VIEWS_HEALTH_H
#define CLIENT_TOOLS_PSCTL_VIEWS_HEALTH_H

#include "client/tools/psctl/query/query_all.h"

#define HEALTH_STORE_WARN 90 /* percent of its memory that a shard's store may use before status says so */
#define HEALTH_STORE_FULL 95 /* and before --check fails */

/* How full the store is, percent, rounded down; status: of a STATUS report. 0 when its size is not known. */
unsigned health_store_percent(const json_t *status);

/* True when the shard was reached, does not drain and has space. Otherwise why says what is wrong with it. */
bool health_check(const struct shard_answer *a, char *why, size_t size);

#endif
