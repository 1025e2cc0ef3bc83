/* The catalog: all that a shard knows of jobs, sessions, variables and blocks, loaded from the store and thrown away as
 * one. It lies above all of these, since it makes and frees them. */
#ifndef SERVER_CORE_DURABILITY_CATALOG_H
#define SERVER_CORE_DURABILITY_CATALOG_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

struct shard;

enum ps_err catalog_load(struct shard *s, struct ps_error *e) PS_MUST_USE;

/* Requests that wait in jobs end without an answer. */
void catalog_free(struct shard *s);

/* Throw away the copy in heap memory and load it again. False: the store cannot be read, and the shard is broken. */
bool catalog_reload(struct shard *s, struct ps_error *e);

#endif
