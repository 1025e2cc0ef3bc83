#include "common/system/environment.h"

#include <stdlib.h>
#include <string.h>

#include "common/core/base/base.h"
#include "common/core/base/file_kind.h"

#define ENVIRONMENT_BLANKS " \t\r\n"

/* *out: where the value begins; NULL: the variable is not set. Returns its bytes. */
static size_t
environment_find(const char *name, const char **out)
{
    const char *value = getenv(name);
    size_t n;

    if ((*out = value) == NULL)
        return 0;
    value += file_kind_mark(value, strlen(value));
    value += strspn(value, ENVIRONMENT_BLANKS);
    for (n = strlen(value); n > 0 && strchr(ENVIRONMENT_BLANKS, value[n - 1]) != NULL; n--)
        ;
    *out = value;
    return n;
}

enum ps_err
environment_read(const char *name, char **out, struct ps_error *e)
{
    const char *value;
    size_t n = environment_find(name, &value);

    *out = NULL;
    if (n == 0)
        return PS_OK;
    if ((*out = strndup(value, n)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for the value of %s", name);
    return PS_OK;
}

bool
environment_has(const char *name)
{
    const char *value;

    return environment_find(name, &value) > 0;
}

bool
environment_is(const char *name, const char *value)
{
    const char *found;
    size_t n = environment_find(name, &found);

    return found != NULL && n == strlen(value) && memcmp(found, value, n) == 0;
}
