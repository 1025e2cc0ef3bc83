/* Loaded before libc: see fail_io.h. Each call asks fail_io_verdict() first, under one lock; what fails never reaches
 * libc. */
#undef _FILE_OFFSET_BITS /* both names of each call are defined here: off_t has 64 bits anyway */
#include "tests/faults/fail_io.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#if __SIZEOF_LONG__ != 8
#error "off_t must have 64 bits here"
#endif

#define PUBLIC     __attribute__((visibility("default")))
#define ARRAY(a)   (sizeof(a) / sizeof(a)[0])
#define LINE_SIZE  512
#define STALL_NSEC 1000000 /* between two looks at the control */

enum call { PWRITE, PWRITEV, WRITE, WRITEV, SENDMSG, FDATASYNC, FSYNC, MSYNC, FTRUNCATE, FALLOCATE, CALLS };

static const char *const call_names[CALLS] = {"pwrite",    "pwritev", "write", "writev",    "sendmsg",
                                              "fdatasync", "fsync",   "msync", "ftruncate", "fallocate"};

/* What happens to a call besides an errno. */
enum { GOES_ON = 0, SHORT = -1, STALL = -2 };

static const struct {
    const char *name;
    int code;
} errors[] = {{"EIO", EIO},     {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT}, {"EROFS", EROFS}, {"EDEADLK", EDEADLK},
              {"EINTR", EINTR}, {"ENOMEM", ENOMEM}, {"SHORT", SHORT},   {"STALL", STALL}};

struct rule {
    unsigned calls; /* a bit each; 0: nothing fails */
    int code;
    unsigned nth, count;
    char end[128];
};

static struct {
    pthread_mutex_t lock;
    char line[LINE_SIZE];
    struct rule rule;
    unsigned seen, hits;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- The line ---- */

static unsigned
calls_of(char *names)
{
    unsigned calls = 0;

    if (strcmp(names, "any") == 0)
        return (1u << CALLS) - 1;
    for (char *save = NULL, *name = strtok_r(names, ",", &save); name != NULL; name = strtok_r(NULL, ",", &save)) {
        unsigned i = 0;

        while (i < CALLS && strcmp(name, call_names[i]) != 0)
            i++;
        if (i == CALLS)
            return 0;
        calls |= 1u << i;
    }
    return calls;
}

static int
error_of(const char *name)
{
    for (size_t i = 0; i < ARRAY(errors); i++)
        if (strcmp(name, errors[i].name) == 0)
            return errors[i].code;
    return GOES_ON;
}

static const char *
error_name(int code)
{
    for (size_t i = 0; i < ARRAY(errors); i++)
        if (errors[i].code == code)
            return errors[i].name;
    return "?";
}

static bool
fail_io_parse(const char *line, struct rule *rule)
{
    char calls[128], error[16];
    struct rule r = {.nth = 1, .count = 1, .end = "data.mdb"};
    int n = sscanf(line, "%127s %15s %u %u %127s", calls, error, &r.nth, &r.count, r.end);

    *rule = (struct rule){0};
    if (n <= 0)
        return true;
    r.calls = calls_of(calls);
    r.code = n >= 2 ? error_of(error) : GOES_ON;
    if (r.calls == 0 || r.code == GOES_ON || r.nth == 0)
        return false;
    *rule = r;
    return true;
}

/* Under the lock. */
static bool
set_line(const char *line)
{
    bool ok = fail_io_parse(line, &state.rule);

    snprintf(state.line, sizeof state.line, "%s", line);
    state.seen = state.hits = 0;
    return ok;
}

static void
read_control(const char *control)
{
    char line[LINE_SIZE] = "";
    int fd = open(control, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd >= 0) {
        n = read(fd, line, sizeof line - 1);
        line[n > 0 ? n : 0] = '\0';
        close(fd);
    }
    if (strcmp(line, state.line) != 0 && !set_line(line))
        dprintf(STDERR_FILENO, "fail_io: cannot understand %s: %s\n", control, line);
}

bool PUBLIC
fail_io_set(const char *line)
{
    bool ok;

    pthread_mutex_lock(&state.lock);
    ok = set_line(line != NULL ? line : "");
    pthread_mutex_unlock(&state.lock);
    return ok;
}

unsigned PUBLIC
fail_io_hits(void)
{
    unsigned hits;

    pthread_mutex_lock(&state.lock);
    hits = state.hits;
    pthread_mutex_unlock(&state.lock);
    return hits;
}

unsigned PUBLIC
fail_io_calls(void)
{
    unsigned seen;

    pthread_mutex_lock(&state.lock);
    seen = state.seen;
    pthread_mutex_unlock(&state.lock);
    return seen;
}

/* ---- Which file ---- */

static bool
ends_so(const char *path)
{
    size_t len = strlen(path), end = strlen(state.rule.end);

    if (strcmp(state.rule.end, "socket") == 0)
        return strncmp(path, "socket:", 7) == 0;
    return len >= end && strcmp(path + len - end, state.rule.end) == 0;
}

static bool
fd_matches(int fd)
{
    char link[64], path[PATH_MAX];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path - 1);
    if (n < 0)
        return false;
    path[n] = '\0';
    return ends_so(path);
}

/* The file that is mapped there. */
static bool
address_matches(const void *address)
{
    uintptr_t at = (uintptr_t)address, from, to;
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[PATH_MAX + 128];
    bool matches = false;

    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%lx-%lx", &from, &to) == 2 && at >= from && at < to)
            matches = ends_so(line);
    }
    if (maps != NULL)
        fclose(maps);
    return matches;
}

/* ---- What becomes of a call ---- */

static void
note_hit(const char *control, enum call call)
{
    char path[PATH_MAX];
    int fd;

    state.hits++;
    if (control == NULL)
        return;
    snprintf(path, sizeof path, "%s.hits", control);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    dprintf(fd, "%s %s\n", call_names[call], error_name(state.rule.code));
    close(fd);
}

/* Under the lock. */
static int
fail_io_judge(const char *control, enum call call, int fd, const void *address)
{
    const struct rule *r = &state.rule;

    if (control != NULL)
        read_control(control);
    if ((r->calls & 1u << call) == 0 || !(call == MSYNC ? address_matches(address) : fd_matches(fd)))
        return GOES_ON;
    state.seen++;
    if (state.seen < r->nth || (r->count != 0 && state.seen - r->nth >= r->count))
        return GOES_ON;
    note_hit(control, call);
    return r->code;
}

static void
wait_for_another_line(const char *control)
{
    static const struct timespec pause = {.tv_nsec = STALL_NSEC};
    char line[LINE_SIZE];
    bool same;

    pthread_mutex_lock(&state.lock);
    memcpy(line, state.line, sizeof line);
    pthread_mutex_unlock(&state.lock);
    do {
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&state.lock);
        if (control != NULL)
            read_control(control);
        same = strcmp(line, state.line) == 0;
        pthread_mutex_unlock(&state.lock);
    } while (same);
}

/* GOES_ON, SHORT, or an errno. */
static int
fail_io_verdict(enum call call, int fd, const void *address)
{
    static __thread bool inside; /* what we call ourselves is not judged */
    const char *control = getenv("FAIL_IO");
    int was = errno, code;

    if (inside)
        return GOES_ON;
    inside = true;
    pthread_mutex_lock(&state.lock);
    code = fail_io_judge(control, call, fd, address);
    pthread_mutex_unlock(&state.lock);
    if (code == STALL) {
        wait_for_another_line(control);
        code = GOES_ON;
    }
    inside = false;
    errno = code > 0 ? code : was;
    return code;
}

/* ---- The calls ---- */

#define REAL(type, name, ...)                                                                                          \
    static type (*real)(__VA_ARGS__);                                                                                  \
    if (real == NULL)                                                                                                  \
    *(void **)&real = dlsym(RTLD_NEXT, name)

static ssize_t
real_pwrite(int fd, const void *data, size_t n, off_t at)
{
    REAL(ssize_t, "pwrite", int, const void *, size_t, off_t);
    return real(fd, data, n, at);
}

ssize_t PUBLIC
pwrite(int fd, const void *data, size_t n, off_t at)
{
    int code = fail_io_verdict(PWRITE, fd, NULL);

    return code > 0 ? -1 : real_pwrite(fd, data, code == SHORT ? n / 2 : n, at);
}

ssize_t PUBLIC
pwrite64(int fd, const void *data, size_t n, off64_t at)
{
    return pwrite(fd, data, n, at);
}

ssize_t PUBLIC
pwritev(int fd, const struct iovec *parts, int n, off_t at)
{
    REAL(ssize_t, "pwritev", int, const struct iovec *, int, off_t);
    int code = fail_io_verdict(PWRITEV, fd, NULL);

    if (code == SHORT && n > 0)
        return real_pwrite(fd, parts[0].iov_base, parts[0].iov_len / 2, at);
    return code > 0 ? -1 : real(fd, parts, n, at);
}

ssize_t PUBLIC
pwritev64(int fd, const struct iovec *parts, int n, off64_t at)
{
    return pwritev(fd, parts, n, at);
}

static ssize_t
real_write(int fd, const void *data, size_t n)
{
    REAL(ssize_t, "write", int, const void *, size_t);
    return real(fd, data, n);
}

ssize_t PUBLIC
write(int fd, const void *data, size_t n)
{
    int code = fail_io_verdict(WRITE, fd, NULL);

    return code > 0 ? -1 : real_write(fd, data, code == SHORT ? n / 2 : n);
}

ssize_t PUBLIC
writev(int fd, const struct iovec *parts, int n)
{
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    int code = fail_io_verdict(WRITEV, fd, NULL);

    if (code == SHORT && n > 0)
        return real_write(fd, parts[0].iov_base, parts[0].iov_len / 2);
    return code > 0 ? -1 : real(fd, parts, n);
}

ssize_t PUBLIC
sendmsg(int fd, const struct msghdr *message, int flags)
{
    REAL(ssize_t, "sendmsg", int, const struct msghdr *, int);
    int code = fail_io_verdict(SENDMSG, fd, NULL);
    struct msghdr half = *message;
    struct iovec part;

    if (code == SHORT && message->msg_iovlen > 0) {
        part = (struct iovec){message->msg_iov[0].iov_base, message->msg_iov[0].iov_len / 2};
        half.msg_iov = &part;
        half.msg_iovlen = 1;
        return real(fd, &half, flags);
    }
    return code > 0 ? -1 : real(fd, message, flags);
}

int PUBLIC
fdatasync(int fd)
{
    REAL(int, "fdatasync", int);
    return fail_io_verdict(FDATASYNC, fd, NULL) > 0 ? -1 : real(fd);
}

int PUBLIC
fsync(int fd)
{
    REAL(int, "fsync", int);
    return fail_io_verdict(FSYNC, fd, NULL) > 0 ? -1 : real(fd);
}

int PUBLIC
msync(void *address, size_t n, int flags)
{
    REAL(int, "msync", void *, size_t, int);
    return fail_io_verdict(MSYNC, -1, address) > 0 ? -1 : real(address, n, flags);
}

int PUBLIC
ftruncate(int fd, off_t size)
{
    REAL(int, "ftruncate", int, off_t);
    return fail_io_verdict(FTRUNCATE, fd, NULL) > 0 ? -1 : real(fd, size);
}

int PUBLIC
ftruncate64(int fd, off64_t size)
{
    return ftruncate(fd, size);
}

int PUBLIC
fallocate(int fd, int mode, off_t at, off_t n)
{
    REAL(int, "fallocate", int, int, off_t, off_t);
    return fail_io_verdict(FALLOCATE, fd, NULL) > 0 ? -1 : real(fd, mode, at, n);
}

int PUBLIC
fallocate64(int fd, int mode, off64_t at, off64_t n)
{
    return fallocate(fd, mode, at, n);
}
