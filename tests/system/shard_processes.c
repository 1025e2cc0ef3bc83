#include "tests/system/shard_processes.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "tests/remove_tree.h"
#include "tests/system/wait_for.h"
#include "tests/unit/kits/memory_dir.h"

#define START_MS 60000
#define FIRST_FD 3   /* the sockets that are handed over, then the ready descriptor */
#define APART_FD 100 /* above all descriptors of a test */

static const char *
psd_path(void)
{
    const char *path = getenv("PSD_BIN");

    return path != NULL ? path : "build/server/psd";
}

#define ARGS_MAX 64

struct args {
    const char *words[ARGS_MAX];
    size_t len;
};

static void
args_add(struct args *a, const char *word)
{
    if (a->len < ARGS_MAX - 1)
        a->words[a->len++] = word;
}

/* Unless the test's own options say otherwise. */
static void
args_usual(struct args *a, const struct shards *s, const char *name, const char *value)
{
    const char *const *more = s->options.more;

    for (; more != NULL && *more != NULL; more++)
        if (strcmp(*more, name) == 0)
            return;
    args_add(a, name);
    args_add(a, value);
}

static void
log_path(const struct shards *s, uint32_t shard, char path[192])
{
    snprintf(path, 192, "%s/%u.log", s->directory, shard);
}

static void
log_to_file(const struct shards *s, uint32_t shard)
{
    char path[192];
    int fd;

    log_path(s, shard, path);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd >= 0)
        dup2(fd, STDERR_FILENO);
}

const char *
shards_log(const struct shards *s, uint32_t shard)
{
    static char text[1 << 18];
    char path[192];
    ssize_t n;
    int fd;

    log_path(s, shard, path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

bool
shards_said(const struct shards *s, uint32_t shard, const char *text)
{
    return strstr(shards_log(s, shard), text) != NULL;
}

int
shards_maps(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    int n = 0;

    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f) != NULL)
        n += strstr(line, "memfd:psd-shared") != NULL;
    fclose(f);
    return n;
}

void
shards_hang_up(const struct shards *s, uint32_t shard, const char *text)
{
    ck_assert_int_eq(kill(s->pids[shard], SIGHUP), 0);
    WAIT_FOR_LOGGED(shards_said(s, shard, text), shards_log(s, shard));
}

const char *const *
shards_words(const char *const *first, const char *const *then)
{
    static char words[32][128];
    static const char *all[ARRAY_LEN(words) + 1];
    size_t n = 0;

    for (; *first != NULL || *then != NULL; n++) {
        ck_assert_uint_lt(n, ARRAY_LEN(words));
        ck_assert_int_lt(snprintf(words[n], sizeof words[n], "%s", *first != NULL ? *first++ : *then++),
                         sizeof words[n]);
        all[n] = words[n];
    }
    all[n] = NULL;
    return all;
}

/* The child's descriptors from FIRST_FD on become these. */
static void
hand_over(const int *fds, int len, int ready)
{
    int apart[16];

    for (int i = 0; i < len; i++)
        apart[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, APART_FD);
    ready = fcntl(ready, F_DUPFD_CLOEXEC, APART_FD);
    for (int i = 0; i < len; i++)
        dup2(apart[i], FIRST_FD + i);
    dup2(ready, FIRST_FD + len);
}

static void
tell_of_sockets(const struct shards_options *o)
{
    char pid[16], count[16];

    if (o->handed_len == 0)
        return;
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    snprintf(count, sizeof count, "%d", o->handed_len);
    setenv("LISTEN_PID", pid, 0); /* a test may set another one's */
    setenv("LISTEN_FDS", count, 1);
    if (o->handed_names != NULL)
        setenv("LISTEN_FDNAMES", o->handed_names, 1);
}

/* The child. It dies with the test, however that ends. */
static _Noreturn void
become_psd(const struct shards *s, uint32_t shard, int ready)
{
    char index[16], count[16], live[192], disk[192], fd[16], path[192];
    struct args args = {.len = 0};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (s->options.log)
        log_to_file(s, shard);
    hand_over(s->options.handed, s->options.handed_len, ready);
    tell_of_sockets(&s->options);
    snprintf(index, sizeof index, "%u", shard);
    snprintf(count, sizeof count, "%u", s->count);
    snprintf(live, sizeof live, "%s/%u", s->directory, shard);
    snprintf(disk, sizeof disk, "%s/%u.disk", s->directory, shard);
    snprintf(fd, sizeof fd, "%d", FIRST_FD + s->options.handed_len);
    snprintf(path, sizeof path, "%s/%u.sock", s->directory, shard);
    args_add(&args, "psd");
    args_usual(&args, s, "--listen", s->address[shard]);
    args_usual(&args, s, "--unix", path);
    args_usual(&args, s, "--cluster", SHARDS_CLUSTER);
    args_usual(&args, s, "--shard", index);
    args_usual(&args, s, "--shards", count);
    args_usual(&args, s, "--live-dir", live);
    args_usual(&args, s, "--durable-dir", s->options.durable ? disk : "none");
    args_usual(&args, s, "--memory", "64MiB");
    args_usual(&args, s, "--grace", "1s");
    args_usual(&args, s, "--log-level", "error");
    args_usual(&args, s, "--ready-fd", fd);
    for (const char *const *more = s->options.more; more != NULL && *more != NULL; more++)
        args_add(&args, *more);
    execv(psd_path(), (char *const *)(uintptr_t)args.words);
    perror(psd_path());
    _exit(127);
}

/* The first line of what a shard writes when it listens; it closes the descriptor after the last. False: it ended. */
static bool
read_address(int fd, char address[64])
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char lines[512];
    size_t len = 0;
    ssize_t got;

    do {
        ck_assert_msg(poll(&p, 1, START_MS) == 1, "%s did not start within %d ms", psd_path(), START_MS);
        got = read(fd, lines + len, sizeof lines - 1 - len);
        ck_assert_int_ge(got, 0);
        len += (size_t)got;
    } while (got > 0 && len < sizeof lines - 1);
    lines[len] = '\0';
    if (strchr(lines, '\n') == NULL)
        return false;
    snprintf(address, 64, "%.*s", (int)strcspn(lines, "\n"), lines);
    return true;
}

/* Returns the descriptor that it writes its addresses to. */
static int
shards_launch(struct shards *s, uint32_t shard)
{
    int ready[2];

    ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
    if ((s->pids[shard] = fork()) == 0)
        become_psd(s, shard, ready[1]);
    ck_assert_int_gt(s->pids[shard], 0);
    close(ready[1]);
    return ready[0];
}

static void
start_one(struct shards *s, uint32_t shard)
{
    int ready = shards_launch(s, shard);

    ck_assert_msg(read_address(ready, s->address[shard]), "%s ended before it listened", psd_path());
    close(ready);
}

static int
exit_status(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int
shards_try(struct shards *s, uint32_t shard)
{
    int ready = shards_launch(s, shard), status;
    bool listens = read_address(ready, s->address[shard]);

    close(ready);
    if (listens)
        return 0;
    waitpid(s->pids[shard], &status, 0);
    s->pids[shard] = 0;
    ck_assert_msg(status != 0, "shard %u ended without a reason", shard);
    return exit_status(status);
}

int
shards_refused(struct shards *s, uint32_t shard)
{
    struct pollfd p = {.fd = shards_launch(s, shard), .events = POLLIN};
    char byte;
    int status;

    ck_assert_int_eq(poll(&p, 1, START_MS), 1);
    ck_assert_msg(read(p.fd, &byte, 1) == 0, "shard %u listens", shard);
    close(p.fd);
    waitpid(s->pids[shard], &status, 0);
    s->pids[shard] = 0;
    return exit_status(status);
}

void
shards_preload(const char *variable)
{
    const char *lib = getenv(variable), *asan = getenv("ASAN_OPTIONS");
    char options[512];

    ck_assert_ptr_nonnull(lib);
    setenv("LD_PRELOAD", lib, 1);
    snprintf(options, sizeof options, "%s:verify_asan_link_order=0", asan != NULL ? asan : "");
    setenv("ASAN_OPTIONS", options, 1);
}

void
shards_start(struct shards *s, uint32_t count)
{
    shards_start_with(s, count, &(struct shards_options){.where = NULL});
}

void
shards_start_with(struct shards *s, uint32_t count, const struct shards_options *options)
{
    ck_assert_uint_le(count, SHARDS_MAX);
    memset(s, 0, sizeof *s);
    s->count = count;
    s->options = *options;
    snprintf(s->directory, sizeof s->directory, "%s/psd-test-XXXXXX",
             options->where != NULL ? options->where : memory_dir());
    ck_assert_ptr_nonnull(mkdtemp(s->directory));
    for (uint32_t i = 0; i < count; i++) {
        strcpy(s->address[i], "127.0.0.1:0");
        start_one(s, i);
        if (i > 0) {
            strcat(s->addresses, ",");
            strcat(s->sockets, ",");
        }
        strcat(s->addresses, s->address[i]);
        snprintf(s->sockets + strlen(s->sockets), sizeof s->sockets - strlen(s->sockets), "unix:%s/%u.sock",
                 s->directory, i);
    }
}

void
shards_kill(struct shards *s, uint32_t shard)
{
    kill(s->pids[shard], SIGKILL);
    waitpid(s->pids[shard], NULL, 0);
    s->pids[shard] = 0;
}

void
shards_lose_power(struct shards *s, uint32_t shard)
{
    char live[192];

    shards_kill(s, shard);
    snprintf(live, sizeof live, "%s/%u", s->directory, shard);
    remove_tree(live);
}

void
shards_wait(struct shards *s, uint32_t shard)
{
    int status;

    ck_assert_int_eq(waitpid(s->pids[shard], &status, 0), s->pids[shard]);
    s->pids[shard] = 0;
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "shard %u ended with status %x", shard,
                  (unsigned)status);
}

void
shards_restart(struct shards *s, uint32_t shard)
{
    ck_assert_int_eq(s->pids[shard], 0);
    start_one(s, shard);
}

int
shards_shell(const char *format, ...)
{
    char line[1024];
    va_list args;
    int status;

    va_start(args, format);
    ck_assert_int_lt(vsnprintf(line, sizeof line, format, args), sizeof line);
    va_end(args);
    status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void
shards_stop(struct shards *s)
{
    int status[SHARDS_MAX] = {0};
    uint32_t count = s->count;

    if (count == 0)
        return;
    s->count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (s->pids[i] != 0)
            kill(s->pids[i], SIGTERM);
    for (uint32_t i = 0; i < count; i++)
        if (s->pids[i] != 0)
            waitpid(s->pids[i], &status[i], 0);
    remove_tree(s->directory);
    for (uint32_t i = 0; i < count; i++)
        ck_assert_msg(WIFEXITED(status[i]) && WEXITSTATUS(status[i]) == 0, "shard %u ended with status %x", i,
                      (unsigned)status[i]);
}
