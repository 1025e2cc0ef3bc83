#include "client/tools/psrun/exit_status.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

struct exit_status_name {
    int signal;
    const char *name, *meaning;
};

static const struct exit_status_name exit_status_names[] = {
    {SIGABRT, "ABRT", "it gave up: an assertion or abort()"},
    {SIGALRM, "ALRM", "an alarm"},
    {SIGBUS, "BUS", "memory that has no storage behind it; a full tmpfs does this"},
    {SIGFPE, "FPE", "arithmetic, such as a division by zero"},
    {SIGHUP, "HUP", "the terminal went away"},
    {SIGILL, "ILL", "an instruction that this machine does not have"},
    {SIGINT, "INT", "Ctrl-C"},
    {SIGKILL, "KILL", "killed by somebody, or by the kernel when memory ran out"},
    {SIGPIPE, "PIPE", "nobody reads what it writes"},
    {SIGQUIT, "QUIT", "Ctrl-\\"},
    {SIGSEGV, "SEGV", "bad memory access"},
    {SIGSYS, "SYS", "a forbidden system call"},
    {SIGTERM, "TERM", "asked to stop"},
    {SIGTRAP, "TRAP", "a trap"},
    {SIGUSR1, "USR1", "a user's signal"},
    {SIGUSR2, "USR2", "a user's signal"},
    {SIGXCPU, "XCPU", "its limit of processor time"},
    {SIGXFSZ, "XFSZ", "its limit of file size"},
};

static const struct exit_status_name *
exit_status_find(int signal)
{
    static const struct exit_status_name unknown = {.name = "?", .meaning = "no name is known for it"};

    for (size_t i = 0; i < ARRAY_LEN(exit_status_names); i++)
        if (exit_status_names[i].signal == signal)
            return &exit_status_names[i];
    return &unknown;
}

const char *
exit_status_signal(int signal)
{
    return exit_status_find(signal)->name;
}

const char *
exit_status_text(int status, char out[EXIT_STATUS_TEXT_MAX])
{
    const struct exit_status_name *name;

    if (WIFEXITED(status)) {
        snprintf(out, EXIT_STATUS_TEXT_MAX, "exited with status %d", WEXITSTATUS(status));
        return out;
    }
    name = exit_status_find(WTERMSIG(status));
    snprintf(out, EXIT_STATUS_TEXT_MAX, "was killed by signal %d (%s: %s)%s", WTERMSIG(status), name->name,
             name->meaning, WCOREDUMP(status) ? ", core dumped" : "");
    return out;
}

int
exit_status_code(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
