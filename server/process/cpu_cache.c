#include "server/process/cpu_cache.h"

#include <stdio.h>
#include <unistd.h>

#define INDICES_MAX 16
#define PATH_BYTES  256

/* The number in dir/indexN/name, and the letter behind it; false: there is none. */
static bool
read_number(const char *dir, unsigned index, const char *name, uint64_t *number, char *unit)
{
    char path[PATH_BYTES];
    unsigned long long value;
    FILE *f;
    int n;

    snprintf(path, sizeof path, "%s/index%u/%s", dir, index, name);
    if ((f = fopen(path, "re")) == NULL)
        return false;
    *unit = '\0';
    n = fscanf(f, "%llu%c", &value, unit);
    fclose(f);
    *number = value;
    return n >= 1;
}

static bool
cache_bytes(const char *dir, unsigned index, uint64_t *level, uint64_t *bytes)
{
    char unit;

    if (!read_number(dir, index, "level", level, &unit) || !read_number(dir, index, "size", bytes, &unit))
        return false;
    *bytes *= unit == 'K' ? KIB : unit == 'M' ? MIB : 1;
    return true;
}

uint64_t
cpu_cache_bytes(const char *dir)
{
    uint64_t last = 0, level, size = 0, bytes;

    for (unsigned i = 0; i < INDICES_MAX; i++)
        if (cache_bytes(dir, i, &level, &bytes) && level > last) {
            last = level;
            size = bytes;
        }
    return size != 0 ? size : (uint64_t)MAX(sysconf(_SC_LEVEL3_CACHE_SIZE), 0);
}
