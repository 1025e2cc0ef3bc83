#include "tests/bench/server.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "tests/bench/reason.h"
#include "tests/remove_tree.h"

#define WORDS_MAX 64

_Noreturn void
bench_die(const char *what, const struct ps_error *e)
{
    fprintf(stderr, "bench: %s%s%s\n", what, e != NULL ? ": " : reason_before(), e != NULL ? e->text : reason_text());
    exit(EXIT_FAILURE);
}

/* ---- Directories ---- */

static char memory_root[64], disk_root[BENCH_PATH_MAX / 2];
static pid_t child;

static void
pass_on(int signal)
{
    if (child > 0)
        (void)kill(child, signal);
}

static int
status_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void
bench_keep_clean(const char *disk)
{
    int status;

    snprintf(memory_root, sizeof memory_root, "/dev/shm/psd-bench-XXXXXX");
    snprintf(disk_root, sizeof disk_root, "%.200s/psd-bench-XXXXXX", disk);
    if (mkdtemp(memory_root) == NULL)
        bench_die(memory_root, NULL);
    if (mkdtemp(disk_root) == NULL) {
        (void)rmdir(memory_root);
        bench_die(disk_root, NULL);
    }
    fflush(NULL);
    signal(SIGINT, pass_on);
    signal(SIGTERM, pass_on);
    if ((child = fork()) < 0)
        bench_die("fork", NULL);
    if (child == 0) {
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
        return;
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    (void)remove_tree(memory_root);
    (void)remove_tree(disk_root);
    _exit(status_of(status));
}

void
bench_path(char out[BENCH_PATH_MAX], bool memory, const char *name)
{
    static unsigned count;

    snprintf(out, BENCH_PATH_MAX, "%s/%s-%u", memory ? memory_root : disk_root, name, ++count);
}

void
bench_remove(const char *path)
{
    struct stat st;

    if (lstat(path, &st) == 0 && remove_tree(path) < 0)
        bench_die(path, NULL);
}

/* ---- Processes ---- */

static _Noreturn void
server_become(const struct bench_server *s, int ready)
{
    char option[32], socket[BENCH_PATH_MAX + 8];
    const char *words[WORDS_MAX] = {s->settings->psd,
                                    "--cluster",
                                    BENCH_CLUSTER,
                                    "--live-dir",
                                    s->live,
                                    "--log-level",
                                    "error",
                                    "--listen",
                                    "127.0.0.1:0",
                                    "--unix",
                                    socket,
                                    "--tcp-congestion",
                                    s->settings->congestion};
    int n = 13;

    snprintf(socket, sizeof socket, "%s.sock", s->live);
    for (const char *const *more = s->more; more != NULL && *more != NULL && n < WORDS_MAX - 2; more++)
        words[n++] = *more;
    snprintf(option, sizeof option, "--ready-fd=%d", ready);
    words[n++] = option;
    words[n] = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execv(words[0], (char *const *)(uintptr_t)words);
    perror(words[0]);
    _exit(127);
}

/* It has closed the descriptor without both addresses, at its end as a rule; what it printed is on standard error. */
static _Noreturn void
server_not_ready(const struct bench_server *s)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    char what[BENCH_PATH_MAX + 64];
    pid_t ended = 0;
    int status = 0;

    /* Its descriptors are closed a moment before it can be waited for. */
    for (int i = 0; i < 100 && (ended = waitpid(s->pid, &status, WNOHANG)) == 0; i++)
        nanosleep(&pause, NULL);
    if (ended <= 0) {
        kill(s->pid, SIGKILL);
        waitpid(s->pid, NULL, 0);
        snprintf(what, sizeof what, "%s did not say on which TCP and Unix address it listens", s->settings->psd);
    } else if (WIFSIGNALED(status)) {
        snprintf(what, sizeof what, "%s was ended by signal %d before it listened", s->settings->psd, WTERMSIG(status));
    } else {
        snprintf(what, sizeof what, "%s ended with status %d before it listened", s->settings->psd,
                 WEXITSTATUS(status));
    }
    errno = 0;
    bench_die(what, NULL);
}

/* It writes its addresses, line by line, and closes the descriptor. */
static void
find_addresses(struct bench_server *s, int fd)
{
    FILE *f = fdopen(fd, "r");
    char line[256];

    s->address[0] = s->unix_address[0] = '\0';
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] != '\0')
            snprintf(strncmp(line, "unix:", 5) == 0 ? s->unix_address : s->address, sizeof s->address, "%s", line);
    }
    if (f != NULL)
        fclose(f);
    if (s->address[0] == '\0' || s->unix_address[0] == '\0')
        server_not_ready(s);
}

void
bench_server_again(struct bench_server *s)
{
    int fd[2];

    fflush(NULL);
    if (pipe2(fd, 0) < 0 || (s->pid = fork()) < 0)
        bench_die("fork", NULL);
    if (s->pid == 0) {
        close(fd[0]);
        server_become(s, fd[1]);
    }
    close(fd[1]);
    find_addresses(s, fd[0]);
}

void
bench_server_start(struct bench_server *s, const struct bench_options *settings, const char *const *more)
{
    *s = (struct bench_server){.settings = settings, .more = more};
    bench_path(s->live, true, "live");
    bench_server_again(s);
}

void
bench_server_end(struct bench_server *s, int signal)
{
    kill(s->pid, SIGCONT);
    kill(s->pid, signal);
    waitpid(s->pid, NULL, 0);
}

void
bench_server_stop(struct bench_server *s)
{
    bench_server_end(s, SIGTERM);
    bench_remove(s->live);
}

static void
pages_of(pid_t pid, unsigned long long *resident, unsigned long long *shared)
{
    char path[64];
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    if ((f = fopen(path, "r")) == NULL || fscanf(f, "%*u %llu %llu", resident, shared) != 2)
        bench_die(path, NULL);
    fclose(f);
}

double
bench_resident(pid_t pid)
{
    unsigned long long resident, shared;

    pages_of(pid, &resident, &shared);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

double
bench_heap(pid_t pid)
{
    unsigned long long resident, shared;

    pages_of(pid, &resident, &shared);
    return (double)(resident - MIN(shared, resident)) * (double)sysconf(_SC_PAGESIZE);
}

double
bench_cpu(pid_t pid)
{
    struct timespec t;
    clockid_t clock;

    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) < 0)
        bench_die("the processor time of psd", NULL);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
