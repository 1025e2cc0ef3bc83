/* Signals are blocked and taken one by one with sigtimedwait(), so there are no handlers and no races between them. */
#include "client/tools/psrun/supervisor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/tools/psrun/host_setup.h"
#include "common/system/now.h"

#define SUPERVISOR_AGAIN_MS 50 /* while killing: look for new processes this often */

struct supervisor {
    pid_t parent, program;
    const char *remove_dir;
    bool releasable, holds;
    char **argv; /* the program's */
    sigset_t signals, before;
    bool ended;         /* the program has */
    uint64_t linger_ms; /* until when what it left may stay */
    bool killing;
    bool asked; /* to stop: its end is expected */
};

/* psrun may be gone: then the report is not needed. */
static void
supervisor_report(enum supervisor_report_kind kind, pid_t pid, int value)
{
    struct supervisor_report r = {.kind = (int32_t)kind, .pid = pid, .value = value};

    if (write(SUPERVISOR_REPORT_FD, &r, sizeof r) != sizeof r)
        return;
}

/* ---- the program ---- */

_Noreturn static void
supervisor_become_program(struct supervisor *k, pid_t keeper)
{
    setpgid(0, 0);
    signal(SIGPIPE, SIG_DFL);
    if (!k->releasable && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != keeper))
        _exit(127);
    sigprocmask(SIG_SETMASK, &k->before, NULL);
    execvp(k->argv[0], k->argv);
    supervisor_report(SUPERVISOR_FAILED, getpid(), errno);
    _exit(errno == ENOENT || errno == ENOTDIR ? 127 : 126);
}

static void
supervisor_null_streams(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int fd = 0; null >= 0 && fd <= STDERR_FILENO; fd++)
        dup2(null, fd);
    if (null > STDERR_FILENO)
        close(null);
    close(SUPERVISOR_READY_FD);
}

static bool
supervisor_start(struct supervisor *k)
{
    pid_t self = getpid();

    fcntl(SUPERVISOR_REPORT_FD, F_SETFD, FD_CLOEXEC);
    k->program = fork();
    if (k->program == 0)
        supervisor_become_program(k, self);
    if (k->program < 0) {
        supervisor_report(SUPERVISOR_FAILED, 0, errno);
        return false;
    }
    setpgid(k->program, k->program); /* both sides, so that neither can be late */
    supervisor_report(SUPERVISOR_STARTED, k->program, 0);
    supervisor_null_streams(); /* its output ends when the program's does */
    return true;
}

/* ---- descendants ---- */

/* The parent of a process, -1 when it is gone. */
static pid_t
supervisor_parent_of(const char *pid)
{
    char path[64], text[512], *end;
    int fd, parent = -1;
    ssize_t n;

    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        return -1;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    /* "pid (name) state parent ...", where the name may hold anything. */
    if ((end = strrchr(text, ')')) == NULL || sscanf(end + 1, " %*c %d", &parent) != 1)
        return -1;
    return parent;
}

/* Children's own children become ours as they die; the caller comes back until none is left. */
static void
supervisor_kill_children(const struct supervisor *k)
{
    DIR *proc = opendir("/proc");
    pid_t self = getpid();
    struct dirent *entry;

    if (!k->ended)
        kill(-k->program, SIGKILL);
    while (proc != NULL && (entry = readdir(proc)) != NULL)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && supervisor_parent_of(entry->d_name) == self)
            kill((pid_t)atoi(entry->d_name), SIGKILL);
    if (proc != NULL)
        closedir(proc);
}

/* False when there are no children any more. */
static bool
supervisor_reap(struct supervisor *k)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != k->program)
            continue;
        supervisor_report(SUPERVISOR_ENDED, pid, status);
        k->ended = true;
        k->linger_ms = monotonic_ms() + SUPERVISOR_LINGER_MS;
    }
    return pid == 0;
}

/* ---- the loop ---- */

/* The next signal, or 0 when something is to be looked at again. */
static int
supervisor_next_signal(const struct supervisor *k)
{
    struct timespec wait = {.tv_nsec = SUPERVISOR_AGAIN_MS * 1000000};
    int signal;

    if (k->killing || k->ended)
        signal = sigtimedwait(&k->signals, NULL, &wait);
    else
        signal = sigwaitinfo(&k->signals, NULL);
    return signal > 0 ? signal : 0;
}

/* Returns true when the program was released. */
static bool
supervisor_loop(struct supervisor *k)
{
    while (supervisor_reap(k)) {
        if (k->killing)
            supervisor_kill_children(k);
        switch (supervisor_next_signal(k)) {
        case SUPERVISOR_KILL:
            k->asked = k->killing = true;
            break;
        case SUPERVISOR_RELEASE:
            if (k->releasable)
                return true;
            break;
        case SIGTERM:
        case SIGINT:
        case SIGHUP:
            k->asked = true;
            if (!k->ended)
                kill(-k->program, SIGTERM);
            break;
        default:
            break;
        }
        if (k->ended && monotonic_ms() >= k->linger_ms)
            k->killing = true;
    }
    return false;
}

/* Hold the directory for the program's next start. Returns true when that begins, false when the directory is to be
 * removed. */
static bool
supervisor_hold(const struct supervisor *k)
{
    int signal;

    if (!k->holds || k->asked)
        return false;
    supervisor_report(SUPERVISOR_HOLDS_DIR, k->program, 0);
    while ((signal = sigwaitinfo(&k->signals, NULL)) != SUPERVISOR_RELEASE)
        if (signal == SUPERVISOR_KILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP)
            return false;
    return true;
}

/* Set up what supervisor.h describes; false when psrun died before that took effect. */
static bool
supervisor_init(struct supervisor *k)
{
    static const int taken[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD, SUPERVISOR_KILL, SUPERVISOR_RELEASE};

    sigemptyset(&k->signals);
    for (size_t i = 0; i < ARRAY_LEN(taken); i++)
        sigaddset(&k->signals, taken[i]);
    sigprocmask(SIG_BLOCK, &k->signals, &k->before);
    signal(SIGPIPE, SIG_IGN);
    setsid();
    prctl(PR_SET_NAME, "psrun-keeper");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_PDEATHSIG, SUPERVISOR_KILL);
    return getppid() == k->parent;
}

int
supervisor_main(int argc, char **argv)
{
    struct supervisor k = {0};

    if (argc < 7) {
        fprintf(stderr, "psrun: " SUPERVISOR_ARG " is psrun's own; run psrun --help\n");
        return 2;
    }
    k.parent = (pid_t)atoi(argv[2]);
    k.remove_dir = argv[3];
    k.releasable = strstr(argv[4], SUPERVISOR_MAY_RELEASE) != NULL;
    k.holds = strstr(argv[4], SUPERVISOR_HOLD) != NULL;
    k.argv = argv + 6;
    if (supervisor_init(&k) && supervisor_start(&k) && (supervisor_loop(&k) || supervisor_hold(&k)))
        return EXIT_SUCCESS;
    host_setup_remove_shard(k.remove_dir);
    return EXIT_SUCCESS;
}
