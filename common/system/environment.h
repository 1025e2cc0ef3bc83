/* Variables of the environment. A value that comes from a file (a Secret, a ConfigMap, docker --env-file, $(cat FILE)
 * with its line end kept) is taken without what the file has around it: a byte order mark, blanks and line ends. */
#ifndef COMMON_SYSTEM_ENVIRONMENT_H
#define COMMON_SYSTEM_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/include/psclient/ps_err.h"

/* *out: a copy of the variable's value, freed by the caller; NULL when it is not set, or has blanks alone.
 * PS_ERR_NOMEM. */
enum ps_err environment_read(const char *name, char **out, struct ps_error *e) PS_MUST_USE;

/* Whether environment_read() would find a value. */
bool environment_has(const char *name);

/* Whether the variable has this value. */
bool environment_is(const char *name, const char *value);

#endif
