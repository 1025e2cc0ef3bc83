/* Lists of strings ended by NULL, as execve() takes them: arguments and environments.
 *
 * Running out of memory ends the process: these are a tool's few strings. */
#ifndef CLIENT_TOOLS_WORDS_H
#define CLIENT_TOOLS_WORDS_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

struct words {
    char **text;
    size_t len;
};
void words_add(struct words *list, const char *format, ...) PS_PRINTF(2, 3);
void words_free(struct words *list); /* accepts a zeroed one */

/* Of an environment; key ends with "=". */
void words_set(struct words *env, const char *key, const char *value);
void words_put(struct words *env, const char *setting); /* "KEY=value" */
void words_unset(struct words *env, const char *key);
bool words_has(const struct words *env, const char *key);

/* reallocarray() that does not fail; and any memory that may not be NULL. */
void *words_alloc(void *old, size_t n, size_t size);
void *words_need(void *memory);

#endif
