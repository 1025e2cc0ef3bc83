#include "client/tools/shared/heed.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "common/core/base/base.h"

static const int heeded[] = {SIGINT, SIGTERM, SIGHUP};
static ps_client *volatile at_work;
static volatile sig_atomic_t ended_by;

static void
on_signal(int sig)
{
    ended_by = sig;
    ps_client_interrupt(at_work);
}

void
heed_signals(ps_client *client)
{
    struct sigaction was, handler = {.sa_handler = client != NULL ? on_signal : SIG_DFL,
                                     .sa_flags = (int)(SA_RESETHAND | SA_RESTART)}; /* a file's call is not at fault */

    at_work = client != NULL ? client : at_work;
    for (size_t i = 0; i < ARRAY_LEN(heeded); i++)
        if (sigaction(heeded[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
            (void)sigaction(heeded[i], &handler, NULL);
}

void
heed_end(const char *what, const char *where)
{
    fprintf(stderr, "psctl: given up; %s%s\n", what, where);
    (void)raise(ended_by);
}

void
heed_reader(void)
{
    if (errno != EPIPE)
        return;
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
}
