/* The directory in memory for the shards of tests. */
#ifndef TESTS_UNIT_KITS_MEMORY_DIR_H
#define TESTS_UNIT_KITS_MEMORY_DIR_H

#include <stdint.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/core/base/base.h"

#define MEMORY_DIR_BYTES (512 * MIB) /* free memory that several shards require */

/* /dev/shm; where that has no room (a container's often has 64 MiB) or is missing, /tmp, which is slower. */
static inline const char *
memory_dir(void)
{
    struct statvfs fs;

    if (statvfs("/dev/shm", &fs) == 0 && access("/dev/shm", W_OK) == 0 &&
        (uint64_t)fs.f_bavail * fs.f_frsize >= MEMORY_DIR_BYTES)
        return "/dev/shm";
    return "/tmp";
}

#endif
