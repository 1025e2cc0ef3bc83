#include "server/process/descriptors.h"

#include <dirent.h>
#include <stddef.h>
#include <sys/resource.h>

uint64_t
descriptors_open(void)
{
    DIR *dir = opendir("/proc/self/fd");
    uint64_t n = 0;

    if (dir == NULL)
        return 0;
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n >= 3 ? n - 3 : 0; /* less ".", ".." and the directory itself */
}

uint64_t
descriptors_max(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : 0;
}
