/* The lock is on the directory itself, so that it ends with the process that makes it and leaves nothing behind. */
#include "client/checkpoint/checkpoint_dir_writer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "common/core/base/utf8.h"
#include "common/core/wire/wire.h"
#include "common/system/file_error.h"

#define LATEST_NEXT   ".%.200s.latest"
#define STALE_SECONDS ((time_t)24 * 60 * 60) /* a partial directory not written to for so long is a dead process's */

static enum ps_err
dir_writer_failed(struct ps_error *e, const char *what, const char *dir, const char *name)
{
    return ps_fail(e, file_error_code(errno), "cannot %s %.250s%s%.100s: %s", what, dir, name[0] != '\0' ? "/" : "",
                   name, strerror(errno));
}

/* ---- Paths ---- */

static enum ps_err
dir_writer_absolute(const char *path, char **out, struct ps_error *e)
{
    *out = path[0] == '/' ? strdup(path) : realpath(path, NULL);
    if (*out == NULL)
        return ps_fail(e, errno == ENOMEM ? PS_ERR_NOMEM : PS_ERR_IO, "%.300s: %s", path, strerror(errno));
    if (strlen(*out) + DIR_WRITER_NAME_MAX + sizeof CHECKPOINT_PARTIAL > WIRE_PATH_MAX) {
        free(*out);
        *out = NULL;
        return ps_fail(e, PS_ERR_INVALID, "the path of a checkpoint has at most %d bytes", WIRE_PATH_MAX);
    }
    return PS_OK;
}

enum ps_err
dir_writer_resolve(const char *path, char **out, struct ps_error *e)
{
    size_t len = strlen(path), dir_len;
    char target[DIR_WRITER_NAME_MAX + 1], *bare, *linked = NULL;
    const char *slash;
    enum ps_err err;
    ssize_t n;

    while (len > 1 && path[len - 1] == '/')
        len--;
    if ((bare = strndup(path, len)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a path");
    n = readlink(bare, target, sizeof target);
    if (n > 0 && (size_t)n < sizeof target && memchr(target, '/', (size_t)n) == NULL) {
        slash = strrchr(bare, '/');
        dir_len = slash != NULL ? (size_t)(slash - bare) + 1 : 0;
        if (asprintf(&linked, "%.*s%.*s", (int)dir_len, bare, (int)n, target) < 0)
            linked = NULL;
    }
    err = dir_writer_absolute(linked != NULL ? linked : bare, out, e);
    free(linked);
    free(bare);
    return err;
}

enum ps_err
dir_writer_name_check(const char *name, struct ps_error *e)
{
    size_t len = strlen(name), tail = strlen(CHECKPOINT_PARTIAL);

    if (len == 0 || len > DIR_WRITER_NAME_MAX || name[0] == '.' || strchr(name, '/') != NULL ||
        !utf8_is_printable(name, len))
        return ps_fail(e, PS_ERR_INVALID,
                       "a checkpoint's name is 1 to %d bytes of UTF-8 without '/', and does not begin with '.'",
                       DIR_WRITER_NAME_MAX);
    if (strcmp(name, CHECKPOINT_LATEST) == 0 || (len > tail && strcmp(name + len - tail, CHECKPOINT_PARTIAL) == 0))
        return ps_fail(e, PS_ERR_INVALID, "a checkpoint cannot have the name '%.64s': such names have a meaning", name);
    return PS_OK;
}

/* ---- Removing ---- */

/* What psd made in a directory that is open; the manifest first, so that half of it is no checkpoint. */
static void
remove_files(int fd)
{
    (void)unlinkat(fd, CHECKPOINT_MANIFEST, 0);
    for (int f = 0; f < CHECKPOINT_FILES; f++)
        (void)unlinkat(fd, checkpoint_file_name((enum checkpoint_file)f), 0);
}

static enum ps_err
remove_checkpoint(const struct dir_writer *m, const char *name, struct ps_error *e)
{
    int fd = openat(m->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return dir_writer_failed(e, "open", m->dir, name);
    remove_files(fd);
    close(fd);
    return unlinkat(m->dir_fd, name, AT_REMOVEDIR) == 0 ? PS_OK : dir_writer_failed(e, "remove", m->dir, name);
}

void
dir_writer_close(struct dir_writer *m)
{
    if (m->fd >= 0 && !m->whole) {
        remove_files(m->fd);
        (void)rmdir(m->partial);
    }
    if (m->fd >= 0)
        close(m->fd); /* and unlocks it */
    if (m->dir_fd >= 0)
        close(m->dir_fd);
    free(m->dir);
    free(m->partial);
    *m = (struct dir_writer){.fd = -1, .dir_fd = -1};
}

/* ---- Beginning ---- */

static enum ps_err
open_dir(struct dir_writer *m, const char *dir, struct ps_error *e)
{
    enum ps_err err;

    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return dir_writer_failed(e, "make", dir, "");
    if ((err = dir_writer_absolute(dir, &m->dir, e)) != PS_OK)
        return err;
    m->dir_fd = open(m->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return m->dir_fd >= 0 ? PS_OK : dir_writer_failed(e, "open", m->dir, "");
}

static bool
entry_exists(const struct dir_writer *m, const char *name)
{
    struct stat st;

    return fstatat(m->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* 1 for NAME itself, 2 for "NAME-2" ...; 0: another one. */
static unsigned long
sequel_number(const char *entry, const char *name)
{
    size_t len = strlen(name);
    unsigned long number;
    char *end;

    if (strncmp(entry, name, len) != 0)
        return 0;
    if (entry[len] == '\0')
        return 1;
    if (entry[len] != '-' || entry[len + 1] < '1' || entry[len + 1] > '9')
        return 0;
    number = strtoul(entry + len + 1, &end, 10);
    return *end == '\0' && number < UINT32_MAX ? number : 0;
}

/* The number after the last one that is there, so that the newest is the one with the highest. */
static unsigned long
next_sequel(const struct dir_writer *m, const char *name)
{
    DIR *dir = opendir(m->dir);
    unsigned long last = 0;
    struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL)
        last = MAX(last, sequel_number(entry->d_name, name));
    if (dir != NULL)
        closedir(dir);
    return last + 1;
}

enum ps_err
dir_writer_name(struct dir_writer *m, const char *name, bool sequel, struct ps_error *e)
{
    unsigned long number = sequel ? next_sequel(m, name) : 1;

    snprintf(m->name, sizeof m->name, "%s", name);
    if (number > 1)
        snprintf(m->name, sizeof m->name, "%.179s-%lu", name, number);
    if (entry_exists(m, m->name))
        return ps_fail(e, PS_ERR_BUSY, "%.250s/%.100s is there already: choose another name", m->dir, m->name);
    return PS_OK;
}

/* Whether the directory that fd is has this name still: between our open and our lock its maker may have given it
 * another, or have removed it. Only the holder of its lock does that, so it stays true. */
static bool
has_name(const struct dir_writer *m, int fd, const char *name)
{
    struct stat open_one, named;

    return fstat(fd, &open_one) == 0 && fstatat(m->dir_fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

/* On success the directory is ours alone. */
static bool
dir_writer_lock(const struct dir_writer *m, int fd, const char *name)
{
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return false;
    if (has_name(m, fd, name))
        return true;
    errno = EWOULDBLOCK;
    return false;
}

static enum ps_err
partial_failed(const struct dir_writer *m, const char *what, struct ps_error *e)
{
    if (errno == EWOULDBLOCK || errno == ENOENT || errno == EEXIST)
        return ps_fail(e, PS_ERR_BUSY, "%.300s: another process makes this checkpoint now", m->partial);
    if (errno == ENOTEMPTY)
        return ps_fail(e, PS_ERR_IO, "%.300s holds files that are not a checkpoint's: move it away", m->partial);
    return ps_fail(e, file_error_code(errno), "cannot %s %.300s: %s", what, m->partial, strerror(errno));
}

/* One that is not locked is a dead process's. It is removed and made anew, never taken over: what lies in it, or is
 * open elsewhere, is not ours, and whoever made it might write to it. */
static enum ps_err
remove_partial(const struct dir_writer *m, const char *name, struct ps_error *e)
{
    int fd = openat(m->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    enum ps_err err = PS_OK;

    if (fd < 0)
        return errno == ENOENT ? PS_OK : partial_failed(m, "open", e);
    if (!dir_writer_lock(m, fd, name)) {
        err = partial_failed(m, "lock", e);
    } else {
        remove_files(fd);
        if (unlinkat(m->dir_fd, name, AT_REMOVEDIR) != 0 && errno != ENOENT)
            err = partial_failed(m, "remove", e);
    }
    close(fd);
    return err;
}

static enum ps_err
lock_partial(struct dir_writer *m, struct ps_error *e)
{
    char name[DIR_WRITER_NAME_MAX + sizeof CHECKPOINT_PARTIAL];
    enum ps_err err;
    int fd;

    snprintf(name, sizeof name, "%s" CHECKPOINT_PARTIAL, m->name);
    if (asprintf(&m->partial, "%s/%s", m->dir, name) < 0) {
        m->partial = NULL;
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a path");
    }
    if ((err = remove_partial(m, name, e)) != PS_OK)
        return err;
    if (mkdirat(m->dir_fd, name, 0777) != 0)
        return partial_failed(m, "make", e);
    fd = openat(m->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && dir_writer_lock(m, fd, name)) {
        m->fd = fd;
        return PS_OK;
    }
    err = partial_failed(m, fd < 0 ? "open" : "lock", e);
    if (fd >= 0)
        close(fd); /* it is not ours to remove */
    return err;
}

/* When something in the directory was last written to. */
static time_t
last_written(int fd)
{
    const char *const names[] = {".", checkpoint_file_name(CHECKPOINT_WEIGHTS), checkpoint_file_name(CHECKPOINT_SLOTS),
                                 CHECKPOINT_MANIFEST};
    time_t newest = 0;
    struct stat st;

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (fstatat(fd, names[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
            newest = MAX(newest, st.st_mtime);
    return newest;
}

/* On these filesystems every process that could have made a directory sees its lock; another host's lock is not seen on
 * every other. */
static bool
locks_are_seen(int fd)
{
    static const unsigned long local[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,  BTRFS_SUPER_MAGIC,
                                          TMPFS_MAGIC,      F2FS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC};
    struct statfs fs;

    if (fstatfs(fd, &fs) != 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(local); i++)
        if ((unsigned long)fs.f_type == local[i])
            return true;
    return false;
}

static void
remove_if_stale(const struct dir_writer *m, const char *name, bool at_once)
{
    size_t len = strlen(name), tail = strlen(CHECKPOINT_PARTIAL);
    int fd;

    if (len <= tail || strcmp(name + len - tail, CHECKPOINT_PARTIAL) != 0 ||
        (fd = openat(m->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
        return;
    if (((at_once && locks_are_seen(fd)) || last_written(fd) < time(NULL) - STALE_SECONDS) &&
        dir_writer_lock(m, fd, name)) {
        remove_files(fd);
        (void)unlinkat(m->dir_fd, name, AT_REMOVEDIR);
    }
    close(fd);
}

/* A process that was killed left its files in full size, under a name that may never come again. at_once: however young
 * they are, where a lock says that nobody writes them. */
static void
remove_stale(const struct dir_writer *m, bool at_once)
{
    DIR *dir = opendir(m->dir);
    struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL)
        remove_if_stale(m, entry->d_name, at_once);
    if (dir != NULL)
        closedir(dir);
}

enum ps_err
dir_writer_begin(struct dir_writer *m, const char *dir, const char *name, bool sequel, struct ps_error *e)
{
    enum ps_err err;

    *m = (struct dir_writer){.fd = -1, .dir_fd = -1};
    if ((err = dir_writer_name_check(name, e)) != PS_OK || (err = open_dir(m, dir, e)) != PS_OK ||
        (err = dir_writer_name(m, name, sequel, e)) != PS_OK)
        return err;
    remove_stale(m, false);
    return lock_partial(m, e);
}

/* ---- Files ---- */

static enum ps_err
open_file(const struct dir_writer *m, const char *name, int flags, int *fd, struct ps_error *e)
{
    *fd = openat(m->fd, name, flags | O_NOFOLLOW | O_CLOEXEC, 0666);
    return *fd >= 0 ? PS_OK : dir_writer_failed(e, "open", m->partial, name);
}

/* On disk, or not at all. */
static enum ps_err
close_synced(const struct dir_writer *m, const char *name, int fd, enum ps_err err, struct ps_error *e)
{
    if (err == PS_OK && fsync(fd) != 0)
        err = dir_writer_failed(e, "sync", m->partial, name);
    close(fd);
    return err;
}

static enum ps_err
make_file(const struct dir_writer *m, const struct checkpoint *c, enum checkpoint_file file, struct ps_error *e)
{
    const char *name = checkpoint_file_name(file);
    struct safetensors s = {0};
    char *head = NULL;
    enum ps_err err;
    int fd;

    if ((err = checkpoint_tensors(c, file, &s, e)) == PS_OK &&
        (err = safetensors_head(&s, "psd " PSD_VERSION, &head, e)) == PS_OK &&
        (err = open_file(m, name, O_WRONLY | O_CREAT | O_EXCL, &fd, e)) == PS_OK) {
        if ((err = checkpoint_write(fd, name, head, s.data, 0, e)) == PS_OK && ftruncate(fd, (off_t)s.bytes) != 0)
            err = dir_writer_failed(e, "size", m->partial, name);
        err = close_synced(m, name, fd, err, e);
    }
    free(head);
    safetensors_finish(&s);
    return err;
}

enum ps_err
dir_writer_files(struct dir_writer *m, const struct checkpoint *c, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    for (int f = 0; err == PS_OK && f < CHECKPOINT_FILES; f++)
        err = make_file(m, c, (enum checkpoint_file)f, e);
    return err;
}

/* ---- Ending ---- */

static enum ps_err
take_checksum(const struct dir_writer *m, struct checkpoint *c, enum checkpoint_file file,
              const struct checkpoint_patience *patience, struct ps_error *e)
{
    const char *name = checkpoint_file_name(file);
    enum ps_err err;
    int fd;

    if ((err = open_file(m, name, O_RDONLY, &fd, e)) != PS_OK)
        return err;
    err = checkpoint_digest(fd, name, patience, c->files[file].sha256, &c->files[file].bytes, e);
    return close_synced(m, name, fd, err, e);
}

static enum ps_err
write_manifest(const struct dir_writer *m, const struct checkpoint *c, struct ps_error *e)
{
    char *text = checkpoint_text(c);
    enum ps_err err;
    int fd;

    if (text == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a checkpoint's manifest");
    if ((err = open_file(m, CHECKPOINT_MANIFEST, O_WRONLY | O_CREAT | O_EXCL, &fd, e)) == PS_OK) {
        err = checkpoint_write(fd, CHECKPOINT_MANIFEST, text, strlen(text), 0, e);
        err = close_synced(m, CHECKPOINT_MANIFEST, fd, err, e);
    }
    free(text);
    return err;
}

static enum ps_err
give_name(struct dir_writer *m, struct ps_error *e)
{
    if (fsync(m->fd) != 0)
        return dir_writer_failed(e, "sync", m->partial, "");
    if (renameat(AT_FDCWD, m->partial, m->dir_fd, m->name) != 0)
        return errno == EEXIST || errno == ENOTEMPTY
                   ? ps_fail(e, PS_ERR_BUSY, "%.250s/%.100s has appeared meanwhile", m->dir, m->name)
                   : dir_writer_failed(e, "make", m->dir, m->name);
    m->whole = true;
    return fsync(m->dir_fd) == 0 ? PS_OK : dir_writer_failed(e, "sync", m->dir, "");
}

static enum ps_err
point_latest(const struct dir_writer *m, struct ps_error *e)
{
    char next[NAME_MAX + 1]; /* of this checkpoint alone: others may come to be at the same time */

    snprintf(next, sizeof next, LATEST_NEXT, m->name);
    (void)unlinkat(m->dir_fd, next, 0);
    if (symlinkat(m->name, m->dir_fd, next) != 0 || renameat(m->dir_fd, next, m->dir_fd, CHECKPOINT_LATEST) != 0)
        return dir_writer_failed(e, "make", m->dir, CHECKPOINT_LATEST);
    return fsync(m->dir_fd) == 0 ? PS_OK : dir_writer_failed(e, "sync", m->dir, "");
}

enum ps_err
dir_writer_end(struct dir_writer *m, struct checkpoint *c, const struct checkpoint_patience *patience,
               struct ps_error *e)
{
    enum ps_err err = PS_OK;

    for (int f = 0; err == PS_OK && f < CHECKPOINT_FILES; f++)
        err = take_checksum(m, c, (enum checkpoint_file)f, patience, e);
    if (err != PS_OK || (err = write_manifest(m, c, e)) != PS_OK || (err = give_name(m, e)) != PS_OK)
        return err;
    return point_latest(m, e);
}

/* ---- Keeping some ---- */

struct dir_writer_entry {
    char name[NAME_MAX + 1];
    uint64_t unix_ms;
};

static int
newest_first(const void *a, const void *b)
{
    const struct dir_writer_entry *x = a, *y = b;

    if (x->unix_ms != y->unix_ms)
        return x->unix_ms < y->unix_ms ? 1 : -1;
    return strcmp(y->name, x->name);
}

/* Whether this entry is a whole checkpoint, and of when. */
static bool
entry_read(const struct dir_writer *m, const char *name, struct dir_writer_entry *out)
{
    struct checkpoint c = {0};
    bool is_one;
    int fd;

    if (name[0] == '.' || strlen(name) >= sizeof out->name)
        return false;
    if ((fd = openat(m->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
        return false;
    if ((is_one = checkpoint_manifest_read(fd, &c, NULL) == PS_OK)) {
        snprintf(out->name, sizeof out->name, "%s", name);
        out->unix_ms = c.unix_ms;
    }
    checkpoint_finish(&c);
    close(fd);
    return is_one;
}

/* All checkpoints of the directory; *list is freed by the caller. */
static enum ps_err
list_all(const struct dir_writer *m, struct dir_writer_entry **list, size_t *len, struct ps_error *e)
{
    DIR *dir = opendir(m->dir);
    struct dir_writer_entry *grown;
    struct dirent *entry;

    *list = NULL;
    *len = 0;
    if (dir == NULL)
        return dir_writer_failed(e, "read", m->dir, "");
    while ((entry = readdir(dir)) != NULL) {
        if ((grown = reallocarray(*list, *len + 1, sizeof *grown)) == NULL) {
            closedir(dir);
            return ps_fail(e, PS_ERR_NOMEM, "no memory for a list of checkpoints");
        }
        *list = grown;
        *len += entry_read(m, entry->d_name, &grown[*len]);
    }
    closedir(dir);
    return PS_OK;
}

enum ps_err
dir_writer_prune(const struct dir_writer *m, uint32_t keep, struct ps_error *e)
{
    char latest[NAME_MAX + 1] = "";
    struct dir_writer_entry *list;
    size_t len;
    ssize_t n = readlinkat(m->dir_fd, CHECKPOINT_LATEST, latest, sizeof latest - 1);
    enum ps_err err = list_all(m, &list, &len, e);

    latest[MAX(n, 0)] = '\0';
    if (err == PS_OK && len > 0)
        qsort(list, len, sizeof *list, newest_first);
    for (size_t i = keep; err == PS_OK && i < len; i++)
        if (strcmp(list[i].name, latest) != 0 && strcmp(list[i].name, m->name) != 0)
            err = remove_checkpoint(m, list[i].name, e);
    free(list);
    remove_stale(m, true);
    return err;
}
