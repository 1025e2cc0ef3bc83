#include "tests/system/lone_psd.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/remove_tree.h"
#include "tests/unit/kits/memory_dir.h"

enum { READY_FD = 3, ARGS_MAX = 64 };

void
lone_die(const char *format, ...)
{
    va_list args;

    fprintf(stderr, "%s: ", program_invocation_short_name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

static _Noreturn void
become_psd(const struct lone_psd *p, int ready)
{
    const char *args[ARGS_MAX] = {"psd",   "--listen",    p->address, "--cluster",  LONE_CLUSTER, "--live-dir",
                                  p->live, "--log-level", "error",    "--ready-fd", "3"};
    size_t n = 11;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (ready != READY_FD)
        dup2(ready, READY_FD);
    for (const char *const *more = p->more; *more != NULL && n < ARGS_MAX - 1; more++)
        args[n++] = *more;
    execv(getenv("PSD_BIN"), (char *const *)(uintptr_t)args);
    _exit(127);
}

void
lone_psd_again(struct lone_psd *p)
{
    char line[sizeof p->address] = "";
    int ready[2];

    if (getenv("PSD_BIN") == NULL)
        lone_die("PSD_BIN must say where psd is");
    if (pipe(ready) < 0 || (p->pid = fork()) < 0)
        lone_die("no process: %s", strerror(errno));
    if (p->pid == 0) {
        close(ready[0]);
        become_psd(p, ready[1]);
    }
    close(ready[1]);
    if (read(ready[0], line, sizeof line - 1) <= 0)
        lone_die("%s does not start", getenv("PSD_BIN"));
    close(ready[0]);
    snprintf(p->address, sizeof p->address, "%.*s", (int)strcspn(line, "\n"), line);
}

void
lone_psd_start(struct lone_psd *p, const char *const *more)
{
    *p = (struct lone_psd){.more = more, .address = "127.0.0.1:0"};
    snprintf(p->dir, sizeof p->dir, "%s/psd-lone-XXXXXX", memory_dir());
    if (mkdtemp(p->dir) == NULL)
        lone_die("%s: %s", p->dir, strerror(errno));
    snprintf(p->live, sizeof p->live, "%s/live", p->dir);
    lone_psd_again(p);
}

static int
end_with(struct lone_psd *p, int signal_number)
{
    int status = 0;

    kill(p->pid, signal_number);
    waitpid(p->pid, &status, 0);
    return status;
}

void
lone_psd_kill(struct lone_psd *p)
{
    end_with(p, SIGKILL);
}

void
lone_psd_stop(struct lone_psd *p)
{
    int status = end_with(p, SIGTERM);

    remove_tree(p->dir);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        lone_die("psd ended with status %x", (unsigned)status);
}
