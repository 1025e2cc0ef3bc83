/* The catalog: all that a shard knows of jobs, variables and blocks, loaded from the store and thrown away as one. */
#ifndef SERVER_CATALOG_H
#define SERVER_CATALOG_H

#include "common/include/psclient/ps_err.h"

struct shard;

/* Jobs and variables; then, when sessions are there, blocks. */
enum ps_err catalog_load(struct shard *s, struct ps_error *e) PS_MUST_USE;
enum ps_err catalog_load_blocks(struct shard *s, struct ps_error *e) PS_MUST_USE;
void catalog_free(struct shard *s);

#endif
