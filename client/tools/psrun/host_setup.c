#include "client/tools/psrun/host_setup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "common/core/base/hex.h"
#include "common/system/cgroup.h"
#include "common/system/token.h"

#define MEMORY_DIR  "/dev/shm"
#define SHARD_BYTES (128 * MIB) /* of memory for each shard; psd refuses to start with less than 80 MiB */

/* ---- ports ---- */

enum ps_err
host_setup_port(int *fd, uint16_t *port, struct ps_error *e)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int on = 1;

    if ((*fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0 ||
        setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(*fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        getsockname(*fd, (struct sockaddr *)&address, &len) != 0)
        return ps_fail(e, PS_ERR_IO, "no free port on 127.0.0.1: %s", strerror(errno));
    *port = ntohs(address.sin_port);
    return PS_OK;
}

/* ---- the token ---- */

/* 256 bits, in hexadecimal. */
static enum ps_err
host_setup_random_token(char **token, struct ps_error *e)
{
    uint8_t bytes[32];
    char secret[2 * sizeof bytes + 1];

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return ps_fail(e, PS_ERR_IO, "no random number for the run's token: %s", strerror(errno));
    hex_write(bytes, sizeof bytes, secret);
    if (asprintf(token, "psrun:%s:%s", role_name(ROLE_ADMIN), secret) < 0)
        *token = NULL;
    strlist_need(*token);
    return PS_OK;
}

enum ps_err
host_setup_token(bool make, char **token, struct ps_error *e)
{
    enum ps_err err;
    struct key key;
    bool has;

    *token = NULL;
    if ((err = token_find(&key, &has, NULL, e)) != PS_OK)
        return err;
    if (!has)
        return make ? host_setup_random_token(token, e) : PS_OK;
    if (asprintf(token, "%s:%s:%.*s", key.name, role_name(key.role), (int)key.secret_len, (const char *)key.secret) < 0)
        *token = NULL;
    strlist_need(*token);
    key_finish(&key);
    return PS_OK;
}

enum ps_err
host_setup_token_file(const char *path, const char *token, struct ps_error *e)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool good = fd >= 0 && dprintf(fd, "%s\n", token) > 0;

    if (fd >= 0 && close(fd) != 0)
        good = false;
    return good ? PS_OK : ps_fail(e, PS_ERR_IO, "cannot write %s: %s", path, strerror(errno));
}

/* ---- directories ---- */

/* A tmpfs without a limit has no figures of its own: the machine's then. */
static uint64_t
host_setup_free_bytes(const struct statvfs *fs)
{
    struct sysinfo machine;

    if (fs->f_blocks > 0)
        return (uint64_t)fs->f_bavail * fs->f_frsize;
    return sysinfo(&machine) == 0 ? (uint64_t)machine.freeram * machine.mem_unit : 0;
}

/* True when the directory exists and has space for all shards to begin with: containers often have a /dev/shm of 64
 * MiB. */
static bool
host_setup_has_space(const char *dir, uint32_t shards)
{
    struct statvfs fs;

    return statvfs(dir, &fs) == 0 && host_setup_free_bytes(&fs) >= shards * SHARD_BYTES;
}

/* Where files go when memory has no space. */
static const char *
host_setup_disk(void)
{
    const char *temporary = getenv("TMPDIR");

    if (temporary == NULL || *temporary == '\0' || strlen(temporary) > 32) /* a socket's path is short */
        return "/tmp";
    return temporary;
}

enum ps_err
host_setup_run_dir(uint32_t shards, bool need_memory, char *out, size_t size, bool *disk, struct ps_error *e)
{
    *disk = false;
    snprintf(out, size, MEMORY_DIR "/psrun-XXXXXX");
    if ((!need_memory || host_setup_has_space(MEMORY_DIR, shards)) && mkdtemp(out) != NULL)
        return PS_OK;
    *disk = true;
    snprintf(out, size, "%s/psrun-XXXXXX", host_setup_disk());
    if (mkdtemp(out) != NULL)
        return PS_OK;
    *out = '\0';
    return ps_fail(e, PS_ERR_IO, "neither " MEMORY_DIR " nor %s can be used: %s", host_setup_disk(), strerror(errno));
}

/* A path below MEMORY_DIR, which may stand behind an option, to the disk. */
static void
host_setup_move(char **text, const char *option)
{
    const char *path = *text + strlen(option);
    char *moved;

    if (strncmp(*text, option, strlen(option)) != 0 || strncmp(path, MEMORY_DIR "/", sizeof MEMORY_DIR) != 0)
        return;
    if (asprintf(&moved, "%s%s%s", option, host_setup_disk(), path + sizeof MEMORY_DIR - 1) < 0)
        moved = NULL;
    free(*text);
    *text = strlist_need(moved);
}

/* The files that an earlier run of the shard left decide, then the space. */
static bool
host_setup_stays(const char *dir, uint32_t shards)
{
    char *moved = strlist_need(strdup(dir));
    bool left_on_disk;

    host_setup_move(&moved, "");
    left_on_disk = access(moved, F_OK) == 0;
    free(moved);
    return access(dir, F_OK) == 0 || (!left_on_disk && host_setup_has_space(MEMORY_DIR, shards));
}

void
host_setup_move_to_disk(struct strlist *dirs, struct strlist *argv, char **remove_dir, uint32_t shards)
{
    if (**remove_dir == '\0' || host_setup_stays(*remove_dir, MAX(shards, 1U)))
        return;
    for (size_t i = 0; i < dirs->len; i++)
        host_setup_move(&dirs->text[i], "");
    for (size_t i = 0; i < argv->len; i++)
        host_setup_move(&argv->text[i], "--live-dir=");
    host_setup_move(remove_dir, "");
}

/* Below a directory that everybody may write to: an entry that exists already may be another user's trap. */
static bool
host_setup_is_shared(const char *path)
{
    size_t disk = strlen(host_setup_disk());

    return strncmp(path, MEMORY_DIR "/", sizeof MEMORY_DIR) == 0 ||
           (strncmp(path, host_setup_disk(), disk) == 0 && path[disk] == '/');
}

static enum ps_err
host_setup_dir(const char *path, struct ps_error *e)
{
    struct stat st;

    if (mkdir(path, 0700) == 0)
        return PS_OK;
    if (errno != EEXIST)
        return ps_fail(e, PS_ERR_IO, "%s: the directory cannot be made: %s", path, strerror(errno));
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return ps_fail(e, PS_ERR_IO, "%s is there and is no directory", path);
    if (st.st_uid != geteuid() && host_setup_is_shared(path))
        return ps_fail(e, PS_ERR_IO, "%s belongs to another user", path);
    return PS_OK;
}

enum ps_err
host_setup_dirs(const struct strlist *dirs, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    for (size_t i = 0; err == PS_OK && i < dirs->len; i++)
        err = host_setup_dir(dirs->text[i], e);
    return err;
}

static int
host_setup_remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)at;
    if (type == FTW_DP)
        return rmdir(path) != 0 && errno != ENOENT;
    return unlink(path) != 0 && errno != ENOENT;
}

void
host_setup_remove(const char *dir)
{
    nftw(dir, host_setup_remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

void
host_setup_remove_shard(const char *dir)
{
    char parent[4096];
    char *slash;

    if (*dir == '\0')
        return;
    host_setup_remove(dir);
    snprintf(parent, sizeof parent, "%s", dir);
    if ((slash = strrchr(parent, '/')) != NULL && slash != parent) {
        *slash = '\0';
        rmdir(parent);
    }
}

/* ---- memory ---- */

/* The space that a file takes in its filesystem. */
static uint64_t
host_setup_file_bytes(const char *dir, const char *name)
{
    char path[4096];
    struct stat st;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return stat(path, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

void
host_setup_memory(struct strlist *argv, const char *live_dir, uint32_t shards)
{
    struct cgroup_limits limits;
    struct statvfs fs;
    uint64_t bytes;

    if (shards == 0 || statvfs(live_dir, &fs) != 0)
        return;
    cgroup_limits_read("", &limits);
    bytes = host_setup_free_bytes(&fs) / 5 * 4 / shards + host_setup_file_bytes(live_dir, "data.mdb");
    if (limits.memory_bytes != CGROUP_NO_LIMIT)
        bytes = MIN(bytes, limits.memory_bytes / 2 / shards);
    strlist_add(argv, "--memory=%llu", (unsigned long long)bytes);
}
