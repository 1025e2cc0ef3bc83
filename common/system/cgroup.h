/* What the control groups (cgroups) of this process allow it: how a container's or a service's limits are seen.
 *
 * Both versions are read, and a system that has both (hybrid). The smallest limit on the way from the process's own
 * group up to the highest one that it can see counts; a container without a cgroup namespace sees its own group as the
 * root of the mount. */
#ifndef COMMON_SYSTEM_CGROUP_H
#define COMMON_SYSTEM_CGROUP_H

#include "common/core/base/base.h"

#define CGROUP_NO_LIMIT  UINT64_MAX
#define CGROUP_FILE_MAX  256 /* of a file's name in a limit; a longer one is cut */
#define CGROUP_CPU_WHOLE 1000

struct cgroup_limits {
    uint64_t memory_bytes; /* CGROUP_NO_LIMIT: none */
    uint64_t cpu_millis;   /* processor time, in thousandths of a processor; CGROUP_NO_LIMIT: none */
    char memory_file[CGROUP_FILE_MAX], cpu_file[CGROUP_FILE_MAX]; /* where the limit stands; "": there is none */
};

/* root: "" for this process; a test names a directory that stands for "/". What cannot be read limits nothing. */
void cgroup_limits_read(const char *root, struct cgroup_limits *out);

/* Processors that this process may keep busy: those that it may run on (sched_setaffinity(), cpusets), and no more than
 * the whole ones of its cgroup's quota. At least 1. */
unsigned cgroup_cores(void);

#endif
