/* Whether a lock is held is read from /proc/locks: to try the lock could make its owner's own start fail. */
#include "server/lmdb/store_neighbours.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* "1: FLOCK  ADVISORY  WRITE 4242 00:1a:31337 0 EOF" */
static bool
store_neighbours_is_locked(const struct stat *st)
{
    FILE *f = fopen("/proc/locks", "re");
    char line[256], kind[16], file[64], wanted[64];
    bool found = false;

    if (f == NULL)
        return false;
    snprintf(wanted, sizeof wanted, "%02x:%02x:%lu", major(st->st_dev), minor(st->st_dev), (unsigned long)st->st_ino);
    while (!found && fgets(line, sizeof line, f) != NULL)
        found = sscanf(line, "%*s %15s %*s %*s %*s %63s", kind, file) == 2 && strcmp(kind, "FLOCK") == 0 &&
                strcmp(file, wanted) == 0;
    fclose(f);
    return found;
}

static bool
store_neighbours_is_one(int parent, const char *name, const struct stat *own, const char *lock_file)
{
    char path[NAME_MAX + 32];
    struct stat dir, lock;

    snprintf(path, sizeof path, "%s/%s", name, lock_file);
    return fstatat(parent, name, &dir, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(dir.st_mode) && dir.st_dev == own->st_dev &&
           dir.st_ino != own->st_ino && fstatat(parent, path, &lock, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(lock.st_mode) && store_neighbours_is_locked(&lock);
}

uint64_t
store_neighbours(const char *dir, const char *lock_file)
{
    char parent[PATH_MAX + 4];
    const struct dirent *entry;
    uint64_t found = 0;
    struct stat own;
    DIR *entries;

    snprintf(parent, sizeof parent, "%s/..", dir);
    if (stat(dir, &own) != 0 || (entries = opendir(parent)) == NULL)
        return 0;
    for (int i = 0; i < STORE_NEIGHBOURS_ENTRIES_MAX && (entry = readdir(entries)) != NULL; i++)
        found += *entry->d_name != '.' && store_neighbours_is_one(dirfd(entries), entry->d_name, &own, lock_file);
    closedir(entries);
    return found;
}
