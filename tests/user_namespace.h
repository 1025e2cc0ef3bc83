/* Root in a namespace of one's own, for tests that mount or shape a network: where the kernel lets every user make one.
 */
#ifndef TESTS_USER_NAMESPACE_H
#define TESTS_USER_NAMESPACE_H

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static inline bool
user_namespace_write(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return ok;
}

/* besides: CLONE_NEWNS, CLONE_NEWNET ... False: this user may not. */
static inline bool
user_namespace_enter(int besides)
{
    char users[64], groups[64];

    snprintf(users, sizeof users, "0 %ld 1", (long)geteuid());
    snprintf(groups, sizeof groups, "0 %ld 1", (long)getegid());
    return unshare(CLONE_NEWUSER | besides) == 0 && user_namespace_write("/proc/self/setgroups", "deny") &&
           user_namespace_write("/proc/self/uid_map", users) && user_namespace_write("/proc/self/gid_map", groups);
}

#endif
