/* Lists of strings ended by NULL, as execve() takes them: arguments and environments.
 *
 * Running out of memory ends the process: these are a tool's few strings. */
#ifndef CLIENT_TOOLS_SHARED_STRLIST_H
#define CLIENT_TOOLS_SHARED_STRLIST_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

struct strlist {
    char **text;
    size_t len;
};
void strlist_add(struct strlist *list, const char *format, ...) PS_PRINTF(2, 3);
void strlist_free(struct strlist *list); /* accepts a zeroed one */

/* Of an environment; key ends with "=". */
void strlist_set_env(struct strlist *env, const char *key, const char *value);
void strlist_put_env(struct strlist *env, const char *setting); /* "KEY=value" */
void strlist_unset_env(struct strlist *env, const char *key);
bool strlist_has_key(const struct strlist *env, const char *key);

/* reallocarray() that does not fail; and any memory that may not be NULL. */
void *strlist_alloc(void *old, size_t n, size_t size);
void *strlist_need(void *memory);

#endif
