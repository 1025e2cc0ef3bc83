#include "tests/system/shards.h"

#include <check.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_MS 20000
#define READY_FD 3

static const char *
psd_path(void)
{
    const char *path = getenv("PSD_BIN");

    return path != NULL ? path : "build/server/psd";
}

/* The child: its ready descriptor becomes READY_FD. It dies with the test, however that ends. */
static _Noreturn void
become_psd(const struct shards *s, uint32_t shard, int ready)
{
    char index[16], count[16], live[128], fd[16];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (ready != READY_FD) {
        dup2(ready, READY_FD);
        close(ready);
    } else {
        fcntl(ready, F_SETFD, 0);
    }
    snprintf(index, sizeof index, "%u", shard);
    snprintf(count, sizeof count, "%u", s->count);
    snprintf(live, sizeof live, "%s/%u", s->directory, shard);
    snprintf(fd, sizeof fd, "%d", READY_FD);
    execl(psd_path(), "psd", "--listen", "127.0.0.1:0", "--cluster", SHARDS_CLUSTER, "--shard", index, "--shards",
          count, "--live-dir", live, "--memory", "64MiB", "--grace", "1s", "--log-level", "error", "--ready-fd", fd,
          (char *)NULL);
    perror(psd_path());
    _exit(127);
}

/* The first line that a shard writes when it listens. */
static void
read_address(int fd, char address[64])
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    size_t len = 0;
    ssize_t got;

    while (len < 63) {
        ck_assert_msg(poll(&p, 1, START_MS) == 1, "%s did not start within %d ms", psd_path(), START_MS);
        got = read(fd, address + len, 1);
        ck_assert_msg(got == 1, "%s ended before it listened", psd_path());
        if (address[len] == '\n')
            break;
        len++;
    }
    address[len] = '\0';
}

void
shards_start(struct shards *s, uint32_t count)
{
    char address[64];
    int ready[2];

    ck_assert_uint_le(count, SHARDS_MAX);
    memset(s, 0, sizeof *s);
    s->count = count;
    snprintf(s->directory, sizeof s->directory, "%s", "/dev/shm/psd-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(s->directory));
    for (uint32_t i = 0; i < count; i++) {
        ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
        if ((s->pids[i] = fork()) == 0)
            become_psd(s, i, ready[1]);
        ck_assert_int_gt(s->pids[i], 0);
        close(ready[1]);
        read_address(ready[0], address);
        close(ready[0]);
        if (i > 0)
            strcat(s->addresses, ",");
        strcat(s->addresses, address);
    }
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void
shards_stop(struct shards *s)
{
    int status[SHARDS_MAX] = {0};

    for (uint32_t i = 0; i < s->count; i++)
        kill(s->pids[i], SIGTERM);
    for (uint32_t i = 0; i < s->count; i++)
        waitpid(s->pids[i], &status[i], 0);
    nftw(s->directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    for (uint32_t i = 0; i < s->count; i++)
        ck_assert_msg(WIFEXITED(status[i]) && WEXITSTATUS(status[i]) == 0, "shard %u ended with status %x", i,
                      (unsigned)status[i]);
}
