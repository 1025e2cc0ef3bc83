/* The working directory first, then every directory above this program. */
#include "client/examples/shared/shipped.h"

#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define IN_SOURCE    "client/examples/data"    /* in the source tree */
#define IN_INSTALLED "share/psd/examples/data" /* under the prefix */

static bool
is_at(const char *directory, const char *where, const char *name, char path[SHIPPED_PATH_MAX])
{
    int len = snprintf(path, SHIPPED_PATH_MAX, "%s/%s/%s", directory, where, name);

    return len < SHIPPED_PATH_MAX && access(path, R_OK) == 0;
}

const char *
shipped_find(const char *name, char path[SHIPPED_PATH_MAX])
{
    char program[SHIPPED_PATH_MAX] = "", *directory;
    ssize_t len;

    if (is_at(".", IN_SOURCE, name, path))
        return path;
    if ((len = readlink("/proc/self/exe", program, sizeof program - 1)) > 0)
        program[len] = '\0';
    for (directory = dirname(program); strlen(directory) > 1; directory = dirname(directory))
        if (is_at(directory, IN_SOURCE, name, path) || is_at(directory, IN_INSTALLED, name, path))
            return path;
    snprintf(path, SHIPPED_PATH_MAX, "%s/%s", IN_SOURCE, name);
    return path;
}
