/* The variables of the shards' reports that a pattern names, see pattern.h. Pure. */
#ifndef CLIENT_TOOLS_PSCTL_QUERY_NAMED_VARIABLES_H
#define CLIENT_TOOLS_PSCTL_QUERY_NAMED_VARIABLES_H

#include "client/tools/psctl/query/query_all.h"

/* Call take, which may be NULL, with each name once for each job, in order; the name is valid until it returns. job:
 * the one that the shards were queried about, for the sentence; NULL: all. pattern: NULL names all. PS_ERR_NOT_FOUND,
 * with the name that was meant: it names none. PS_ERR_NOMEM. */
enum ps_err named_variables(const struct shard_answer *answers, uint32_t n, const char *job, const char *pattern,
                            void (*take)(void *arg, const char *name), void *arg, struct ps_error *e) PS_MUST_USE;

#endif
