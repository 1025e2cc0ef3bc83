/* Creates, locks and inspects the directory. The lock's file names its holder, for the message of a second psd. */
#include "server/lmdb/store_dir.h"

#include <dirent.h>
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

#include "common/system/file_error.h"
#include "server/lmdb/private_dir.h"
#include "server/lmdb/store_neighbours.h"
#include "server/lmdb/store_room.h"

#define LOCK_FILE "psd.lock"

static bool
is_memory(const struct statfs *fs)
{
    return (unsigned long)fs->f_type == TMPFS_MAGIC || (unsigned long)fs->f_type == RAMFS_MAGIC;
}

bool
store_dir_in_memory(const char *dir)
{
    struct statfs fs;

    return statfs(dir, &fs) == 0 && is_memory(&fs);
}

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

    report->on_disk = !is_memory(fs);
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
        return ps_fail(e, PS_ERR_IO, "cannot create the %s directory %s: its parent does not exist", d->use, dir);
    return ps_fail(e, PS_ERR_IO, "cannot create the %s directory %s: %s", d->use, dir, strerror(errno));
}

/* Whether this file still has the name. */
static bool
is_named(int fd, const char *path)
{
    struct stat ours, named;

    return fstat(fd, &ours) == 0 && stat(path, &named) == 0 && ours.st_dev == named.st_dev &&
           ours.st_ino == named.st_ino;
}

static bool
open_lock(struct store_dir *d, const char *path)
{
    if (d->lock_fd >= 0)
        close(d->lock_fd);
    d->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return d->lock_fd >= 0;
}

/* The holder may have removed the file (store_dir_undo()) between opening and locking it here: try again. */
enum ps_err
store_dir_lock(struct store_dir *d, const char *dir, struct ps_error *e)
{
    char path[PATH_MAX], holder[16] = "";
    bool locked;
    ssize_t n;

    snprintf(path, sizeof path, "%s/" LOCK_FILE, dir);
    do {
        if (!open_lock(d, path))
            return ps_fail(e, file_error_code(errno), "cannot write in the %s directory %s: %s", d->use, dir,
                           strerror(errno));
        locked = flock(d->lock_fd, LOCK_EX | LOCK_NB) == 0;
    } while (locked && !is_named(d->lock_fd, path));
    if (!locked) {
        if (errno != EWOULDBLOCK)
            return ps_fail(e, PS_ERR_IO, "cannot lock %s: %s", path, strerror(errno));
        n = pread(d->lock_fd, holder, sizeof holder - 1, 0);
        holder[strcspn(holder, "\n")] = '\0';
        return ps_fail(e, PS_ERR_BUSY, "another psd (process %s) has the %s directory %s", n > 0 ? holder : "unknown",
                       d->use, dir);
    }
    n = snprintf(holder, sizeof holder, "%ld\n", (long)getpid());
    if (pwrite(d->lock_fd, holder, (size_t)n, 0) != n || ftruncate(d->lock_fd, n) < 0)
        return ps_fail(e, file_error_code(errno), "cannot write in the %s directory %s: %s", d->use, dir,
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
too_small(const struct store_dir *d, const struct store_dir_options *o, const struct store_dir_report *report,
          struct ps_error *e)
{
    if (o->max_bytes != 0 && o->max_bytes < STORE_DIR_BYTES_MIN)
        return ps_fail(e, PS_ERR_FULL,
                       "%" PRIu64 " MiB of memory for the %s directory %s are too few: at least %" PRIu64
                       " MiB are needed; --%s-dir may name one with more room",
                       (uint64_t)(o->max_bytes / MIB), d->use, o->dir, (uint64_t)(STORE_DIR_BYTES_MIN / MIB), d->use);
    return ps_fail(e, PS_ERR_FULL,
                   "the %s directory %s is too small: %" PRIu64 " MiB are free on its %s, at least %" PRIu64
                   " MiB are needed; --%s-dir may name another",
                   d->use, o->dir, (uint64_t)(report->free_bytes / MIB), report->fs_name,
                   (uint64_t)(o->max_bytes != 0 ? STORE_DIR_BYTES_MIN : STORE_DIR_BYTES_MIN / 4 * 5) / MIB, d->use);
}

/* Where nobody has said how much: what the file has plus what it may get. */
static void
find_limit(const struct store_dir_options *o, uint64_t there, struct store_dir_report *report)
{
    uint64_t sharers = MAX(o->sharers, store_neighbours(o->dir, LOCK_FILE) + 1);
    int n;

    report->limit_bytes = (report->free_bytes + there) / 5 * 4 / sharers;
    n = snprintf(report->limit_why, sizeof report->limit_why, "80 %% of what its %s has free", report->fs_name);
    if (sharers > 1)
        snprintf(report->limit_why + n, sizeof report->limit_why - (size_t)n, ", for %" PRIu64 " shards", sharers);
    if (o->most_bytes == 0 || o->most_bytes >= report->limit_bytes)
        return;
    report->limit_bytes = o->most_bytes;
    snprintf(report->limit_why, sizeof report->limit_why, "the memory limit of its control group");
}

static enum ps_err
choose_limit(struct store_dir *d, const struct store_dir_options *o, struct store_dir_report *report,
             struct ps_error *e)
{
    uint64_t there = existing_bytes(d->data_path, report);
    struct statfs fs;

    d->fresh = !report->existed;
    if (statfs(o->dir, &fs) < 0)
        return ps_fail(e, PS_ERR_IO, "cannot look at the %s directory %s: %s", d->use, o->dir, strerror(errno));
    name_filesystem(&fs, report);
    report->free_bytes = store_room_free_bytes(&fs);
    if (o->max_bytes == 0)
        find_limit(o, there, report);
    else {
        report->limit_bytes = o->max_bytes;
        snprintf(report->limit_why, sizeof report->limit_why, "--memory");
    }
    if (o->max_bytes != 0 && o->max_bytes < STORE_DIR_BYTES_MIN)
        return too_small(d, o, report, e);
    if (!d->fresh) { /* what is there is served, however full the filesystem has become */
        if (o->max_bytes == 0)
            report->limit_bytes = MAX(report->limit_bytes, there);
        return PS_OK;
    }
    if (report->limit_bytes < STORE_DIR_BYTES_MIN || report->free_bytes + there < STORE_DIR_BYTES_MIN)
        return too_small(d, o, report, e);
    return PS_OK;
}

enum ps_err
store_dir_open(struct store_dir *d, const struct store_dir_options *o, struct store_dir_report *report,
               struct ps_error *e)
{
    enum ps_err err;

    *report = (struct store_dir_report){0};
    *d = (struct store_dir){.use = o->durable ? "durable" : "live", .lock_fd = -1};
    if (asprintf(&d->data_path, "%s/data.mdb", o->dir) < 0) {
        d->data_path = NULL;
        return ps_fail(e, PS_ERR_NOMEM, "out of memory");
    }
    if ((err = make_dir(d, o->dir, e)) != PS_OK ||
        (!o->anyones && (err = private_dir_check(o->dir, d->use, e)) != PS_OK) ||
        (err = store_dir_lock(d, o->dir, e)) != PS_OK)
        return err;
    if (o->set_aside && (err = store_dir_set_aside(d, &report->set_aside, e)) != PS_OK)
        return err;
    return choose_limit(d, o, report, e);
}

void
store_dir_close(struct store_dir *d)
{
    if (d->lock_fd >= 0)
        close(d->lock_fd); /* drops the flock */
    free(d->data_path);
}

/* ---- Setting aside, and undoing ---- */

static void
dir_of(const struct store_dir *d, char dir[PATH_MAX])
{
    snprintf(dir, PATH_MAX, "%.*s", (int)(strrchr(d->data_path, '/') - d->data_path), d->data_path);
}

bool
store_dir_sync(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && fsync(fd) == 0;

    if (fd >= 0)
        close(fd);
    return ok;
}

bool
store_dir_sync_names(const struct store_dir *d)
{
    char dir[PATH_MAX], parent[PATH_MAX + 4];

    dir_of(d, dir);
    snprintf(parent, sizeof parent, "%s/..", dir);
    return !d->fresh || (store_dir_sync(dir) && (!d->made || store_dir_sync(parent)));
}

/* The number of a file that was set aside; 0: it is none. */
static uint32_t
bad_number(const char *name)
{
    static const char start[] = "data.mdb.bad-";
    unsigned n;
    int end = 0;

    if (strncmp(name, start, sizeof start - 1) != 0)
        return 0;
    name += sizeof start - 1;
    return sscanf(name, "%9u%n", &n, &end) == 1 && name[end] == '\0' ? n : 0;
}

/* Removes those up to number `last`. Returns the newest one's number. */
static uint32_t
bad_files(const char *dir, uint32_t last)
{
    DIR *entries = opendir(dir);
    const struct dirent *entry;
    uint32_t newest = 0;

    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        uint32_t n = bad_number(entry->d_name);

        newest = MAX(newest, n);
        if (n != 0 && n <= last)
            (void)unlinkat(dirfd(entries), entry->d_name, 0);
    }
    if (entries != NULL)
        closedir(entries);
    return newest;
}

uint32_t
store_dir_bad(const char *dir)
{
    return bad_files(dir, 0);
}

enum ps_err
store_dir_set_aside(const struct store_dir *d, uint32_t *n, struct ps_error *e)
{
    char dir[PATH_MAX], bad[PATH_MAX + 32];
    uint32_t number;

    *n = 0;
    dir_of(d, dir);
    number = store_dir_bad(dir) + 1;
    snprintf(bad, sizeof bad, "%s.bad-%" PRIu32, d->data_path, number);
    if (rename(d->data_path, bad) < 0) {
        if (errno == ENOENT)
            return PS_OK;
        return ps_fail(e, PS_ERR_IO, "cannot rename %s to %s: %s", d->data_path, bad, strerror(errno));
    }
    *n = number;
    if (number > STORE_DIR_BAD_KEPT)
        (void)bad_files(dir, number - STORE_DIR_BAD_KEPT);
    if (!store_dir_sync(dir))
        return ps_fail(e, PS_ERR_IO, "cannot sync %s: %s", dir, strerror(errno));
    return PS_OK;
}

/* The lock's file is removed last: until then a second psd finds that the first is there. */
void
store_dir_undo(const struct store_dir *d)
{
    static const char *const names[] = {STORE_DIR_FILES, LOCK_FILE};
    char dir[PATH_MAX], path[PATH_MAX + 16];

    if (!d->fresh)
        return;
    dir_of(d, dir);
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
    return is_named(fd, d->data_path);
}
