/* What is looked at is the directory that was opened, not its path a second time. */
#include "server/lmdb/private_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/system/file_error.h"

static bool
private_dir_trusts(uid_t owner)
{
    return owner == 0 || owner == geteuid();
}

/* By errno. */
static enum ps_err
private_dir_unseen(const char *dir, const char *use, struct ps_error *e)
{
    return ps_fail(e, file_error_code(errno), "cannot look into the %s directory %.300s: %s", use, dir,
                   strerror(errno));
}

static enum ps_err
private_dir_check_owner(int fd, const char *dir, const char *use, struct ps_error *e)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return private_dir_unseen(dir, use, e);
    if (!private_dir_trusts(st.st_uid))
        return ps_fail(e, PS_ERR_CONFIG,
                       "the %s directory %.300s is of user %lu, who could put links there, and psd runs as user %lu: "
                       "name another, or give it to psd's user",
                       use, dir, (unsigned long)st.st_uid, (unsigned long)geteuid());
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return ps_fail(e, PS_ERR_CONFIG,
                       "the %s directory %.300s has mode %03o, so others may put files there: chmod go-w %.300s", use,
                       dir, (unsigned)st.st_mode & 0777, dir);
    return PS_OK;
}

static enum ps_err
private_dir_check_files(DIR *entries, const char *dir, const char *use, struct ps_error *e)
{
    const struct dirent *entry;
    struct stat st;

    while ((entry = readdir(entries)) != NULL)
        if (fstatat(dirfd(entries), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
            return ps_fail(e, PS_ERR_CONFIG,
                           "the %s directory %.300s has a link, %.255s, and psd follows none: remove it", use, dir,
                           entry->d_name);
    return PS_OK;
}

enum ps_err
private_dir_check(const char *dir, const char *use, struct ps_error *e)
{
    struct stat st;
    enum ps_err err;
    DIR *entries;
    int fd;

    if (lstat(dir, &st) == 0 && S_ISLNK(st.st_mode) && !private_dir_trusts(st.st_uid))
        return ps_fail(e, PS_ERR_CONFIG, "the %s directory %.300s is a link of user %lu, which psd does not follow",
                       use, dir, (unsigned long)st.st_uid);
    if ((fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return errno == ENOENT ? PS_OK : private_dir_unseen(dir, use, e);
    if ((entries = fdopendir(fd)) == NULL) {
        close(fd);
        return private_dir_unseen(dir, use, e);
    }
    if ((err = private_dir_check_owner(fd, dir, use, e)) == PS_OK)
        err = private_dir_check_files(entries, dir, use, e);
    closedir(entries);
    return err;
}
