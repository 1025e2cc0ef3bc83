/* A file with a secret in it. Glue. */
#ifndef COMMON_SYSTEM_SECRET_H
#define COMMON_SYSTEM_SECRET_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

/* All of the file into heap memory, freed with secret_free(). PS_ERR_CONFIG with a sentence that names the file: it
 * cannot be read, is no regular file, is larger than max bytes, or others than its owner and group may read it, or its
 * group write it. PS_ERR_NOMEM. */
enum ps_err secret_read(const char *path, size_t max, char **text, size_t *len, struct ps_error *e) PS_MUST_USE;

/* Overwrites it. Accepts NULL. */
void secret_free(char *text, size_t len);

#endif
