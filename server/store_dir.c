/* Create, lock, look. The lock's file says who holds it, for the one who comes second. */
#include "store_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "store_room.h"

#define LOCK_FILE "psd.lock"

static void
name_filesystem(const struct statfs *fs, struct store_dir_report *report)
{
    static const struct {
        unsigned long magic;
        const char *name;
    } known[] = {{TMPFS_MAGIC, "tmpfs"},
                 {RAMFS_MAGIC, "ramfs"},
                 {EXT4_SUPER_MAGIC, "ext4"},
                 {XFS_SUPER_MAGIC, "xfs"},
                 {NFS_SUPER_MAGIC, "nfs"},
                 {BTRFS_SUPER_MAGIC, "btrfs"},
                 {OVERLAYFS_SUPER_MAGIC, "overlay"}};
    unsigned long magic = (unsigned long)fs->f_type;

    report->on_disk = magic != TMPFS_MAGIC && magic != RAMFS_MAGIC;
    snprintf(report->fs_name, sizeof report->fs_name, "0x%lx", magic);
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (known[i].magic == magic)
            snprintf(report->fs_name, sizeof report->fs_name, "%s", known[i].name);
}

static enum ps_err
make_dir(struct store_dir *d, const char *dir, struct ps_error *e)
{
    d->made = mkdir(dir, 0700) == 0;
    if (d->made || errno == EEXIST)
        return PS_OK;
    if (errno == ENOENT)
        return ps_fail(e, PS_ERR_IO, "cannot create the live directory %s: its parent does not exist", dir);
    return ps_fail(e, PS_ERR_IO, "cannot create the live directory %s: %s", dir, strerror(errno));
}

/* Take the lock, and write who holds it for the one who comes second. */
static enum ps_err
lock_dir(struct store_dir *d, const char *dir, struct ps_error *e)
{
    char path[PATH_MAX], holder[16] = "";
    ssize_t n;

    snprintf(path, sizeof path, "%s/" LOCK_FILE, dir);
    d->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (d->lock_fd < 0)
        return ps_fail(e, errno == ENOSPC ? PS_ERR_FULL : PS_ERR_IO, "cannot write in the live directory %s: %s", dir,
                       strerror(errno));
    if (flock(d->lock_fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK)
            return ps_fail(e, PS_ERR_IO, "cannot lock %s: %s", path, strerror(errno));
        n = pread(d->lock_fd, holder, sizeof holder - 1, 0);
        holder[strcspn(holder, "\n")] = '\0';
        return ps_fail(e, PS_ERR_BUSY, "another psd (process %s) has the live directory %s", n > 0 ? holder : "unknown",
                       dir);
    }
    n = snprintf(holder, sizeof holder, "%ld\n", (long)getpid());
    if (pwrite(d->lock_fd, holder, (size_t)n, 0) != n || ftruncate(d->lock_fd, n) < 0)
        return ps_fail(e, errno == ENOSPC ? PS_ERR_FULL : PS_ERR_IO, "cannot write in the live directory %s: %s", dir,
                       strerror(errno));
    return PS_OK;
}

static uint64_t
existing_bytes(const char *path, struct store_dir_report *report)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return 0;
    report->existed = st.st_size > 0;
    return (uint64_t)st.st_blocks * 512;
}

static enum ps_err
choose_limit(struct store_dir *d, const char *dir, uint64_t max_bytes, struct store_dir_report *report,
             struct ps_error *e)
{
    uint64_t there = existing_bytes(d->data_path, report);
    struct statfs fs;

    d->fresh = !report->existed;
    if (statfs(dir, &fs) < 0)
        return ps_fail(e, PS_ERR_IO, "cannot look at the live directory %s: %s", dir, strerror(errno));
    name_filesystem(&fs, report);
    report->free_bytes = store_room_free_bytes(&fs);
    report->limit_bytes = max_bytes != 0 ? max_bytes : (report->free_bytes + there) / 5 * 4;
    if (max_bytes != 0 && max_bytes < STORE_DIR_BYTES_MIN)
        return ps_fail(e, PS_ERR_FULL,
                       "%" PRIu64 " MiB of memory for the live directory %s are too few: at least %" PRIu64
                       " MiB are needed; --live-dir may name one with more room",
                       (uint64_t)(max_bytes / MIB), dir, (uint64_t)(STORE_DIR_BYTES_MIN / MIB));
    if (report->limit_bytes < STORE_DIR_BYTES_MIN || report->free_bytes + there < STORE_DIR_BYTES_MIN)
        return ps_fail(e, PS_ERR_FULL,
                       "the live directory %s is too small: %" PRIu64 " MiB are free on its %s, at least %" PRIu64
                       " MiB are needed; --live-dir may name another",
                       dir, (uint64_t)(report->free_bytes / MIB), report->fs_name,
                       (uint64_t)(max_bytes != 0 ? STORE_DIR_BYTES_MIN : STORE_DIR_BYTES_MIN / 4 * 5) / MIB);
    return PS_OK;
}

enum ps_err
store_dir_open(struct store_dir *d, const char *dir, uint64_t max_bytes, struct store_dir_report *report,
               struct ps_error *e)
{
    enum ps_err err;

    *report = (struct store_dir_report){0};
    *d = (struct store_dir){.lock_fd = -1};
    if (asprintf(&d->data_path, "%s/data.mdb", dir) < 0) {
        d->data_path = NULL;
        return ps_fail(e, PS_ERR_NOMEM, "out of memory");
    }
    if ((err = make_dir(d, dir, e)) != PS_OK || (err = lock_dir(d, dir, e)) != PS_OK)
        return err;
    return choose_limit(d, dir, max_bytes, report, e);
}

void
store_dir_close(struct store_dir *d)
{
    if (d->lock_fd >= 0)
        close(d->lock_fd); /* drops the flock */
    free(d->data_path);
}

/* The lock's file goes last: until then a second psd is told that the first is there. */
void
store_dir_undo(const struct store_dir *d)
{
    static const char *const names[] = {"data.mdb", "lock.mdb", LOCK_FILE};
    char dir[PATH_MAX], path[PATH_MAX + 16];

    if (!d->fresh)
        return;
    snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(d->data_path, '/') - d->data_path), d->data_path);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        (void)unlink(path);
    }
    if (d->made)
        (void)rmdir(dir);
}

bool
store_dir_holds(const struct store_dir *d, int fd)
{
    struct stat ours, named;

    return fstat(fd, &ours) == 0 && stat(d->data_path, &named) == 0 && ours.st_dev == named.st_dev &&
           ours.st_ino == named.st_ino;
}
