/* The file "boot": the kernel's id of the boot, then "making", "making-empty", "open" or "synced". It is replaced by
 * renaming, never written in place, so that it is always whole. A psd that does not know "making-empty" takes it for
 * "making", of which it compares the beginning. */
#include "server/recovery/live_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/lmdb/private_dir.h"
#include "server/lmdb/store_dir.h"

#define BOOT_ID_SIZE 64
#define BOOT_UNKNOWN "-"

const char *live_dir_boot_id = "/proc/sys/kernel/random/boot_id";

static const char *const state_names[] = {
    [LIVE_DIR_MAKING] = "making",
    [LIVE_DIR_EMPTY] = "making-empty",
    [LIVE_DIR_OPEN] = "open",
    [LIVE_DIR_SYNCED] = "synced",
};

/* ---- Where ---- */

/* A directory that this user owns, made when missing. */
static enum ps_err
own_dir(const char *path, struct ps_error *e)
{
    struct stat st;

    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return ps_fail(e, PS_ERR_IO, "cannot create %s: %s", path, strerror(errno));
    if (lstat(path, &st) < 0)
        return ps_fail(e, PS_ERR_IO, "cannot look at %s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022) != 0)
        return ps_fail(e, PS_ERR_IO, "%s is not a directory that only this user can write; use --live-dir", path);
    return PS_OK;
}

/* The cluster's name as part of a file name: characters that could lead out of the directory, or hide the file, become
 * '_'. */
static void
file_name(const char *cluster, char *out, size_t size)
{
    size_t n = 0;

    for (; cluster[n] != '\0' && n + 1 < size; n++)
        out[n] = cluster[n] == '/' || (n == 0 && cluster[n] == '.') ? '_' : cluster[n];
    out[n] = '\0';
}

enum ps_err
live_dir_default(const char *cluster, uint64_t shard, char *out, size_t size, struct ps_error *e)
{
    const char *runtime = getenv("RUNTIME_DIRECTORY");
    char name[128], parent[64];
    enum ps_err err;

    if (runtime != NULL && *runtime != '\0') { /* systemd separates several with colons: the first is used */
        snprintf(out, size, "%.*s/live", (int)strcspn(runtime, ":"), runtime);
        return PS_OK;
    }
    snprintf(parent, sizeof parent, "/dev/shm/psd-%lu", (unsigned long)geteuid());
    if ((err = own_dir(parent, e)) != PS_OK)
        return err;
    file_name(cluster, name, sizeof name);
    snprintf(out, size, "%s/%s-%" PRIu64, parent, name, shard);
    return PS_OK;
}

/* ---- Whether its data is valid ---- */

static bool
read_word_file(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return false;
    n = read(fd, out, size - 1);
    close(fd);
    if (n < 0)
        return false;
    out[n] = '\0';
    return true;
}

static bool
boot_now(char out[BOOT_ID_SIZE])
{
    if (!read_word_file(live_dir_boot_id, out, BOOT_ID_SIZE))
        return false;
    out[strcspn(out, "\n")] = '\0';
    return *out != '\0';
}

/* Whether it was this boot. Where the kernel has no id of the boot (in some containers), memory is the proof: it ends
 * with its boot. A disk proves nothing. */
static bool
is_this_boot(const char *dir, const char *was)
{
    char now[BOOT_ID_SIZE];

    if (!boot_now(now) || strcmp(was, BOOT_UNKNOWN) == 0)
        return store_dir_in_memory(dir);
    return strcmp(was, now) == 0;
}

enum live_dir_trust {
    LIVE_DIR_TRUSTED,
    LIVE_DIR_NOT_BEGUN, /* no data were ever served from it */
    LIVE_DIR_UNTRUSTED
};

static enum live_dir_trust
live_dir_judge(const char *dir)
{
    char path[PATH_MAX], was[2 * BOOT_ID_SIZE], *state;

    snprintf(path, sizeof path, "%s/" STORE_DIR_MARK, dir);
    if (!read_word_file(path, was, sizeof was)) /* there is no file yet; else its content is unknown */
        return access(path, F_OK) < 0 && errno == ENOENT ? LIVE_DIR_TRUSTED : LIVE_DIR_UNTRUSTED;
    if ((state = strchr(was, ' ')) == NULL)
        return LIVE_DIR_UNTRUSTED;
    *state++ = '\0';
    state[strcspn(state, "\n")] = '\0';
    if (strcmp(state, state_names[LIVE_DIR_EMPTY]) == 0)
        return LIVE_DIR_NOT_BEGUN;
    if (strcmp(state, state_names[LIVE_DIR_SYNCED]) == 0 ||
        (strcmp(state, state_names[LIVE_DIR_OPEN]) == 0 && is_this_boot(dir, was)))
        return LIVE_DIR_TRUSTED;
    return LIVE_DIR_UNTRUSTED;
}

static bool
is_one_of(const char *name, const char *const names[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* One name that is in the directory and does not belong to an empty one; "" when there is none, or when it is a psd's.
 */
static void
foreign_name(const char *dir, char *out, size_t size)
{
    static const char *const ours[] = {"psd.lock", STORE_DIR_MARK}, *const empty[] = {".", "..", "lost+found"};
    DIR *entries = opendir(dir);
    const struct dirent *entry;

    *out = '\0';
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        if (is_one_of(entry->d_name, ours, ARRAY_LEN(ours))) {
            *out = '\0';
            break;
        }
        if (!is_one_of(entry->d_name, empty, ARRAY_LEN(empty)))
            snprintf(out, size, "%s", entry->d_name);
    }
    if (entries != NULL)
        closedir(entries);
}

static enum ps_err
remove_all(const char *dir, struct ps_error *e)
{
    static const char *const names[] = {STORE_DIR_FILES};
    char path[PATH_MAX];

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        if (unlink(path) < 0 && errno != ENOENT)
            return ps_fail(e, PS_ERR_IO, "cannot remove %s: %s", path, strerror(errno));
    }
    return PS_OK;
}

/* Another psd may be working in it, for example rebuilding, and its data is not valid either. */
enum ps_err
live_dir_discard(const char *dir, struct ps_error *e)
{
    struct store_dir d = {.use = "live", .lock_fd = -1};
    enum ps_err err = store_dir_lock(&d, dir, e);

    if (err == PS_OK)
        err = remove_all(dir, e);
    store_dir_close(&d);
    return err;
}

enum ps_err
live_dir_check(const char *dir, bool discard, bool *discarded, struct ps_error *e)
{
    char foreign[NAME_MAX + 1];
    enum live_dir_trust trust;
    enum ps_err err;

    *discarded = false;
    if ((err = private_dir_check(dir, "live", e)) != PS_OK)
        return err;
    foreign_name(dir, foreign, sizeof foreign);
    if (*foreign != '\0')
        return ps_fail(e, PS_ERR_IO,
                       "the live directory %s is not empty and was not made by psd: it holds %s; --live-dir names "
                       "another",
                       dir, foreign);
    if ((trust = live_dir_judge(dir)) == LIVE_DIR_TRUSTED)
        return PS_OK;
    if (trust == LIVE_DIR_NOT_BEGUN)
        return live_dir_discard(dir, e);
    if (!discard)
        return ps_fail(e, PS_ERR_IO,
                       "the live directory %s was left unsynced by another boot of this machine, or by an unknown one, "
                       "or half rebuilt, so its data cannot be trusted; --discard-stale starts empty",
                       dir);
    *discarded = true;
    return live_dir_discard(dir, e);
}

static bool
write_whole(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    size_t len = strlen(text);
    bool ok;

    if (fd < 0)
        return false;
    ok = write(fd, text, len) == (ssize_t)len && fsync(fd) == 0;
    return close(fd) == 0 && ok;
}

enum ps_err
live_dir_mark(const char *dir, enum live_dir_state state, struct ps_error *e)
{
    char path[PATH_MAX], fresh[PATH_MAX], boot[BOOT_ID_SIZE], text[2 * BOOT_ID_SIZE], was[2 * BOOT_ID_SIZE];

    if (!boot_now(boot))
        snprintf(boot, sizeof boot, BOOT_UNKNOWN);
    snprintf(path, sizeof path, "%s/" STORE_DIR_MARK, dir);
    snprintf(fresh, sizeof fresh, "%s/" STORE_DIR_MARK_NEW, dir);
    snprintf(text, sizeof text, "%s %s\n", boot, state_names[state]);
    if (read_word_file(path, was, sizeof was) && strcmp(was, text) == 0)
        return PS_OK; /* so that a restart needs no space on a full filesystem */
    if (!write_whole(fresh, text) || rename(fresh, path) < 0 || !store_dir_sync(dir))
        return ps_fail(e, PS_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    return PS_OK;
}
