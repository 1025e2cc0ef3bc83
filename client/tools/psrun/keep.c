/* Signals are blocked and taken one by one with sigtimedwait(), so there are no handlers and no races between them. */
#include "client/tools/psrun/keep.h"

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

#include "client/tools/psrun/prepare.h"
#include "common/system/now.h"

#define KEEP_AGAIN_MS 50 /* while killing: look for newborn processes this often */

struct keep {
    pid_t parent, program;
    const char *remove_dir;
    bool keepable, holds;
    char **argv; /* the program's */
    sigset_t signals, before;
    bool ended;         /* the program has */
    uint64_t linger_ms; /* until when what it left may stay */
    bool killing;
    bool asked; /* to stop: its end is no accident */
};

/* psrun may be gone: then nobody needs the report. */
static void
keep_say(enum keep_kind kind, pid_t pid, int value)
{
    struct keep_report r = {.kind = (int32_t)kind, .pid = pid, .value = value};

    if (write(KEEP_REPORT_FD, &r, sizeof r) != sizeof r)
        return;
}

/* ---- the program ---- */

_Noreturn static void
keep_become_program(struct keep *k, pid_t keeper)
{
    setpgid(0, 0);
    signal(SIGPIPE, SIG_DFL);
    if (!k->keepable && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != keeper))
        _exit(127);
    sigprocmask(SIG_SETMASK, &k->before, NULL);
    execvp(k->argv[0], k->argv);
    keep_say(KEEP_FAILED, getpid(), errno);
    _exit(errno == ENOENT || errno == ENOTDIR ? 127 : 126);
}

static void
keep_null_streams(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int fd = 0; null >= 0 && fd <= STDERR_FILENO; fd++)
        dup2(null, fd);
    if (null > STDERR_FILENO)
        close(null);
    close(KEEP_READY_FD);
}

static bool
keep_start(struct keep *k)
{
    pid_t self = getpid();

    fcntl(KEEP_REPORT_FD, F_SETFD, FD_CLOEXEC);
    k->program = fork();
    if (k->program == 0)
        keep_become_program(k, self);
    if (k->program < 0) {
        keep_say(KEEP_FAILED, 0, errno);
        return false;
    }
    setpgid(k->program, k->program); /* both sides, so that neither can be late */
    keep_say(KEEP_STARTED, k->program, 0);
    keep_null_streams(); /* its output ends when the program's does */
    return true;
}

/* ---- below ---- */

/* The parent of a process, -1 when it is gone. */
static pid_t
keep_parent_of(const char *pid)
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
keep_kill_children(const struct keep *k)
{
    DIR *proc = opendir("/proc");
    pid_t self = getpid();
    struct dirent *entry;

    if (!k->ended)
        kill(-k->program, SIGKILL);
    while (proc != NULL && (entry = readdir(proc)) != NULL)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && keep_parent_of(entry->d_name) == self)
            kill((pid_t)atoi(entry->d_name), SIGKILL);
    if (proc != NULL)
        closedir(proc);
}

/* False when there are no children any more. */
static bool
keep_reap(struct keep *k)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != k->program)
            continue;
        keep_say(KEEP_ENDED, pid, status);
        k->ended = true;
        k->linger_ms = monotonic_ms() + KEEP_LINGER_MS;
    }
    return pid == 0;
}

/* ---- the loop ---- */

/* The next signal, or 0 when something is to be looked at again. */
static int
keep_next_signal(const struct keep *k)
{
    struct timespec wait = {.tv_nsec = KEEP_AGAIN_MS * 1000000};
    int signal;

    if (k->killing || k->ended)
        signal = sigtimedwait(&k->signals, NULL, &wait);
    else
        signal = sigwaitinfo(&k->signals, NULL);
    return signal > 0 ? signal : 0;
}

/* Returns true when the program was released. */
static bool
keep_loop(struct keep *k)
{
    while (keep_reap(k)) {
        if (k->killing)
            keep_kill_children(k);
        switch (keep_next_signal(k)) {
        case KEEP_NOW:
            k->asked = k->killing = true;
            break;
        case KEEP_RELEASE:
            if (k->keepable)
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

/* Hold the directory for the program's next life. Returns true when that begins, false when the directory is to go. */
static bool
keep_hold(const struct keep *k)
{
    int signal;

    if (!k->holds || k->asked)
        return false;
    keep_say(KEEP_HELD, k->program, 0);
    while ((signal = sigwaitinfo(&k->signals, NULL)) != KEEP_RELEASE)
        if (signal == KEEP_NOW || signal == SIGTERM || signal == SIGINT || signal == SIGHUP)
            return false;
    return true;
}

/* Become what keep.h says; false when psrun died before that took hold. */
static bool
keep_init(struct keep *k)
{
    static const int taken[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD, KEEP_NOW, KEEP_RELEASE};

    sigemptyset(&k->signals);
    for (size_t i = 0; i < ARRAY_LEN(taken); i++)
        sigaddset(&k->signals, taken[i]);
    sigprocmask(SIG_BLOCK, &k->signals, &k->before);
    signal(SIGPIPE, SIG_IGN);
    setsid();
    prctl(PR_SET_NAME, "psrun-keeper");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_PDEATHSIG, KEEP_NOW);
    return getppid() == k->parent;
}

int
keep_main(int argc, char **argv)
{
    struct keep k = {0};

    if (argc < 7) {
        fprintf(stderr, "psrun: " KEEP_WORD " is psrun's own; run psrun --help\n");
        return 2;
    }
    k.parent = (pid_t)atoi(argv[2]);
    k.remove_dir = argv[3];
    k.keepable = strstr(argv[4], KEEP_MAY_RELEASE) != NULL;
    k.holds = strstr(argv[4], KEEP_HOLDS) != NULL;
    k.argv = argv + 6;
    if (keep_init(&k) && keep_start(&k) && (keep_loop(&k) || keep_hold(&k)))
        return EXIT_SUCCESS;
    prepare_remove_shard(k.remove_dir);
    return EXIT_SUCCESS;
}
